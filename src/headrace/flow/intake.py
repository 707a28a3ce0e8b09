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
import types
from collections.abc import Callable, Generator
from typing import TypeVar

from headrace.flow.clock import Clock, LoopClock
from headrace.flow.drain_rate import RetryAfter
from headrace.flow.errors import Closed, Empty, Ended, Expired, Full, with_item
from headrace.flow.intake_counts import IntakeCounts
from headrace.flow.intake_statistics import IntakeStatistics, statistics_of
from headrace.flow.permits import Ending
from headrace.flow.rate import Rate
from headrace.flow.waiters import Waiter
from headrace.flow.work import Batch, Lane, Work

T = TypeVar("T")

# One wait in so many is measured: the rate needs no more, and a wait costs as much as ten items that do not.
_MEASURED = 8


class Intake(IntakeCounts[T]):
    """Token, permit and place in one. Belongs to one event loop.

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
        super().__init__(limit, capacity, rate, observe, retry_after, (clock or LoopClock()).now)

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
            wait_s = max(self._drain_rate.time_for_s(self.held - self._limit // 2, now) or 0.0, self._rate.wait_s(now))
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
        count = max(1, min(max_items, len(buffer) - self._claimed - self.receivers_stepping))
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
        self._count()
        self._rate.change(rate, self._now())
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
        return statistics_of(self)

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
        if not self._drain_rate.paused and self.held <= self._limit // 2:
            now = self._now()
            self.measured(now).pause(now)
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
        if deadline_s is None and (self._claimed or self.receivers_stepping) and not self._senders_waiting:
            if await self._step_back():
                self._fill(item)
                return
            if self._closed:
                raise Closed("this intake was closed", item=item)
            waiter = self._senders.join_early(None)
            self._serve()  # what was kept for it may be enough for one before it
        else:
            waiter = self._line_up(deadline_s)
        try:
            refusal = await waiter
        except asyncio.CancelledError:
            self._senders.abandon(waiter, None)
            self._serve()
            raise
        if refusal is not None:
            self._serve()
            raise with_item(refusal(), item)
        self._fill(item)

    def _line_up(self, deadline_s: float | None) -> Waiter:
        waiter = self._senders.join(None, deadline_s)
        self.mark = -math.inf
        if self._capacity < self._limit:
            self.promised = math.inf
        if self._rate.limited and self._timer is None and self.held < self._limit:
            self._arm()
        return waiter

    def _fill(self, item: T) -> None:
        """Puts an item in the place that was taken for it."""
        self._reserved -= 1
        if self._closed:  # granted first, closed in the same tick
            self._came -= 1
            self._rate.use(-1)
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
        if self._rate.limited:
            self._arm()
        self._mark()
        self._promise()

    # Going out

    async def claim(self) -> None:
        """Returns once an item is claimed for the caller, who takes it at once."""
        if self._claim(None):
            return
        if self._closed and not self.buffer:
            raise Ended
        if self.senders_stepping and not self._receivers_waiting:
            if await self._step_back_for_item():
                return
            if self._closed and not self.buffer:
                raise Ended
            waiter = self._receivers.join_early(None)
            self._receivers.advance()
        else:
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

    # Stepping back

    @types.coroutine
    def _step_back(self) -> Generator[None, None, bool]:
        """Lets receivers run before a sender looks again: True when it may fill a place, else it lines up early."""
        self.senders_stepping += 1
        back = False
        try:
            yield
            back = True
        finally:
            self.senders_stepping -= 1
            if not back:
                self._serve()
        # Those who wait, and those who still step back, came later; but for one who is in line early.
        took = not self._senders.someone_is_early() and self._take_beside(0)
        if took and self._senders_waiting:
            self._serve()  # the head may wait for a token now
        return took

    @types.coroutine
    def _step_back_for_item(self) -> Generator[None, None, bool]:
        """Lets senders run before a receiver looks again: True when it has claimed an item."""
        self.receivers_stepping += 1
        self._promise()
        back = False
        try:
            yield
            back = True
        finally:
            self.receivers_stepping -= 1
            if not back:
                self._receivers.advance()
                self._promise()
        return not self._receivers.someone_is_early() and self._claim_beside(0)

    # Time

    def _arm(self) -> None:
        """Keeps at most one timer, for a head that waits for a token; all else that it may wait for serves the line."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._senders_waiting and (wait_s := self._rate.wait_s(self._now())) > 0.0:
            self._timer = self._loop.call_later(wait_s, self._serve)

    def _refuse_if_too_late(self, item: T, deadline_s: float) -> None:
        now, ahead = self._now(), len(self._senders) + self.senders_stepping + 1
        expected_s = self.measured(now).time_for_s(ahead - max(0, self._limit - self.held), now) or 0.0
        if self._rate.limited:
            self._count()
            expected_s = max(expected_s, self._rate.wait_s(now, ahead))
        if expected_s > deadline_s or deadline_s <= 0:
            after_s = self._retry_after.after(expected_s - deadline_s)
            detail = f"would wait about {expected_s:.1f} s, and may wait {deadline_s:g} s"
            raise Expired(detail, item=item, retry_after_s=after_s)
