"""One fair, cancellable wait line. Every limit waits in it, so that fairness and cancellation are solved once.

A limit supplies arithmetic only: `take(need)` takes what is needed if it is free, `give_back(need)` undoes that. The
line does the rest, and holds these rules (after the habit of Trio's ParkingLot, with the grant made at wake-up time):

- First come, first served: only the head is ever tried, so a heavy head is not overtaken by light ones behind it.
- What is granted is taken at that moment, in the name of the waiter: nobody can snatch it before the waiter runs.
- A waiter that was granted and then cancelled in the same tick gives back, and the next one is tried at once.
- The head is always someone who waits. Places given up behind it are swept out before they are half of the line, so
  that giving up is cheap and nothing grows behind a stuck head.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Any, Generic, TypeAlias, TypeVar

from headrace.flow.errors import Expired

Need = TypeVar("Need")
Waiter: TypeAlias = "asyncio.Future[Callable[[], Exception] | None]"

# Below this many places given up, sweeping is not worth its call.
_SWEEP_FROM = 16


class WaitLine(Generic[Need]):
    """The line of those who wait for one limit. Belongs to one event loop.

    Args:
        take: takes `need` and returns True, or changes nothing and returns False.
        give_back: undoes one `take` whose waiter was cancelled before it could run.
    """

    __slots__ = ("_early", "_give_back", "_given_up", "_new_waiter", "_take", "grants", "waiting")

    def __init__(self, take: Callable[[Need], bool], give_back: Callable[[Need], None]) -> None:
        self._take = take
        self._give_back = give_back
        # In order of arrival. Read it freely (its truth is "someone waits"); only the line changes it.
        self.waiting: deque[tuple[Waiter, Need]] = deque()
        self._given_up = 0  # places left since the last sweep
        self._early: list[Waiter] = []  # of those at the head, who had come before they took their place
        # Bound to the first loop that waits here: asking for the running one costs as much as the rest of `join`.
        self._new_waiter: Callable[[], Waiter] | None = None
        self.grants = 0  # ever made, for statistics: one wake-up each

    def __len__(self) -> int:
        """How many wait now; those cancelled but not yet run are not counted."""
        return sum(1 for waiter, _ in self.waiting if not waiter.done())

    def needs(self) -> list[Need]:
        """What those who wait need, in their order."""
        return [need for waiter, need in self.waiting if not waiter.done()]

    def head(self) -> Need | None:
        """What the first in line needs; None when nobody waits."""
        return next((need for waiter, need in self.waiting if not waiter.done()), None)

    def advance(self, most: int = sys.maxsize) -> None:
        """Serves the line from its head for as long as there is enough. Call it whenever something became free.

        Args:
            most: how many can be served by what became free, where that is known: saves asking for the next in vain.
        """
        waiting = self.waiting
        while waiting:
            waiter, need = waiting[0]
            if waiter.done():  # cancelled: its task has not run yet, or has and left the place to be cleared here
                waiting.popleft()
            elif self._take(need):
                waiting.popleft()
                self.grants += 1
                waiter.set_result(None)
                most -= 1
                if not most:
                    return
            else:
                return

    def join(self, need: Need, deadline_s: float | None = None) -> Waiter:
        """Takes a place at the end of the line.

        The caller awaits the waiter at once. Its result is None (granted) or the refusal to raise; when the await is
        cancelled he calls `abandon` with the same need. `wait` does just that; a hot path does it in its own frame.
        """
        if self._new_waiter is None:
            self._new_waiter = partial(asyncio.Future, loop=asyncio.get_running_loop())
        waiter = self._new_waiter()
        self.waiting.append((waiter, need))
        if deadline_s is not None:
            self._expire_later(waiter, deadline_s)
        return waiter

    def join_early(self, need: Need) -> Waiter:
        """Takes the place of one who came when nobody waited, and let others run before he lined up.

        That is before everybody who lined up in the meantime, but for others like him who took theirs first.
        """
        waiter = self.join(need)
        mine = self.waiting.pop()
        self._early = [other for other, _ in takewhile(lambda place: place[0] in self._early, self.waiting)]
        self.waiting.insert(len(self._early), mine)
        self._early.append(waiter)
        return waiter

    def someone_is_early(self) -> bool:
        """Whether the head has joined early: who came with it but looks again only now had better join after it."""
        return bool(self.waiting) and self.waiting[0][0] in self._early

    async def wait(self, need: Need, deadline_s: float | None = None) -> None:
        """Waits at the end of the line until `need` is granted.

        Does not try first: the caller has seen that someone is before it, or that there is not enough.

        Args:
            need: what `take` will be asked for.
            deadline_s: the longest wait, in seconds from now; None waits as long as it takes.

        Raises:
            Expired: the deadline passed first.
            Refusal: whatever `refuse_all` was given.

        A cancelled wait leaves nothing behind: its place is gone, and a grant that had reached it goes to the next.
        """
        await self.outcome(self.join(need, deadline_s), need)

    async def outcome(self, waiter: Waiter, need: Need, deadline_s: float | None = None) -> None:
        """The second half of `wait`, for callers that must act between joining and waiting."""
        if deadline_s is not None:
            self._expire_later(waiter, deadline_s)
        try:
            refusal = await waiter
        except asyncio.CancelledError:
            self.abandon(waiter, need)
            raise
        if refusal is not None:
            raise refusal()

    def abandon(self, waiter: Waiter, need: Need) -> None:
        """Ends a wait whose task was cancelled: gives up the place, or passes on what had been granted."""
        if waiter.cancelled():
            self.leave(waiter)
        elif waiter.result() is None:
            self._give_back(need)
            self.advance()

    def leave(self, waiter: Waiter) -> None:
        """Clears the place of a waiter that is done. Those behind a heavy head that left may fit now: it advances."""
        self._given_up += 1
        if self._given_up >= _SWEEP_FROM and 2 * self._given_up > len(self.waiting):
            still = [place for place in self.waiting if not place[0].done()]
            self.waiting.clear()
            self.waiting.extend(still)
            self._given_up = 0
        self.advance()

    def refuse_all(self, refusal: Callable[[], Exception]) -> None:
        """Ends every wait with a new `refusal()` each. What was granted before stays granted."""
        while self.waiting:
            waiter, _ = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(refusal)

    def _expire_later(self, waiter: Waiter, deadline_s: float) -> None:
        timer = waiter.get_loop().call_later(max(0.0, deadline_s), self._expire, waiter)

        def over(_: Waiter) -> Any:
            timer.cancel()

        waiter.add_done_callback(over)

    def _expire(self, waiter: Waiter) -> None:
        if not waiter.done():
            waiter.set_result(Expired)
            self.leave(waiter)
