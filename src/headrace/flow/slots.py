"""The rules of a channel: who may put an item in, and who may take which out.

Two counts make it exact. `reserved` are slots given to senders that have not filled them yet; `claimed` are items
promised to receivers that have not taken them yet. Both move only together with a grant, so:

    len(buffer) + reserved <= capacity             at every instant
    claimed <= len(buffer)                         at every instant
    a sender waits    => there is no room for it   (P9, checked after every change by `advance`)
    a receiver waits  => every item is claimed     (the same)

A cancelled waiter gives its slot or claim back; the item itself never moves before the task that takes it runs.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from headrace.flow.clock import Clock, LoopClock
from headrace.flow.errors import Closed, Ended, Refusal
from headrace.flow.gauges import Gauge
from headrace.flow.threads import ThreadDoor
from headrace.flow.waiters import Waiter, WaitLine

T = TypeVar("T")


class _Ask:
    """What one waiting receiver wants, and what it has been promised so far."""

    __slots__ = ("have", "linger_s", "timer", "want")

    def __init__(self, want: int, linger_s: float) -> None:
        self.want = want
        self.linger_s = linger_s  # 0 once it is over
        self.have = 0
        self.timer: asyncio.TimerHandle | None = None


class Slots(Generic[T]):
    """The shared inside of a channel. Its ends read it; only its methods change it, but for the ends' fast paths.

    `room` and `promised` make those fast paths possible: an item may simply be appended while there are fewer than
    `room`, and popped while there are more than `promised`. Where more is to be done (someone waits, things are
    weighed, the channel is closed) no number of items meets that. Every change that could make them too generous
    switches the fast path off at once; `_settle` at the end of an operation switches it on again.
    """

    __slots__ = (
        "_gauge",
        "_loop",
        "_plain",
        "_reserved_weight",
        "_weigh",
        "_weights",
        "buffer",
        "capacity",
        "claimed",
        "closed",
        "now",
        "promised",
        "receivers",
        "receivers_line",
        "receivers_waiting",
        "reserved",
        "room",
        "senders",
        "senders_line",
        "senders_waiting",
        "threads",
        "weight",
        "weight_capacity",
    )

    def __init__(
        self,
        capacity: int,
        weight_capacity: int | None,
        weigh: Callable[[T], int] | None,
        gauge: Gauge | None,
        clock: Clock | None,
    ) -> None:
        self.capacity = capacity
        self.weight_capacity = weight_capacity
        self.buffer: deque[tuple[T, float]] = deque()  # items with the moment they came in
        self._weights: deque[int] = deque()  # of the items in `buffer`, when they are weighed
        self._weigh = weigh
        self._gauge = gauge
        self._loop = asyncio.get_running_loop()
        self.now = (clock or LoopClock(self._loop)).now
        self.weight = 0
        self.reserved = 0
        self._reserved_weight = 0
        self.claimed = 0
        self.closed = False
        self.senders = 0
        self.receivers = 0
        self.senders_line: WaitLine[int] = WaitLine(self._admit, self._unadmit)
        self.receivers_line: WaitLine[_Ask] = WaitLine(self._claim, self._unclaim)
        self.senders_waiting = self.senders_line.waiting
        self.receivers_waiting = self.receivers_line.waiting
        self.threads: ThreadDoor[T] = ThreadDoor(self, self._loop)
        self._plain = capacity > 0 and weigh is None and gauge is None
        self.room = -1
        self.promised = sys.maxsize
        self._settle()

    @property
    def ended(self) -> bool:
        """Whether nothing more will ever be received."""
        return self.closed and not self.buffer

    def weight_of(self, item: T) -> int:
        """The weight of an item; 0 where nothing is weighed. Raises ValueError for a negative one."""
        weight = self._weigh(item) if self._weigh is not None else 0
        if weight < 0:
            raise ValueError(f"an item cannot weigh {weight}")
        return weight

    # Coming in

    def put(self, item: T, sender_closed: bool) -> bool:
        """Puts an item in now, or returns False; see `Sender.try_send`."""
        if self.room >= 0 and not sender_closed and not self.threads.spare:
            return False  # the fast path has seen that there is no room, and room is all that this channel needs
        weight = self.weight_of(item)
        try:
            admitted = self.admit_now(weight, sender_closed)
        except Closed as refusal:
            refusal.item = item
            raise
        if admitted:
            self.fill(item, weight, weight)
        return admitted

    async def put_later(self, item: T, deadline_s: float | None) -> None:
        """Waits in line for room, and puts the item in; see `Sender.send`."""
        weight = 0 if self._weigh is None else self.weight_of(item)
        try:
            await self.senders_line.outcome(self.line_up(weight), weight, deadline_s)
        except Refusal as refusal:
            refusal.item = item
            raise
        self.fill(item, weight, weight)

    async def reserve(self, weight: int, deadline_s: float | None, sender_closed: bool) -> None:
        """Takes room that `fill` or `unreserve` will end; see `Sender.reserve`."""
        if not self.admit_now(weight, sender_closed):
            await self.senders_line.outcome(self.line_up(weight), weight, deadline_s)
            if self.closed:  # granted first, closed in the same tick
                self.unreserve(weight)
                raise Closed("the channel is closed")

    def admit_now(self, weight: int, sender_closed: bool = False) -> bool:
        """Takes room if there is some and nobody waits for it. Raises Closed when no more comes in."""
        if self.closed or sender_closed:
            raise Closed("the channel is closed" if self.closed else "this sender was closed")
        if self.senders_waiting:
            return False
        # Slots that threads hold in advance and do not use come home before anybody waits for room.
        return self._admit(weight) or (self.threads.reclaim() and self._admit(weight))

    def fill(self, item: T, reserved_weight: int, weight: int) -> None:
        """Fills room that was taken with `reserved_weight`. Raises Closed, with the item, when no more comes in."""
        self.reserved -= 1
        self._reserved_weight -= reserved_weight
        if self.closed:
            raise Closed("the channel was closed while its room was being filled", item=item)
        self.buffer.append((item, self.now()))
        if self._weigh is not None:
            self._weights.append(weight)
            self.weight += weight
        if self.receivers_waiting:
            self.receivers_line.advance()
        if weight < reserved_weight:
            self.senders_line.advance()
        self._settle()

    def unreserve(self, weight: int) -> None:
        """Gives room back that will not be filled."""
        self._unadmit(weight)
        self.senders_line.advance()
        self._settle()

    def unreserve_soon(self, weight: int) -> None:
        """The same for a slot that was forgotten: the collector may run in any thread and in the midst of our code."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.unreserve, weight)

    def set_aside(self, count: int) -> None:
        """Moves `count` weightless slots, which the caller has seen to be free, to the reserved ones (or back)."""
        self.reserved += count
        self._settle()

    def line_up(self, weight: int) -> Waiter:
        """A place in the line of senders."""
        waiter = self.senders_line.join(weight)
        self.promised = sys.maxsize
        if self.receivers_waiting:  # whoever lingers for more takes what there is: a sender waits
            self.receivers_line.advance()
        return waiter

    def _admit(self, weight: int) -> bool:
        used = len(self.buffer) + self.reserved
        if self.capacity:
            if used >= self.capacity:
                return False
        elif self.reserved + len(self.buffer) - self.claimed >= len(self.receivers_line):
            return False  # rendezvous: as many slots as there are receivers waiting for an item
        # `used` is 0 for the head of an empty channel: it gets in whatever it weighs, else nothing ever would.
        if used and self.weight_capacity is not None:
            total = self.weight + self._reserved_weight + weight
            if total > self.weight_capacity:
                return False
        self.reserved += 1
        self._reserved_weight += weight
        self.room = -1
        return True

    def _unadmit(self, weight: int) -> None:
        self.reserved -= 1
        self._reserved_weight -= weight

    # Going out

    async def recv_many(self, max_items: int, linger_s: float) -> list[T]:
        """Takes at least one item, as soon as there is one; see `Receiver.recv_many`."""
        ask = _Ask(min(max_items, self.capacity or 1), linger_s)
        if len(self.buffer) == self.claimed or not self._claim(ask):
            await self._wait_for_items(ask)
        count = ask.have
        self._forget(ask)
        return self._pop_many(count)

    async def recv(self) -> T:
        """Waits for one item and takes it; see `Receiver.recv`."""
        ask = _Ask(1, 0.0)
        await self._wait_for_items(ask)
        self.claimed -= 1
        return self._pop()

    def take(self) -> T:
        """Takes an item; the caller has seen that there is one that is promised to nobody."""
        return self._pop()

    def take_many(self, max_items: int) -> list[T]:
        """Takes up to `max_items` that are there and promised to nobody."""
        count = min(max_items, len(self.buffer) - self.claimed)
        return self._pop_many(count) if count > 0 else []

    async def _wait_for_items(self, ask: _Ask) -> None:
        if self.ended:
            raise Ended
        waiter = self.receivers_line.join(ask)
        self.room = -1
        if not self.capacity:
            self.senders_line.advance()  # a rendezvous: this receiver is the room they wait for
        try:
            await self.receivers_line.outcome(waiter, ask)
        except BaseException:
            self._unclaim(ask)  # also what it had collected while it lingered
            raise

    def _claim(self, ask: _Ask) -> bool:
        """Promises items to `ask`; True when it should go and take them, False when it waits for (more of) them."""
        count = min(ask.want - ask.have, len(self.buffer) - self.claimed)
        if count:
            ask.have += count
            self.claimed += count
            self.promised = sys.maxsize
        if not ask.have:
            return False
        if ask.have >= ask.want or ask.linger_s <= 0.0 or self.closed or self.senders_waiting:
            return True
        if ask.timer is None:
            ask.timer = self._loop.call_later(ask.linger_s, self._linger_over, ask)
        return False

    def _linger_over(self, ask: _Ask) -> None:
        ask.linger_s = 0.0
        self.receivers_line.advance()

    def _unclaim(self, ask: _Ask) -> None:
        if ask.have:
            self._forget(ask)
            self.receivers_line.advance()
        elif ask.timer is not None:
            ask.timer.cancel()

    def _forget(self, ask: _Ask) -> None:
        self.claimed -= ask.have
        ask.have = 0
        if ask.timer is not None:
            ask.timer.cancel()

    def _pop(self) -> T:
        item = self.buffer.popleft()[0]
        if self._weigh is not None:
            self.weight -= self._weights.popleft()
        self._popped()
        return item

    def _pop_many(self, count: int) -> list[T]:
        buffer = self.buffer
        if count == len(buffer):
            items = [entry[0] for entry in buffer]
            buffer.clear()
        else:
            items = [buffer.popleft()[0] for _ in range(count)]
        if self._weigh is not None:
            for _ in range(count):
                self.weight -= self._weights.popleft()
        self._popped()
        return items

    def _popped(self) -> None:
        if self.senders_waiting:
            self.senders_line.advance()
        if self.closed and not self.buffer:
            self.receivers_line.refuse_all(Ended)
        self._settle()

    # The end

    def close(self) -> None:
        """No more comes in. Senders that wait get Closed; receivers go on until the buffer is empty."""
        if self.closed:
            return
        self.threads.close()  # first: what threads had sent is in
        self.closed = True
        self._settle()
        self.senders_line.refuse_all(Closed)
        self.receivers_line.advance()
        if not self.buffer:
            self.receivers_line.refuse_all(Ended)

    def _settle(self) -> None:
        """Switches the fast paths on where nothing is special, and shows the depth."""
        if self._plain:
            self.room = -1 if self.receivers_waiting or self.closed else self.capacity - self.reserved
            self.promised = sys.maxsize if self.senders_waiting else self.claimed
        elif self._gauge is not None:
            self._gauge.set(len(self.buffer))
