"""How many items go to a worker at once: as many as make a chunk worth its trip, measured while the map runs."""

from __future__ import annotations

CHUNK_NS = 2_000_000  # of work in a chunk: the trip costs a few percent of it, and nobody waits long for a chunk-mate
HANDLING_NS = 1_000  # what an item costs beside the function: to pickle, to read back, to hand on


class ChunkSize:
    """The chunk of one map: a fixed number, or chosen from the time items take.

    Chosen, it starts at 1 and at most doubles with each answer. A slower item counts at once and in full, quicker ones
    only by and by: a mixture is sent in the chunks that suit its slow items.

    Args:
        chunk: the number, or None to choose.
        window: of the map. A chosen chunk is at most a quarter of a worker's even share, so that each worker has others
            in flight while it is on one, and what the consumer frees is soon a chunk again.
        workers: of the pool.

    Attributes:
        now: items to send at once.
    """

    def __init__(self, chunk: int | None, *, window: int, workers: int) -> None:
        self.now = chunk or 1
        self.chosen = chunk is None
        self._limit = max(1, window // (4 * workers))
        self._item_ns: int | None = None

    def observe(self, items: int, elapsed_ns: int) -> None:
        """Enters how long a chunk of so many items took."""
        if not self.chosen:
            return
        item_ns, before_ns = elapsed_ns // items + HANDLING_NS, self._item_ns
        if before_ns is None or item_ns >= before_ns:
            self._item_ns = item_ns
        else:
            self._item_ns = item_ns = before_ns - (before_ns - item_ns) // 4
        self.now = max(1, min(CHUNK_NS // item_ns, 2 * self.now, self._limit))
