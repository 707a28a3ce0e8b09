"""The receipts nearest to a vector: the file of the index, and one by one what it does not have yet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.search.embedder import Vector
from headrace.search.vector_index import TAIL_MOST, IndexFile, as_vectors, index_file, opened
from headrace.storage.sqlite import SqliteStore

EXACT_MOST = 1500
"""With filters: when at most so many receipts pass, all of them are compared, and the index is not asked."""

_WIDEST = 6400  # the most that the index is asked for, to find enough that pass a filter that more do
_PAGE = 1000


class Nearest:
    """Finds by meaning. Sees what was written since the last call; holds at most `TAIL_MOST` vectors in memory.

    Args:
        store: to read vectors from; used by the caller's thread.
        workspace: where the file of the index is; it is mapped, not loaded.
        model: whose vectors.
    """

    def __init__(self, store: SqliteStore, workspace: Path, model: str) -> None:
        self._store, self._workspace, self._model = store, workspace, model
        self._told: IndexFile | None = None
        self._index: Any = None
        self._tail: dict[int, Vector] = {}
        self._change = 0  # what index and tail have
        self.left_out = 0

    def find(self, vector: Vector, conditions: Sequence[Any], limit: int) -> dict[int, float]:
        """Receipts and their cosine, the nearest first.

        Raises:
            VectorsDiffer: stored vectors are of another width than this one.
        """
        if conditions:
            passing = self._store.matching(conditions, limit=EXACT_MOST + 1)
            if len(passing) <= EXACT_MOST:
                return self._exact(vector, passing, limit)
        self._refresh(len(vector))
        if not conditions:
            return self._merged(vector, limit, limit)
        wide = 4 * limit
        while True:
            near = self._merged(vector, wide, wide)
            found = self._store.matching(conditions, among=list(near), limit=wide)
            if len(found) >= limit or wide >= _WIDEST or len(near) < wide:
                return {number: near[number] for number in found[:limit]}
            wide *= 4

    def _exact(self, vector: Vector, numbers: Sequence[int], limit: int) -> dict[int, float]:
        rows = self._store.vectors_of(self._model, numbers)
        if not rows:
            return {}
        return _best([row.number for row in rows], as_vectors(rows, len(vector)) @ vector, limit)

    def _merged(self, vector: Vector, wide: int, limit: int) -> dict[int, float]:
        near: dict[int, float] = {}
        if self._index is not None:
            matches = self._index.search(vector, wide, threads=1)
            pairs = zip(matches.keys.tolist(), matches.distances.tolist(), strict=True)
            near = {number: 1.0 - distance for number, distance in pairs if number not in self._tail}
        if self._tail:
            near |= _best(list(self._tail), np.stack(list(self._tail.values())) @ vector, limit)
        return dict(sorted(near.items(), key=lambda pair: -pair[1])[:limit])

    def _refresh(self, dimensions: int) -> None:
        """Opens the file when it is another one, and reads what it does not have."""
        told = index_file(self._workspace, self._model)
        while told != self._told:
            try:
                index = opened(self._workspace, told, view=True) if told else None
            except FileNotFoundError:  # a newer one has come between
                told = index_file(self._workspace, self._model)
                continue
            self._index, self._told = index, told
            self._tail.clear()
            self._change = told.change if told else 0
        while len(self._tail) < TAIL_MOST:
            room = min(_PAGE, TAIL_MOST - len(self._tail))
            page = self._store.vectors_since(self._model, self._change, limit=room)
            if not page:
                break
            self._tail |= dict(zip([row.number for row in page], as_vectors(page, dimensions), strict=True))
            self._change = page[-1].change
        full = len(self._tail) >= TAIL_MOST
        self.left_out = self._store.vectors_beyond(self._model, self._change) if full else 0


def _best(numbers: Sequence[int], cosines: Any, limit: int) -> dict[int, float]:
    order = np.argsort(-cosines, kind="stable")[:limit]
    return {numbers[at]: float(cosines[at]) for at in order}
