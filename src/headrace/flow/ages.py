"""How long things have been in a line, without asking the clock for each of them.

Asking the clock costs as much as everything else that a channel does for an item. So the moment is taken once for each
turn of the event loop in which items come: the first item of a turn is stamped, those after it share its stamp.

What that makes of an age: never too low, and too high by no more than the turn in which the item came in took, together
with the one after it (the loop's next turn may have begun before the stamp is laid aside).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


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
