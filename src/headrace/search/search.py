"""Search: by words and by meaning at once, in what is indexed now; it says what is not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

import numpy as np

from headrace.documents.entry import Entry
from headrace.search.embedder import Embedder, Vector, embed_one
from headrace.search.errors import BadQuery
from headrace.search.filters import Filters
from headrace.search.nearest import Nearest
from headrace.search.ranking import fused, query_words, telling, words_query
from headrace.search.receipt_text import TEXT_VERSION
from headrace.storage.sql_search import SearchReceipt
from headrace.storage.sqlite import SqliteStore

CANDIDATES = 100
"""How many each of the two rankings gives."""

RANKED_MOST = 10_000
"""How many receipts are ranked by their words; when the rarest word alone has more, the newest of them are taken."""

LONGEST_QUERY = 1000
MOST_HITS = CANDIDATES


@dataclass(frozen=True, slots=True)
class Hit:
    """A receipt that was found.

    Attributes:
        entry: its outcome in the ledger, without corrections; the other values have them.
        score: of the fusion; orders the hits of one search and means nothing else.
        similarity: cosine of query and receipt, -1 to 1; None when it was found by words only.
        by: `words`, `meaning`, or both.
    """

    entry: Entry
    merchant: str | None
    issue_date: str | None
    total: Decimal | None
    currency: str | None
    verdict: str | None
    score: float
    similarity: float | None
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The hits, the best first, and what could not be found yet.

    Attributes:
        hits: at most as many as were asked for.
        entries_behind: entries of the ledger that search has not looked at.
        without_vector: receipts that are found by words only.
    """

    hits: tuple[Hit, ...]
    entries_behind: int
    without_vector: int

    @property
    def complete(self) -> bool:
        """Whether all of the ledger was searched, by words and by meaning."""
        return not self.entries_behind and not self.without_vector

    @property
    def lacking(self) -> list[str]:
        """What is not indexed yet, a sentence each."""
        told = []
        if self.entries_behind:
            told.append(f"{self.entries_behind:,} entries of the ledger are not indexed yet and cannot be found")
        if self.without_vector:
            told.append(f"{self.without_vector:,} receipts have no vector yet and are found by their words only")
        return told


class Search:
    """Searches a workspace, also while a run, a service or an update writes to it. As a context manager it closes.

        with Search.open(Path(".headrace")) as search:
            for hit in search.find_blocking("taxi in Lisbon", filters=Filters(min_total=Decimal(50))).hits:
                print(hit.entry.voucher, hit.merchant)

    In an event loop use `await search.find(...)`. Searches of one object take turns.
    """

    def __init__(self, store: SqliteStore, workspace: Path, embedder: Embedder) -> None:
        self._store, self._embedder = store, embedder
        self._nearest = Nearest(store, workspace, embedder.name)
        self._turn = threading.Lock()
        self._runner: asyncio.Runner | None = None

    @classmethod
    def open(cls, workspace: Path, *, embedder: Embedder | None = None) -> Search:
        """Opens it.

        Args:
            workspace: the folder.
            embedder: the one that the receipts were embedded by; MiniLM with one session when not given.

        Raises:
            WorkspaceMissing, SchemaTooNew, StoreUnavailable: see `SqliteStore.read`.
            EmbedderMissing: the extra `search` is not installed.
        """
        if embedder is None:
            from headrace.search.minilm import MiniLM

            embedder = MiniLM(sessions=1)
        return cls(SqliteStore.read(workspace), workspace, embedder)

    async def find(self, words: str, *, filters: Filters | None = None, limit: int = 10) -> Found:
        """The receipts that fit the words best, by their words and by their meaning.

        With filters, the nearest by meaning are looked for among at least `nearest.EXACT_MOST` receipts that pass; when
        more pass, and very few of what is near does, some may be missed that no word finds.

        Args:
            words: what to look for; only the first 1,000 characters count.
            filters: what must hold.
            limit: how many, at most `MOST_HITS`.

        Raises:
            BadQuery: no words, a limit out of range, filters that nothing can pass.
            EmbedderFailed, Expired: of an endpoint.
        """
        words = words[:LONGEST_QUERY].strip()
        if not words:
            raise BadQuery("there is nothing to look for: give some words")
        if not 1 <= limit <= MOST_HITS:
            raise BadQuery(f"the limit is from 1 to {MOST_HITS}, not {limit}")
        conditions = (filters or Filters()).conditions()
        vector = await embed_one(self._embedder, words)
        return await asyncio.to_thread(self._look, words, vector, conditions, limit)

    def find_blocking(self, words: str, *, filters: Filters | None = None, limit: int = 10) -> Found:
        """`find` for who has no event loop."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self.find(words, filters=filters, limit=limit))

    def close(self) -> None:
        """Closes the store and, when it was used by `find_blocking`, the embedder."""
        if self._runner is not None:
            self._runner.run(self._embedder.aclose())
            self._runner.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _look(self, words: str, vector: Vector, conditions: Sequence[Any], limit: int) -> Found:
        with self._turn:
            by_words = self._by_words(query_words(words), conditions)
            similar = self._nearest.find(vector, conditions, CANDIDATES)
            best = fused(by_words, list(similar))[:limit]
            rows = self._store.search_entries([number for number, _ in best])
            counts = self._store.search_counts(self._embedder.name, TEXT_VERSION)
        named = set(by_words)
        hits = [
            _hit(*row, score, similar.get(number), (("words",) if number in named else ()))
            for (number, score), row in zip(best, rows, strict=True)
        ]
        return Found(tuple(hits), counts.entries_behind, counts.receipts - counts.embedded + self._nearest.left_out)

    def _by_words(self, words: list[str], conditions: Sequence[Any]) -> list[int]:
        counts = self._store.receipts_with(words)
        kept = telling(words, counts, RANKED_MOST)
        if not kept:
            return []
        newest = min(filter(None, counts), default=0) > RANKED_MOST
        return self._store.matching_words(words_query(kept), conditions, CANDIDATES, newest=newest)


def _hit(receipt: SearchReceipt, entry: Entry, score: float, similarity: float | None, by: tuple[str, ...]) -> Hit:
    return Hit(
        entry,
        receipt.merchant,
        receipt.issue_date,
        None if receipt.total_1e4 is None else _amount(receipt.total_1e4),
        receipt.currency,
        receipt.verdict,
        round(score, 6),
        None if similarity is None else round(float(np.clip(similarity, -1, 1)), 4),
        by if similarity is None else (*by, "meaning"),
    )


def _amount(total_1e4: int) -> Decimal:
    """With two decimals, or with the four that it needs."""
    return Decimal(total_1e4).scaleb(-4).quantize(Decimal("0.01") if total_1e4 % 100 == 0 else Decimal("0.0001"))
