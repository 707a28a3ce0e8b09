"""How long things have been in a line, without asking the clock for each of them.

Asking the clock costs as much as everything else that a channel does for an item. So an item shares the stamp of one
that came up to `STAMP_S` before it. An age is therefore never too low, and at most `STAMP_S` too high (or, where a turn
of the event loop took longer than that, that turn).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

STAMP_S = 0.01


class Stamps:
    """Moments at which items came into a line that is left in order. One stamp at most for each item in the line.

    Args:
        now: tells the time, in seconds.
    """

    __slots__ = ("_now", "_stamps")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._stamps: deque[tuple[int, float]] = deque()  # from this item on (counted for ever), since this moment

    def __len__(self) -> int:
        return len(self._stamps)

    def stamp(self, coming: int, head: int) -> None:
        """From item number `coming` on they come in now; `head` is the first item that is still there."""
        self._forget_before(head)
        self._stamps.append((coming, self._now()))

    def age_s(self, head: int) -> float:
        """The age of item number `head`, which is the first that is still there."""
        self._forget_before(head)
        return max(0.0, self._now() - self._stamps[0][1])

    def _forget_before(self, head: int) -> None:
        stamps = self._stamps
        while len(stamps) > 1 and stamps[1][0] <= head:
            stamps.popleft()
