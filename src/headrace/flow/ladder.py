"""The ladder: a channel of three classes, each with its own bound, and one answer to who comes in and who is next.

    ladder = Ladder()
    ladder.try_send(item, ServiceClass.BATCH, client="acme", deadline_s=60)   # now, or the refusal and why
    item = await ladder.recv()                                                # the next, by class, age and fair turn

Four things can be said to who offers, in this order: Closed; Shed (this class is refused at the present load, a higher
one is not); Full (every class is refused; its line, or its client's part of it, has no room; or the wait promised to
its class could not be kept); Expired (by the measured rate it could not be received by its deadline).
`headrace.flow.shedding` decides who is refused and `headrace.flow.ladder_order` who is next; this file lets receivers
wait and deadlines pass.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.flow.clock import Clock, LoopClock
from headrace.flow.drain_rate import DrainRate, RetryAfter
from headrace.flow.errors import Closed, Empty, Ended, Expired, Full, Refusal, Shed
from headrace.flow.gate import WaterMarks
from headrace.flow.ladder_order import DEFAULT_BOUNDS, ClassBounds, LadderOrder, Waiting
from headrace.flow.shedding import DEFAULT_MARKS, ServiceClass, Shedding, ShedLevel
from headrace.flow.waiters import WaitLine

T = TypeVar("T")


class _Item(Waiting, Generic[T]):
    __slots__ = ("item", "timer")

    def __init__(self, item: T, class_: ServiceClass, client: Hashable, cost: float, came_at: float) -> None:
        super().__init__(class_, client, cost, came_at)
        self.item = item
        self.timer: asyncio.TimerHandle | None = None


@dataclass(frozen=True, slots=True)
class ClassStatistics:
    """One class at one moment; `refused` counts by kind, `expired` those whose deadline passed while they waited."""

    depth: int
    capacity: int
    clients: int
    oldest_age_s: float
    longest_wait_s: float
    accepted: int
    served: int
    expired: int
    handed_back: int
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LadderStatistics:
    """A ladder at one moment. For each class: accepted = served + expired + handed back + depth."""

    level: ShedLevel
    because: str
    drain_rate_per_s: float | None
    promoted: int
    waiting_receivers: int
    closed: bool
    classes: Mapping[ServiceClass, ClassStatistics]


class Ladder(Generic[T]):
    """Bounded lines of three classes in front of the same workers. Belongs to one event loop.

    The rate is measured where receivers come back for more and find it: then all of them are busy, and how fast they
    come is how fast the ladder drains.

    Args:
        bounds: room and longest wait of each class. `sizing.capacity` and `sizing.longest_wait` help to choose them.
        marks: when each class is refused and taken again.
        quantum: see `FairTurns`; in the unit of `cost`.
        weight_of: the weight of a client in the turns of its class.
        load: the load outside the ladder, as a fraction, such as the part of a memory budget that is in use.
        on_expired: is given every item whose deadline passed while it waited, in that moment. Must not raise.
        retry_after: how estimates become answers.
        drain_rate: the meter; give one to set its slices.
        clock: what tells the time; the running loop's when not given.
    """

    def __init__(
        self,
        bounds: Mapping[ServiceClass, ClassBounds] = DEFAULT_BOUNDS,
        *,
        marks: Mapping[ServiceClass, WaterMarks] = DEFAULT_MARKS,
        quantum: float = 1.0,
        weight_of: Callable[[Hashable], float] | None = None,
        load: Callable[[], float] | None = None,
        on_expired: Callable[[T], object] | None = None,
        retry_after: RetryAfter | None = None,
        drain_rate: DrainRate | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = (clock or LoopClock()).now
        self._order: LadderOrder[_Item[T]] = LadderOrder(bounds, quantum=quantum, weight_of=weight_of)
        self._shedding = Shedding(marks, now=self._now())
        self._load = load or (lambda: 0.0)
        self._on_expired = on_expired
        self._retry_after = retry_after or RetryAfter()
        self._rate = drain_rate or DrainRate()
        # Items promised to receivers that were woken and have not run yet. Which ones is decided when they run.
        self._claimed = 0
        self._receivers: WaitLine[None] = WaitLine(self._claim, self._unclaim)
        self._closed = False
        self._counts: dict[ServiceClass, Counter[str]] = {class_: Counter() for class_ in ServiceClass}
        self._refused: dict[ServiceClass, Counter[str]] = {class_: Counter() for class_ in ServiceClass}

    def try_send(
        self,
        item: T,
        class_: ServiceClass = ServiceClass.INTERACTIVE,
        *,
        client: Hashable = None,
        cost: float = 1.0,
        deadline_s: float | None = None,
    ) -> None:
        """Lets an item in, or says why not. Never waits.

        Args:
            item: what to send.
            class_: how urgent it is.
            client: who sends it; None for nobody in particular.
            cost: what it counts for in the fair turns and in the measured rate, such as its pages.
            deadline_s: it must be received within so many seconds; if it is not, `on_expired` gets it.

        Raises:
            Closed, Shed, Full, Expired: see the top of this file. The item is on the error, and `retry_after_s` is an
                integer (but for Closed, where another try makes no sense).
        """
        now = self._now()
        refusal = self._refusal(class_, client, cost, deadline_s, now)
        if refusal is not None:
            refusal.item = item
            self._refused[class_][type(refusal).__name__] += 1
            raise refusal
        entry = _Item(item, class_, client, cost, now)
        self._order.push(entry)
        self._counts[class_]["accepted"] += 1
        if deadline_s is not None:
            entry.timer = self._loop.call_later(deadline_s, self._expire, entry)
        self._receivers.advance()

    async def recv(self) -> T:
        """Receives the next item, waiting for one in line.

        A cancelled recv takes nothing: the item stays where it was.

        Raises:
            Ended: no more comes in, and everything that was in has been received.
        """
        while True:
            if not self._receivers.waiting and self._claim(None):
                self._claimed -= 1
                return self._take(waited=False)
            if self._closed and not self._order:
                raise Ended
            self._rate.pause(self._now())  # a worker is idle
            await self._receivers.wait(None)
            self._claimed -= 1
            if self._order:  # empty when what was promised expired in the meantime
                return self._take(waited=True)

    def try_recv(self) -> T:
        """The next item, if there is one that no waiting receiver has been promised.

        Raises:
            Empty: there is none now.
            Ended: there will never be one.
        """
        if self._claim(None):
            self._claimed -= 1
            return self._take(waited=False)
        if self._closed and not self._order:
            raise Ended
        raise Empty

    def close(self) -> None:
        """No more comes in. What is in stays readable until `Ended`. Closing twice changes nothing."""
        self._closed = True
        if not self._order:
            self._receivers.refuse_all(Ended)

    def hand_back(self) -> list[T]:
        """Closes, and takes out everything that waits, in order of class and arrival: for a drain that must end now."""
        self._closed = True
        entries = self._order.everyone()
        for entry in entries:
            self._leave(entry, "handed_back")
        self._receivers.refuse_all(Ended)
        return [entry.item for entry in entries]

    def __len__(self) -> int:
        return len(self._order)

    def __aiter__(self) -> Ladder[T]:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.recv()
        except Ended:
            raise StopAsyncIteration from None

    def statistics(self) -> LadderStatistics:
        """A frozen snapshot."""
        now = self._now()
        level = self._shedding.update(self._order.loads(now), now, self._load())
        return LadderStatistics(
            level=level,
            because=self._shedding.because,
            drain_rate_per_s=self._rate.per_s(now),
            promoted=self._order.promoted,
            waiting_receivers=len(self._receivers),
            closed=self._closed,
            classes={class_: self._class_statistics(class_, now) for class_ in ServiceClass},
        )

    def explain(self) -> str:
        """What goes on, for people: the level and why, and one line per class."""
        now, s = self._now(), self.statistics()
        rate = "not known yet" if s.drain_rate_per_s is None else f"{s.drain_rate_per_s:.3g} per s"
        lines = [f"ladder {self._shedding.explain(now)}; drain rate {rate}; {s.waiting_receivers} receivers wait"]
        for class_, its in s.classes.items():
            taken = "refused" if s.level.refuses(class_) else "taken"
            lines.append(
                f"  {class_.name.lower()}: {taken}, {its.depth} of {its.capacity} waiting from {its.clients} clients, "
                f"oldest {its.oldest_age_s:.1f} s of at most {its.longest_wait_s:g} s"
            )
        return "\n".join(lines)

    def _refusal(
        self, class_: ServiceClass, client: Hashable, cost: float, deadline_s: float | None, now: float
    ) -> Refusal | None:
        if self._closed:
            return Closed("this ladder is closed")
        order, bounds = self._order, self._order.bounds_of(class_)
        before, rate = order.cost_before(class_), self._rate.per_s(now)
        half_s = max(0.0, before - bounds.capacity / 2) / rate if rate else None
        level = self._shedding.update(order.loads(now), now, self._load())
        if level is ShedLevel.EVERYTHING:
            return Full(f"every class is refused: {self._shedding.because}", retry_after_s=self._after(half_s))
        if level.refuses(class_):
            detail = f"{class_.name.lower()} is refused: {self._shedding.because}"
            return Shed(detail, retry_after_s=self._after(half_s))
        reason = order.no_room(class_, client)
        if reason is not None:
            return Full(reason, retry_after_s=self._after(half_s))
        wait_s = before / rate if rate else 0.0
        if deadline_s is not None and (deadline_s <= 0 or wait_s > deadline_s):
            detail = f"would wait about {wait_s:.1f} s, and may wait {deadline_s:g} s"
            return Expired(detail, retry_after_s=self._after(wait_s - deadline_s))
        if wait_s > bounds.longest_wait_s:
            detail = f"would wait about {wait_s:.1f} s, longer than the {bounds.longest_wait_s:g} s of its class"
            return Full(detail, retry_after_s=self._after(wait_s - bounds.longest_wait_s))
        return None

    def _after(self, estimate_s: float | None) -> int:
        return self._retry_after.after(estimate_s)

    def _claim(self, _: None) -> bool:
        if len(self._order) <= self._claimed:
            return False
        self._claimed += 1
        return True

    def _unclaim(self, _: None) -> None:
        self._claimed -= 1

    def _take(self, *, waited: bool) -> T:
        now = self._now()
        entry = self._order.peek(now, self._rate.per_s(now))
        assert entry is not None
        if waited or self._receivers.waiting:
            self._rate.pause(now)
        else:
            self._rate.record(entry.cost, now)
        self._order.take(entry)
        self._counted_out(entry, "served")
        if self._order and not self._receivers.waiting:
            self._rate.resume(now)
        else:
            self._rate.pause(now)
        if self._closed and not self._order:
            self._receivers.refuse_all(Ended)
        return entry.item

    def _expire(self, entry: _Item[T]) -> None:
        if entry in self._order:
            self._leave(entry, "expired")
            if self._closed and not self._order:
                self._receivers.refuse_all(Ended)
            if self._on_expired is not None:
                self._on_expired(entry.item)

    def _leave(self, entry: _Item[T], how: str) -> None:
        self._order.discard(entry)
        self._counted_out(entry, how)
        if not self._order:
            self._rate.pause(self._now())

    def _counted_out(self, entry: _Item[T], how: str) -> None:
        self._counts[entry.class_][how] += 1
        if entry.timer is not None:
            entry.timer.cancel()

    def _class_statistics(self, class_: ServiceClass, now: float) -> ClassStatistics:
        order, counts, bounds = self._order, self._counts[class_], self._order.bounds_of(class_)
        return ClassStatistics(
            depth=order.depth(class_),
            capacity=bounds.capacity,
            clients=order.clients(class_),
            oldest_age_s=order.oldest_age_s(class_, now),
            longest_wait_s=bounds.longest_wait_s,
            accepted=counts["accepted"],
            served=counts["served"],
            expired=counts["expired"],
            handed_back=counts["handed_back"],
            refused=dict(self._refused[class_]),
        )
