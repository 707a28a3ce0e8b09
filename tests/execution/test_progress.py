"""News of what runs: told with its item, seldom, never instead of an outcome, and lost sooner than waited for."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.execution import Failure, InlinePool, Success, WorkerPool, report_progress
from headrace.execution.wire import PAGE_BYTES
from headrace.execution.worker import PROGRESS_NS, Worker

from .support import LIMIT_S

both = pytest.mark.parametrize("kind", [WorkerPool, InlinePool])


def three_pages(item: Any) -> Any:
    for page in range(4):
        report_progress(page, 3)
    return item


def many_steps(count: int) -> int:
    for step in range(count):
        report_progress(step, count)
    return count


def says_so_when_even(n: int) -> int:
    if n % 2 == 0:
        report_progress(n, 100)
    return n


def report_and_die(n: int) -> int:
    report_progress(n, 9)
    if n == 1:
        os._exit(3)
    return n


def report_and_wait(path: str) -> str:
    report_progress(23, 113)
    while not os.path.exists(path):
        time.sleep(0.005)
    return path


def nonsense(item: Any) -> None:
    report_progress(4, 3)


def collect(kind: Any, function: Any, source: Any, **options: Any) -> list[Any]:
    async def go() -> list[Any]:
        async with asyncio.timeout(LIMIT_S), kind.of(function, workers=1) as pool:
            return [outcome async for outcome in pool.map(source, **{"window": 8, **options})]

    return asyncio.run(go())


@both
def test_what_a_function_reports_is_told_with_its_item_and_the_outcomes_are_what_they_were(kind: Any) -> None:
    told: list[Any] = []
    outcomes = collect(kind, three_pages, "abc", on_progress=lambda *news: told.append(news))
    assert [outcome.value for outcome in outcomes] == ["a", "b", "c"]
    assert told[0] == ("a", 0, 3)
    assert all(item in "abc" and 0 <= done <= total == 3 for item, done, total in told)


@both
def test_without_a_listener_or_outside_of_a_pool_a_report_goes_nowhere(kind: Any) -> None:
    assert [outcome.value for outcome in collect(kind, three_pages, "abc")] == ["a", "b", "c"]
    assert three_pages("here") == "here"


@both
def test_progress_that_makes_no_sense_is_an_error_of_the_function(kind: Any) -> None:
    (failure,) = collect(kind, nonsense, [1])
    assert isinstance(failure, Failure)
    assert "0 <= done <= total" in failure.detail


@both
def test_a_listener_that_raises_ends_the_map_with_its_error(kind: Any) -> None:
    def listener(*news: Any) -> None:
        raise ValueError("not in the mood")

    with pytest.raises(ValueError, match="not in the mood"):
        collect(kind, three_pages, "a", on_progress=listener)


def test_however_many_steps_there_are_no_more_is_sent_than_five_in_a_second() -> None:
    told: list[Any] = []
    (outcome,) = collect(WorkerPool, many_steps, [200_000], on_progress=lambda *news: told.append(news))
    assert isinstance(outcome, Success)
    assert 1 <= len(told) <= outcome.elapsed_s / (PROGRESS_NS / 1e9) + 1


def test_in_a_chunk_the_item_that_reported_is_named() -> None:
    told: list[Any] = []
    outcomes = collect(
        WorkerPool, says_so_when_even, [1, 3, 6, 7], chunk=4, on_progress=lambda *news: told.append(news)
    )
    assert [outcome.value for outcome in outcomes] == [1, 3, 6, 7]
    assert told == [(6, 6, 100)]


def test_an_item_that_reported_and_killed_its_worker_is_the_one_that_is_charged() -> None:
    outcomes = collect(WorkerPool, report_and_die, range(3), on_progress=lambda *news: None)
    assert [isinstance(outcome, Failure) for outcome in outcomes] == [False, True, False]
    assert outcomes[1].code == "worker-lost"


def test_statistics_say_how_far_what_runs_is(tmp_path: Path) -> None:
    path = tmp_path / "go on"

    async def go() -> tuple[int, int]:
        seen = (0, 0)
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(report_and_wait, workers=1) as pool:

            def look(*news: Any) -> None:
                nonlocal seen
                (running,) = results.statistics().running
                seen = running.done, running.total
                path.touch()

            results = pool.map([str(path)], window=1, on_progress=look)
            assert [outcome.value async for outcome in results] == [str(path)]
        return seen

    assert asyncio.run(go()) == (23, 113)


def test_a_worker_whose_pipe_is_full_goes_on_and_says_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, mmap.mmap(-1, PAGE_BYTES) as page:
        words = memoryview(page).cast("Q")
        worker = Worker(three_pages, theirs, words, None)
        theirs.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while theirs.send(b"x" * 65536):
                pass
        theirs.setblocking(True)
        worker.tell_progress(1, 2)
        ours.setblocking(False)
        received = b""
        with contextlib.suppress(BlockingIOError):
            while piece := ours.recv(1 << 20):
                received += piece
        assert set(received) == {ord("x")}
        words.release()
