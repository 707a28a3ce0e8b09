"""The counts of a channel, which make it exact, and the fast paths that they open.

`reserved` are slots given to senders that have not filled them yet; `claimed` are items promised to receivers that have
not run yet, one for each at least; `wanted` is how many more those receivers asked for: what comes before they run is
theirs too, so that one wake-up moves a whole batch. All move only with a grant, so:

    len(buffer) + reserved <= capacity                  at every instant, but for what is owed
    claimed <= len(buffer)                              at every instant
    a sender waits    => there is no room for it        (P9, checked after every change by `advance`)
    a receiver waits  => len(buffer) <= claimed + wanted    (the same; wanted is 0 once everybody has run)

Who would have to wait, and knows that the other side is about to run, steps back for a turn of the loop before it lines
up: that costs a third of being woken, and mostly it was enough. What comes free in that turn is kept for it, so that it
keeps its place: slots as `reserved` ones that are `owed` (beyond the capacity until there are so many), items as
`wanted`.
"""

from __future__ import annotations

import asyncio
import sys
import types
from collections import deque
from collections.abc import Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from headrace.flow.ages import STAMP_S, Stamps
from headrace.flow.clock import Clock, LoopClock
from headrace.flow.gauges import Gauge
from headrace.flow.waiters import WaitLine
from headrace.flow.weights import Scale

if TYPE_CHECKING:
    from headrace.flow.collecting import Collecting
    from headrace.flow.sending import BatchRoom

T = TypeVar("T")


Ask: TypeAlias = "int | Collecting[Any]"  # a receiver that does not linger waits for one item and takes up to so many
Room: TypeAlias = "int | BatchRoom"  # a sender of one item waits for a slot of this weight


class Counts(Generic[T]):
    """The state of a channel and its fast paths. The ends read it; only `Slots` changes it, but for those fast paths.

    `room`, `credit` and `promised` make those fast paths possible: an item may simply be appended while there are fewer
    than `room`, or, where things are weighed, against one `credit` of the scale each; and popped (and counted as
    `taken`) while there are more than `promised`. Where more is to be done (someone waits, the channel is closed, the
    stamp is old) there is no credit, and no number of items meets the others. Every change that could make them too
    generous switches the fast path off at once; `settle` switches it on again.
    """

    __slots__ = (
        "_fresh",
        "_gauge",
        "_no_context",
        "buffer",
        "capacity",
        "claimed",
        "closed",
        "loop",
        "owed",
        "plain",
        "promised",
        "receivers",
        "receivers_line",
        "receivers_stepping",
        "receivers_waiting",
        "reserved",
        "room",
        "scale",
        "senders",
        "senders_line",
        "senders_stepping",
        "senders_waiting",
        "stamps",
        "taken",
        "wanted",
    )

    def __init__(
        self,
        capacity: int,
        scale: Scale[T] | None,
        gauge: Gauge | None,
        clock: Clock | None,
        senders_line: WaitLine[Room],
        receivers_line: WaitLine[Ask],
    ) -> None:
        self.capacity = capacity
        self.scale = scale
        self.buffer: deque[T] = deque()
        self.taken = 0  # items ever received: the number of the first in the buffer
        self._gauge = gauge
        self.loop = asyncio.get_running_loop()
        self._no_context = Context()
        self.stamps = Stamps((clock or LoopClock(self.loop)).now)
        self._fresh = False  # whether what comes in now may share the last stamp
        self.reserved = 0
        self.owed = 0  # of the reserved slots, those for senders who step back: there when receivers make room
        self.senders_stepping = 0
        self.receivers_stepping = 0
        self.claimed = 0
        self.wanted = 0
        self.closed = False
        self.senders = 0
        self.receivers = 0
        self.senders_line = senders_line
        self.receivers_line = receivers_line
        self.senders_waiting = self.senders_line.waiting
        self.receivers_waiting = self.receivers_line.waiting
        self.plain = capacity > 0 and scale is None and gauge is None
        self.room = -1
        self.promised = sys.maxsize
        self.settle()

    @property
    def ended(self) -> bool:
        """Whether nothing more will ever be received."""
        return self.closed and not self.buffer

    def weight_of(self, item: T) -> int:
        """The weight of an item; 0 where nothing is weighed. Raises ValueError for a negative one."""
        return 0 if self.scale is None else self.scale.weight_of(item)

    # Stepping back

    def receivers_come(self) -> bool:
        """Whether a sender who finds no room had better step back: receivers are about to run, nobody is before him."""
        return (self.claimed > 0 or self.wanted > 0) and self.capacity > 0 and not self.senders_waiting

    @types.coroutine
    def step_back(self, count: int, weight: int) -> Generator[None, None, None]:
        """Lets receivers run before a sender looks again; the next slots to come free are kept for it until then."""
        self.senders_stepping += 1
        self.reserved += count
        self.owed += count
        self.room -= count  # exact, or too low
        scale = self.scale
        if scale is not None:
            scale.reserve(weight)
            scale.owed += weight
            scale.credit = 0
        back = False
        try:
            yield
            back = True
        finally:
            self.senders_stepping -= 1
            self.reserved -= count
            self.owed -= count
            if scale is not None:
                scale.reserve(-weight)
                scale.owed -= weight
            if not back:
                self.serve_senders()

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

    def serve_senders(self) -> None:
        """What was kept for somebody is free."""
        self.senders_line.advance()
        self.settle()

    # The fast paths

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
        elif self._gauge is not None:
            self._gauge.set(len(self.buffer))
        elif self.scale is not None and self.capacity:
            self.scale.settle(self.taken)
            promised = self.claimed + self.wanted
            self.promised = sys.maxsize if self.senders_waiting else promised
            if self.closed or not self._fresh or self.senders_waiting:
                self.scale.credit = 0
            else:
                room = self.capacity - self.reserved
                if self.receivers_waiting and promised < room:
                    room = promised
                self.scale.credit = max(0, room - len(self.buffer))

    def shut_fast_ways(self) -> None:
        """Until something settles."""
        self.room = -1
        if self.scale is not None:
            self.scale.credit = 0

    def stamp(self) -> None:
        """The next item comes in now; so do those of the next `STAMP_S`."""
        self.loop.call_later(STAMP_S, self._stamp_is_old, context=self._no_context)
        self.stamps.stamp(self.taken + len(self.buffer), self.taken)
        self._fresh = True

    def _stamp_is_old(self) -> None:
        self._fresh = False
        self.shut_fast_ways()
