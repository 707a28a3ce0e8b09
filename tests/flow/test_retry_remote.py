"""What calls to a remote promise: all hear a pause, permits come home, deadlines hold, health is another matter."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.flow import Closed, Expired, Permits, Rate, RateLimit
from headrace.flow.adaptive import AdaptivePermits, AimdRule, LimitBounds
from headrace.flow.remote import BackPressure, Pause, Remote
from headrace.flow.retry import RetryBudget, RetryPolicy
from headrace.flow.testing import (
    Schedule,
    assert_nothing_leaked,
    cancelled_at,
    outcome_of,
    run_schedules,
    run_virtual,
    turns,
)

EXACT = RetryPolicy(attempts=4, first_delay_s=1.0, jitter=0.0)


def script(*steps: Any, log: list[float] | None = None) -> Callable[[], Awaitable[str]]:
    """An attempt that goes through the steps: an error is raised, a number is slept, anything else is the answer."""
    left = list(steps)

    async def attempt() -> str:
        if log is not None:
            log.append(asyncio.get_running_loop().time())
        step = left.pop(0)
        if isinstance(step, Exception):
            raise step
        if isinstance(step, int | float):
            await asyncio.sleep(step)
            return "slept"
        return str(step)

    return attempt


def accounted(remote: Remote) -> None:
    s = remote.statistics()
    assert s.permits.held == s.permits.waiting == 0
    assert s.calls == s.succeeded + s.failed + s.expired + s.cancelled


def test_a_call_is_tried_again_after_growing_delays() -> None:
    async def main() -> None:
        remote, log = Remote(permits=Permits(2), policy=EXACT), list[float]()
        attempt = script(ConnectionError(), TimeoutError(), ConnectionResetError(), "text", log=log)
        assert await remote.call(attempt) == "text"
        assert log == pytest.approx([0.0, 1.0, 3.0, 7.0])
        s = remote.statistics()
        assert (s.calls, s.attempts, s.succeeded, s.failures_in_a_row) == (1, 4, 1, 0)
        accounted(remote)

    run_virtual(main())


def test_what_is_not_worth_another_try_and_the_last_error_come_through() -> None:
    async def main() -> None:
        remote = Remote(permits=Permits(2), policy=EXACT)
        with pytest.raises(KeyError):
            await remote.call(script(KeyError("x"), "never"))
        with pytest.raises(ConnectionError, match="fourth"):
            await remote.call(script(*(ConnectionError(n) for n in ("first", "second", "third", "fourth")), "never"))
        assert remote.statistics().failed == 2
        assert remote.statistics().failures_in_a_row == 5
        accounted(remote)

    run_virtual(main())


@pytest.mark.parametrize(
    ("header", "pause_s"),
    [("7", 7.0), ("0.503", 0.503), ("Sun, 06 Nov 1994 08:49:47 GMT", 10.0), ("9999", 120.0), (3.5, 3.5)],
)
def test_k24_a_retry_after_in_any_form_pauses_all_calls_to_that_remote(header: str | float, pause_s: float) -> None:
    async def main() -> None:
        remote = Remote(permits=Permits(5), policy=EXACT, unix_time_s=lambda: 784111777.0)
        log: list[float] = []
        first = asyncio.create_task(remote.call(script(BackPressure(retry_after=header), "a", log=log)))
        await turns(4)
        assert remote.statistics().paused_s == pytest.approx(pause_s)
        other = asyncio.create_task(remote.call(script("b", log=log)))
        await turns(4)
        assert remote.statistics().permits.held == 0  # whoever is paused holds nothing
        assert [await first, await other] == ["a", "b"]
        assert log == pytest.approx([0.0, pause_s, pause_s + 1.0])
        accounted(remote)

    run_virtual(main())


def test_who_got_his_permit_by_anothers_429_waits_for_the_pause_too() -> None:
    async def main() -> None:
        remote, log = Remote(permits=Permits(1), policy=EXACT), list[float]()

        async def pushed_back() -> str:
            await asyncio.sleep(1.0)
            raise BackPressure(retry_after="5")

        first = asyncio.create_task(outcome_of(remote.call(pushed_back, deadline_s=3.0)))
        await turns(3)
        second = asyncio.create_task(remote.call(script("b", log=log)))
        assert await second == "b"
        assert log == pytest.approx([6.0])
        assert isinstance(await first, Expired)
        accounted(remote)

    run_virtual(main())


@pytest.mark.parametrize("header", [None, "soon", "-1", "Sun, 06 Nov 1994 08:49:07 GMT"])
def test_k24_junk_or_a_past_date_means_a_delay_of_our_own(header: str | None) -> None:
    async def main() -> None:
        remote, log = Remote(permits=Permits(5), policy=EXACT, unix_time_s=lambda: 784111777.0), list[float]()
        assert await remote.call(script(BackPressure(retry_after=header), "a", log=log)) == "a"
        assert log == pytest.approx([0.0, 1.0])
        assert remote.statistics().paused_s == 0.0

    run_virtual(main())


def test_back_pressure_is_never_a_verdict_on_health_and_lowers_the_limit() -> None:
    async def main() -> None:
        adaptive = AdaptivePermits(AimdRule(LimitBounds(1, 50, 16), backoff=0.5))
        remote = Remote(permits=adaptive.permits, policy=EXACT, budget=RetryBudget(reserve=100.0))
        for _ in range(3):
            with pytest.raises(BackPressure):
                await remote.call(script(*[BackPressure(retry_after="1")] * 4))
        s = remote.statistics()
        assert s.failures_in_a_row == 0
        assert s.pushed_back == 12
        assert adaptive.rule.limit == 1
        with pytest.raises(ConnectionError):
            await remote.call(script(*[ConnectionError()] * 4))
        assert remote.statistics().failures_in_a_row == 4
        accounted(remote)

    run_virtual(main())


def test_a_budget_keeps_a_broken_remote_from_being_flooded() -> None:
    async def main() -> None:
        remote = Remote(permits=Permits(100), policy=EXACT, budget=RetryBudget(ratio=0.1, reserve=10.0))
        await asyncio.gather(
            *(outcome_of(remote.call(script(*[ConnectionError()] * 4))) for _ in range(1000)), return_exceptions=True
        )
        s = remote.statistics()
        assert s.failed == 1000
        assert s.attempts <= 1000 + 10 + 100  # without a budget: 4000
        accounted(remote)

    run_virtual(main())


def test_a_deadline_bounds_the_whole_and_no_attempt_is_begun_in_vain() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        remote, log = Remote(permits=Permits(2), policy=EXACT), list[float]()
        with pytest.raises(Expired) as refused:
            await remote.call(script(ConnectionError("why"), ConnectionError(), "never", log=log), deadline_s=2.5)
        assert isinstance(refused.value.__cause__, ConnectionError)
        assert log == pytest.approx([0.0, 1.0])
        assert loop.time() == pytest.approx(1.0)  # the third could only begin at 3.0: known at once
        with pytest.raises(Expired):
            await remote.call(script(60.0, log=log), deadline_s=2.0)
        assert loop.time() == pytest.approx(3.0)  # the attempt ran under what was left
        remote.pause.extend(100.0)
        with pytest.raises(Expired):
            await remote.call(script("never", log=log), deadline_s=50.0)
        assert loop.time() == pytest.approx(3.0)
        with pytest.raises(Expired):
            await remote.call(script("never"), deadline_s=0.0)
        assert remote.statistics().expired == 4
        assert remote.statistics().permits.dropped == 1
        accounted(remote)

    run_virtual(main())


def test_calls_keep_to_the_rate_and_to_the_permits() -> None:
    async def main() -> None:
        remote, log = Remote(permits=Permits(3), rate=RateLimit(Rate(2.0, burst=1.0)), policy=EXACT), list[float]()
        await asyncio.gather(*(remote.call(script(1.0, log=log)) for _ in range(6)))
        assert log == pytest.approx([0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
        accounted(remote)
        closed = Permits(1)
        closed.close()
        with pytest.raises(Closed):
            await Remote(permits=closed).call(script("never"))

    run_virtual(main())


def test_a_call_cancelled_at_any_await_holds_nothing() -> None:
    async def main(at: int) -> bool:
        permits = Permits(1)
        remote = Remote(permits=permits, rate=RateLimit(Rate(1.0, burst=1.0)), policy=EXACT)
        async with assert_nothing_leaked(permits):
            other = asyncio.create_task(remote.call(script(0.5)))
            struck = await cancelled_at(at, remote.call(script(BackPressure(retry_after="3"), TimeoutError(), 1.0)))
            await other
        accounted(remote)
        return struck

    at = 0
    while run_virtual(main(at)):
        at += 1
    assert at >= 5


def test_a_pause_can_only_become_longer_and_wakes_all_at_its_end() -> None:
    async def main() -> None:
        loop, pause, woken = asyncio.get_running_loop(), Pause(), list[float]()

        async def wait() -> None:
            await pause.over()
            woken.append(loop.time())

        pause.extend(5.0)
        pause.extend(1.0)
        tasks = [asyncio.create_task(wait()) for _ in range(3)]
        await asyncio.sleep(4.0)
        assert pause.waiting == 3
        tasks[1].cancel()
        pause.extend(3.0)
        await asyncio.wait(tasks)
        assert woken == pytest.approx([7.0, 7.0])
        pause.extend(9.0)
        with pytest.raises(Expired):
            await pause.over(deadline_s=8.0)

    run_virtual(main())


async def _scenario(schedule: Schedule) -> None:
    r = schedule.random
    adaptive = AdaptivePermits(AimdRule(LimitBounds(1, 4, 2)))
    remote = Remote(
        permits=adaptive.permits,
        rate=r.choice([None, RateLimit(Rate(20.0, burst=2.0))]),
        policy=RetryPolicy(attempts=3, first_delay_s=0.1),
        budget=RetryBudget(0.5, 3.0),
        rng=random.Random(schedule.seed),
    )
    running = 0

    def check() -> None:
        ended = remote._succeeded + remote._failed + remote._expired + remote._cancelled
        assert 0 <= remote._calls - ended <= 7, remote.statistics()  # one for each client at most
        assert running <= adaptive.permits.held, remote.statistics()

    schedule.watch = check

    async def attempt() -> int:
        nonlocal running
        running += 1
        try:
            assert running <= adaptive.permits.held
            assert not remote.pause.left_s or running
            await asyncio.sleep(r.choice([0, 0.05, 0.3]))
            what = r.randrange(6)
            if what == 0:
                raise BackPressure(retry_after=r.choice([None, "0.2", "1", "junk"]))
            if what == 1:
                raise ConnectionError
            if what == 2:
                raise KeyError
            return 1
        finally:
            running -= 1

    async def client() -> None:
        for _ in range(r.randint(1, 4)):
            try:
                await remote.call(attempt, deadline_s=r.choice([None, 0.2, 2.0]))
            except (Expired, BackPressure, ConnectionError, KeyError):
                continue

    async with assert_nothing_leaked(adaptive.permits):
        tasks = [schedule.victim(client()) for _ in range(r.randint(2, 6))] + [asyncio.create_task(client())]
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result
    accounted(remote)


@pytest.mark.schedules
def test_every_call_is_accounted_for_and_no_permit_is_lost_under_any_schedule() -> None:
    run_schedules(_scenario, 1500)
