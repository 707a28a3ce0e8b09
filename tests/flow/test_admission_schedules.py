"""Admission beside a plain model, under seeded schedules, and over a hundred thousand items."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.flow import Closed, Full, Gate, Gauge, Permit, Rate, TokenBucket
from headrace.flow.admission import Admission, Admitted
from headrace.flow.ladder_order import ClassBounds
from headrace.flow.shedding import ServiceClass
from headrace.flow.testing import Schedule, VirtualLoop, assert_nothing_leaked, run_schedules, run_virtual


def assert_sound(admission: Admission, limit: int, limit_bytes: int | None) -> None:
    """The bounds hold, every offer is accounted for, and nobody sleeps while what he waits for is free.

    It reads what `statistics` is made of: it looks after every step, and a snapshot takes longer than a step.
    """
    counts = admission._counts
    ended = counts["admitted"] + sum(admission._refused.values()) + counts["cancelled"]
    assert counts["offered"] == ended + counts["waiting"], admission.statistics()
    held, held_bytes = admission.permits._held, admission.permits._held_bytes
    assert held >= 0
    assert held_bytes >= 0
    head = admission._order.head()
    if head is None or any(not caller.waits for caller in admission._order.everyone()):
        return  # someone was cancelled or timed out, and has not run yet
    if held and not (
        held + head.cost <= limit and (limit_bytes is None or held_bytes + head.size_bytes <= limit_bytes)
    ):
        return
    now, timer = admission._now(), admission._timer
    if admission._paused_s(now) or any(gate.state.value == "closed" for gate, _ in admission._gates):
        return
    tokens = admission._bucket is None or not admission._bucket.wait_s(head.cost, now)
    # Of what is due at one instant (floats apart) nobody comes first: the timer that wakes the head may run next.
    woken = timer is not None and (not tokens or timer.when() <= now + 1e-6)
    assert woken, f"the head sleeps, and what it needs is free, or no timer is set: {admission.statistics()}"


async def _scenario(schedule: Schedule) -> None:
    r = schedule.random
    limit, limit_bytes = r.randint(1, 3), r.choice([None, 10])
    rate = r.choice([None, Rate(5.0, burst=2.0)])
    gauge = Gauge("depth")
    gates = [Gate(gauge, high_water=3, low_water=1)] if r.random() < 0.5 else []
    admission = Admission(
        limit, limit_bytes=limit_bytes, rate=rate, gates=gates,
        bounds={class_: ClassBounds(r.randint(1, 6), 30.0) for class_ in ServiceClass},
    )  # fmt: skip
    schedule.watch = lambda: assert_sound(admission, admission._limit, limit_bytes)
    most = limit
    held: list[Permit] = []

    async def work() -> None:
        for _ in range(r.randint(1, 4)):
            offer: dict[str, Any] = {
                "class_": r.choice(list(ServiceClass)),
                "client": r.choice([None, "a", "b"]),
                "count": r.randint(1, 2),
                "size_bytes": r.choice([0, 4, 25]),
            }
            if r.random() < 0.3:
                decision = admission.decide(**offer)
            else:
                decision = await admission.admit(**offer, deadline_s=r.choice([None, None, 0.2]))
            if not isinstance(decision, Admitted):
                assert isinstance(decision, Closed) or decision.retry_after_s is not None
                await asyncio.sleep(0.1)
                continue
            with decision.permit as permit:
                held.append(permit)
                try:
                    assert len(held) == 1 or sum(p.count for p in held) <= most
                    assert_sound(admission, admission._limit, limit_bytes)
                    await asyncio.sleep(r.choice([0, 0.1]))
                finally:
                    held.remove(permit)

    async def disturb() -> None:
        nonlocal most
        for _ in range(4):
            await asyncio.sleep(r.choice([0, 0.1, 0.3]))
            what = r.randrange(4)
            if what == 0:
                new = r.randint(1, 3)
                most = max(most, new)
                admission.resize(new, limit_bytes=limit_bytes)
            elif what == 1:
                gauge.set(r.choice([0, 2, 3]))
            elif what == 2:
                admission.pause(r.choice([0.0, 0.1, 0.5]))
            elif rate is not None:
                admission.change_rate(Rate(r.choice([3.0, 50.0]), burst=2.0))
            assert_sound(admission, admission._limit, limit_bytes)
        gauge.set(0)

    async with assert_nothing_leaked(admission.permits):
        tasks = [schedule.victim(work()) for _ in range(r.randint(1, 5))]
        tasks += [asyncio.create_task(work()), asyncio.create_task(disturb())]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
    s = admission.statistics()
    assert s.waiting == len(admission._order) == 0
    assert s.offered == s.admitted + sum(s.refused.values()) + s.cancelled
    assert admission._timer is None


@pytest.mark.schedules
def test_no_permit_or_token_is_lost_or_doubled_and_nobody_sleeps_in_vain() -> None:
    run_schedules(_scenario, 1500)


def test_a_newcomer_at_the_end_of_a_pause_does_not_take_the_wake_up_of_those_who_wait() -> None:
    async def main() -> None:
        admission = Admission(2)
        admission.pause(1.0)
        waiting = asyncio.create_task(admission.admit())
        # So close to its end that the pause is over for whoever looks, and the timer has not run yet.
        await asyncio.sleep(1.0 - 5e-9)
        newcomer = asyncio.create_task(admission.admit())
        for decision in await asyncio.gather(waiting, newcomer):
            assert isinstance(decision, Admitted)
            decision.permit.done()
        assert asyncio.get_running_loop().time() < 1.1  # in virtual time, and not only when somebody is promoted

    run_virtual(main())


def test_k36_counters_do_not_drift_over_a_hundred_thousand_items_of_which_ten_percent_expire() -> None:
    """K36: counter drift slowly closes the gate under timeouts (triton #8870)."""

    async def main() -> None:
        admission = Admission(8, limit_bytes=800, rate=Rate(1e6))
        offers = itertools.count()
        admitted_in_round: list[int] = []

        async def client(name: int) -> None:
            for i in offers:
                if i >= 100_000:
                    return
                expires = i % 10 == 3
                decision = await admission.admit(
                    ServiceClass(i % 3), client=name, size_bytes=i % 90, deadline_s=0.0001 if expires else None
                )
                if isinstance(decision, Admitted):
                    with decision.permit:
                        await asyncio.sleep(0.001)
                if i % 10_000 == 0:
                    admitted_in_round.append(admission.statistics().admitted)

        async with assert_nothing_leaked(admission.permits):
            await asyncio.gather(*(client(name) for name in range(12)))
        s = admission.statistics()
        assert s.offered == 100_000
        assert s.refused["Expired"] > 5_000
        assert s.permits.done == s.admitted
        assert (s.permits.held, s.permits.held_bytes, s.waiting) == (0, 0, 0)
        assert admission._order.cost_before(ServiceClass.BACKGROUND) == 0.0
        rounds = [b - a for a, b in itertools.pairwise(admitted_in_round)]
        assert max(rounds) - min(rounds) < 0.03 * max(rounds)  # the last ten thousand fare as the first

    run_virtual(main())


class Deciding(RuleBasedStateMachine):
    """`decide` beside plain numbers: permits, bytes, tokens, a gate, a pause."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.gauge = Gauge("depth")
        self.admission = self.inside(self.make)
        self.limit, self.bucket, self.gate_open, self.paused_until = 4, TokenBucket(Rate(2.0, 6.0), 0.0), True, 0.0
        self.permits: list[Permit] = []

    def make(self) -> Admission:
        gate = Gate(self.gauge, high_water=5, low_water=2)
        return Admission(4, limit_bytes=100, rate=Rate(2.0, 6.0), gates=[gate])

    def inside(self, act: Any) -> Any:
        async def run() -> Any:
            return act()

        return self.loop.run_until_complete(run())

    def teardown(self) -> None:
        for permit in self.permits:
            permit.ignore()
        self.loop.close()

    @rule(count=st.integers(1, 5), size=st.sampled_from([0, 30, 101]), class_=st.sampled_from(ServiceClass))
    def decide(self, count: int, size: int, class_: ServiceClass) -> None:
        now = self.loop.time()
        held, held_bytes = sum(p.count for p in self.permits), sum(p.size_bytes for p in self.permits)
        fits = not self.permits or (held + count <= self.limit and held_bytes + size <= 100)
        expected = fits and self.gate_open and now >= self.paused_until and not self.bucket.wait_s(count, now)
        decision = self.inside(lambda: self.admission.decide(class_, count=count, size_bytes=size))
        assert isinstance(decision, Admitted) == expected
        if isinstance(decision, Admitted):
            self.bucket.take(count, now)
            self.permits.append(decision.permit)
        else:
            assert isinstance(decision, Full)
            assert type(decision.retry_after_s) is int
            assert 1 <= decision.retry_after_s <= 120

    @precondition(lambda self: self.permits)
    @rule(data=st.data(), how=st.sampled_from(["done", "ignore", "dropped"]))
    def end(self, data: st.DataObject, how: str) -> None:
        permit = self.permits.pop(data.draw(st.integers(0, len(self.permits) - 1)))
        self.inside(getattr(permit, how))

    @rule(seconds=st.sampled_from([0.1, 0.5, 4.0]))
    def later(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    @rule(level=st.integers(0, 6))
    def fill(self, level: int) -> None:
        self.inside(lambda: self.gauge.set(level))
        self.gate_open = False if level >= 5 else True if level <= 2 else self.gate_open

    @rule(limit=st.integers(1, 6))
    def resize(self, limit: int) -> None:
        self.limit = limit
        self.inside(lambda: self.admission.resize(limit, limit_bytes=100))

    @rule(seconds=st.sampled_from([0.0, 1.0]))
    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.loop.time() + seconds)
        self.inside(lambda: self.admission.pause(seconds))

    @invariant()
    def same(self) -> None:
        s = self.inside(self.admission.statistics)
        assert s.permits.held == sum(p.count for p in self.permits)
        assert s.permits.held_bytes == sum(p.size_bytes for p in self.permits)
        assert s.offered == s.admitted + sum(s.refused.values())
        assert s.admitted == s.permits.done + s.permits.ignored + s.permits.dropped + len(self.permits)


TestDeciding = Deciding.TestCase
TestDeciding.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
