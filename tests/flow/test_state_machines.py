"""State machines: each primitive against a plain model that waits for nobody, step by step, to the end of every wait.

A step starts calls, cancels them, or lets time pass; then everything that can run has run, and both must agree on who
got what, in which order, on who still waits, and on every number of the statistics.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.flow import (
    Closed,
    Ended,
    Ending,
    Expired,
    Full,
    Gate,
    GateState,
    Gauge,
    Permit,
    Permits,
    Rate,
    RateLimit,
    Receiver,
    Sender,
    Slot,
    TokenBucket,
    channel,
)
from headrace.flow.testing import VirtualLoop, turns

T = TypeVar("T")
TURNS = 16  # enough for every chain of wake-ups that one step can set off
MACHINE_SETTINGS = settings(max_examples=150, stateful_step_count=40, deadline=None)
DEADLINES = st.sampled_from([None, None, 1.5, 4.5])


class Machine(RuleBasedStateMachine):
    """What the machines share: a virtual loop, and calls whose ends are logged in the order in which they come."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.calls: dict[int, asyncio.Task[Any]] = {}
        self.log: list[tuple[int, Any]] = []  # what came of which call
        self.expected: list[tuple[int, Any]] = []
        self.number = 0

    def run(self, step: Callable[[], Any]) -> Any:
        """Does one thing in the loop, and lets everything come to rest."""

        async def main() -> Any:
            result = step()
            await turns(TURNS)
            return result

        return self.runner.run(main())

    def call(
        self, coroutine: Callable[[], Coroutine[Any, Any, Any]], outcome: Callable[[Any], Any] = lambda x: x
    ) -> int:
        """Starts a call; its number says in the log what came of it."""
        self.number += 1
        number = self.number

        async def logged() -> Any:
            try:
                result = await coroutine()
            except (Closed, Ended, Expired) as error:
                self.log.append((number, type(error)))
            except asyncio.CancelledError:
                self.log.append((number, asyncio.CancelledError))
                raise
            else:
                self.log.append((number, outcome(result)))
            finally:
                del self.calls[number]

        def start() -> None:
            self.calls[number] = asyncio.get_running_loop().create_task(logged())

        self.run(start)
        return number

    def apart(self, deadline_s: float | None) -> float | None:
        """No two deadlines at the same moment: which of them comes first would be the loop's choice."""
        return None if deadline_s is None else deadline_s + self.number / 1024

    def now(self) -> float:
        return self.runner.get_loop().time()

    def sleep(self, duration_s: float) -> None:
        async def main() -> None:
            await asyncio.sleep(duration_s)
            await turns(TURNS)

        self.runner.run(main())

    def sort_logs(self) -> None:
        self.log.sort(key=lambda entry: entry[0])
        self.expected.sort(key=lambda entry: entry[0])

    def check_log(self) -> None:
        assert self.log == self.expected
        self.log.clear()
        self.expected.clear()

    def teardown(self) -> None:
        self.end_what_is_held()
        self.runner.close()

    def end_what_is_held(self) -> None:
        """Before the loop is gone."""


# The channel


@dataclass
class Sends:
    """A sender that waits: the items it has not got rid of, and when it gives up."""

    number: int
    items: list[int]
    until: float = math.inf
    sent: int = 0


@dataclass
class ChannelModel:
    capacity: int
    weight_capacity: int | None
    expected: list[tuple[int, Any]]
    items: deque[int] = field(default_factory=deque)
    reserved: list[int] = field(default_factory=list)
    senders: list[Sends] = field(default_factory=list)
    receivers: list[tuple[int, int]] = field(default_factory=list)  # number, the most it takes
    closed: bool = False
    pledged: list[int] = field(default_factory=list)  # weights that were granted to senders who have not run yet

    def weight_of(self, item: int) -> int:
        return 0 if self.weight_capacity is None else item

    @property
    def weight(self) -> int:
        return sum(self.weight_of(item) for item in self.items)

    def fits(self, item: int) -> bool:
        used = len(self.items) + len(self.reserved) + len(self.pledged)
        if used >= self.capacity:
            return False
        total = self.weight + sum(self.reserved) + sum(self.pledged) + self.weight_of(item)
        return not used or self.weight_capacity is None or total <= self.weight_capacity

    def come(self, sends: Sends) -> None:
        if self.closed:
            self.expected.append((sends.number, Closed))
            return
        self.go_on(sends)
        self.settle()

    def go_on(self, sends: Sends) -> None:
        """Puts in what there is room for if nobody waits; lines up with the rest."""
        while sends.items and not self.senders and self.fits(sends.items[0]):
            self.items.append(sends.items.pop(0))
            sends.sent += 1
        if sends.items:
            self.senders.append(sends)
        else:
            self.expected.append((sends.number, sends.sent))

    def settle(self) -> None:
        while True:
            granted = self.grant()  # to senders, when a place in line was given up
            while self.items and self.receivers:
                number, most = self.receivers.pop(0)
                taken = [self.items.popleft() for _ in range(min(most, len(self.items)))]
                self.expected.append((number, taken))
                granted += self.grant()
            for sends, count in granted:
                for _ in range(count):
                    self.items.append(sends.items.pop(0))
                sends.sent += count
                del self.pledged[:count]
                self.go_on(sends)
            if self.closed and not self.items:
                self.expected.extend((number, Ended) for number, _ in self.receivers)
                self.receivers.clear()
            if not granted:
                return

    def grant(self) -> list[tuple[Sends, int]]:
        granted = []
        while self.senders and self.fits(self.senders[0].items[0]):
            sends = self.senders.pop(0)
            count = 0
            while count < len(sends.items) and self.fits(sends.items[count]):
                self.pledged.append(self.weight_of(sends.items[count]))
                count += 1
                if self.weight_capacity is not None:
                    break
            granted.append((sends, count))
        return granted

    def give_up(self, number: int) -> None:
        self.senders = [sends for sends in self.senders if sends.number != number]
        self.receivers = [waiting for waiting in self.receivers if waiting[0] != number]

    def close(self) -> None:
        self.closed = True
        self.expected.extend((sends.number, Closed) for sends in self.senders)
        self.senders.clear()
        self.settle()


class ChannelMachine(Machine):
    sender: Sender[int]
    receiver: Receiver[int]

    @initialize(capacity=st.integers(1, 4), weight_capacity=st.sampled_from([None, None, 3, 6]))
    def make(self, capacity: int, weight_capacity: int | None) -> None:
        options: dict[str, Any] = {}
        if weight_capacity is not None:
            options = {"weight_capacity": weight_capacity, "weigh": lambda item: item}
        self.sender, self.receiver = self.run(lambda: channel(capacity, **options))
        self.model = ChannelModel(capacity, weight_capacity, self.expected)
        self.slots: list[Slot[int]] = []

    def until(self, deadline_s: float | None) -> float:
        return math.inf if deadline_s is None else self.now() + deadline_s

    @rule(item=st.integers(0, 4), deadline_s=DEADLINES)
    def send(self, item: int, deadline_s: float | None) -> None:
        deadline_s = self.apart(deadline_s)
        number = self.call(lambda: self.sender.send(item, deadline_s=deadline_s), lambda _: 1)
        self.model.come(Sends(number, [item], self.until(deadline_s)))

    @precondition(lambda self: self.model.weight_capacity is None)
    @rule(items=st.lists(st.integers(0, 4), min_size=1, max_size=7), deadline_s=DEADLINES)
    def send_many(self, items: list[int], deadline_s: float | None) -> None:
        deadline_s = self.apart(deadline_s)
        number = self.call(lambda: self.sender.send_many(items, deadline_s=deadline_s))
        self.model.come(Sends(number, list(items), self.until(deadline_s)))

    @rule(item=st.integers(0, 4))
    def try_send(self, item: int) -> None:
        def attempt() -> Any:
            try:
                self.sender.try_send(item)
            except (Full, Closed) as refusal:
                return type(refusal), refusal.item
            return None

        m = self.model
        free = not m.senders and m.fits(item)
        assert self.run(attempt) == ((Closed, item) if m.closed else None if free else (Full, item))
        if free and not m.closed:
            m.items.append(item)
            m.settle()

    @rule()
    def recv(self) -> None:
        number = self.call(self.receiver.recv, lambda item: [item])
        self.model.receivers.append((number, 1))
        self.model.settle()

    @rule(most=st.integers(1, 6))
    def recv_many(self, most: int) -> None:
        number = self.call(lambda: self.receiver.recv_many(most))
        self.model.receivers.append((number, most))
        self.model.settle()

    @precondition(lambda self: not self.model.senders and not self.model.closed)
    @rule(weight=st.integers(0, 4))
    def reserve(self, weight: int) -> None:
        weight = self.model.weight_of(weight)
        if self.model.fits(weight):
            self.slots.append(self.runner.run(self.sender.reserve(weight=weight)))
            self.model.reserved.append(weight)

    @precondition(lambda self: self.slots)
    @rule(data=st.data(), fill=st.booleans())
    def end_a_slot(self, data: st.DataObject, fill: bool) -> None:
        at = data.draw(st.integers(0, len(self.slots) - 1))
        slot, weight, m = self.slots.pop(at), self.model.reserved.pop(at), self.model
        if not fill:
            self.run(slot.release)
        elif m.closed:
            self.run(lambda: _refused(lambda: slot.send(weight), Closed))
        else:
            self.run(lambda: slot.send(weight))
            m.items.append(weight)
        m.settle()

    @precondition(lambda self: self.model.senders or self.model.receivers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.calls)))
        self.run(self.calls[number].cancel)
        self.model.give_up(number)
        self.expected.append((number, asyncio.CancelledError))
        self.model.settle()

    @rule(duration_s=st.integers(1, 3))
    def time_passes(self, duration_s: int) -> None:
        end = self.now() + duration_s
        while due := [(sends.until, sends.number) for sends in self.model.senders if sends.until <= end]:
            number = min(due)[1]
            self.model.give_up(number)
            self.expected.append((number, Expired))
            self.model.settle()
        self.sleep(duration_s)

    @rule(by_receiver=st.booleans())
    def close(self, by_receiver: bool) -> None:
        if self.number < 12:
            return  # closing early leaves nothing to see
        self.run(self.receiver.close if by_receiver else self.sender.close)
        if not self.model.closed:
            self.model.close()

    @invariant()
    def agrees(self) -> None:
        m, s = self.model, self.receiver.statistics()
        # Who ends in one step and who runs first is the loop's choice; who got what, and how much, is not.
        self.sort_logs()
        self.check_log()
        assert (s.depth, s.reserved, s.closed) == (len(m.items), len(m.reserved), m.closed)
        assert s.weight == m.weight
        assert (s.waiting_senders, s.waiting_receivers) == (len(m.senders), len(m.receivers))
        assert list(self.sender._slots.buffer) == list(m.items)

    def end_what_is_held(self) -> None:
        for slot in getattr(self, "slots", []):
            self.run(slot.release)


def _refused(call: Callable[[], object], error: type[Exception]) -> None:
    try:
        call()
    except error:
        return
    raise AssertionError(f"was not refused with {error.__name__}")


# Permits


@dataclass
class PermitModel:
    limit: int
    limit_bytes: int
    held: dict[int, tuple[int, int]] = field(default_factory=dict)
    waiting: list[tuple[int, int, int, float]] = field(default_factory=list)  # number, count, bytes, until
    closed: bool = False

    def fits(self, count: int, size_bytes: int) -> bool:
        items = sum(count for count, _ in self.held.values())
        total = sum(size for _, size in self.held.values())
        return not items or (items + count <= self.limit and total + size_bytes <= self.limit_bytes)

    def settle(self) -> list[int]:
        granted = []
        while self.waiting and self.fits(*self.waiting[0][1:3]):
            number, count, size_bytes, _ = self.waiting.pop(0)
            self.held[number] = (count, size_bytes)
            granted.append(number)
        return granted


class PermitMachine(Machine):
    permits: Permits

    @initialize(limit=st.integers(1, 4))
    def make(self, limit: int) -> None:
        self.permits = self.run(lambda: Permits(limit, limit_bytes=10))
        self.model = PermitModel(limit, 10)
        self.held: dict[int, Permit] = {}
        self.endings = dict.fromkeys(Ending, 0)

    def settle(self) -> None:
        self.expected.extend((number, "held") for number in self.model.settle())

    @rule(count=st.integers(1, 3), size_bytes=st.sampled_from([0, 4, 9, 25]), deadline_s=DEADLINES)
    def acquire(self, count: int, size_bytes: int, deadline_s: float | None) -> None:
        number = self.number + 1
        deadline_s = self.apart(deadline_s)

        def hold(permit: Permit) -> str:
            self.held[number] = permit
            return "held"

        self.call(lambda: self.permits.acquire(count, size_bytes, deadline_s=deadline_s), hold)
        if self.model.closed:
            self.expected.append((number, Closed))
        else:
            until = math.inf if deadline_s is None else self.now() + deadline_s
            self.model.waiting.append((number, count, size_bytes, until))
            self.settle()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), ending=st.sampled_from(Ending))
    def end(self, data: st.DataObject, ending: Ending) -> None:
        number = data.draw(st.sampled_from(sorted(self.held)))
        permit = self.held.pop(number)
        self.run(getattr(permit, ending.value))
        self.endings[ending] += 1
        del self.model.held[number]
        self.settle()

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.calls)))
        self.run(self.calls[number].cancel)
        self.leave(number, asyncio.CancelledError)

    def leave(self, number: int, how: type[BaseException]) -> None:
        self.model.waiting = [entry for entry in self.model.waiting if entry[0] != number]
        self.expected.append((number, how))
        self.settle()

    @rule(limit=st.integers(1, 5), limit_bytes=st.sampled_from([1, 10, 30]))
    def resize(self, limit: int, limit_bytes: int) -> None:
        self.run(lambda: self.permits.resize(limit, limit_bytes=limit_bytes))
        self.model.limit, self.model.limit_bytes = limit, limit_bytes
        self.settle()

    @rule(duration_s=st.integers(1, 3))
    def time_passes(self, duration_s: int) -> None:
        end = self.now() + duration_s
        while due := [(until, number) for number, _, _, until in self.model.waiting if until <= end]:
            self.leave(min(due)[1], Expired)
        self.sleep(duration_s)

    @rule()
    def close(self) -> None:
        if self.number < 15:
            return
        self.run(self.permits.close)
        self.model.closed = True
        self.expected.extend((number, Closed) for number, *_ in self.model.waiting)
        self.model.waiting.clear()

    @invariant()
    def agrees(self) -> None:
        self.check_log()
        m, s = self.model, self.permits.statistics()
        assert set(self.held) == set(m.held)
        assert (s.held, s.held_bytes) == (sum(c for c, _ in m.held.values()), sum(b for _, b in m.held.values()))
        assert (s.limit, s.limit_bytes, s.waiting) == (m.limit, m.limit_bytes, len(m.waiting))
        assert (s.done, s.ignored, s.dropped) == tuple(self.endings[ending] for ending in Ending)

    def end_what_is_held(self) -> None:
        for task in list(self.calls.values()):
            self.run(task.cancel)
        for permit in getattr(self, "held", {}).values():
            self.run(permit.done)


# The token bucket: its arithmetic, and the rate limit that waits


class BucketMachine(RuleBasedStateMachine):
    """Whole eighths throughout, so that the plain sum is exact."""

    @initialize(per_s=st.sampled_from([0.5, 1.0, 4.0]), burst=st.sampled_from([1.0, 2.0, 5.0]))
    def make(self, per_s: float, burst: float) -> None:
        self.now = 0.0
        self.rate = Rate(per_s, burst)
        self.bucket = TokenBucket(self.rate, 0.0)
        self.tokens = burst

    @rule(eighths=st.integers(0, 200))
    def time_passes(self, eighths: int) -> None:
        self.now += eighths / 8
        self.tokens = min(self.rate.burst, self.tokens + eighths / 8 * self.rate.per_s)

    @rule(eighths=st.integers(1, 80))
    def the_clock_goes_back(self, eighths: int) -> None:
        assert self.bucket.tokens(self.now - eighths / 8) == self.tokens

    @rule(count=st.integers(1, 7))
    def take(self, count: int) -> None:
        there = self.tokens >= min(count, self.rate.burst)
        wait_s = self.bucket.wait_s(count, self.now)
        assert wait_s == (0.0 if there else (min(count, self.rate.burst) - self.tokens) / self.rate.per_s)
        assert self.bucket.take(count, self.now) == there
        if there:
            self.tokens -= count

    @rule(count=st.integers(1, 7))
    def put_back(self, count: int) -> None:
        self.bucket.put_back(count, self.now)
        self.tokens = min(self.rate.burst, self.tokens + count)

    @rule(per_s=st.sampled_from([0.5, 1.0, 4.0]), burst=st.sampled_from([1.0, 2.0, 5.0]))
    def change(self, per_s: float, burst: float) -> None:
        self.rate = Rate(per_s, burst)
        self.bucket.change_rate(self.rate, self.now)
        self.tokens = min(burst, self.tokens)

    @invariant()
    def agrees(self) -> None:
        assert self.bucket.tokens(self.now) == self.tokens


class RateMachine(Machine):
    limit: RateLimit

    @initialize(per_s=st.sampled_from([0.5, 1.0, 4.0]), burst=st.sampled_from([1.0, 2.0, 5.0]))
    def make(self, per_s: float, burst: float) -> None:
        self.rate = Rate(per_s, burst)
        self.limit = self.run(lambda: RateLimit(self.rate))
        self.tokens, self.at = burst, self.now()
        self.waiting: list[tuple[int, int]] = []
        self.granted_at: dict[int, float] = {}

    def pass_to(self, now: float) -> None:
        self.tokens = min(self.rate.burst, self.tokens + (now - self.at) * self.rate.per_s)
        self.at = now

    def settle(self) -> None:
        while self.waiting and self.tokens >= min(self.waiting[0][1], self.rate.burst) - 1e-6:
            number, count = self.waiting.pop(0)
            self.tokens -= count
            self.expected.append((number, "granted"))

    @rule(count=st.integers(1, 6))
    def acquire(self, count: int) -> None:
        number = self.call(lambda: self.limit.acquire(count), lambda _: "granted")
        self.waiting.append((number, count))
        self.settle()

    @rule(count=st.integers(1, 6))
    def try_acquire(self, count: int) -> None:
        there = not self.waiting and self.tokens >= min(count, self.rate.burst) - 1e-6
        if there:
            self.run(lambda: self.limit.try_acquire(count))
            self.tokens -= count
        else:
            self.run(lambda: _refused(lambda: self.limit.try_acquire(count), Full))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from([number for number, _ in self.waiting]))
        self.run(self.calls[number].cancel)
        self.waiting = [entry for entry in self.waiting if entry[0] != number]
        self.expected.append((number, asyncio.CancelledError))
        self.settle()

    @rule(eighths=st.integers(1, 40))
    def time_passes(self, eighths: int) -> None:
        end = self.at + eighths / 8
        while self.waiting:
            missing = min(self.waiting[0][1], self.rate.burst) - self.tokens
            due = self.at + missing / self.rate.per_s
            if due > end + 1e-9:
                break
            self.pass_to(min(due, end))
            self.settle()
        self.pass_to(end)
        self.sleep(end - self.now())

    @rule(per_s=st.sampled_from([0.5, 1.0, 4.0]), burst=st.sampled_from([1.0, 2.0, 5.0]))
    def change(self, per_s: float, burst: float) -> None:
        self.rate = Rate(per_s, burst)
        self.tokens = min(burst, self.tokens)
        self.run(lambda: self.limit.change_rate(self.rate))
        self.settle()

    @invariant()
    def agrees(self) -> None:
        self.check_log()
        s = self.limit.statistics()
        assert s.waiting == len(self.waiting)
        assert math.isclose(s.tokens, self.tokens, abs_tol=1e-6)


# The gate


class GateMachine(Machine):
    gate: Gate

    @initialize(high=st.integers(1, 9), data=st.data())
    def make(self, high: int, data: st.DataObject) -> None:
        low = data.draw(st.integers(0, high - 1))
        self.gauge = Gauge("level")
        self.gate = Gate(self.gauge, high_water=high, low_water=low)
        self.high, self.low, self.shut, self.closings, self.ended = high, low, False, 0, False
        self.waiting: list[int] = []

    @rule(level=st.integers(0, 10))
    def move(self, level: int) -> None:
        self.run(lambda: self.gauge.set(level))
        was, self.shut = self.shut, level >= self.high or (self.shut and level > self.low)
        self.closings += self.shut and not was
        if not self.shut:
            self.expected.extend((number, "passed") for number in self.waiting)
            self.waiting.clear()

    @rule()
    def wait_open(self) -> None:
        number = self.call(self.gate.wait_open, lambda _: "passed")
        if self.ended:
            self.expected.append((number, Closed))
        elif self.shut:
            self.waiting.append(number)
        else:
            self.expected.append((number, "passed"))

    @rule()
    def try_pass(self) -> None:
        if self.ended or self.shut:
            _refused(self.gate.try_pass, Closed if self.ended else Full)
        else:
            self.gate.try_pass()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.waiting))
        self.run(self.calls[number].cancel)
        self.waiting.remove(number)
        self.expected.append((number, asyncio.CancelledError))

    @rule()
    def close(self) -> None:
        if self.number < 10:
            return
        self.run(self.gate.close)
        self.ended = True
        self.expected.extend((number, Closed) for number in self.waiting)
        self.waiting.clear()

    @invariant()
    def agrees(self) -> None:
        self.check_log()
        s = self.gate.statistics()
        assert (s.state is GateState.CLOSED, s.closings, s.waiting) == (self.shut, self.closings, len(self.waiting))


for machine in (ChannelMachine, PermitMachine, BucketMachine, RateMachine, GateMachine):
    machine.TestCase.settings = MACHINE_SETTINGS

TestAChannelDoesWhatADequeWithTwoLinesDoes = ChannelMachine.TestCase
TestPermitsAreALineBeforeTwoSums = PermitMachine.TestCase
TestABucketIsOneSum = BucketMachine.TestCase
TestARateLimitIsALineBeforeABucket = RateMachine.TestCase
TestAGateIsALineBeforeOneComparison = GateMachine.TestCase
