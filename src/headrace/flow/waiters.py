"""One fair, cancellable wait line. Every limit waits in it, so that fairness and cancellation are solved once.

A limit supplies arithmetic only: `take(need)` takes what is needed if it is free, `give_back(need)` undoes that. The
line does the rest, and holds these rules (after the habit of Trio's ParkingLot, with the grant made at wake-up time):

- First come, first served: only the head is ever tried, so a heavy head is not overtaken by light ones behind it.
- What is granted is taken at that moment, in the name of the waiter: nobody can snatch it before the waiter runs.
- A waiter that was granted and then cancelled in the same tick gives back, and the next one is tried at once.
- A waiter that leaves from anywhere in the line is gone at once (no tombstones that grow behind a stuck head).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from headrace.flow.errors import Expired

Need = TypeVar("Need")
Waiter: TypeAlias = "asyncio.Future[Callable[[], Exception] | None]"


class WaitLine(Generic[Need]):
    """The line of those who wait for one limit. Belongs to one event loop.

    Args:
        take: takes `need` and returns True, or changes nothing and returns False.
        give_back: undoes one `take` whose waiter was cancelled before it could run.
    """

    __slots__ = ("_give_back", "_new_waiter", "_take", "grants", "waiting")

    def __init__(self, take: Callable[[Need], bool], give_back: Callable[[Need], None]) -> None:
        self._take = take
        self._give_back = give_back
        # In order of arrival. Read it freely (its truth is "someone waits"); only the line changes it.
        self.waiting: OrderedDict[Waiter, Need] = OrderedDict()
        # Bound to the first loop that waits here: asking for the running one costs as much as the rest of `join`.
        self._new_waiter: Callable[[], Waiter] | None = None
        self.grants = 0  # ever made, for statistics: one wake-up each

    def __len__(self) -> int:
        """How many wait now; those cancelled but not yet run are not counted."""
        return sum(1 for waiter in self.waiting if not waiter.done())

    def head(self) -> Need | None:
        """What the first in line needs; None when nobody waits."""
        for waiter, need in self.waiting.items():
            if not waiter.done():
                return need
        return None

    def advance(self) -> None:
        """Serves the line from its head for as long as there is enough. Call it whenever something became free."""
        waiting = self.waiting
        while waiting:
            waiter = next(iter(waiting))
            if waiter.done():  # cancelled, and its task has not run yet
                del waiting[waiter]
            elif self._take(waiting[waiter]):
                del waiting[waiter]
                self.grants += 1
                waiter.set_result(None)
            else:
                return

    def join(self, need: Need) -> Waiter:
        """Takes a place at the end of the line. The caller must go on to `outcome` without waiting in between."""
        if self._new_waiter is None:
            self._new_waiter = partial(asyncio.Future, loop=asyncio.get_running_loop())
        waiter = self._new_waiter()
        self.waiting[waiter] = need
        return waiter

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
        await self.outcome(self.join(need), need, deadline_s)

    async def outcome(self, waiter: Waiter, need: Need, deadline_s: float | None = None) -> None:
        """The second half of `wait`, for callers that must act between joining and waiting."""
        timer = None
        if deadline_s is not None:
            timer = asyncio.get_running_loop().call_later(max(0.0, deadline_s), self._end, waiter, Expired)
        try:
            refusal = await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self.leave(waiter)
            elif waiter.result() is None:  # granted, then cancelled before this ran: pass it on
                self._give_back(need)
                self.advance()
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if refusal is not None:
            raise refusal()

    def leave(self, waiter: Waiter) -> None:
        """Gives up a place. Those behind a heavy head that left may fit now, so the line is served."""
        self.waiting.pop(waiter, None)
        self.advance()

    def refuse_all(self, refusal: Callable[[], Exception]) -> None:
        """Ends every wait with a new `refusal()` each. What was granted before stays granted."""
        while self.waiting:
            waiter, _ = self.waiting.popitem(last=False)
            if not waiter.done():
                waiter.set_result(refusal)

    def _end(self, waiter: Waiter, refusal: Callable[[], Exception]) -> None:
        if not waiter.done():
            waiter.set_result(refusal)
            self.leave(waiter)
