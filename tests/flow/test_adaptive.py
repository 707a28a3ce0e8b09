"""What adaptive limits promise, against remotes that are simulated in virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.flow import Ending, Full, Permits
from headrace.flow.adaptive import AdaptiveLimit, AdaptivePermits, AimdRule, GradientRule, LimitBounds, LimitRule
from headrace.flow.admission import Admission, Admitted
from headrace.flow.testing import assert_nothing_leaked, run_virtual

DONE, IGNORE, DROPPED = Ending.DONE, Ending.IGNORE, Ending.DROPPED
BOUNDS = LimitBounds(1, 200, 20)
RULES: dict[str, Callable[..., LimitRule]] = {"aimd": AimdRule, "gradient": GradientRule}
each_rule = pytest.mark.parametrize("rule", RULES)


def calls(rule: LimitRule, count: int, ending: Ending, latency_s: float, now: float, used: bool = True) -> float:
    """So many calls, as many at a time as the limit allows; returns when the last has ended."""
    while count > 0:
        now += latency_s
        together = min(count, rule.limit if used else 1)
        for _ in range(together):
            rule.observe(ending, latency_s, together, now)
        count -= together
    return now


@each_rule
@pytest.mark.parametrize("ending", [DROPPED, DONE])
def test_k33_when_every_call_takes_exactly_the_timeout_the_limit_falls_to_its_floor(rule: str, ending: Ending) -> None:
    """K33: ratchets up when all requests time out alike (concurrency-limits #137, envoy #11579)."""
    limits = RULES[rule](BOUNDS, timeout_s=2.0)
    seen, now = [limits.limit], 0.0
    while len(seen) < 40:
        now = calls(limits, limits.limit, ending, 2.0, now)
        seen.append(limits.limit)
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == 1


@each_rule
def test_one_overload_is_answered_by_one_cut(rule: str) -> None:
    limits = RULES[rule](BOUNDS, backoff=0.5)
    for _ in range(20):
        limits.observe(DROPPED, 1.0, 20, 10.0)  # all twenty had begun before anything was known
    assert limits.limit == 10
    limits.observe(DROPPED, 0.5, 10, 10.9)
    assert limits.limit == 5  # it began under the limit of ten, and was lost all the same


@each_rule
def test_calls_that_began_before_a_cut_do_not_undo_it(rule: str) -> None:
    limits = RULES[rule](BOUNDS, backoff=0.5)
    limits.observe(DROPPED, 1.0, 20, 10.0)
    for _ in range(100):
        limits.observe(DONE, 1.0, 20, 10.5)
    assert limits.limit == 10


@each_rule
def test_the_limit_grows_only_while_it_is_used(rule: str) -> None:
    limits = RULES[rule](BOUNDS)
    now = calls(limits, 2000, DONE, 0.1, 0.0, used=False)
    assert limits.limit == 20
    calls(limits, 200, DONE, 0.1, now)
    assert limits.limit > 20


@each_rule
def test_what_was_ignored_teaches_nothing(rule: str) -> None:
    limits = RULES[rule](BOUNDS, timeout_s=1.0)
    calls(limits, 500, IGNORE, 5.0, 0.0)
    assert limits.limit == 20


@each_rule
@given(
    st.lists(st.tuples(st.sampled_from(Ending), st.floats(0, 10), st.integers(1, 300), st.floats(0, 5)), max_size=200),
    st.sampled_from([(1, 1, 1), (2, 9, 5), (1, 50, 50)]),
)
@settings(max_examples=60, deadline=None)
def test_nothing_moves_it_out_of_its_bounds(
    rule: str, samples: list[tuple[Ending, float, int, float]], bounds: tuple[int, int, int]
) -> None:
    limits = RULES[rule](LimitBounds(*bounds), timeout_s=8.0)
    now = 0.0
    for ending, latency_s, in_flight, gap_s in samples:
        now += gap_s
        before = limits.limit
        limits.observe(ending, latency_s, in_flight, now)
        assert bounds[0] <= limits.limit <= bounds[1]
        if ending is DROPPED:
            assert limits.limit <= before


class Server:
    """A remote that works on `capacity` calls at once; the others stand in line there, and time out."""

    def __init__(self, capacity: int, service_s: float, rng: random.Random) -> None:
        self.slots = asyncio.Semaphore(capacity)
        self.service_s = service_s
        self.rng = rng
        self.in_flight = 0

    async def call(self, timeout_s: float) -> None:
        async with asyncio.timeout(timeout_s), self.slots:
            await asyncio.sleep(self.service_s * self.rng.uniform(0.8, 1.2))


async def drive(permits: Permits, server: Server, clients: int, until_s: float, timeout_s: float) -> int:
    """Clients that always want more; returns how many calls were done."""
    loop, done = asyncio.get_running_loop(), 0

    async def client() -> None:
        nonlocal done
        while loop.time() < until_s:
            try:
                with await permits.acquire():
                    await server.call(timeout_s)
                done += 1
            except TimeoutError:
                continue

    await asyncio.gather(*(client() for _ in range(clients)))
    return done


@pytest.mark.parametrize("capacity", [4, 16])
def test_the_gradient_finds_what_a_remote_can_take_and_keeps_it_busy(capacity: int) -> None:
    async def main() -> None:
        adaptive = AdaptivePermits(GradientRule(LimitBounds(1, 200), timeout_s=2.0))
        server = Server(capacity, 0.1, random.Random(1))
        async with assert_nothing_leaked(adaptive.permits):
            done = await drive(adaptive.permits, server, 150, 60.0, 2.0)
        assert capacity <= adaptive.rule.limit <= 3 * capacity + 10
        assert done >= 0.9 * 60 * capacity / 0.1
        assert adaptive.permits.statistics().dropped == 0  # it never came to a loss

    run_virtual(main())


def test_aimd_finds_it_by_few_losses() -> None:
    async def main() -> None:
        adaptive = AdaptivePermits(AimdRule(LimitBounds(1, 200), timeout_s=0.5))
        server = Server(8, 0.1, random.Random(1))
        done = await drive(adaptive.permits, server, 150, 60.0, 0.5)
        s = adaptive.permits.statistics()
        assert 8 <= adaptive.rule.limit <= 45  # at 40 the last in line waits for half a second
        assert done >= 0.9 * 60 * 8 / 0.1
        assert s.dropped <= 0.05 * s.done

    run_virtual(main())


def test_a_remote_that_becomes_slower_is_left_more_alone_and_one_that_recovers_is_used_again() -> None:
    async def main() -> None:
        adaptive = AdaptivePermits(GradientRule(LimitBounds(1, 200), timeout_s=5.0))
        rng = random.Random(1)
        server = Server(20, 0.1, rng)
        await drive(adaptive.permits, server, 100, 20.0, 5.0)
        before = adaptive.rule.limit
        server.slots = asyncio.Semaphore(2)
        await drive(adaptive.permits, server, 100, 60.0, 5.0)
        during = adaptive.rule.limit
        server.slots = asyncio.Semaphore(20)
        await drive(adaptive.permits, server, 100, 100.0, 5.0)
        assert during < before / 2
        assert adaptive.rule.limit > 20

    run_virtual(main())


def test_after_an_outage_it_comes_back_from_the_floor() -> None:
    async def main() -> None:
        adaptive = AdaptivePermits(GradientRule(LimitBounds(1, 200, 30), timeout_s=1.0))
        server = Server(20, 0.1, random.Random(1))
        await drive(adaptive.permits, server, 50, 10.0, 1.0)
        server.service_s = 100.0
        await drive(adaptive.permits, server, 50, 40.0, 1.0)
        assert adaptive.rule.limit == 1
        server.service_s, server.slots = 0.1, asyncio.Semaphore(20)
        await drive(adaptive.permits, server, 50, asyncio.get_running_loop().time() + 20.0, 1.0)
        assert adaptive.rule.limit >= 15

    run_virtual(main())


def test_no_good_work_is_refused_to_find_something_out() -> None:
    """No probe: a remote that is well, used steadily below the limit, never hears of it."""

    async def main() -> None:
        adaptive = AdaptivePermits(GradientRule(LimitBounds(1, 50, 12)))
        server = Server(50, 0.1, random.Random(1))
        refused = 0

        async def client() -> None:
            nonlocal refused
            for _ in range(3000):
                try:
                    with adaptive.permits.try_acquire():
                        await server.call(9.0)
                except Full:
                    refused += 1

        await asyncio.gather(*(client() for _ in range(10)))
        assert refused == 0
        assert adaptive.rule.limit >= 12

    run_virtual(main())


def test_permits_follow_the_rule_at_once_and_those_who_wait_come_in() -> None:
    async def main() -> None:
        changes: list[int] = []
        observed: list[Ending] = []
        adaptive = AdaptivePermits(
            AimdRule(LimitBounds(1, 9, 1)), on_change=changes.append, observe=lambda ending, _: observed.append(ending)
        )
        first = adaptive.permits.try_acquire()
        waiting = [asyncio.create_task(adaptive.permits.acquire()) for _ in range(3)]
        await asyncio.sleep(1)
        first.done()
        await asyncio.sleep(1)
        assert changes == [2]
        assert [task.done() for task in waiting] == [True, True, False]
        waiting[0].result().dropped()
        assert changes == [2, 1]
        waiting[1].result().ignore()
        (await waiting[2]).ignore()
        assert observed == [DONE, DROPPED, IGNORE, IGNORE]

    run_virtual(main())


def test_an_admission_can_follow_a_rule() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        rule = AimdRule(LimitBounds(1, 50, 8), backoff=0.5)
        admission: Admission
        follow = AdaptiveLimit(rule, lambda limit: admission.resize(limit), now=loop.time)
        admission = Admission(
            rule.limit, observe=lambda ending, held_s: follow.observe(ending, held_s, admission.permits.held + 1)
        )
        decisions = [admission.decide() for _ in range(8)]
        await asyncio.sleep(1)
        for decision in decisions:
            assert isinstance(decision, Admitted)
            decision.permit.dropped()
        assert admission.permits.statistics().limit == 4

    run_virtual(main())


@pytest.mark.parametrize("wrong", [(0, 5, 1), (3, 2, 2), (1, 5, 6), (2, 5, 1)])
def test_nonsense_is_refused(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="floor"):
        LimitBounds(*wrong)
    with pytest.raises(ValueError, match="backoff"):
        AimdRule(backoff=1.0)
    with pytest.raises(ValueError, match="backoff"):
        AimdRule(timeout_s=0.0)
    with pytest.raises(ValueError, match="tolerance"):
        GradientRule(tolerance=0.5)
