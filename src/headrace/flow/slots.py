"""The rules of a channel: who may put an item in, and who may take which out.

What they keep true is written in `headrace.flow.counts`. A cancelled waiter gives its slot or claim back; the item
itself never moves before the task that takes it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import repeat, starmap
from typing import TypeVar

from headrace.flow.clock import Clock
from headrace.flow.counts import Ask, Counts, Room
from headrace.flow.errors import Closed, Ended
from headrace.flow.gauges import Gauge
from headrace.flow.threads import ThreadDoor
from headrace.flow.waiters import Waiter, WaitLine
from headrace.flow.weights import Scale

T = TypeVar("T")


class Slots(Counts[T]):
    """The shared inside of a channel."""

    __slots__ = ("threads",)

    def __init__(self, capacity: int, scale: Scale[T] | None, gauge: Gauge | None, clock: Clock | None) -> None:
        senders_line: WaitLine[Room] = WaitLine(self._admit, self._unadmit)
        receivers_line: WaitLine[Ask] = WaitLine(self._claim, self._unclaim)
        super().__init__(capacity, scale, gauge, clock, senders_line, receivers_line)
        self.threads: ThreadDoor[T] = ThreadDoor(self, self.loop)

    # Coming in

    def put(self, item: T, sender_closed: bool) -> bool:
        """Puts an item in now, or returns False; see `Sender.try_send`."""
        full = len(self.buffer) >= self.capacity - self.reserved
        if full and self.capacity and not (self.closed or sender_closed or self.threads.spare):
            return False  # nothing is special but that
        weight = 0 if self.scale is None else self.scale.weight_of(item)
        if self.closed or sender_closed:
            raise Closed("the channel is closed" if self.closed else "this sender was closed", item=item)
        if self.senders_waiting:
            return False
        # Slots that threads hold in advance and do not use come home before anybody waits for room.
        if not self._fits(weight) and not (self.threads.spare and self.threads.reclaim() and self._fits(weight)):
            return False
        self.reserved += 1
        self.fill(item, 0, weight)
        return True

    def put_many(self, items: Sequence[T], sender_closed: bool) -> int:
        """Puts in as many weightless items as there is room for; how many. Raises Closed when no more comes in."""
        if self.closed or sender_closed:
            raise Closed("the channel is closed" if self.closed else "this sender was closed")
        if self.senders_waiting:
            return 0
        if self.threads.spare and len(items) > self.capacity - self.reserved - len(self.buffer):
            self.threads.reclaim()
        free = self.capacity - self.reserved - len(self.buffer)
        if free <= 0:
            return 0
        if free < len(items):
            items = items[:free]
        self.extend(items)
        return len(items)

    def admit_now(self, weight: int, sender_closed: bool = False) -> bool:
        """Reserves a slot if there is one and nobody waits for it. Raises Closed when no more comes in."""
        if self.closed or sender_closed:
            raise Closed("the channel is closed" if self.closed else "this sender was closed")
        if self.senders_waiting:
            return False
        return self._admit(weight) or (self.threads.reclaim() and self._admit(weight))

    def put_first(self, item: T, weight: int) -> bool:
        """As `put`, for a sender that stepped back: those who wait, and those for whom slots are kept, came later."""
        if self.closed:
            raise Closed("the channel is closed", item=item)
        if (self.senders_waiting and self.senders_line.someone_is_early()) or not self._fits(weight, self.owed):
            return False
        self.reserved += 1
        self.fill(item, 0, weight)
        return True

    def put_many_first(self, items: Sequence[T]) -> int:
        """As `put_many`, for a sender that stepped back: see `put_first`."""
        if self.closed:
            raise Closed("the channel is closed")
        free = self.capacity - self.reserved + self.owed - len(self.buffer)
        if free <= 0 or (self.senders_waiting and self.senders_line.someone_is_early()):
            return 0
        if free < len(items):
            items = items[:free]
        self.extend(items)
        return len(items)

    def line_up(self, need: Room, deadline_s: float | None = None, early: bool = False) -> Waiter:
        """A place in the line of senders; before those who came later than one that stepped back."""
        waiter = self.senders_line.join_early(need) if early else self.senders_line.join(need, deadline_s)
        self.promised = sys.maxsize
        if self.scale is not None:
            self.scale.credit = 0
        if early:  # what was kept for it may be enough for one before it
            self.senders_line.advance()
        if self.receivers_waiting:  # whoever lingers for more takes what there is: a sender waits
            self.receivers_line.advance()
        return waiter

    def fill(self, item: T, reserved_weight: int, weight: int) -> None:
        """Fills room that was taken with `reserved_weight`. Raises Closed, with the item, when no more comes in."""
        self.reserved -= 1
        if self.scale is not None and reserved_weight:
            self.scale.reserve(-reserved_weight)
        if self.closed:
            raise Closed("the channel was closed while its room was being filled", item=item)
        if not self._fresh:
            self.stamp()
        self.buffer.append(item)
        if self.scale is not None:
            self.scale.put(weight)
        if self.receivers_waiting:
            self.receivers_line.advance(1)
        if weight < reserved_weight:
            self.senders_line.advance()
        self.settle()

    def fill_spare(self, items: Sequence[T]) -> None:
        """Fills as many of the slots that threads were given."""
        if self.plain:
            self.reserved -= len(items)
            self.extend(items)
            return
        for item in items:
            weight = self.weight_of(item)
            self.fill(item, weight, weight)

    def unreserve(self, need: Room) -> None:
        """Gives room back that will not be filled."""
        self._unadmit(need)
        self.serve_senders()

    def unreserve_soon(self, weight: int) -> None:
        """The same for a slot that was forgotten: the collector may run in any thread and in the midst of our code."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.unreserve, weight)

    def set_aside(self, count: int) -> None:
        """Moves `count` weightless slots, which the caller has seen to be free, to the reserved ones (or back)."""
        self.reserved += count
        self.settle()

    def _fits(self, weight: int, owed: int = 0) -> bool:
        """Whether there is room, also if that means to take some of the `owed` slots (all of them, or none)."""
        used = len(self.buffer) + self.reserved - owed
        if self.capacity:
            if used >= self.capacity:
                return False
        elif used - self.claimed >= len(self.receivers_line):
            return False  # rendezvous: as many slots as there are receivers waiting for an item
        # `used` is 0 for the head of an empty channel: it gets in whatever it weighs, else nothing ever would.
        return not used or self.scale is None or self.scale.fits(weight, self.taken, owed > 0)

    def _admit(self, need: Room) -> bool:
        if self.plain:
            free = self.capacity - self.reserved - len(self.buffer)
            if free <= 0:
                return False
            self.room = -1
            if isinstance(need, int):
                self.reserved += 1
            else:
                need.have = min(need.want, free)
                self.reserved += need.have
            return True
        assert isinstance(need, int)  # where items differ a batch waits for room item by item
        if not self._fits(need):
            return False
        self.reserved += 1
        if self.scale is not None:
            self.scale.reserve(need)
            self.scale.credit = 0
        return True

    def _unadmit(self, need: Room) -> None:
        if isinstance(need, int):
            self.reserved -= 1
            if self.scale is not None:
                self.scale.reserve(-need)
        else:
            self.reserved -= need.have

    def extend(self, items: Sequence[T]) -> None:
        """Puts items into weightless room that the caller has seen to be free."""
        if not self._fresh:
            self.stamp()
        self.buffer.extend(items)
        if self.receivers_waiting:
            self.receivers_line.advance()
        self.settle()

    # Going out

    def line_up_for(self, ask: Ask, early: bool = False) -> Waiter:
        """A place in the line of receivers, see `line_up`. Raises Ended when nothing will come."""
        if self.closed and not self.buffer:
            raise Ended
        waiter = self.receivers_line.join_early(ask) if early else self.receivers_line.join(ask)
        self.shut_fast_ways()
        if early:
            self.receivers_line.advance()
        if not self.capacity:
            self.senders_line.advance()  # a rendezvous: this receiver is the room they wait for
        return waiter

    def take(self) -> T:
        """Takes the next item; the caller has seen that it may."""
        self.taken += 1
        item = self.buffer.popleft()
        self._popped()
        return item

    def claim_now(self, ask: Ask) -> bool:
        """As when the line grants it: promises what is there, if that is enough."""
        return len(self.buffer) > self.claimed + self.wanted and self._claim(ask)

    def take_claimed(self) -> T:
        """Takes the item that a receiver of one was granted."""
        self.claimed -= 1
        self.taken += 1
        item = self.buffer.popleft()
        self._popped()
        return item

    def take_granted(self, ask: int, max_items: int) -> list[T]:
        """Takes what a receiver of many was granted, and what has come since."""
        self.claimed -= 1
        self.wanted -= ask - 1
        return self.pop_many(min(max_items, len(self.buffer) - self.claimed))

    def _claim(self, ask: Ask) -> bool:
        """Promises items to `ask`; True when it should go and take them, False when it waits for (more of) them."""
        free = len(self.buffer) - self.claimed - self.wanted
        if isinstance(ask, int):
            if free <= 0:
                return False
            self.claimed += 1
            self.wanted += ask - 1
            self.promised = sys.maxsize
            return True
        return ask.claim(free)

    def _unclaim(self, ask: Ask) -> None:
        """Gives a grant back; the line advances next."""
        self.shut_fast_ways()
        if isinstance(ask, int):
            self.claimed -= 1
            self.wanted -= ask - 1
        else:
            ask.forget()

    def pop_many(self, count: int) -> list[T]:
        """Takes `count` items; the caller has seen that it may."""
        buffer = self.buffer
        self.taken += count
        if count == len(buffer):
            items = list(buffer)
            buffer.clear()
        else:
            items = list(starmap(buffer.popleft, repeat((), count)))
        if self.senders_waiting or self.receivers_waiting or self.closed or not self.plain:
            self._popped(count)
        else:  # all that `settle` would do
            self.promised = self.claimed + self.wanted
        return items

    def _popped(self, count: int = 1) -> None:
        if self.senders_waiting:
            self.senders_line.advance(count if self.plain else sys.maxsize)
        if self.closed and not self.buffer:
            self.receivers_line.refuse_all(Ended)
        self.settle()

    # The end

    def close(self) -> None:
        """No more comes in. Senders that wait get Closed; receivers go on until the buffer is empty."""
        if self.closed:
            return
        self.threads.close()  # first: what threads had sent is in
        self.closed = True
        self.settle()
        self.senders_line.refuse_all(Closed)
        self.receivers_line.advance()
        if not self.buffer:
            self.receivers_line.refuse_all(Ended)
        self.settle()
