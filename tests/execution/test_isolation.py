"""Whatever happens to a worker costs exactly the one item that was running. Real processes, really lost."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.execution import Failure, WorkerPool

from . import faults
from .faults import Job
from .support import SharedPool, run_map


@pytest.fixture(scope="module")
def shared() -> Iterator[SharedPool]:
    """The same two workers, and their successors, for every fault: a pool that lost one must be as good as new."""
    pool = SharedPool(faults.work_or_echo)
    yield pool
    pool.close()


BAD = 17
COUNT = 40

# fault, argument, code, what the detail says
FAULTS = [
    ("exit", 3, "worker-lost", "exit code 3"),
    ("exit", 0, "worker-lost", "exit code 0"),
    ("sys-exit", 5, "worker-lost", "exit code 5"),
    ("abort", None, "worker-lost", "SIGABRT"),
    ("segfault", None, "worker-lost", "SIGSEGV"),
    ("signal", signal.SIGKILL, "worker-lost", "SIGKILL; often that is the kernel short of memory"),
    ("spin", None, "deadline", "longer than 0.5 s"),
    ("signal", signal.SIGSTOP, "deadline", "longer than 0.5 s"),
    ("raise", None, "exception", "ValueError: no good: 17"),
    ("base-exception", None, "exception", "GeneratorExit"),
    ("named", None, "corrupt-document", "broken on page 3"),
    ("unrebuildable", None, "exception", "Unrebuildable: one"),
    ("lambda", None, "unpicklable-result", "lambda"),
    ("lock", None, "unpicklable-result", "lock"),
    ("close-descriptors", None, "worker-lost", "worker"),
]


@pytest.mark.parametrize("chunk", [1, 10])
@pytest.mark.parametrize(("kind", "argument", "code", "says"), FAULTS, ids=lambda value: str(value).replace(" ", "-"))
def test_a_fault_costs_one_item_and_the_order_is_kept(
    shared: SharedPool, kind: str, argument: Any, code: str, says: str, chunk: int
) -> None:
    jobs = [Job(n, kind, argument) if n == BAD else Job(n) for n in range(COUNT)]
    begun = time.monotonic()
    run = shared.run_map(iter(jobs), window=20, chunk=chunk, deadline_s=0.5 if code == "deadline" else None)
    assert run.items == jobs
    assert run.values == [n for n in range(COUNT) if n != BAD]
    (failure,) = run.failures
    assert (failure.item, failure.code, failure.attempt) == (jobs[BAD], code, 1)
    assert says in failure.detail
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize("chunk", [1, 10])
@pytest.mark.parametrize(
    ("item", "code"),
    [
        (faults.ErrorAtPickle(), "unpicklable-item"),
        (faults.ExitAtPickle(), "unpicklable-item"),
        (lambda: 1, "unpicklable-item"),
        (threading.Lock(), "unpicklable-item"),
        (faults.ErrorAtUnpickle(), "unpicklable-item"),
        (faults.ExitAtUnpickle(), "worker-lost"),
        (faults.CrashAtUnpickle(), "worker-lost"),
        (faults.HangAtUnpickle(), "deadline"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_item_that_fails_at_pickling_or_unpickling_costs_itself(
    shared: SharedPool, item: Any, code: str, chunk: int
) -> None:
    items = [*range(15), item, *range(16, 24)]
    run = shared.run_map(items, window=20, chunk=chunk, deadline_s=0.5)
    assert run.items == items
    assert run.values == [n for n in range(24) if n != 15]
    (failure,) = run.failures
    assert (failure.item, failure.code) == (item, code)


@pytest.mark.parametrize("chunk", [1, 10])
@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("ErrorAtPickle", "unpicklable-result"),
        ("ExitAtPickle", "worker-lost"),
        ("CrashAtPickle", "worker-lost"),
        ("HangAtPickle", "deadline"),
        ("ErrorAtUnpickle", "unpicklable-result"),
        ("ExitAtUnpickle", "unpicklable-result"),
    ],
)
def test_a_result_that_fails_at_pickling_or_unpickling_costs_its_item(
    shared: SharedPool, value: str, code: str, chunk: int
) -> None:
    jobs = [Job(n, "make", value) if n == 15 else Job(n) for n in range(24)]
    run = shared.run_map(jobs, window=20, chunk=chunk, deadline_s=0.5)
    assert len(run.outcomes) == 24
    assert [type(outcome) for outcome in run.outcomes].index(Failure) == 15
    (failure,) = run.failures
    assert failure.code == code


def test_an_exception_comes_over_as_itself_with_what_it_says_of_itself(shared: SharedPool) -> None:
    run = shared.run_map([Job(0, "named")])
    (failure,) = run.failures
    assert isinstance(failure.exception, faults.NamedError)
    assert (failure.stage, failure.page, failure.retriable) == ("decode", 3, False)
    assert "in _named" in failure.traceback
    assert failure.worker is not None


def test_an_exception_that_cannot_be_rebuilt_leaves_its_text_and_traceback(shared: SharedPool) -> None:
    run = shared.run_map([Job(0, "unrebuildable")])
    (failure,) = run.failures
    assert failure.exception is None
    assert "Unrebuildable: one" in failure.traceback


@pytest.mark.parametrize("chunk", [1, 10])
def test_several_poison_items_among_good_ones_cost_one_each(shared: SharedPool, chunk: int) -> None:
    bad = {3, 4, 11, 12, 13, 29}
    jobs = [Job(n, "exit", 1) if n in bad else Job(n) for n in range(30)]
    run = shared.run_map(jobs, chunk=chunk)
    assert run.items == jobs
    assert [failure.item.n for failure in run.failures] == sorted(bad)
    assert run.values == [n for n in range(30) if n not in bad]


def test_a_worker_that_grows_over_the_limit_while_it_runs_costs_that_item() -> None:
    jobs = [Job(n, "bloat", 200 << 20) if n == 3 else Job(n) for n in range(8)]
    run = run_map(faults.work, jobs, pool={"memory_limit_bytes": 150 << 20})
    assert run.items == jobs
    assert run.values == [0, 1, 2, 4, 5, 6, 7]
    assert [failure.code for failure in run.failures] == ["memory-limit"]
    assert "150 MB" in run.failures[0].detail


def test_memory_that_an_item_left_behind_is_not_charged_to_the_next() -> None:
    jobs = [Job(n, "leak", 60 << 20) for n in range(3)]
    run = run_map(faults.work, jobs, workers=1, pool={"memory_limit_bytes": 150 << 20, "recycle_rss_bytes": 70 << 20})
    assert run.values == list(range(3))
    assert run.pool is not None
    assert run.pool.restarts["recycled-rss"] >= 2
    assert run.pool.peak_rss_bytes < 250 << 20


def test_big_items_and_results_go_through_whole(shared: SharedPool) -> None:
    items = [os.urandom(3_000_000), b"", os.urandom(1_000_001), b"x" * 17]
    run = shared.run_map(items, window=4)
    assert run.values == items


def test_a_worker_that_is_answering_at_length_is_not_hanging(shared: SharedPool) -> None:
    def source() -> Any:
        for n in range(4):
            time.sleep(0.3)  # a loop that is kept busy longer than the deadline
            yield Job(n, "much", 8_000_000)

    run = shared.run_map(source(), window=4, deadline_s=0.25)
    assert [len(value) for value in run.values] == [8_000_000] * 4


def test_time_in_which_everything_stood_still_counts_against_no_item() -> None:
    async def go() -> list[Any]:
        async with asyncio.timeout(30), WorkerPool.of(faults.work, workers=2) as pool:
            pids = [worker.worker for worker in pool.statistics().workers]

            def stand_still() -> None:  # Ctrl-Z and, later, fg
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)
                time.sleep(4.5)
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)

            asyncio.get_running_loop().call_later(0.3, stand_still)
            jobs = [Job(0, "compute", 0.7), Job(1, "spin"), Job(2, "compute", 0.7)]
            return [outcome async for outcome in pool.map(jobs, window=3, deadline_s=4.0)]

    outcomes = asyncio.run(go())
    assert [getattr(outcome, "code", "ok") for outcome in outcomes] == ["ok", "deadline", "ok"]
