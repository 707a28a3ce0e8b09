"""Admission: gate, rate, permits and class in one decision, which is a value.

    match admission.decide(ServiceClass.BATCH, size_bytes=len(body)):     # never waits
        case Admitted(permit): ...                                        # goes on with the permit
        case Refusal() as refusal: ...                                    # Closed, Shed, Full or Expired: says when

All parts are taken in one step or none is, so nobody holds a token while he waits for a permit, and nothing has to be
undone. Those who wait do so on the ladder: by class, with aging, in fair turns between clients, each class's line
bounded. A permit is taken when there is work, never for being connected.

The permits are this admission's own (`Admission.permits`): hand them on, resize them, wait until they are idle.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headrace.flow.admission_statistics import AdmissionStatistics, explained, statistics_of
from headrace.flow.clock import Clock, LoopClock
from headrace.flow.drain_rate import DrainRate, GaugeDrain, RetryAfter
from headrace.flow.errors import Closed, Expired, Full, Refusal, Shed
from headrace.flow.gate import Gate, GateState, WaterMarks
from headrace.flow.gauges import Gauge
from headrace.flow.ladder_order import DEFAULT_BOUNDS, ClassBounds, LadderOrder, Waiting
from headrace.flow.obstacles import expected_wait_s, obstacle
from headrace.flow.permits import Ending, Permit, Permits
from headrace.flow.rate import OVER_S, Rate, TokenBucket
from headrace.flow.shedding import DEFAULT_MARKS, ServiceClass, Shedding, ShedLevel
from headrace.flow.waiters import WaitLine


@dataclass(frozen=True, slots=True)
class Admitted:
    """The answer yes. The permit is the caller's, to end exactly once."""

    permit: Permit


Decision: TypeAlias = Admitted | Refusal


class _Caller(Waiting):
    """One who asks. Waits in a line of his own, whose rules about cancellation are everybody's."""

    __slots__ = ("line", "permit", "size_bytes")

    def __init__(self, class_: ServiceClass, client: Hashable, count: int, size_bytes: int, came_at: float) -> None:
        super().__init__(class_, client, count, came_at)
        self.size_bytes = size_bytes
        self.permit: Permit | None = None
        self.line: WaitLine[None] | None = None

    @property
    def waits(self) -> bool:
        return self.line is not None and len(self.line) > 0


class Admission:
    """The door in front of a resource. Belongs to one event loop.

    Args:
        limit: how many items may be in flight; `sizing.permits` helps to choose it.
        limit_bytes: how many bytes those may hold together.
        rate: how many per second; None sets none.
        gates: each must be open. They watch gauges of their own, such as the items of a channel or the oldest age.
        bounds: how many callers of each class may wait in `admit`, and how long they may be made to wait.
        marks: at which pressure each class is refused; see `headrace.flow.shedding`.
        load: a load from outside, as a fraction, that presses on every class: the part of a backlog that is full.
        low_water: refused callers are told to come back when so many are in flight; half the limit when not given.
        observe: called with the ending and the seconds a permit was held, for every permit that ends.
        weight_of: the weight of a client in the turns of its class.
        retry_after: how estimates become answers.
        drain_rate: the meter; give one to set its slices.
        keeps_rate: whether the meter is kept here, where it runs while all permits are taken. Where permits are for a
            backlog, work is waiting long before that: then its owner runs it, and here it is only read.
        clock: what tells the time; the running loop's when not given.
    """

    def __init__(
        self,
        limit: int,
        *,
        limit_bytes: int | None = None,
        rate: Rate | None = None,
        gates: Sequence[Gate] = (),
        bounds: Mapping[ServiceClass, ClassBounds] = DEFAULT_BOUNDS,
        marks: Mapping[ServiceClass, WaterMarks] = DEFAULT_MARKS,
        load: Callable[[], float] | None = None,
        low_water: int | None = None,
        observe: Callable[[Ending, float], None] | None = None,
        weight_of: Callable[[Hashable], float] | None = None,
        retry_after: RetryAfter | None = None,
        drain_rate: DrainRate | None = None,
        keeps_rate: bool = True,
        clock: Clock | None = None,
    ) -> None:
        if low_water is not None and low_water < 0:
            raise ValueError(f"low_water cannot be negative, got {low_water}")
        self._loop = asyncio.get_running_loop()
        clock = clock or LoopClock()
        self._now = clock.now
        self._in_flight = Gauge("in_flight")
        self._limit, self._limit_bytes, self._low_water = limit, limit_bytes, low_water
        self.permits = Permits(
            limit, limit_bytes=limit_bytes, gauge=self._in_flight, observe=self._permit_ended, clock=clock
        )
        self._observe = observe
        self._bucket = TokenBucket(rate, self._now()) if rate is not None else None
        self._gates = [(gate, GaugeDrain(gate.gauge, gate.marks, self._now)) for gate in gates]
        self._order: LadderOrder[_Caller] = LadderOrder(bounds, weight_of=weight_of)
        self._shedding = Shedding(marks, now=self._now())
        self._load = load or (lambda: 0.0)
        self._retry_after = retry_after or RetryAfter()
        self._rate = drain_rate or DrainRate()
        # What is seen here goes into a meter that nobody reads when the owner keeps his own.
        self._kept = self._rate if keeps_rate else DrainRate()
        self._timer: asyncio.TimerHandle | None = None
        self._paused_until = self._now()
        self._closed = False
        self._serving = self._serve_again = False
        # Where every offer is now: waiting, admitted, cancelled or refused. Each moves on in one step.
        self._counts: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._last_in_flight = 0.0
        self._in_flight.watch(self._permits_moved)
        for gate in gates:
            gate.gauge.watch(lambda _: self._serve())

    def decide(
        self,
        class_: ServiceClass = ServiceClass.INTERACTIVE,
        *,
        client: Hashable = None,
        count: int = 1,
        size_bytes: int = 0,
    ) -> Decision:
        """Admits now, or says why not. Never waits, never raises a refusal, and takes nothing when it refuses."""
        now = self._now()
        caller = self._caller(class_, client, count, size_bytes, now)
        refusal = self._at_the_door(class_, now)
        if refusal is None and not self._order.someone_before(class_) and self._take(caller):
            return self._admitted(caller)
        return self._refuse(refusal or self._no_room(caller, now))

    async def admit(
        self,
        class_: ServiceClass = ServiceClass.INTERACTIVE,
        *,
        client: Hashable = None,
        count: int = 1,
        size_bytes: int = 0,
        deadline_s: float | None = None,
    ) -> Decision:
        """Admits, waiting for it on the ladder; or says why not.

        Answers at once: Closed; Shed; Full, when the line of its class has no room; Expired, when by the measured rate
        it could not be admitted within `deadline_s`. Later: Expired, when the deadline has passed, or Closed.

        A cancelled call holds nothing: its place is gone, and a permit and token that had reached it go to the next.
        """
        now = self._now()
        caller = self._caller(class_, client, count, size_bytes, now)
        refusal = self._at_the_door(class_, now)
        if refusal is not None:
            return self._refuse(refusal)
        if not self._order.someone_before(class_) and self._take(caller):
            return self._admitted(caller)
        refusal = self._no_place(caller, deadline_s, now)
        if refusal is not None:
            return self._refuse(refusal)
        return await self._wait(caller, deadline_s)

    def resize(self, limit: int, *, limit_bytes: int | None = None) -> None:
        """Changes the limits while in use. More lets those who wait in at once; less takes effect as permits end."""
        self.permits.resize(limit, limit_bytes=limit_bytes)
        self._limit, self._limit_bytes = limit, limit_bytes
        self._serve()

    def change_rate(self, rate: Rate) -> None:
        """Changes the rate while in use. Raises ValueError where none was set."""
        if self._bucket is None:
            raise ValueError("this admission has no rate to change")
        self._bucket.change_rate(rate, self._now())
        self._serve()

    def pause(self, duration_s: float) -> None:
        """Admits nobody for so long, such as a remote has asked for; never shortens a pause. 0 changes nothing."""
        self._paused_until = max(self._paused_until, self._now() + duration_s)
        self._kept.pause(self._now())
        self._serve()

    def close(self) -> None:
        """No more comes in: those who wait, and those who come, get Closed. What is held stays held."""
        self._closed = True
        self.permits.close()
        for caller in self._order.everyone():
            self._order.discard(caller)
            if caller.line is not None:
                caller.line.refuse_all(Closed)
        self._serve()

    def statistics(self) -> AdmissionStatistics:
        """A frozen snapshot."""
        return statistics_of(self)

    def explain(self) -> str:
        """What goes on, for people: what holds the next one up, and one line per class."""
        return explained(self)

    # Deciding

    def _caller(self, class_: ServiceClass, client: Hashable, count: int, size_bytes: int, now: float) -> _Caller:
        if count < 1 or size_bytes < 0:
            raise ValueError(f"needs at least one item and no negative size, got {count} and {size_bytes} bytes")
        self._counts["offered"] += 1
        return _Caller(class_, client, count, size_bytes, now)

    def _at_the_door(self, class_: ServiceClass, now: float) -> Refusal | None:
        """What is answered at once, to those who would wait too."""
        if self._closed:
            return Closed("this admission is closed")
        level = self._shedding.update(self._order.loads(now), now, self._load())
        if not level.refuses(class_):
            return None
        after_s = self._retry_after.after(obstacle(self, None, now).lasts_s)
        if level is ShedLevel.EVERYTHING:
            return Full(f"every class is refused: {self._shedding.because}", retry_after_s=after_s)
        return Shed(f"{class_.name.lower()} is refused: {self._shedding.because}", retry_after_s=after_s)

    def _take(self, caller: _Caller) -> bool:
        """Takes everything the caller needs, or nothing: the one place where anything is taken."""
        now = self._now()
        if self._closed or self._paused_s(now) or any(gate.state is GateState.CLOSED for gate, _ in self._gates):
            return False
        count = int(caller.cost)
        if self._bucket is not None and self._bucket.wait_s(count, now) > 0.0:
            return False
        try:
            caller.permit = self.permits.try_acquire(count, caller.size_bytes)
        except Full:
            self._kept.resume(now)  # from here on, whoever leaves is waited for
            return False
        if self._bucket is not None:
            self._bucket.take(count, now)
        if self.permits.held >= self._limit:
            self._kept.resume(now)
        if caller.line is not None:
            self._counts["waiting"] -= 1
        self._counts["admitted"] += 1
        return True

    def _give_back(self, caller: _Caller) -> None:
        """Undoes `_take` for one who was cancelled before he could run; he counts as waiting until he does."""
        permit, caller.permit = caller.permit, None
        self._counts["admitted"] -= 1
        self._counts["waiting"] += 1
        if self._bucket is not None:
            self._bucket.put_back(caller.cost, self._now())
        if permit is not None:
            permit.ignore()

    def _admitted(self, caller: _Caller) -> Admitted:
        assert caller.permit is not None
        return Admitted(caller.permit)

    def _refuse(self, refusal: Refusal) -> Refusal:
        self._refused[type(refusal).__name__] += 1
        return refusal

    def _no_room(self, caller: _Caller, now: float) -> Refusal:
        if self._closed:
            return Closed("this admission is closed")
        found = obstacle(self, caller, now)
        return Full(found.reason, retry_after_s=self._retry_after.after(found.lasts_s))

    def _no_place(self, caller: _Caller, deadline_s: float | None, now: float) -> Refusal | None:
        """Why a caller who would have to wait had better not begin to."""
        wait_s = expected_wait_s(self, caller, now)
        if deadline_s is not None and (deadline_s <= 0 or wait_s > deadline_s):
            after_s = self._retry_after.after(max(0.0, wait_s - deadline_s))
            return Expired(f"would wait about {wait_s:.1f} s, and may wait {deadline_s:g} s", retry_after_s=after_s)
        reason = self._order.no_room(caller.class_, caller.client)
        if reason is None:
            longest_s = self._order.bounds_of(caller.class_).longest_wait_s
            if wait_s <= longest_s:
                return None
            reason = f"would wait about {wait_s:.1f} s, longer than the {longest_s:g} s of its class"
        return Full(reason, retry_after_s=self._retry_after.after(obstacle(self, caller, now).lasts_s))

    # Waiting

    async def _wait(self, caller: _Caller, deadline_s: float | None) -> Decision:
        line = caller.line = WaitLine(lambda _: self._take(caller), lambda _: self._give_back(caller))
        self._order.push(caller)
        self._counts["waiting"] += 1
        # A newcomer may need the timer earlier, but must not put it off: the one that is due now would be lost.
        due_at = None if self._timer is None else self._timer.when()
        self._arm()
        if due_at is not None and (self._timer is None or self._timer.when() > due_at):
            self._set_timer(due_at)
        try:
            await line.wait(None, deadline_s)
        except Refusal as ended:
            self._counts["waiting"] -= 1
            if not isinstance(ended, Closed):
                ended.retry_after_s = self._retry_after.after(obstacle(self, caller, self._now()).lasts_s)
            return self._refuse(ended)
        except BaseException:
            self._counts["waiting"] -= 1
            self._counts["cancelled"] += 1
            raise
        finally:
            if self._order.discard(caller) or caller.permit is None:
                self._serve()  # whoever was behind may be next now
        return self._admitted(caller)

    def _serve(self) -> None:
        """Admits from the head of the ladder for as long as there is enough. Called whenever something became free."""
        if self._serving:
            self._serve_again = True
            return
        self._serving = True
        try:
            self._serve_again = True
            while self._serve_again:
                self._serve_again = False
                self._serve_from_the_head()
        finally:
            self._serving = False
        self._arm()

    def _serve_from_the_head(self) -> None:
        now = self._now()
        while (head := self._order.peek(now, self._rate.per_s(now))) is not None:
            line = head.line
            if line is None or not head.waits:  # his deadline passed or he was cancelled, and he has not run yet
                self._order.discard(head)
                continue
            line.advance()
            if head.waits:
                return
            self._order.take(head)
        if self.permits.held < self._limit:
            self._kept.pause(now)  # nobody waits: who leaves now says nothing about how fast it can go

    def _arm(self) -> None:
        """Keeps at most one timer, for what only time changes; everything else calls `_serve` itself."""
        self._set_timer(None)
        head = self._order.head()
        if head is None or self._closed:
            return
        now = self._now()
        wait_s = self._paused_s(now)
        if self._bucket is not None:
            wait_s = max(wait_s, self._bucket.wait_s(head.cost, now))
        if wait_s:
            self._kept.pause(now)  # it is held back by the clock, not by those in flight
        if len(self._order) > 1:  # somebody else may become the head, and need less than this one
            promotion_s = self._order.next_promotion_s(now, self._rate.per_s(now))
            if promotion_s is not None:
                wait_s = min(wait_s or promotion_s, max(promotion_s, self._paused_s(now), OVER_S))
        if wait_s:
            self._set_timer(self._loop.time() + wait_s)

    def _set_timer(self, at: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if at is None else self._loop.call_at(at, self._serve)

    def _paused_s(self, now: float) -> float:
        left_s = self._paused_until - now
        return left_s if left_s > OVER_S else 0.0

    def _permits_moved(self, in_flight: float) -> None:
        fell_by, self._last_in_flight = self._last_in_flight - in_flight, in_flight
        if fell_by > 0:
            self._kept.record(fell_by, self._now())
            self._serve()

    def _permit_ended(self, ending: Ending, held_s: float) -> None:
        if self.permits.held < self._limit:
            self._serve()  # once more: only now have those been served who wait for the permits themselves
        if self._observe is not None:
            self._observe(ending, held_s)
