"""The lives of workers: started, recycled, lost while idle, failing to start, ended with the pool."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from headrace.execution import WorkerPool, WorkerStartFailed

from . import faults
from .faults import Job
from .support import LIMIT_S, alive, run_map, until


def test_a_worker_that_retires_after_two_of_ten_is_replaced_four_times() -> None:
    run = run_map(faults.echo, range(10), workers=1, pool={"recycle_after": 2})
    assert run.values == list(range(10))
    assert run.pool is not None
    assert run.pool.started == 5
    assert run.pool.restarts == {"recycled-count": 4}


def test_workers_that_have_all_run_what_they_may_are_replaced_when_the_consumer_makes_room() -> None:
    run = run_map(faults.echo, range(30), window=1, pool={"recycle_after": 7, "recycle_jitter": 0.0})
    assert run.values == list(range(30))


def test_a_worker_that_is_woken_does_not_push_its_parent_off_the_processor() -> None:
    run = run_map(faults.scheduling, [0], workers=1)
    assert run.values == [os.SCHED_BATCH]


def test_workers_do_not_retire_together() -> None:
    run = run_map(faults.pid_of, range(240), workers=2, pool={"recycle_after": 40, "recycle_jitter": 0.5})
    runs = [run.values.count(pid) for pid in set(run.values)]
    assert len(set(runs)) > 1
    assert all(count <= 60 for count in runs)


def test_a_pool_that_lost_a_worker_goes_on_with_the_next_map() -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.work, workers=1) as pool:
            jobs = [Job(n, "signal", signal.SIGKILL) if n == 3 else Job(n) for n in range(8)]
            first = [type(outcome).__name__ async for outcome in pool.map(jobs, window=4)]
            assert first == ["Success"] * 3 + ["Failure"] + ["Success"] * 4
            again = [outcome.value async for outcome in pool.map([Job(n) for n in range(5)], window=4)]
            assert again == list(range(5))

    asyncio.run(go())


def test_a_worker_killed_while_idle_is_replaced_and_nobody_is_charged() -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.double, workers=2) as pool:
            victim = pool.statistics().workers[0].worker
            os.kill(victim, signal.SIGKILL)
            await until(lambda: victim not in {worker.worker for worker in pool.statistics().workers})
            assert [outcome.value async for outcome in pool.map(range(6), window=4)] == [0, 2, 4, 6, 8, 10]

    asyncio.run(go())


def test_a_worker_killed_with_work_it_has_not_begun_costs_nobody() -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.double, workers=1) as pool:
            victim = pool.statistics().workers[0].worker
            os.kill(victim, signal.SIGSTOP)
            results = pool.map(range(6), window=4)
            outcomes = aiter(results)
            first = asyncio.ensure_future(anext(outcomes))
            await until(lambda: results.statistics().pulled > 0)
            os.kill(victim, signal.SIGKILL)
            values = [(await first).value] + [outcome.value async for outcome in outcomes]
            assert values == [0, 2, 4, 6, 8, 10]
            assert (results.statistics().charged, results.statistics().rerun) == (0, 1)

    asyncio.run(go())


def test_a_worker_that_begins_nothing_is_replaced_and_nobody_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.execution.watchdog.STUCK_S", 0.3)

    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.double, workers=1) as pool:
            os.kill(pool.statistics().workers[0].worker, signal.SIGSTOP)
            results = pool.map(range(6), window=4, deadline_s=0.3)
            assert [outcome.value async for outcome in results] == [0, 2, 4, 6, 8, 10]
            assert results.statistics().charged == 0

    asyncio.run(go())


@pytest.mark.parametrize(
    ("factory", "says"),
    [(faults.failing_factory, "the model is not there"), (faults.exiting_factory, "exit code 9")],
)
def test_a_factory_that_fails_is_an_error_with_its_traceback_and_no_restart_loop(factory: Any, says: str) -> None:
    async def go() -> WorkerPool[Any, Any]:
        pool: WorkerPool[Any, Any] = WorkerPool(factory, workers=2)
        async with asyncio.timeout(10):
            with pytest.raises(WorkerStartFailed, match=says):
                await pool.__aenter__()
        return pool

    pool = asyncio.run(go())
    assert pool.statistics().started == 2
    assert pool.statistics().workers == ()


def test_a_factory_that_hangs_is_an_error_at_the_start_timeout() -> None:
    async def go() -> None:
        pool: WorkerPool[Any, Any] = WorkerPool(faults.hanging_factory, workers=1, start_timeout_s=1)
        async with asyncio.timeout(10):
            with pytest.raises(WorkerStartFailed, match="did not return within 1 s"):
                await pool.__aenter__()

    asyncio.run(go())


def test_a_factory_that_needs_more_than_the_memory_limit_is_an_error_at_the_start() -> None:
    async def go() -> None:
        pool = WorkerPool.of(faults.echo, workers=1, memory_limit_bytes=1 << 20)
        async with asyncio.timeout(10):
            with pytest.raises(WorkerStartFailed, match="before its first item"):
                await pool.__aenter__()

    asyncio.run(go())


def test_a_factory_that_cannot_be_pickled_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="in a module"):
        WorkerPool.of(lambda item: item, workers=1)


def test_when_no_worker_starts_any_more_the_map_ends_with_that_error_after_a_few_tries(tmp_path: Any) -> None:
    async def go() -> None:
        factory = faults.FailsAfter(str(tmp_path), good=2)
        outcomes = []
        async with asyncio.timeout(LIMIT_S), WorkerPool(factory, workers=2) as pool:
            jobs = [Job(0), Job(1), *(Job(n, "exit", 1) for n in range(2, 9))]

            async def consume() -> None:
                async for outcome in pool.map(jobs, window=3):
                    outcomes.append(outcome)

            with pytest.raises(WorkerStartFailed, match="no more workers"):
                await consume()
        assert [outcome.item.n for outcome in outcomes][:2] == [0, 1]
        assert len(outcomes) <= 4
        assert 7 <= len(list(tmp_path.iterdir())) <= 12

    asyncio.run(go())


def test_when_the_system_refuses_a_process_for_a_while_the_map_goes_on_when_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spawn, refusals = subprocess.Popen, 3

    def refusing(*arguments: Any, **options: Any) -> Any:
        nonlocal refusals
        if started and refusals:
            refusals -= 1
            raise BlockingIOError("no process to be had")
        return spawn(*arguments, **options)

    started = False

    async def go() -> None:
        nonlocal started
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.work, workers=1) as pool:
            started = True
            jobs = [Job(0, "exit", 1), Job(1)]
            outcomes = [outcome async for outcome in pool.map(jobs, window=2)]
            assert [type(outcome).__name__ for outcome in outcomes] == ["Failure", "Success"]
            assert refusals == 0

    monkeypatch.setattr("headrace.execution.process.subprocess.Popen", refusing)
    asyncio.run(go())


def test_when_the_system_refuses_processes_at_the_start_that_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*arguments: Any, **options: Any) -> Any:
        raise BlockingIOError("no process to be had")

    async def go() -> None:
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises(WorkerStartFailed, match="no process to be had"):
                await WorkerPool.of(faults.work, workers=2).__aenter__()

    monkeypatch.setattr("headrace.execution.process.subprocess.Popen", refusing)
    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(go())
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_environment_is_set_before_anything_is_imported_and_stdout_stays_clean(
    capfd: pytest.CaptureFixture[str],
) -> None:
    run = run_map(faults.environment_of, ["OMP_THREAD_LIMIT"], pool={"environment": {"OMP_THREAD_LIMIT": "1"}})
    assert run.values == ["1"]
    run = run_map(faults.print_much, range(3))
    assert run.values == [0, 1, 2]
    out, err = capfd.readouterr()
    assert out == ""
    assert "more noise" in err


def test_crashing_or_hanging_at_exit_neither_hangs_the_pool_nor_leaves_a_process() -> None:
    for factory in (faults.CrashAtExit(), faults.HangAtExit()):

        async def go(factory: Any = factory) -> list[int]:
            async with asyncio.timeout(LIMIT_S), WorkerPool(factory, workers=2) as pool:
                assert [outcome.value async for outcome in pool.map(range(4), window=4)] == [0, 1, 2, 3]
                return [worker.worker for worker in pool.statistics().workers]

        begun = time.monotonic()
        pids = asyncio.run(go())
        assert time.monotonic() - begun < 10
        assert not any(alive(pid) for pid in pids)


def test_cancelling_the_start_or_the_end_of_a_pool_leaves_no_process() -> None:
    async def go() -> None:
        pool: WorkerPool[Any, Any] = WorkerPool(faults.hanging_factory, workers=2)
        entering = asyncio.create_task(pool.__aenter__())
        await until(lambda: len(pool.statistics().workers) == 2)
        pids = [worker.worker for worker in pool.statistics().workers]
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        assert not any(alive(pid) for pid in pids)

        pool = WorkerPool(faults.HangAtExit(), workers=2)
        await pool.__aenter__()
        pids = [worker.worker for worker in pool.statistics().workers]
        leaving = asyncio.create_task(pool.__aexit__(None, None, None))
        await asyncio.sleep(0.05)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert not any(alive(pid) for pid in pids)

    asyncio.run(go())


def test_a_pool_leaves_no_open_file_and_no_task_behind() -> None:
    async def go() -> None:
        before = sorted(os.listdir("/proc/self/fd"))
        for _ in range(2):
            async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.work, workers=2) as pool:
                jobs = [Job(n, "exit", 1) if n % 5 == 3 else Job(n) for n in range(12)]
                assert len([outcome async for outcome in pool.map(jobs, window=6, deadline_s=5)]) == 12
        assert sorted(os.listdir("/proc/self/fd")) == before
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(go())


def test_a_pool_that_waits_does_not_wake_the_loop() -> None:
    async def go() -> int:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.double, workers=2) as pool:
            async for _ in pool.map(range(50), window=8, deadline_s=0.05):
                pass
            await asyncio.sleep(0.3)  # the last look of what watches memory and deadlines
            return sum(not handle.cancelled() for handle in loop._scheduled)  # type: ignore[attr-defined]

    assert asyncio.run(go()) <= 1  # the time limit of this test


def test_everything_the_package_promises_is_there_and_a_worker_does_not_load_the_parents_part() -> None:
    import headrace.execution

    assert sorted(headrace.execution._HOMES) == headrace.execution.__all__
    for name in headrace.execution.__all__:
        assert getattr(headrace.execution, name).__name__ == name
    program = "import headrace.execution.worker, sys; print('asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_statistics_of_a_pool_add_up() -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.sleep_20_ms, workers=2) as pool:
            async for outcome in pool.map(range(20), window=8):
                statistics = pool.statistics()
                assert outcome.worker in {worker.worker for worker in statistics.workers}
            statistics = pool.statistics()
            assert sum(worker.items_done for worker in statistics.workers) == 20
            assert statistics.rss_bytes == sum(worker.rss_bytes for worker in statistics.workers)
            assert statistics.peak_rss_bytes >= 10 << 20

    asyncio.run(go())
