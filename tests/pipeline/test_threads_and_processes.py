"""Stages of real threads and real worker processes: few tests, on a real event loop."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.execution import InlinePool, WorkerPool, WorkerStartFailed
from headrace.flow import Closed, Permits
from headrace.flow.testing import assert_nothing_leaked
from headrace.pipeline import Batching, Failure, Pipeline, Stage
from pipeline import faults
from pipeline.support import Numbers, assert_accounted, brief, outcomes_of, plus_one, same

LIMIT_S = 30.0  # nothing here may hang


def run(scenario: Any) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(LIMIT_S):
            return await scenario

    return asyncio.run(limited())


def children() -> set[int]:
    with open(f"/proc/self/task/{threading.main_thread().native_id}/children") as names:
        return {int(pid) for pid in names.read().split()}


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


# Threads


def test_a_plain_function_runs_in_threads_of_the_stage_in_order() -> None:
    names: set[str] = set()

    def work(number: int) -> int:
        names.add(threading.current_thread().name)
        time.sleep(0.001 * (number % 3))
        return number

    async def scenario() -> None:
        async with assert_nothing_leaked():
            assert brief(await outcomes_of(Pipeline([Stage(work, workers=3)]), range(50))) == list(range(50))

    run(scenario())
    assert names == {"work thread"}


def test_a_thread_sees_the_context_of_the_run_and_any_exception_costs_its_item_only() -> None:
    who = contextvars.ContextVar("who", default="nobody")

    def work(number: int) -> str:
        if number == 1:
            raise SystemExit(3)
        if number == 2:
            raise StopIteration
        return who.get()

    async def scenario() -> list[Any]:
        who.set("the caller")
        return await outcomes_of(Pipeline([Stage(work)]), range(4))

    wrong = ("work", "exception")
    assert brief(run(scenario())) == ["the caller", wrong, wrong, "the caller"]


def test_a_thread_past_its_deadline_is_given_up_and_holds_its_permit_until_it_is_back() -> None:
    release = threading.Event()

    def work(number: int) -> int:
        if number == 1:
            release.wait(LIMIT_S)
        return number

    async def scenario() -> None:
        permits = Permits(1)
        stage = Stage(work, workers=2, deadline_s=0.05, permits=permits)
        async with assert_nothing_leaked(permits), Pipeline[int, int]([stage]).run(range(4)) as outcomes:
            assert (await anext(outcomes)).value == 0
            late = await anext(outcomes)
            assert isinstance(late, Failure)
            assert late.code == "deadline"
            assert "cannot be ended from here" in late.detail
            assert permits.held == 1
            assert outcomes.statistics().stages[0].given_up == 1
            release.set()
            assert [outcome.value async for outcome in outcomes] == [2, 3]
            assert permits.statistics().dropped == 1

    run(scenario())


def test_leaving_waits_for_a_busy_thread_and_leaves_none() -> None:
    began, release, finished = threading.Event(), threading.Event(), []

    def work(number: int) -> int:
        began.set()
        release.wait(LIMIT_S)
        finished.append(number)
        return number

    async def scenario() -> None:
        permits, source = Permits(1), Numbers()
        async with assert_nothing_leaked(permits):
            outcomes = Pipeline[int, int]([Stage(work, permits=permits)]).run(source)
            async with outcomes:
                await asyncio.to_thread(began.wait, LIMIT_S)
                asyncio.get_running_loop().call_later(0.05, release.set)
            assert finished == [0]
            await asyncio.get_running_loop().shutdown_default_executor()
        assert source.closed
        assert outcomes.left[0] == 0

    run(scenario())


def test_a_thread_that_never_comes_back_is_left_behind_and_named_and_its_permit_is_free() -> None:
    release = threading.Event()

    async def scenario() -> None:
        permits = Permits(1)
        stage = Stage(lambda _: release.wait(LIMIT_S), name="stuck", permits=permits)
        began = time.monotonic()
        outcomes = await Pipeline[int, int]([stage], close_s=0.1).run(range(3)).__aenter__()
        await asyncio.sleep(0.05)
        assert permits.held == 1
        with pytest.warns(ResourceWarning, match="stuck worker 1"):
            await outcomes.aclose()
        assert permits.held == 0
        assert time.monotonic() - began < LIMIT_S / 2
        release.set()

    run(scenario())


def test_a_factory_loads_once_in_each_thread() -> None:
    loaded: list[str] = []

    def load() -> Any:
        loaded.append(threading.current_thread().name)
        return lambda number: -number

    stage = Stage(factory=load, name="model", kind="thread", workers=3)
    assert brief(run(outcomes_of(Pipeline([stage]), range(9)))) == [-n for n in range(9)]
    assert loaded == ["model thread"] * 3


def test_a_factory_that_fails_in_a_thread_or_process_is_raised_and_nothing_is_left() -> None:
    async def scenario() -> None:
        async with assert_nothing_leaked():
            thread = Stage(factory=faults.fail_to_load, kind="thread", name="t", workers=2)
            with pytest.raises(OSError, match="not there"):
                await outcomes_of(Pipeline([Stage(same), thread]), range(3))
            process = Stage(factory=faults.fail_to_load, kind="process", name="p")
            with pytest.raises(WorkerStartFailed, match="not there"):
                await outcomes_of(Pipeline([Stage(abs), process]), range(3))

    run(scenario())


def test_workers_that_were_added_and_never_began_leave_no_thread() -> None:
    async def scenario() -> None:
        async with assert_nothing_leaked(), Pipeline[int, int]([Stage(abs)]).run(Numbers()) as outcomes:
            await outcomes.resize("abs", workers=4)
            # Left in the same tick: the tasks of the new ones are cancelled before their first step.

    run(scenario())


def test_workers_that_are_ready_only_after_the_run_was_closed_are_not_added() -> None:
    slow, release = threading.Event(), threading.Event()

    def load() -> Any:
        if slow.is_set():
            release.wait(LIMIT_S)
        return abs

    async def scenario() -> None:
        stage = Stage(factory=load, kind="thread", name="model")
        async with assert_nothing_leaked():
            async with Pipeline[int, int]([stage]).run(Numbers()) as outcomes:
                await anext(outcomes)
                slow.set()
                growing = asyncio.ensure_future(outcomes.resize("model", workers=3))
                await asyncio.sleep(0.02)
            release.set()
            with pytest.raises(Closed):
                await growing

    run(scenario())


# Processes


def test_a_process_that_crashes_hangs_or_answers_the_unpicklable_costs_one_failure_in_its_place() -> None:
    async def scenario() -> None:
        permits = Permits(2)
        stage = Stage(faults.work, kind="process", workers=2, deadline_s=1.0, permits=permits)
        async with assert_nothing_leaked(permits):
            outcomes = await outcomes_of(Pipeline([Stage(same), stage, Stage(plus_one)]), range(8, 16))
        codes = {10: "worker-lost", 11: "deadline", 12: "exception", 13: "unpicklable-result"}
        assert [outcome.item for outcome in outcomes] == list(range(8, 16))
        assert brief(outcomes) == [("work", codes[n]) if n in codes else n + 1 for n in range(8, 16)]
        assert permits.statistics().dropped == 1

    run(scenario())


def test_an_unpicklable_item_fails_at_once_among_good_ones() -> None:
    items = [1, lambda: None, 2, threading.Lock(), 3]
    outcomes = run(outcomes_of(Pipeline([Stage(faults.work, kind="process")]), items))
    assert [getattr(outcome, "code", "ok") for outcome in outcomes] == [
        "ok",
        "unpicklable-item",
        "ok",
        "unpicklable-item",
        "ok",
    ]


def test_of_a_batch_that_crashes_its_process_only_the_one_at_fault_fails() -> None:
    stage = Stage(faults.batch, kind="process", batching=Batching(max_items=3, linger_s=1.0))
    outcomes = run(outcomes_of(Pipeline([stage]), [7, 10, 8, 9, 12, 13]))
    failed = {10: "worker-lost", 12: "exception", 13: "unpicklable-result"}
    assert brief(outcomes) == [("batch", failed[n]) if n in failed else n for n in (7, 10, 8, 9, 12, 13)]


def test_a_lost_worker_is_worth_another_attempt_when_there_is_one(tmp_path: Path) -> None:
    stage = Stage(faults.CrashesOnce(str(tmp_path)), kind="process", attempts=2)
    outcomes = run(outcomes_of(Pipeline([stage]), range(3)))
    assert [(outcome.value, outcome.attempt) for outcome in outcomes] == [(0, 2), (1, 2), (2, 2)]


def test_leaving_early_kills_a_hung_process_within_a_second_and_closes_the_source() -> None:
    async def scenario() -> None:
        permits, source = Permits(2), Numbers()
        stage = Stage(faults.work, kind="process", workers=2, permits=permits)
        async with assert_nothing_leaked(permits):
            async with Pipeline[int, int]([Stage(plus_one), stage]).run(source) as outcomes:
                async for outcome in outcomes:
                    if outcome.value == 9:
                        break
                else:
                    pytest.fail("10 crashes, so that 9 came first")
                began = time.monotonic()
            assert time.monotonic() - began < 5.0
        assert source.closed
        assert_accounted(outcomes)

    run(scenario())


def test_processes_come_and_go_while_the_stage_runs() -> None:
    async def scenario() -> None:
        async with Pipeline[int, int]([Stage(faults.pid, kind="process", workers=1)]).run(Numbers()) as outcomes:
            for workers in (1, 3, 2):
                await outcomes.resize("pid", workers=workers)
                for _ in range(20):  # of those that are over
                    await anext(outcomes)
                pids = {(await anext(outcomes)).value for _ in range(200)}
                assert len(pids) == workers
                assert os.getpid() not in pids

    run(scenario())


def test_workers_of_the_callers_serve_many_runs_and_stay_open() -> None:
    async def scenario() -> None:
        async with WorkerPool(faults.load_multiplier, workers=2) as pool:
            pipeline: Pipeline[int, int] = Pipeline([Stage(pool=pool, name="model"), Stage(plus_one)])
            for _ in range(3):
                assert brief(await outcomes_of(pipeline, range(20))) == [7 * n + 1 for n in range(20)]
            async with pipeline.run(Numbers()) as outcomes:
                await anext(outcomes)
                with pytest.raises(ValueError, match="has 2 workers, not 3"):
                    await outcomes.resize("model", workers=3)
            assert pool.statistics().started == 2
            assert brief(await outcomes_of(pipeline, range(3))) == [1, 8, 15]
        async with InlinePool.of(faults.work) as inline:
            assert brief(await outcomes_of(Pipeline([Stage(pool=inline)]), [1, 12, 3])) == [
                1,
                ("InlinePool", "exception"),
                3,
            ]

    run(scenario())
