"""Search in a ledger of 100,000 receipts: recall@10 of the vector index, and how long a search takes.

    python bench/search.py [RECEIPTS] [QUERIES]      100,000 receipts and 200 queries when not given

The ledger is made from drawn purchases through the ledger's own writer, and the texts are taken in as `headrace index
update` does it. Embedding 100,000 texts takes a quarter of an hour on a core, so the model embeds 1,500 of them, and each
other receipt gets a mixture of the vectors of two of those and some noise, of length 1: as dense and as clustered as real
ones, and harder than they are, because there are many near ties. Queries are texts of other drawn receipts, cut to a few
words, and embedded by the model. Exact search over all vectors is what recall is measured against. Times are of
`Search.find_blocking` in one process: embedding of the query, both rankings, the fusion and the entries of 10 hits.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
import os
import sys
import tempfile
import time
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from receipt_texts import drawn_receipts, drawn_texts

from headrace.ledger import BookWriter, Draft, Policy
from headrace.search import Filters, Search, rebuild
from headrace.search.indexing import Stores, take_in_page
from headrace.search.minilm import MiniLM
from headrace.search.nearest import Nearest
from headrace.search.vector_index import as_bytes, index_file
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import Registration

TODAY = dt.date(2026, 12, 1)
EMBEDDED = 1500
GROUP = 1000
NOISE = 0.35
OUT = Path(__file__).parent / "out" / "search.json"


def make_ledger(workspace: Path, count: int) -> None:
    with SqliteStore.open(workspace) as store:
        batch = store.open_batch("main", "drawn", TODAY.isoformat(), "{}")
        receipts = drawn_receipts(count, seed=7)
        for start in range(0, count, GROUP):
            names = [f"{n:06d}.jpg" for n in range(start, min(start + GROUP, count))]
            store.register(batch.batch_id, [Registration(n, n.encode(), size_bytes=1, mtime_ns=1) for n in names])
        store.finish_listing(batch.batch_id)
        writer = BookWriter("main", store.head("main"), Policy(rules=()), TODAY)
        while documents := store.pending(batch.batch_id, 0, GROUP):
            drafts = [
                Draft(one, hashlib.sha256(one.path).hexdigest(), 1, receipt | {"document_id": one.document_id})
                for one, receipt in zip(documents, receipts, strict=False)
            ]
            entries = writer.decide(drafts, {})
            store.commit(entries)
            writer.committed(entries)
        store.finish_batch(batch.batch_id)


def fill(workspace: Path, model: MiniLM, rng: np.random.Generator) -> float:
    """Texts and vectors; returns the seconds that the texts took."""
    with closing(Stores.open(workspace)) as stores:
        store = stores.writing
        began = time.perf_counter()
        while take_in_page(stores, "main") is not None:
            pass
        texts_s = time.perf_counter() - began
        page = store.unembedded(model.name, limit=EMBEDDED)
        known = np.stack([model.embed([model.tokens(one.text)])[0] for one in page])
        store.keep_vectors(model.name, list(zip(page, map(as_bytes, known), strict=True)))
        while page := store.unembedded(model.name, limit=GROUP):
            pairs = rng.integers(len(known), size=(2, len(page)))
            share = rng.uniform(0.5, 1.0, size=(len(page), 1))
            noise = rng.normal(size=(len(page), known.shape[1])) * NOISE / np.sqrt(known.shape[1])
            mixed = (share * known[pairs[0]] + (1 - share) * known[pairs[1]] + noise).astype(np.float32)
            mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
            store.keep_vectors(model.name, list(zip(page, map(as_bytes, mixed), strict=True)))
    return texts_s


def recall(workspace: Path, model: MiniLM, queries: list[str]) -> float:
    with SqliteStore.read(workspace) as store:
        rows, change = [], 0
        while page := store.vectors_since(model.name, change, limit=5000):
            rows += page
            change = page[-1].change
        numbers = np.asarray([row.number for row in rows])
        vectors = np.frombuffer(b"".join(row.vector for row in rows), dtype="<f4").reshape(len(rows), -1)
        nearest, hits = Nearest(store, workspace, model.name), 0
        for query in queries:
            vector = model.embed([model.tokens(query)])[0]
            cosines = vectors @ vector
            exact = set(numbers[np.argsort(-cosines)[:10]].tolist())
            hits += len(exact & set(list(nearest.find(vector, [], 100))[:10]))
    return hits / (10 * len(queries))


def timed(search: Search, queries: list[str], filters: Filters | None) -> list[float]:
    taken = []
    for query in queries:
        began = time.perf_counter()
        found = search.find_blocking(query, filters=filters)
        taken.append(1000 * (time.perf_counter() - began))
        assert found.hits
        assert found.complete
    return sorted(taken)


def main() -> None:
    count, asked = (int(sys.argv[n]) if len(sys.argv) > n else default for n, default in ((1, 100_000), (2, 200)))
    model, dice = MiniLM(sessions=1), Random(1)
    queries = []
    for text in drawn_texts(asked, seed=99):
        words = text.split()
        at = dice.randrange(max(1, len(words) - 4))
        queries.append(" ".join(words[at : at + dice.randint(1, 4)]))
    result: dict[str, Any] = {"receipts": count, "queries": asked, "load_before": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as scratch:
        workspace = Path(scratch)
        step("ledger", result, partial(make_ledger, workspace, count))
        result["texts_s"] = fill(workspace, model, np.random.default_rng(5))
        step("index_file", result, lambda: asyncio.run(rebuild(workspace, model.name)))
        told = index_file(workspace, model.name)
        assert told is not None
        assert told.count == count
        result["index_bytes"] = told.size_bytes
        result["recall_at_10"] = recall(workspace, model, queries)
        kinds = {
            "no filter": None,
            "few pass (batch and amount)": Filters(batch=1, min_total=Decimal(400)),
            "half pass (date)": Filters(after=dt.date(2026, 6, 1)),
        }
        with Search.open(workspace, embedder=model) as search:
            timed(search, queries[:20], None)  # the file is mapped, pages are read
            for name, filters in kinds.items():
                cpu = time.process_time()
                taken = timed(search, queries, filters)
                cpu_ms = 1000 * (time.process_time() - cpu) / len(queries)
                result[name] = {
                    "cpu_ms": cpu_ms,
                    "p50_ms": taken[len(taken) // 2],
                    "p95_ms": taken[int(len(taken) * 0.95)],
                    "most_ms": taken[-1],
                }
    result["load_after"] = os.getloadavg()[0]
    print(json.dumps(result, indent=1))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(result, indent=1))


def step(name: str, result: dict[str, Any], run: Any) -> None:
    began = time.perf_counter()
    run()
    result[f"{name}_s"] = time.perf_counter() - began


if __name__ == "__main__":
    main()
