"""The rules of a channel: who may put an item in, and who may take which out.

Three counts make it exact. `reserved` are slots given to senders that have not filled them yet; `claimed` are items
promised to receivers that have not run yet, one for each at least; `wanted` is how many more those receivers asked for:
what comes before they run is theirs too, so that one wake-up moves a whole batch. All move only with a grant, so:

    len(buffer) + reserved <= capacity                  at every instant
    claimed <= len(buffer)                              at every instant
    a sender waits    => there is no room for it        (P9, checked after every change by `advance`)
    a receiver waits  => len(buffer) <= claimed + wanted    (the same; wanted is 0 once everybody has run)

A cancelled waiter gives its slot or claim back; the item itself never moves before the task that takes it runs.
"""

from __future__ import annotations

import asyncio
import sys
import types
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextvars import Context
from itertools import repeat, starmap
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from headrace.flow.ages import STAMP_S, Stamps
from headrace.flow.clock import Clock, LoopClock
from headrace.flow.errors import Closed, Ended
from headrace.flow.gauges import Gauge
from headrace.flow.threads import ThreadDoor
from headrace.flow.waiters import Waiter, WaitLine

if TYPE_CHECKING:
    from headrace.flow.collecting import Collecting
    from headrace.flow.sending import BatchRoom

T = TypeVar("T")


Ask: TypeAlias = "int | Collecting[Any]"  # a receiver that does not linger waits for one item and takes up to so many
Room: TypeAlias = "int | BatchRoom"  # a sender of one item waits for a slot of this weight


class Slots(Generic[T]):
    """The shared inside of a channel. Its ends read it; only its methods change it, but for the ends' fast paths.

    `room`, `credit` and `promised` make those fast paths possible: an item may simply be appended while there are fewer
    than `room`, or, where things are weighed, against one `credit` each; and popped (and counted as `taken`) while
    there are more than `promised`. Where more is to be done (someone waits, the channel is closed, the stamp is old)
    there is no credit, and no number of items meets the others. Every change that could make them too generous switches
    the fast path off at once; `settle` switches it on again.
    """

    __slots__ = (
        "_fresh",
        "_gauge",
        "_no_context",
        "_weighed_out",
        "buffer",
        "capacity",
        "claimed",
        "closed",
        "credit",
        "loop",
        "owed",
        "owed_weight",
        "plain",
        "promised",
        "receivers",
        "receivers_line",
        "receivers_stepping",
        "receivers_waiting",
        "reserved",
        "reserved_weight",
        "room",
        "scale",
        "senders",
        "senders_line",
        "senders_stepping",
        "senders_waiting",
        "stamps",
        "taken",
        "threads",
        "wanted",
        "weigh",
        "weighed",
        "weight",
        "weight_capacity",
        "weight_limit",
        "weights",
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
        self.weight_limit = sys.maxsize if weight_capacity is None else weight_capacity
        self.buffer: deque[T] = deque()
        self.taken = 0  # items ever received: the number of the first in the buffer
        # Of the items in `buffer`, when they are weighed, and of those that were taken since `settle_weights`, which is
        # called before more than `capacity` others can have come.
        self.weights: deque[int] = deque()
        self._weighed_out = 0  # of the `taken`, those whose weights are settled
        self.weigh = weigh
        self.scale: Callable[[T], int] = weigh or (lambda _: 0)  # the same, for where it is there for sure
        self._gauge = gauge
        self.loop = asyncio.get_running_loop()
        self._no_context = Context()
        self.stamps = Stamps((clock or LoopClock(self.loop)).now)
        self._fresh = False  # whether what comes in now may share the last stamp
        self.weight = 0  # of what is in, of what is reserved, and of what is not settled
        self.reserved = 0
        self.reserved_weight = 0
        self.owed = 0  # of the reserved slots, those for senders who step back: there when receivers make room
        self.owed_weight = 0
        self.senders_stepping = 0
        self.receivers_stepping = 0
        self.claimed = 0
        self.wanted = 0
        self.closed = False
        self.senders = 0
        self.receivers = 0
        self.senders_line: WaitLine[Room] = WaitLine(self._admit, self._unadmit)
        self.receivers_line: WaitLine[Ask] = WaitLine(self._claim, self._unclaim)
        self.senders_waiting = self.senders_line.waiting
        self.receivers_waiting = self.receivers_line.waiting
        self.threads: ThreadDoor[T] = ThreadDoor(self, self.loop)
        self.plain = capacity > 0 and weigh is None and gauge is None
        self.weighed = capacity > 0 and weigh is not None and gauge is None
        self.room = -1
        self.credit = 0
        self.promised = sys.maxsize
        self.settle()

    @property
    def ended(self) -> bool:
        """Whether nothing more will ever be received."""
        return self.closed and not self.buffer

    def weight_of(self, item: T) -> int:
        """The weight of an item; 0 where nothing is weighed. Raises ValueError for a negative one."""
        if self.weigh is None:
            return 0
        weight = self.weigh(item)
        if weight < 0:
            raise ValueError(f"an item cannot weigh {weight}")
        return weight

    # Coming in

    def put(self, item: T, sender_closed: bool) -> bool:
        """Puts an item in now, or returns False; see `Sender.try_send`."""
        weigh = self.weigh
        if weigh is None:
            weight = 0
            full = len(self.buffer) >= self.capacity - self.reserved
            if full and self.room >= 0 and not (sender_closed or self.threads.spare):
                return False  # it is open, and nothing is special but that
        else:
            weight = weigh(item)
            if weight < 0:
                raise ValueError(f"an item cannot weigh {weight}")
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
        return self.put_many_first(items)

    def admit_now(self, weight: int, sender_closed: bool = False) -> bool:
        """Reserves a slot if there is one and nobody waits for it. Raises Closed when no more comes in."""
        if self.closed or sender_closed:
            raise Closed("the channel is closed" if self.closed else "this sender was closed")
        if self.senders_waiting:
            return False
        return self._admit(weight) or (self.threads.reclaim() and self._admit(weight))

    def receivers_come(self) -> bool:
        """Whether a sender who finds no room had better step back: receivers are about to run, nobody is before him."""
        return (self.claimed > 0 or self.wanted > 0) and self.capacity > 0 and not self.senders_waiting

    @types.coroutine
    def step_back(self, count: int, weight: int) -> Generator[None, None, None]:
        """Lets receivers run before a sender looks again; the next slots to come free are kept for it until then."""
        self.senders_stepping += 1
        self.reserved += count
        self.owed += count
        if weight:
            self.reserved_weight += weight
            self.owed_weight += weight
            self.weight += weight
        self.room -= count  # exact, or too low
        self.credit = 0
        back = False
        try:
            yield
            back = True
        finally:
            self.senders_stepping -= 1
            self.reserved -= count
            self.owed -= count
            if weight:
                self.reserved_weight -= weight
                self.owed_weight -= weight
                self.weight -= weight
            if not back:
                self.serve_senders()

    def put_first(self, item: T, weight: int) -> bool:
        """As `put`, for a sender that stepped back: those who wait came later."""
        if self.closed:
            raise Closed("the channel is closed", item=item)
        if not self._fits(weight):
            return False
        self.reserved += 1
        self.fill(item, 0, weight)
        return True

    def put_many_first(self, items: Sequence[T]) -> int:
        """As `put_many`, for a sender that stepped back, or is the first anyway."""
        if self.closed:
            raise Closed("the channel is closed")
        free = self.capacity - self.reserved - len(self.buffer)
        if free <= 0:
            return 0
        if free < len(items):
            items = items[:free]
        self.extend(items)
        return len(items)

    def serve_senders(self) -> None:
        """What was kept for somebody is free."""
        self.senders_line.advance()
        self.settle()

    def line_up(self, need: Room, deadline_s: float | None = None, early: bool = False) -> Waiter:
        """A place in the line of senders; before those who came later than one that stepped back."""
        waiter = self.senders_line.join_early(need) if early else self.senders_line.join(need, deadline_s)
        self.promised = sys.maxsize
        self.credit = 0
        if early:  # what was kept for it may be enough for one before it
            self.senders_line.advance()
        if self.receivers_waiting:  # whoever lingers for more takes what there is: a sender waits
            self.receivers_line.advance()
        return waiter

    def fill(self, item: T, reserved_weight: int, weight: int) -> None:
        """Fills room that was taken with `reserved_weight`. Raises Closed, with the item, when no more comes in."""
        self.reserved -= 1
        if reserved_weight:
            self.reserved_weight -= reserved_weight
            self.weight -= reserved_weight
        if self.closed:
            raise Closed("the channel was closed while its room was being filled", item=item)
        if not self._fresh:
            self._stamp()
        self.buffer.append(item)
        if self.weigh is not None:
            self.weights.append(weight)
            self.weight += weight
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

    def _fits(self, weight: int) -> bool:
        used = len(self.buffer) + self.reserved
        if self.capacity:
            if used >= self.capacity:
                return False
        elif used - self.claimed >= len(self.receivers_line):
            return False  # rendezvous: as many slots as there are receivers waiting for an item
        # `used` is 0 for the head of an empty channel: it gets in whatever it weighs, else nothing ever would.
        return not used or self.settled_weight() + weight <= self.weight_limit

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
        self.reserved_weight += need
        self.weight += need
        self.credit = 0
        return True

    def _unadmit(self, need: Room) -> None:
        if isinstance(need, int):
            self.reserved -= 1
            self.reserved_weight -= need
            self.weight -= need
        else:
            self.reserved -= need.have

    def extend(self, items: Sequence[T]) -> None:
        """Puts items into weightless room that the caller has seen to be free."""
        if not self._fresh:
            self._stamp()
        self.buffer.extend(items)
        if self.receivers_waiting:
            self.receivers_line.advance()
        self.settle()

    def shut_fast_ways(self) -> None:
        """Until something settles."""
        self.room = -1
        self.credit = 0

    def settled_weight(self) -> int:
        """The weight of what is in and reserved. Taking items leaves their weights here, for it is cheaper in bulk."""
        gone = self.taken - self._weighed_out
        if gone and self.weigh is not None:
            self.weight -= sum(starmap(self.weights.popleft, repeat((), gone)))
            self._weighed_out = self.taken
        return self.weight

    def _stamp(self) -> None:
        self.loop.call_later(STAMP_S, self._stamp_is_old, context=self._no_context)
        self.stamps.stamp(self.taken + len(self.buffer), self.taken)
        self._fresh = True

    def _stamp_is_old(self) -> None:
        self._fresh = False
        self.shut_fast_ways()

    # Going out

    @types.coroutine
    def step_back_for(self, ask: int) -> Generator[None, None, None]:
        """Lets senders run before a receiver looks again; what comes until then is kept for it, up to `ask`."""
        self.receivers_stepping += 1
        self.wanted += ask
        self.promised = sys.maxsize
        back = False
        try:
            yield
            back = True
        finally:
            self.receivers_stepping -= 1
            self.wanted -= ask
            if not back:
                self.receivers_line.advance()
                self.settle()

    def line_up_for(self, ask: Ask, early: bool = False) -> Waiter:
        """A place in the line of receivers, see `line_up`. Raises Ended when nothing will come."""
        if self.closed and not self.buffer:
            raise Ended
        waiter = self.receivers_line.join_early(ask) if early else self.receivers_line.join(ask)
        self.shut_fast_ways()
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

    def settle(self) -> None:
        """Switches the fast paths on where nothing is special, and shows the depth."""
        if self.plain:
            promised = self.claimed + self.wanted
            self.promised = sys.maxsize if self.senders_waiting else promised
            if self.closed or not self._fresh:
                self.room = -1
            else:
                self.room = self.capacity - self.reserved
                if self.receivers_waiting and promised < self.room:
                    self.room = promised
        elif self.weighed:
            self.settled_weight()
            promised = self.claimed + self.wanted
            self.promised = sys.maxsize if self.senders_waiting else promised
            if self.closed or not self._fresh or self.senders_waiting:
                self.credit = 0
            else:
                room = self.capacity - self.reserved
                if self.receivers_waiting and promised < room:
                    room = promised
                self.credit = max(0, room - len(self.buffer))
        elif self._gauge is not None:
            self._gauge.set(len(self.buffer))
