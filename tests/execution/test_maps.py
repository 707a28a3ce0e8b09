"""Order, the window, the budget, sources, attempts and endings of a map over real workers."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from headrace.execution import Failure, PoolBusy, PoolClosed, Success, WorkerPool

from . import faults
from .faults import Job
from .support import LIMIT_S, run_map, until


class Watched:
    """A source that knows how much was pulled and whether it was closed."""

    def __init__(self, count: int | None = None, *, fail_at: int | None = None) -> None:
        self.pulled = 0
        self.closed = False
        self._count, self._fail_at = count, fail_at

    def items(self) -> Iterator[int]:
        try:
            while self._count is None or self.pulled < self._count:
                if self.pulled == self._fail_at:
                    raise ValueError("the source broke")
                self.pulled += 1
                yield self.pulled - 1
        finally:
            self.closed = True

    async def async_items(self) -> AsyncIterator[int]:
        items = self.items()
        try:
            for item in items:
                await asyncio.sleep(0)
                yield item
        finally:
            items.close()


@pytest.mark.parametrize("kind", ["items", "async_items"])
@pytest.mark.parametrize("chunk", [1, 7])
@pytest.mark.parametrize("workers", [1, 3])
def test_every_item_comes_once_and_in_order(kind: str, chunk: int, workers: int) -> None:
    source = Watched(500)
    run = run_map(faults.double, getattr(source, kind)(), workers=workers, window=32, chunk=chunk)
    assert run.items == list(range(500))
    assert run.values == [2 * n for n in range(500)]
    assert source.closed


def test_exactly_the_window_is_pulled_behind_a_slow_head_and_all_come_in_order_after() -> None:
    async def go() -> None:
        source = Watched()
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.slow_head, workers=2) as pool:
            results = pool.map(source.items(), window=8)
            outcomes = aiter(results)
            first = asyncio.ensure_future(anext(outcomes))
            await until(lambda: results.statistics().buffered == 7)
            await asyncio.sleep(0.2)  # a wrong window would go on pulling
            assert not first.done()
            assert source.pulled == 8
            statistics = results.statistics()
            assert (statistics.pulled, statistics.released, statistics.window_used) == (8, 0, 8)
            assert [running.item for running in statistics.running] == [0]
            assert statistics.oldest_age_s > 0.2
            assert (await first).item == 0
            assert [(await anext(outcomes)).item for _ in range(50)] == list(range(1, 51))
            await results.aclose()
            assert source.closed

    asyncio.run(go())


def test_never_more_than_the_window_is_pulled_and_not_handed_on() -> None:
    async def one(pool: WorkerPool[int, int], seed: int) -> None:
        choose = random.Random(seed)
        window, ordered, is_async = choose.randint(1, 20), choose.random() < 0.5, choose.random() < 0.5
        chunk, pause = choose.randint(1, 5), choose.randint(0, 2)
        source = Watched(60)
        handed = 0

        def items() -> Iterator[int]:
            for item in source.items():
                assert source.pulled - handed <= window
                yield item

        async def async_items() -> AsyncIterator[int]:
            for item in items():
                yield item

        given: Any = async_items() if is_async else items()
        async for _ in pool.map(given, window=window, chunk=min(chunk, window), ordered=ordered):
            handed += 1
            assert source.pulled - handed <= window, seed
            if pause:
                await asyncio.sleep(0.001 * (handed % (pause + 1)))
        assert handed == 60, seed

    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.double, workers=2) as pool:
            for seed in range(60):
                await one(pool, seed)

    asyncio.run(go())


def test_a_budget_of_one_byte_lets_one_item_in_at_a_time_and_all_in_order() -> None:
    source = Watched(100)
    run = run_map(faults.double, source.items(), window=16, byte_budget=1, weigh=lambda n: n + 1)
    assert run.values == [2 * n for n in range(100)]


def test_weight_in_flight_stays_in_the_budget_unless_one_item_alone_is_above_it() -> None:
    async def go() -> None:
        weights = [3, 4, 50, 1, 1, 1, 9, 9, 2] * 5
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.double, workers=2) as pool:
            results = pool.map(weights, window=8, byte_budget=10, weigh=int)
            seen = []
            async for outcome in results:
                seen.append(outcome.item)
                statistics = results.statistics()
                assert statistics.weight <= 10 or statistics.weight == 50
            assert seen == weights

    asyncio.run(go())


@pytest.mark.parametrize("kind", ["items", "async_items"])
@pytest.mark.parametrize("chunk", [1, 10])
def test_a_source_error_comes_after_the_results_before_it(kind: str, chunk: int) -> None:
    source = Watched(100, fail_at=53)
    run = run_map(faults.double, getattr(source, kind)(), chunk=chunk)
    assert run.values == [2 * n for n in range(53)]
    assert str(run.error) == "the source broke"


def test_an_item_that_cannot_be_weighed_ends_the_source_after_the_results_before_it() -> None:
    run = run_map(faults.echo, [1, 2, "x", 4], byte_budget=100, weigh=int)
    assert run.values == [1, 2]
    assert "invalid literal" in str(run.error)


def test_an_empty_source_is_an_empty_map() -> None:
    assert run_map(faults.double, []).outcomes == []


def test_without_order_nothing_waits_behind_a_slow_item() -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.slow_head, workers=2) as pool:
            items = [outcome.item async for outcome in pool.map(range(30), window=8, ordered=False)]
        assert sorted(items) == list(range(30))
        assert items[-1] == 0

    asyncio.run(go())


@pytest.mark.parametrize("kind", ["items", "async_items"])
def test_leaving_the_loop_early_closes_the_source_and_leaves_no_task_and_no_busy_worker(kind: str) -> None:
    async def go() -> None:
        source = Watched(1000)
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.sleep_20_ms, workers=2) as pool:
            async for outcome in pool.map(getattr(source, kind)(), window=16):
                if outcome.item == 2:
                    break
            del outcome
            await until(lambda: source.closed and len(asyncio.all_tasks()) == 1, within_s=2)
            assert all(worker.state != "busy" for worker in pool.statistics().workers)
            assert source.pulled <= 3 + 16
            # and the pool is as good as new
            assert [outcome.value async for outcome in pool.map(range(5), window=4)] == list(range(5))
            assert pool.statistics().started == 2

    asyncio.run(go())


def test_closing_kills_only_the_worker_that_cannot_finish_in_time() -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.sleep_for, workers=2) as pool:
            before = {worker.worker for worker in pool.statistics().workers}
            results = pool.map([60.0, 0.0, 0.001, 0.001], window=4, ordered=False)
            outcomes = aiter(results)
            await anext(outcomes)
            await until(lambda: results.statistics().buffered == 2)
            begun = time.monotonic()
            await results.aclose()
            assert time.monotonic() - begun < 1
            with pytest.raises(StopAsyncIteration):
                await anext(outcomes)
            await until(lambda: sum(worker.state == "idle" for worker in pool.statistics().workers) == 2)
            assert len(before & {worker.worker for worker in pool.statistics().workers}) == 1
            assert pool.statistics().restarts == {"closed": 1}

    asyncio.run(go())


def test_closing_before_the_first_item_closes_the_source_and_pulls_nothing() -> None:
    async def go() -> None:
        source = Watched(10)
        items = source.items()
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.double, workers=1) as pool:
            results = pool.map(items, window=4)
            await results.aclose()
            assert source.pulled == 0
            assert next(items, None) is None
            with pytest.raises(RuntimeError, match="a map runs once"):
                aiter(results)

    asyncio.run(go())


def test_a_consumer_that_is_cancelled_leaves_nothing_running() -> None:
    async def go() -> None:
        source = Watched()
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.sleep_a_minute, workers=2) as pool:

            async def consume() -> None:
                async for _ in pool.map(source.items(), window=4):
                    raise AssertionError("nothing ends that soon")

            task = asyncio.create_task(consume())
            await until(lambda: source.pulled >= 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert source.closed
            await until(lambda: sum(worker.state == "idle" for worker in pool.statistics().workers) == 2)

    asyncio.run(go())


def test_an_exception_in_the_loop_body_comes_out_and_the_pool_goes_on() -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.double, workers=2) as pool:

            async def consume() -> None:
                async for _ in pool.map(range(100), window=8):
                    raise KeyError

            with pytest.raises(KeyError):
                await consume()
            assert [outcome.value async for outcome in pool.map(range(3), window=8)] == [0, 2, 4]

    asyncio.run(go())


def test_the_workers_of_a_pool_are_started_once_and_run_many_maps(tmp_path: Any) -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool(faults.Counting(str(tmp_path)), workers=2) as pool:
            for count in (10, 0, 25):
                assert [o.value async for o in pool.map(range(count), window=5)] == list(range(count))
            assert pool.statistics().started == 2
            assert sum(worker.items_done for worker in pool.statistics().workers) == 35
        assert len(list(tmp_path.iterdir())) == 2

    asyncio.run(go())


def test_a_second_map_at_the_same_time_is_refused_and_a_closed_pool_takes_none() -> None:
    async def go() -> None:
        pool = WorkerPool.of(faults.double, workers=1)
        with pytest.raises(PoolClosed):
            await anext(aiter(pool.map([1], window=1)))
        async with asyncio.timeout(LIMIT_S), pool:
            outcomes = aiter(pool.map(range(9), window=2))
            assert (await anext(outcomes)).value == 0
            with pytest.raises(PoolBusy):
                await anext(aiter(pool.map([1], window=1)))
            assert [outcome.value async for outcome in outcomes] == [2 * n for n in range(1, 9)]
        with pytest.raises(PoolClosed):
            await anext(aiter(pool.map([1], window=1)))
        with pytest.raises(PoolClosed):
            await pool.__aenter__()

    asyncio.run(go())


def test_a_charged_item_is_run_again_only_after_its_charge_was_noted_and_its_neighbours_are_not_charged() -> None:
    charges: list[tuple[int, int, str]] = []

    async def note(job: Job, failure: Failure[Job]) -> None:
        await asyncio.sleep(0.01)
        charges.append((job.n, failure.attempt, failure.code))

    jobs = [Job(n, "exit", 1) if n == 3 else Job(n) for n in range(12)]
    run = run_map(faults.work, jobs, chunk=4, attempts=3, on_charge=note)
    assert charges == [(3, 1, "worker-lost"), (3, 2, "worker-lost")]
    assert run.values == [n for n in range(12) if n != 3]
    assert [(failure.item.n, failure.attempt) for failure in run.failures] == [(3, 3)]
    assert all(outcome.attempt == 1 for outcome in run.outcomes if isinstance(outcome, Success))


def test_attempts_charged_before_a_restart_count() -> None:
    charged = {1: 1, 2: 2}
    jobs = [Job(n, "exit", 1) for n in range(3)]
    run = run_map(faults.work, jobs, attempts=2, attempts_of=lambda job: charged.get(job.n, 0))
    assert [(failure.code, failure.attempt) for failure in run.failures] == [
        ("worker-lost", 2),
        ("worker-lost", 2),
        ("attempts-exhausted", 2),
    ]
    assert run.pool is not None
    assert run.pool.restarts["worker-lost"] == 3


def test_only_failures_with_a_retriable_code_are_run_again() -> None:
    jobs = [Job(0, "raise"), Job(1, "named"), Job(2)]
    run = run_map(faults.work, jobs, attempts=3, retriable={"exception"})
    assert [(failure.code, failure.attempt) for failure in run.failures] == [("exception", 3), ("corrupt-document", 1)]
    assert run.values == [2]


def test_an_error_of_the_one_who_notes_charges_ends_the_map() -> None:
    async def note(job: Job, failure: Failure[Job]) -> None:
        raise ValueError("the disk is full")

    jobs = [Job(0), Job(1), Job(2, "exit", 1), Job(3)]
    run = run_map(
        faults.work, jobs, workers=1, attempts=2, on_charge=note
    )  # one: 0 and 1 are surely back before 2 dies
    assert run.values == [0, 1]
    assert str(run.error) == "the disk is full"


@pytest.mark.parametrize(
    "options",
    [
        {"window": 0},
        {"window": True},
        {"window": 4, "chunk": 5},
        {"window": 4, "chunk": 0},
        {"window": 4, "byte_budget": 10},
        {"window": 4, "deadline_s": 0},
        {"window": 4, "deadline_s": float("nan")},
        {"window": 4, "attempts": 0},
    ],
)
def test_nonsense_is_refused_at_the_call(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is"):
        WorkerPool.of(faults.double, workers=1).map([], **options)


def test_a_stuck_consumer_stops_the_pulling() -> None:
    async def go() -> None:
        source = Watched()
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.double, workers=2) as pool:
            results = pool.map(source.items(), window=10)
            outcomes = aiter(results)
            await anext(outcomes)
            await until(lambda: results.statistics().buffered == 10)
            assert source.pulled == 11
            # and what it took makes room although it does not come back
            await anext(outcomes)
            await until(lambda: source.pulled == 12)
            await results.aclose()

    asyncio.run(go())


def test_slow_items_do_not_wait_behind_each_other_in_a_worker() -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.sleep_for, workers=2) as pool:
            results = pool.map([0.06] * 12, window=12)
            async for _ in results:
                for worker in pool.live:
                    assert len(worker.in_flight) <= 2
            fast = pool.map([0.0] * 3000, window=256)
            deepest = 0
            async for _ in fast:
                deepest = max(deepest, *(len(worker.in_flight) for worker in pool.live))
            assert deepest > 8

    asyncio.run(go())
