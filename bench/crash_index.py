"""kill -9 while receipts are indexed: at random moments, until every receipt is findable, again and again.

    python bench/crash_index.py                 50 kills, 400 drawn receipts in each ledger
    python bench/crash_index.py --kills 10

Each case is a fresh ledger. `headrace index update` with the model of the wheel, and every third time `headrace index
rebuild` after it, is started and killed at a random moment, several times, while corrections are written in between;
then it is left alone once. Afterwards each receipt of the ledger must be there exactly once: its row, its word, its vector of
the text it has now, and its place in the vector index; and nothing else may be. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

from receipt_texts import drawn_receipts

from headrace.documents.entry import Entry
from headrace.documents.status import EntryKind
from headrace.ledger import BookWriter, Draft, Policy
from headrace.ledger.amendments import amendment
from headrace.search import Filters, Search
from headrace.search.minilm import MiniLM
from headrace.search.receipt_text import ten_thousandths
from headrace.search.vector_index import index_file, opened
from headrace.storage.sql_search import Embedded
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import Registration

TODAY = dt.date(2026, 12, 1)


def make_ledger(workspace: Path, count: int, seed: int) -> None:
    """A ledger whose receipt n has the merchant `shop n` and a total of n."""
    with SqliteStore.open(workspace) as store:
        batch = store.open_batch("main", "drawn", TODAY.isoformat(), "{}")
        names = [f"{n:06d}.jpg" for n in range(1, count + 1)]
        store.register(batch.batch_id, [Registration(n, n.encode(), size_bytes=1, mtime_ns=1) for n in names])
        store.finish_listing(batch.batch_id)
        drafts = []
        for number, (one, receipt) in enumerate(
            zip(store.pending(batch.batch_id, 0, count), drawn_receipts(count, seed), strict=True), start=1
        ):
            told = {"merchant": {"name": {"value": f"shop{number}"}}, "payable_amount": {"value": str(number)}}
            drafts.append(
                Draft(one, hashlib.sha256(one.path).hexdigest(), 1, receipt | told | {"document_id": one.document_id})
            )
        writer = BookWriter("main", store.head("main"), Policy(rules=()), TODAY)
        store.commit(writer.decide(drafts, {}))
        store.finish_batch(batch.batch_id)


def receipts_in(workspace: Path) -> list[Entry]:
    with SqliteStore.read(workspace) as store:
        return [entry for entry in store.entries(book="main", limit=100_000) if entry.kind is EntryKind.RECEIPT]


def correct(workspace: Path, outcome: Entry, name: str) -> None:
    with SqliteStore.open(workspace) as store:
        told = {"changes": {"merchant": {"name": {"value": name}}}, "who": "bench"}
        store.amend(
            amendment(store.head("main"), outcome, EntryKind.CORRECTION, told, None), None, "", "document.corrected"
        )


def start(workspace: Path, command: str) -> subprocess.Popen[bytes]:
    arguments = ["-m", "headrace", "index", command, "--workspace", str(workspace)]
    return subprocess.Popen([sys.executable, *arguments], start_new_session=True, stdout=subprocess.DEVNULL)


def wrong_with(workspace: Path, model: MiniLM, names: dict[int, str]) -> str:
    """What is not as it must be; empty when all is. `names`: the merchant of each voucher, with corrections."""
    with SqliteStore.read(workspace) as store:
        counts = store.search_counts(model.name, 1)
        vectors: dict[int, Embedded] = {}
        change = 0
        while page := store.vectors_since(model.name, change):
            vectors |= {row.number: row for row in page}
            change = page[-1].change
        rows = [row for row, _ in store.search_entries(sorted(vectors))]
    if counts.entries_behind or (counts.receipts, counts.embedded) != (len(names), len(names)):
        return f"{len(names)} receipts, and the store says {counts}"
    if sorted(row.sequence for row in rows) != sorted(names):
        return "not every receipt has one row with one vector"
    told = index_file(workspace, model.name)
    keys = sorted(int(key) for key in opened(workspace, told, view=True).keys) if told else []
    if not set(keys) <= set(vectors) or len(keys) != len(set(keys)):
        return "the index has what is no receipt, or one twice"
    with Search.open(workspace, embedder=model) as search:
        for sequence, name in names.items():
            total = Decimal(sequence)
            found = search.find_blocking(name, filters=Filters(min_total=total, max_total=total), limit=5)
            if [(hit.entry.sequence, hit.by) for hit in found.hits] != [(sequence, ("words", "meaning"))]:
                return f"voucher {sequence} ({name}): found {[(hit.entry.sequence, hit.by) for hit in found.hits]}"
            if ten_thousandths(found.hits[0].total or Decimal(0)) != sequence * 10_000 or not found.complete:
                return f"voucher {sequence}: has another total, or the search says it is not complete"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--receipts", type=int, default=400)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--kills-per-ledger", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    rng, model = random.Random(options.seed), MiniLM(sessions=1)
    kills, cases, bad = 0, 0, []
    duration_s = 0.0
    while kills < options.kills:
        cases += 1
        with tempfile.TemporaryDirectory() as scratch:
            workspace = Path(scratch)
            make_ledger(workspace, options.receipts, options.seed + cases)
            outcomes = receipts_in(workspace)
            names = {entry.sequence: f"shop{entry.sequence}" for entry in outcomes}
            if not duration_s:  # how long an update takes that nobody disturbs, here and now
                with tempfile.TemporaryDirectory() as other:
                    make_ledger(Path(other), options.receipts, options.seed)
                    began = time.monotonic()
                    assert start(Path(other), "update").wait() == 0
                    duration_s = time.monotonic() - began
                print(f"seed {options.seed}; undisturbed: {options.receipts} receipts in {duration_s:.1f} s")
            for attempt in range(min(options.kills_per_ledger, options.kills - kills)):
                process = start(workspace, "rebuild" if attempt % 3 == 2 else "update")
                try:
                    process.wait(timeout=rng.uniform(0.3, duration_s / (1 if attempt % 3 == 0 else 2)))
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                    kills += 1
                for outcome in rng.sample(outcomes, 5):
                    names[outcome.sequence] = f"ferry{rng.randrange(10**6)}"
                    correct(workspace, outcome, names[outcome.sequence])
            for command in ("update", "rebuild")[: rng.randint(1, 2)]:
                if start(workspace, command).wait() != 0:
                    bad.append(f"case {cases}: an update that nobody disturbed failed")
            if wrong := wrong_with(workspace, model, names):
                bad.append(f"case {cases}, after {kills} kills: {wrong}")
    asyncio.run(model.aclose())
    for line in bad:
        print(f"BAD  {line}")
    print(
        f"{kills} kills, {cases} ledgers: " + ("every receipt is findable once" if not bad else f"{len(bad)} are wrong")
    )
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
