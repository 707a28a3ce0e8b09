"""Stopping a map and draining a pool: what runs is finished, what has not begun is said, what hangs is killed."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from headrace.execution import InlinePool, PoolClosed, WorkerPool

from . import faults
from .faults import Job
from .support import LIMIT_S, until


def test_stopping_finishes_what_runs_hands_it_on_in_order_and_leaves_the_rest() -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.work, workers=2) as pool:
            jobs = (Job(n, "sleep", 0.3 if n == 2 else 0.03) for n in range(1000))
            results = pool.map(jobs, window=8)
            items: list[int] = []
            async for outcome in results:
                items.append(outcome.item.n)
                if outcome.item.n == 1:
                    await until(lambda: results.statistics().buffered >= 2)
                    results.stop()
                    stopped_at = results.statistics().pulled
            assert items == list(range(len(items)))
            assert items[-1] >= 4
            assert [job.n for job in results.left] == list(range(len(items), stopped_at))
            statistics = results.statistics()
            assert statistics.pulled == stopped_at == statistics.released + len(results.left)
            # the pool is still open
            assert [outcome.value async for outcome in pool.map([Job(7)], window=1)] == [7]

    asyncio.run(go())


@pytest.mark.parametrize("chunk", [1, 3])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_drain_ends_by_its_deadline_and_accounts_for_every_item(chunk: int, ordered: bool) -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.work, workers=2) as pool:
            jobs = [Job(n, "spin") if n == 4 else Job(n, "sleep", 0.02) for n in range(100)]
            results = pool.map(jobs, window=9, chunk=chunk, ordered=ordered)
            outcomes: list[Any] = []

            async def consume() -> None:
                async for outcome in results:
                    outcomes.append(outcome)

            consuming = asyncio.create_task(consume())
            await until(lambda: any(r.item.n == 4 and r.since_s > 0.05 for r in results.statistics().running))
            begun = time.monotonic()
            report = await pool.drain(0.4)
            assert time.monotonic() - begun < 2
            await consuming
            assert report.killed == 1
            assert 4 in [job.n for job in report.left]
            assert sorted([*(o.item.n for o in outcomes), *(job.n for job in report.left)]) == list(
                range(results.statistics().pulled)
            )
            with pytest.raises(PoolClosed):
                await anext(aiter(pool.map([Job(1)], window=1)))

    asyncio.run(go())


def test_an_item_that_cannot_be_pickled_fails_at_once_and_does_not_hold_up_a_drain() -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.echo, workers=1) as pool:
            items = [1, lambda: 1, 3, *range(4, 100)]
            outcomes: list[Any] = []
            results = pool.map(items, window=4)
            async for outcome in results:
                outcomes.append(outcome)
                if len(outcomes) == 3:
                    begun = time.monotonic()
                    await pool.drain(5)
                    assert time.monotonic() - begun < 2
            assert [type(outcome).__name__ for outcome in outcomes[:3]] == ["Success", "Failure", "Success"]
            assert [outcome.item for outcome in outcomes] + list(results.left) == items[: results.statistics().pulled]

    asyncio.run(go())


def test_a_drain_of_an_idle_pool_returns_at_once() -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.work, workers=1) as pool:
            report = await pool.drain(60)
            assert (report.finished, report.killed, report.left) == (0, 0, ())

    asyncio.run(go())


def test_a_drain_while_an_async_source_is_silent_ends_at_once() -> None:
    async def source() -> Any:
        yield Job(0)
        await asyncio.Event().wait()

    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.work, workers=1) as pool:
            values = []

            async def consume() -> None:
                async for outcome in pool.map(source(), window=4):
                    values.append(outcome.value)

            consuming = asyncio.create_task(consume())
            await until(lambda: values == [0])
            begun = time.monotonic()
            await pool.drain(10)
            await consuming
            assert time.monotonic() - begun < 2

    asyncio.run(go())


def test_a_charge_that_takes_too_long_does_not_hold_up_a_drain() -> None:
    async def note(job: Job, failure: Any) -> None:
        await asyncio.sleep(60)

    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.work, workers=1) as pool:
            results = pool.map([Job(0, "exit", 1), Job(1)], window=4, attempts=2, on_charge=note)

            async def consume() -> list[Any]:
                return [outcome async for outcome in results]

            consuming = asyncio.create_task(consume())
            await until(lambda: results.statistics().charged == 1)
            report = await pool.drain(0.1)
            assert await consuming == []
            assert [job.n for job in report.left][:1] == [0]

    asyncio.run(go())


@pytest.mark.parametrize("kind", [WorkerPool, InlinePool])
def test_stopping_before_the_first_item_ends_without_one(kind: Any) -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), kind.of(faults.double, workers=1) as pool:
            results = pool.map(range(10), window=4)
            results.stop()
            assert [outcome async for outcome in results] == []
            assert results.left == ()

    asyncio.run(go())
