"""The token bucket as arithmetic, against a plain model, and the layer that waits."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.flow import Closed, Expired, Full, Rate, RateLimit, TokenBucket
from headrace.flow.testing import assert_nothing_leaked, cancelled_at, run_virtual, turns


@pytest.mark.parametrize(
    ("rate", "steps"),
    [
        # (moment, count, taken?)
        (Rate(1, burst=2), [(0, 1, True), (0, 1, True), (0, 1, False), (1, 1, True), (1, 1, False)]),
        (Rate(2, burst=1), [(0, 1, True), (0.4, 1, False), (0.5, 1, True)]),
        # A long quiet time gives one burst, never two.
        (Rate(1, burst=3), [(0, 3, True), (1000, 3, True), (1000, 1, False), (1002.9, 3, False), (1003, 3, True)]),
        # Heavier than the burst: when the bucket is full; what is owed has to come in first.
        (Rate(1, burst=2), [(0, 5, True), (2, 1, False), (3.9, 1, False), (4, 1, True)]),
        # A clock that goes back counts as standing still.
        (Rate(1, burst=1), [(10, 1, True), (5, 1, False), (11, 1, True)]),
    ],
)
def test_the_bucket_takes_what_is_there(rate: Rate, steps: list[tuple[float, float, bool]]) -> None:
    bucket = TokenBucket(rate, steps[0][0])
    assert [bucket.take(count, now) for now, count, _ in steps] == [taken for _, _, taken in steps]


@given(
    per_s=st.floats(0.1, 1e4),
    burst=st.floats(1, 50),
    start=st.floats(0, 1e6),
    offers=st.lists(st.tuples(st.floats(0, 3), st.integers(1, 5)), min_size=1, max_size=60),
)
def test_no_window_lets_more_through_than_its_burst_and_rate_allow(
    per_s: float, burst: float, start: float, offers: list[tuple[float, int]]
) -> None:
    bucket = TokenBucket(Rate(per_s, burst), start)
    now, taken = start, []
    for gap_s, count in offers:
        now += gap_s
        if count <= burst and bucket.take(count, now):
            taken.append((now, count))
    for i, (began, _) in enumerate(taken):
        total = 0
        for ended, count in taken[i:]:
            total += count
            allowed = burst + per_s * (ended - began)
            assert total <= allowed + 1e-6 * per_s + 1e-6


@given(per_s=st.floats(0.01, 1e5), count=st.integers(1, 40), start=st.floats(0, 1e7))
def test_the_computed_wait_is_exactly_enough(per_s: float, count: int, start: float) -> None:
    bucket = TokenBucket(Rate(per_s, burst=1), start)
    bucket.take(count, start)
    wait_s = bucket.wait_s(1, start)
    assert wait_s == pytest.approx(count / per_s)
    assert bucket.take(1, start + wait_s)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_rate_that_makes_no_sense_is_not_made(bad: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        Rate(bad)
    if bad:
        with pytest.raises(ValueError, match="burst"):
            Rate(1, burst=bad)


def test_a_rate_per_minute_is_a_sixtieth_per_second() -> None:
    assert Rate.per_minute(120) == Rate(2.0, burst=2.0)


def test_k21_five_hundred_waiters_cost_about_one_wake_up_each_in_order_and_evenly_spaced() -> None:
    """K21: waiters wake together, 110 685 wake-ups for 500 (get-physics-done PR #233)."""

    async def main() -> None:
        limit = RateLimit(Rate(10, burst=1))
        loop = asyncio.get_running_loop()
        grants: list[tuple[int, float]] = []

        async def wait(i: int) -> None:
            await limit.acquire()
            grants.append((i, loop.time()))

        async with assert_nothing_leaked(limit):
            await asyncio.gather(*(wait(i) for i in range(500)))
        assert [i for i, _ in grants] == list(range(500))
        assert [at for _, at in grants] == pytest.approx([i / 10 for i in range(500)])
        assert limit.statistics().wakeups <= 500

    run_virtual(main())


def test_k21_a_cancelled_waiter_gives_its_slot_to_the_next() -> None:
    async def main() -> None:
        limit = RateLimit(Rate(1, burst=1))
        loop = asyncio.get_running_loop()
        await limit.acquire()
        waiting = [asyncio.create_task(limit.acquire()) for _ in range(3)]
        await asyncio.sleep(0.5)
        waiting[0].cancel()
        await waiting[1]
        assert loop.time() == pytest.approx(1.0)
        await waiting[2]
        assert loop.time() == pytest.approx(2.0)

    run_virtual(main())


def test_a_light_waiter_behind_a_heavy_one_that_gave_up_goes_when_its_own_tokens_are_there() -> None:
    async def main() -> None:
        limit = RateLimit(Rate(1, burst=10))
        loop = asyncio.get_running_loop()
        await limit.acquire(10)
        heavy = asyncio.create_task(limit.acquire(10, deadline_s=2))
        light = asyncio.create_task(limit.acquire(3))
        with pytest.raises(Expired):
            await heavy
        assert loop.time() == pytest.approx(2.0)
        await light
        assert loop.time() == pytest.approx(3.0)

    run_virtual(main())


def test_a_refusal_says_when_the_tokens_will_be_there_counting_those_who_wait() -> None:
    async def main() -> None:
        limit = RateLimit(Rate(2, burst=2))
        limit.try_acquire(2)
        with pytest.raises(Full) as refused:
            limit.try_acquire()
        assert refused.value.retry_after_s == pytest.approx(0.5)
        waiting = asyncio.create_task(limit.acquire(2))
        await turns(3)
        with pytest.raises(Full) as behind:
            limit.try_acquire()
        assert behind.value.retry_after_s == pytest.approx(1.5)
        await waiting

    run_virtual(main())


def test_a_new_rate_holds_for_those_who_wait_already() -> None:
    async def main() -> None:
        limit = RateLimit(Rate(0.01, burst=1))
        await limit.acquire()
        waiting = asyncio.create_task(limit.acquire())
        await turns(3)
        limit.change_rate(Rate(1, burst=1))
        await waiting
        assert asyncio.get_running_loop().time() == pytest.approx(1.0)

    run_virtual(main())


def test_close_ends_every_wait_and_leaves_no_timer() -> None:
    async def main() -> None:
        limit = RateLimit(Rate(1, burst=1))
        await limit.acquire()
        waiting = [asyncio.create_task(limit.acquire()) for _ in range(3)]
        await turns(3)
        limit.close()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [Closed] * 3
        with pytest.raises(Closed):
            await limit.acquire()
        assert limit._timer is None

    run_virtual(main())


def test_a_task_cancelled_at_any_await_takes_no_tokens_with_it() -> None:
    async def main(at: int) -> bool:
        limit = RateLimit(Rate(1, burst=1))
        taken: list[float] = []

        async def take() -> None:
            for _ in range(3):
                await limit.acquire()
                taken.append(1)

        async with assert_nothing_leaked(limit):
            other = asyncio.create_task(take())
            struck = await cancelled_at(at, take())
            await other
        # One was there at the start; every further one took exactly a second.
        assert asyncio.get_running_loop().time() == pytest.approx(len(taken) - 1)
        return struck

    at = 0
    while run_virtual(main(at)):
        at += 1
    assert at >= 2
