"""What permits promise, one promise at a time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import warnings

import pytest

from headrace.flow import Closed, Ending, Expired, Full, Gauge, Permit, Permits, PermitSpent
from headrace.flow.testing import assert_nothing_leaked, cancelled_at, run_virtual, turns


def test_no_more_is_held_than_the_limits_in_items_and_in_bytes() -> None:
    async def main() -> None:
        permits = Permits(3, limit_bytes=100)
        permits.try_acquire(1, 60)
        with pytest.raises(Full):
            permits.try_acquire(1, 41)
        permits.try_acquire(1, 40)
        with pytest.raises(Full):
            permits.try_acquire(2, 0)
        s = permits.statistics()
        assert (s.held, s.held_bytes) == (2, 100)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # forgotten on purpose; see below
        run_virtual(main())
        gc.collect()


def test_the_head_is_admitted_when_nothing_is_held_whatever_its_weight() -> None:
    async def main() -> None:
        permits = Permits(3, limit_bytes=100)
        with await permits.acquire(1, 50):
            heavy = asyncio.create_task(permits.acquire(9, 5000))
            light = asyncio.create_task(permits.acquire(1, 1))
            await turns(3)
            assert not light.done()  # first come, first served
        with await heavy:
            await turns(3)
            assert not light.done()
        (await light).done()
        assert permits.held == 0

    run_virtual(main())


def test_a_permit_ends_exactly_once() -> None:
    async def main() -> None:
        permits = Permits(1)
        permit = permits.try_acquire()
        permit.done()
        for again in (permit.done, permit.ignore, permit.dropped):
            with pytest.raises(PermitSpent):
                again()
        with pytest.raises(PermitSpent), permit:
            pass
        assert permits.held == 0

    run_virtual(main())


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (None, Ending.DONE),
        (TimeoutError(), Ending.DROPPED),
        (Expired(), Ending.DROPPED),
        (ValueError(), Ending.IGNORE),
        (asyncio.CancelledError(), Ending.IGNORE),
    ],
)
def test_how_a_block_ends_tells_how_its_permit_ends(error: BaseException | None, ending: Ending) -> None:
    async def main() -> None:
        observed: list[tuple[Ending, float]] = []
        permits = Permits(1, observe=lambda ending, held_s: observed.append((ending, held_s)))
        expected = () if error is None else (type(error),)
        with contextlib.suppress(*expected), await permits.acquire():
            await asyncio.sleep(3)
            if error is not None:
                raise error
        assert observed == [(ending, 3.0)]
        assert permits.held == 0

    run_virtual(main())


def test_a_permit_can_be_handed_to_another_task() -> None:
    async def main() -> None:
        permits = Permits(1)

        async def work(permit: Permit) -> None:
            with permit:
                await asyncio.sleep(1)

        task = asyncio.create_task(work(await permits.acquire()))
        with await permits.acquire():
            assert task.done()

    run_virtual(main())


def test_a_forgotten_permit_is_not_lost() -> None:
    async def main() -> None:
        permits = Permits(1)
        permit = await permits.acquire()
        waiting = asyncio.create_task(permits.acquire())
        await turns(3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del permit
        assert [w.category for w in caught] == [ResourceWarning]
        (await waiting).done()
        assert permits.statistics().ignored == 1

    run_virtual(main())


def test_more_permits_let_those_who_wait_in_at_once_and_fewer_take_effect_as_permits_end() -> None:
    async def main() -> None:
        permits = Permits(1)
        first = await permits.acquire()
        waiting = [asyncio.create_task(permits.acquire()) for _ in range(3)]
        await turns(3)
        permits.resize(3)
        await turns(3)
        assert [task.done() for task in waiting] == [True, True, False]
        permits.resize(1)
        first.done()
        waiting[0].result().done()
        await turns(3)
        assert not waiting[2].done()
        waiting[1].result().done()
        (await waiting[2]).done()
        with pytest.raises(ValueError, match="at least 1"):
            permits.resize(0)

    run_virtual(main())


def test_close_refuses_those_who_wait_and_those_who_come_and_keeps_what_is_held() -> None:
    async def main() -> None:
        permits = Permits(1)
        held = await permits.acquire()
        waiting = asyncio.create_task(permits.acquire())
        await turns(3)
        permits.close()
        with pytest.raises(Closed):
            await waiting
        with pytest.raises(Closed):
            permits.try_acquire()
        with pytest.raises(Expired):
            await permits.wait_idle(deadline_s=5)
        idle = asyncio.create_task(permits.wait_idle())
        await turns(3)
        assert not idle.done()
        held.done()
        await idle

    run_virtual(main())


def test_an_acquire_that_expired_holds_nothing() -> None:
    async def main() -> None:
        permits = Permits(1)
        async with assert_nothing_leaked(permits):
            with await permits.acquire():
                with pytest.raises(Expired):
                    await permits.acquire(deadline_s=1)
                assert permits.statistics().waiting == 0

    run_virtual(main())


def test_the_gauge_follows_what_is_held() -> None:
    async def main() -> None:
        gauge = Gauge("in_flight")
        permits = Permits(9, gauge=gauge)
        with await permits.acquire(4):
            assert gauge.value == 4
        assert (gauge.value, gauge.peak) == (0, 4)

    run_virtual(main())


@pytest.mark.parametrize("order", list(itertools.permutations(["release", "cancel 0", "cancel 1"])))
def test_k17_release_and_cancel_in_the_same_tick_lose_no_permit_in_any_order(order: tuple[str, ...]) -> None:
    """K17: a cancelled waiter takes the permit with it, or strands others (cpython #90155, anyio #387, #947, #1145)."""

    async def main() -> None:
        permits = Permits(1)
        async with assert_nothing_leaked(permits):
            held = await permits.acquire()
            waiting = [asyncio.create_task(permits.acquire()) for _ in range(3)]
            await turns(3)
            for step in order:
                if step == "release":
                    held.done()
                else:
                    waiting[int(step[-1])].cancel()
                assert permits.held == 1  # what was released went to the next in line in that moment
            with await waiting[2]:
                assert permits.held == 1
            assert waiting[0].cancelled()
            assert waiting[1].cancelled()

    run_virtual(main())


@pytest.mark.parametrize("limit", [1, 2])
def test_a_task_cancelled_at_any_await_leaves_every_permit_free(limit: int) -> None:
    async def main(at: int) -> bool:
        permits = Permits(limit, limit_bytes=10)

        async def work() -> None:
            for size in (3, 8, 20):
                with await permits.acquire(1, size):
                    await asyncio.sleep(1)

        async with assert_nothing_leaked(permits):
            others = [asyncio.create_task(work()) for _ in range(3)]
            struck = await cancelled_at(at, work())
            await asyncio.gather(*others)
        return struck

    at = 0
    while run_virtual(main(at)):
        at += 1
    assert at >= 4
