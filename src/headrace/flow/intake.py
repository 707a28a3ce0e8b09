"""The fused door: a token, a permit and a place in a channel, taken in one step. For work inside one process.

    intake = Intake(64, rate=Rate(500))
    await intake.admit(item)                  # waits until it may come in
    async for work in intake:
        with work as item: ...                # the permit ends with the block

The same three limits as RateLimit + Permits + channel one after the other, and several times faster, because one
decision takes all three and nothing is handed from line to line. What it leaves out: classes and gates (`Admission`),
weights, and doors for threads (`channel`).

An item holds its permit from the moment it comes in until its work ends, so `limit` bounds what waits and what is
worked on together, and `capacity` the part that waits.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.flow.ages import Stamps
from headrace.flow.clock import Clock, LoopClock
from headrace.flow.drain_rate import DrainRate, RetryAfter
from headrace.flow.errors import Closed, Empty, Ended, Expired, Full, Refusal
from headrace.flow.permits import Ending
from headrace.flow.rate import Rate
from headrace.flow.waiters import WaitLine
from headrace.flow.work import Batch, Lane, Work

T = TypeVar("T")

# As in `headrace.flow.rate`: a wait this short is over, because float seconds are only so exact.
_OVER_S = 1e-8
# One wait in so many is measured: the rate needs no more, and a wait costs as much as ten items that do not.
_MEASURED = 8


@dataclass(frozen=True, slots=True)
class IntakeStatistics:
    """An intake at one moment. `held` counts waiting and worked on; held <= limit and depth <= capacity always.

    admitted = done + ignored + dropped + held, at every instant.
    """

    held: int
    limit: int
    depth: int
    capacity: int
    tokens: float
    waiting_senders: int
    waiting_receivers: int
    oldest_age_s: float
    admitted: int
    done: int
    ignored: int
    dropped: int
    drain_rate_per_s: float | None
    closed: bool


class Intake(Generic[T]):
    """Token, permit and place in one. Belongs to one event loop.

    The rate is a token bucket in one number, the moment up to which tokens are used up (the generic cell rate
    algorithm, ITU-T I.371): it lets through exactly what `TokenBucket` does.

    Args:
        limit: how many items may be in flight: waiting here, or received and not ended.
        capacity: how many of those may wait; as many as the limit when not given.
        rate: how many may come in per second; None sets none.
        observe: called with the ending and the seconds since it was received, for all work that ends.
        retry_after: how estimates become answers.
        clock: what tells the time; the running loop's when not given.
    """

    def __init__(
        self,
        limit: int,
        *,
        capacity: int | None = None,
        rate: Rate | None = None,
        observe: Callable[[Ending, float], None] | None = None,
        retry_after: RetryAfter | None = None,
        clock: Clock | None = None,
    ) -> None:
        capacity = limit if capacity is None else capacity
        if limit < 1 or capacity < 1:
            raise ValueError(f"a limit and a capacity must be at least 1, got {limit} and {capacity}")
        self._loop = asyncio.get_running_loop()
        self._now = (clock or LoopClock()).now
        self._limit, self._capacity = limit, capacity
        self._observe = observe
        self._retry_after = retry_after or RetryAfter()
        self.buffer: deque[T] = deque()
        self._stamps = Stamps(self._now)
        self._interval_s = self._span_s = 0.0
        self._used_until = -math.inf
        # `_free` may be admitted without looking at anything: a lower bound on places, permits and tokens, good for
        # this turn of the loop, for which time stands still. What was used is counted later.
        self._free = self._granted = 0
        self._turn_ends = False
        self._came = 0  # admitted, without those that were taken from `_free` since
        self._set_rate(rate, self._now())
        self.done = self._ignored = self._dropped = 0
        self._lost = 0  # ignored and dropped
        self._reserved = 0  # granted to senders that have not run yet; part of what came
        self._claimed = 0  # items promised to receivers that have not run yet
        self._senders: WaitLine[None] = WaitLine(self._take, self._give_back)
        self._receivers: WaitLine[None] = WaitLine(self._claim, self._unclaim)
        self._senders_waiting = self._senders.waiting
        self._receivers_waiting = self._receivers.waiting
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        # Measured from the moment when someone has to wait until half of the limit is free again.
        self._rate = DrainRate()
        self._recorded = 0
        self._waits = 0
        # Read by lanes and work, changed here only, but for the counting of what is done.
        self.promised = math.inf  # with more items than this in it, the first may simply be taken
        self.mark = -math.inf  # with fewer done than this, an ending has nothing to do but to count
        self._promise()
        self._mark()

    async def admit(self, item: T, *, deadline_s: float | None = None) -> None:
        """Lets an item in, waiting in line for its token, its permit and its place.

        A cancelled call has admitted nothing, and what had been granted to it goes to the next in line.

        Raises:
            Expired: not admitted within `deadline_s` seconds, or at once, when by the measured rate it cannot be. The
                item is on the error.
            Closed: no more comes in; the item is on the error.
        """
        if self._free:
            self._free -= 1
            self.buffer.append(item)
        elif self._senders_waiting or not self._take(None):
            await self._admit_later(item, deadline_s)
        else:
            self._fill(item)

    def try_admit(self, item: T) -> None:
        """Lets an item in now.

        Raises:
            Full: there is no token, permit or place, or others wait for theirs; the item is on the error, and
                `retry_after_s` says when another try makes sense.
            Closed: no more comes in; the item is on the error.
        """
        if self._free:
            self._free -= 1
            self.buffer.append(item)
        elif not self._senders_waiting and self._take(None):
            self._fill(item)
        elif self._closed:
            raise Closed("this intake is closed", item=item)
        else:
            now = self._now()
            self._meter_on()
            wait_s = max(self._rate.time_for_s(self.held - self._limit // 2, now) or 0.0, self._token_wait_s(now))
            detail = f"{self.held} of {self._limit} are in flight, {len(self.buffer)} of {self._capacity} wait"
            raise Full(detail, item=item, retry_after_s=self._retry_after.after(wait_s or None))

    async def recv(self) -> Work[T]:
        """Receives the next item as work that holds its permit, waiting for one in line.

        A cancelled recv takes nothing: the item stays for the next.

        Raises:
            Ended: no more comes in, and everything that was in has been received.
        """
        buffer = self.buffer
        if len(buffer) > self.promised:
            work: Work[T] = Work()
            work._intake = self
            work.item = buffer.popleft()
            work.received_at = 0.0
            return work
        await self.claim()
        return self._work()

    def try_recv(self) -> Work[T]:
        """The next item, if there is one that no waiting receiver has been promised.

        Raises:
            Empty: there is none now.
            Ended: there will never be one.
        """
        if not self._claim(None):
            raise Ended if self._closed and not self.buffer else Empty
        return self._work()

    def lane(self) -> Lane[T]:
        """A way to receive for one worker; see `Lane`."""
        return Lane(self)

    async def recv_many(self, max_items: int) -> Batch[T]:
        """Receives at least one item, and as many as there are up to `max_items`, as one batch with one permit.

        A cancelled call takes nothing.

        Raises:
            Ended: no more comes in, and everything that was in has been received.
        """
        if max_items < 1:
            raise ValueError(f"needs at least one item to receive, got {max_items}")
        buffer = self.buffer
        if len(buffer) <= self.promised:
            await self.claim()
            self._claimed -= 1
        count = min(max_items, len(buffer) - self._claimed)
        batch: Batch[T] = Batch()
        if count == len(buffer):
            batch.item = list(buffer)
            buffer.clear()
        else:
            batch.item = [buffer.popleft() for _ in range(count)]
        batch._intake = self
        batch.received_at = self._received()
        return batch

    def resize(self, limit: int, *, capacity: int | None = None) -> None:
        """Changes the limits while in use. More lets those who wait in at once; less takes effect as work ends."""
        capacity = limit if capacity is None else capacity
        if limit < 1 or capacity < 1:
            raise ValueError(f"a limit and a capacity must be at least 1, got {limit} and {capacity}")
        self._limit, self._capacity = limit, capacity
        self._serve()

    def change_rate(self, rate: Rate | None) -> None:
        """Changes the rate while in use; tokens earned at the old one stay, up to the new burst."""
        self._set_rate(rate, self._now())
        self._serve()

    def close(self) -> None:
        """No more comes in: those who wait to come in get Closed. What is in stays readable until `Ended`."""
        self._closed = True
        self._senders.refuse_all(Closed)
        self._count()
        self._serve()
        if not self.buffer:
            self._receivers.refuse_all(Ended)

    def __aiter__(self) -> Intake[T]:
        return self

    async def __anext__(self) -> Work[T]:
        try:
            return await self.recv()
        except Ended:
            raise StopAsyncIteration from None

    def statistics(self) -> IntakeStatistics:
        """A frozen snapshot."""
        now = self._now()
        return IntakeStatistics(
            held=self.held,
            limit=self._limit,
            depth=len(self.buffer),
            capacity=self._capacity,
            tokens=self._tokens(now),
            waiting_senders=len(self._senders),
            waiting_receivers=len(self._receivers),
            oldest_age_s=self._oldest_age_s(),
            admitted=self._total + self.held,
            done=self.done,
            ignored=self._ignored,
            dropped=self._dropped,
            drain_rate_per_s=self._measured(now).per_s(now),
            closed=self._closed,
        )

    @property
    def held(self) -> int:
        """How many items are in flight: waiting here, or received and not ended."""
        return self._came + self._granted - self._free - self.done - self._lost

    # Endings: called by Work

    def end(self, ending: Ending, count: int, received_at: float) -> None:
        """Ends `count` permits; the slow way."""
        self._ended(ending, count)
        if self._observe is not None:
            self._observe(ending, self._now() - received_at)

    def forgotten(self, count: int) -> bool:
        """Work was collected, in any thread and in the midst of our own code: the loop ends it. False without one."""
        if self._loop.is_closed():
            return False
        self._loop.call_soon_threadsafe(self._ended, Ending.IGNORE, count)
        return True

    def _ended(self, ending: Ending, count: int) -> None:
        if ending is Ending.DONE:
            self.done += count
        elif ending is Ending.IGNORE:
            self._ignored += count
            self._lost += count
        else:
            self._dropped += count
            self._lost += count
        if not self._rate.paused and self.held <= self._limit // 2:
            now = self._now()
            self._measured(now).pause(now)
        if self._senders_waiting:
            self._serve(count)
        else:
            self._mark()

    # Coming in

    async def _admit_later(self, item: T, deadline_s: float | None) -> None:
        if self._closed:
            raise Closed("this intake is closed", item=item)
        self._waits += 1
        if not self._waits % _MEASURED:
            self._meter_on()
        if deadline_s is not None:
            self._refuse_if_too_late(item, deadline_s)
        waiter = self._senders.join(None, deadline_s)
        self.mark = -math.inf
        if self._capacity < self._limit:
            self.promised = math.inf
        if self._interval_s and self._timer is None and self.held < self._limit:
            self._arm()
        try:
            refusal = await waiter
        except asyncio.CancelledError:
            self._senders.abandon(waiter, None)
            self._serve()
            raise
        if refusal is not None:
            self._serve()
            raise _with_item(refusal(), item)
        self._fill(item)

    def _take(self, _: None) -> bool:
        """Takes a token, a permit and a place together, or nothing."""
        self._count()
        if self._came - self.done - self._lost >= self._limit or self._closed:
            return False
        if len(self.buffer) + self._reserved >= self._capacity:
            return False
        if self._interval_s:
            now = self._now()
            used_until = max(self._used_until + self._interval_s, now - self._span_s)
            if used_until - now > _OVER_S:
                return False
            self._used_until = used_until
        self._came += 1
        self._reserved += 1
        return True

    def _give_back(self, _: None) -> None:
        self._used_until -= self._interval_s
        self._came -= 1
        self._reserved -= 1

    def _fill(self, item: T) -> None:
        """Puts an item in the place that was taken for it."""
        self._reserved -= 1
        if self._closed:  # granted first, closed in the same tick
            self._came -= 1
            self._used_until -= self._interval_s
            raise Closed("this intake was closed", item=item)
        coming = self._came + self._granted - self._free - self._reserved - 1
        self._stamps.stamp(coming, coming - len(self.buffer))
        self.buffer.append(item)
        if self._receivers_waiting:
            self._receivers.advance(1)
        self._look()

    def _serve(self, most: int = sys.maxsize) -> None:
        """Lets in from the head of the line for as long as there is enough; `most` if so many are known to be."""
        self._senders.advance(most)
        if self._interval_s:
            self._arm()
        self._mark()
        self._promise()

    # Going out

    def _claim(self, _: None) -> bool:
        if len(self.buffer) <= self._claimed:
            return False
        self._claimed += 1
        self.promised = math.inf
        return True

    def _unclaim(self, _: None) -> None:
        self._claimed -= 1
        self._promise()

    async def claim(self) -> None:
        """Returns once an item is claimed for the caller, who takes it at once."""
        if self._claim(None):
            return
        if self._closed and not self.buffer:
            raise Ended
        waiter = self._receivers.join(None)
        self._count()
        try:
            refusal = await waiter
        except asyncio.CancelledError:
            self._receivers.abandon(waiter, None)
            raise
        if refusal is not None:
            raise refusal()

    def take_claimed(self) -> tuple[T, float]:
        """The item that was claimed, and when that was if somebody observes."""
        self._claimed -= 1
        return self.buffer.popleft(), self._received()

    def _work(self) -> Work[T]:
        work: Work[T] = Work()
        work._intake = self
        work.item, work.received_at = self.take_claimed()
        return work

    def _received(self) -> float:
        if self._senders_waiting and self._capacity < self._limit:
            self._serve()
        else:
            self._promise()
        if self._closed and not self.buffer:
            self._receivers.refuse_all(Ended)
        return self._now() if self._observe is not None else 0.0

    # The fast paths: switched off by whatever makes them too generous, and on by these three

    def _look(self) -> None:
        """How many may come in without looking again in this turn; none where someone waits at either end."""
        self._count()
        if self._senders_waiting or self._receivers_waiting or self._closed:
            return
        free = min(self._limit - self.held, self._capacity - len(self.buffer) - self._reserved)
        if self._interval_s:
            now = self._now()
            self._used_until = max(self._used_until, now - self._span_s - self._interval_s)
            free = min(free, int((now - self._used_until) / self._interval_s + _OVER_S))
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
            self._used_until += used * self._interval_s

    def _turn_over(self) -> None:
        self._turn_ends = False
        self._count()

    def _mark(self) -> None:
        if self._senders_waiting or self._observe is not None:
            self.mark = -math.inf
        else:
            self.mark = math.inf if self._rate.paused else self.done + self.held - self._limit // 2

    def _promise(self) -> None:
        room_matters = self._senders_waiting and self._capacity < self._limit
        slow = self._closed or room_matters or self._observe is not None
        self.promised = math.inf if slow else self._claimed

    # Time

    def _set_rate(self, rate: Rate | None, now: float) -> None:
        self._count()
        tokens = self._tokens(now)
        self._interval_s = 0.0 if rate is None else 1 / rate.per_s
        self._span_s = 0.0 if rate is None else (rate.burst - 1) / rate.per_s
        self._burst = math.inf if rate is None else rate.burst
        self._used_until = -math.inf if rate is None else now - min(tokens, self._burst) * self._interval_s

    def _tokens(self, now: float) -> float:
        if not self._interval_s:
            return math.inf
        self._count()
        return min(self._burst, (now - self._used_until) / self._interval_s)

    def _token_wait_s(self, now: float) -> float:
        wait_s = self._used_until + self._interval_s - now
        return wait_s if wait_s > _OVER_S else 0.0

    def _arm(self) -> None:
        """Keeps at most one timer, for a head that waits for a token; all else that it may wait for serves the line."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._senders_waiting and (wait_s := self._token_wait_s(self._now())) > 0.0:
            self._timer = self._loop.call_later(wait_s, self._serve)

    def _meter_on(self) -> None:
        """Someone has to wait: if it is for those in flight, it is measured from now on how fast they end."""
        if self._rate.paused and self.held >= self._limit:
            self._recorded = self._total
            self._rate.resume(self._now())
            self._mark()

    def _measured(self, now: float) -> DrainRate:
        if not self._rate.paused:
            self._rate.record(self._total - self._recorded, now)
            self._recorded = self._total
        return self._rate

    def _oldest_age_s(self) -> float:
        came_in = self._came + self._granted - self._free - self._reserved
        return self._stamps.age_s(came_in - len(self.buffer)) if self.buffer else 0.0

    @property
    def _total(self) -> int:
        return self.done + self._lost

    def _refuse_if_too_late(self, item: T, deadline_s: float) -> None:
        now, ahead = self._now(), len(self._senders) + 1
        expected_s = self._measured(now).time_for_s(ahead - max(0, self._limit - self.held), now) or 0.0
        if self._interval_s:
            expected_s = max(expected_s, (ahead - self._tokens(now)) * self._interval_s)
        if expected_s > deadline_s or deadline_s <= 0:
            after_s = self._retry_after.after(expected_s - deadline_s)
            detail = f"would wait about {expected_s:.1f} s, and may wait {deadline_s:g} s"
            raise Expired(detail, item=item, retry_after_s=after_s)


def _with_item(refusal: Exception, item: object) -> Exception:
    if isinstance(refusal, Refusal):
        refusal.item = item
    return refusal
