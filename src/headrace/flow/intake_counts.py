"""What an intake decides, apart from waiting for it: who may come in, who may take what, and when nobody has to ask."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from headrace.flow.ages import Stamps
from headrace.flow.cell_rate import CellRate
from headrace.flow.drain_rate import DrainRate, RetryAfter
from headrace.flow.permits import Ending
from headrace.flow.rate import Rate
from headrace.flow.waiters import WaitLine

T = TypeVar("T")


class IntakeCounts(Generic[T]):
    """The state of an intake and its fast paths. Only `Intake`, and `Work` and `Lane` for it, change it."""

    def __init__(
        self,
        limit: int,
        capacity: int,
        rate: Rate | None,
        observe: Callable[[Ending, float], None] | None,
        retry_after: RetryAfter | None,
        now: Callable[[], float],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = now
        self._limit, self._capacity = limit, capacity
        self._observe = observe
        self._retry_after = retry_after or RetryAfter()
        self.buffer: deque[T] = deque()
        self._stamps = Stamps(self._now)
        self._rate = CellRate(rate, now())
        # `_free` may be admitted without looking at anything: a lower bound on places, permits and tokens, good for
        # this turn of the loop, for which time stands still. What was used is counted later.
        self._free = self._granted = 0
        self._turn_ends = False
        self._came = 0  # admitted, without those that were taken from `_free` since
        self.done = self._ignored = self._dropped = 0
        self._lost = 0  # ignored and dropped
        self._reserved = 0  # granted to senders that have not run yet; part of what came
        self._claimed = 0  # items promised to receivers that have not run yet
        # Who would have to wait, and knows that the other side is about to run, steps back for one turn of the loop
        # before it lines up. What comes free meanwhile is kept for these: senders, and receivers.
        self.senders_stepping = self.receivers_stepping = 0
        self._senders: WaitLine[None] = WaitLine(self._take, self._give_back)
        self._receivers: WaitLine[None] = WaitLine(self._claim, self._unclaim)
        self._senders_waiting = self._senders.waiting
        self._receivers_waiting = self._receivers.waiting
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        # Measured from the moment when someone has to wait until half of the limit is free again.
        self._drain_rate = DrainRate()
        self._recorded = 0
        self._waits = 0
        # Read by lanes and work, changed here only, but for the counting of what is done.
        self.promised = math.inf  # with more items than this in it, the first may simply be taken
        self.mark = -math.inf  # with fewer done than this, an ending has nothing to do but to count
        self._promise()
        self._mark()

    @property
    def held(self) -> int:
        """How many items are in flight: waiting here, or received and not ended."""
        return self._came + self._granted - self._free - self.done - self._lost

    def tokens(self, now: float) -> float:
        """How many tokens there are."""
        self._count()
        return self._rate.tokens(now)

    def _meter_on(self) -> None:
        """Someone has to wait: if it is for those in flight, it is measured from now on how fast they end."""
        if self._drain_rate.paused and self.held >= self._limit:
            self._recorded = self._total
            self._drain_rate.resume(self._now())
            self._mark()

    def measured(self, now: float) -> DrainRate:
        """How fast work ends, as far as somebody waited for it."""
        if not self._drain_rate.paused:
            self._drain_rate.record(self._total - self._recorded, now)
            self._recorded = self._total
        return self._drain_rate

    def oldest_age_s(self) -> float:
        """How long the first item has been in."""
        came_in = self._came + self._granted - self._free - self._reserved
        return self._stamps.age_s(came_in - len(self.buffer)) if self.buffer else 0.0

    @property
    def _total(self) -> int:
        return self.done + self._lost

    # Taking and giving back: what the two lines ask for

    def _take(self, _: None) -> bool:
        """Takes a token, a permit and a place together, or nothing."""
        return self._take_beside(self.senders_stepping)

    def _take_beside(self, kept: int) -> bool:
        """The same, with enough left for as many as are `kept`."""
        self._count()
        if self._came - self.done - self._lost + kept >= self._limit or self._closed:
            return False
        if len(self.buffer) + self._reserved + kept >= self._capacity:
            return False
        if self._rate.limited:
            now = self._now()
            if (kept and self._rate.whole(now) <= kept) or not self._rate.take(now):
                return False
        self._came += 1
        self._reserved += 1
        return True

    def _give_back(self, _: None) -> None:
        self._rate.use(-1)
        self._came -= 1
        self._reserved -= 1

    def _claim(self, _: None) -> bool:
        return self._claim_beside(self.receivers_stepping)

    def _claim_beside(self, kept: int) -> bool:
        if len(self.buffer) <= self._claimed + kept:
            return False
        self._claimed += 1
        self.promised = math.inf
        return True

    def _unclaim(self, _: None) -> None:
        self._claimed -= 1
        self._promise()

    # The fast paths: switched off by whatever makes them too generous, and on by these three

    def _look(self) -> None:
        """How many may come in without looking again in this turn; none where someone waits at either end."""
        self._count()
        if self._senders_waiting or self._receivers_waiting or self._closed:
            return
        free = min(self._limit - self.held, self._capacity - len(self.buffer) - self._reserved)
        if self._rate.limited:
            free = min(free, self._rate.whole(self._now()))
        free -= self.senders_stepping
        if free > 0:
            self._free = self._granted = free
            if not self._turn_ends:
                self._turn_ends = True
                self._loop.call_soon(self._turn_over)

    def _count(self) -> None:
        """Counts what the fast path has let in, and switches it off."""
        if self._granted:
            used = self._granted - self._free
            self._granted = self._free = 0
            self._came += used
            self._rate.use(used)

    def _turn_over(self) -> None:
        self._turn_ends = False
        self._count()

    def _mark(self) -> None:
        if self._senders_waiting or self._observe is not None:
            self.mark = -math.inf
        else:
            self.mark = math.inf if self._drain_rate.paused else self.done + self.held - self._limit // 2

    def _promise(self) -> None:
        room_matters = self._senders_waiting and self._capacity < self._limit
        slow = self._closed or room_matters or self._observe is not None
        self.promised = math.inf if slow else self._claimed + self.receivers_stepping
