"""One suite over both pools: what a caller may rely on does not depend on whether there are processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from headrace.execution import Failure, InlinePool, PoolClosed, WorkerPool

from . import faults
from .faults import Job
from .support import LIMIT_S

pytestmark = pytest.mark.parametrize("kind", [WorkerPool, InlinePool])


def collect(kind: Any, function: Any, source: Any, **options: Any) -> list[Any]:
    async def go() -> list[Any]:
        async with asyncio.timeout(LIMIT_S), kind.of(function, workers=2) as pool:
            return [outcome async for outcome in pool.map(source, **{"window": 8, **options})]

    return asyncio.run(go())


def test_outcomes_come_in_order_with_what_was_given(kind: Any) -> None:
    outcomes = collect(kind, faults.double, range(30))
    assert [(outcome.item, outcome.value, outcome.attempt) for outcome in outcomes] == [
        (n, 2 * n, 1) for n in range(30)
    ]


def test_an_async_source_is_a_source(kind: Any) -> None:
    async def source() -> AsyncIterator[int]:
        for n in range(30):
            yield n

    assert [outcome.value for outcome in collect(kind, faults.double, source())] == [2 * n for n in range(30)]


def test_an_exception_is_a_failure_in_its_place(kind: Any) -> None:
    outcomes = collect(kind, faults.work, [Job(0), Job(1, "named"), Job(2)])
    assert [isinstance(outcome, Failure) for outcome in outcomes] == [False, True, False]
    failure = outcomes[1]
    assert (failure.code, failure.stage, failure.page, failure.retriable) == ("corrupt-document", "decode", 3, False)
    assert failure.detail == "broken on page 3"
    assert isinstance(failure.exception, faults.NamedError)
    assert "_named" in failure.traceback


def test_attempts_are_charged_and_noted_before_the_rerun(kind: Any) -> None:
    noted: list[int] = []

    async def note(job: Job, failure: Failure[Job]) -> None:
        noted.append(failure.attempt)

    outcomes = collect(
        kind, faults.work, [Job(0, "raise"), Job(1)], attempts=3, on_charge=note, retriable={"exception"}
    )
    assert noted == [1, 2]
    assert (outcomes[0].code, outcomes[0].attempt, outcomes[1].value) == ("exception", 3, 1)


def test_an_item_without_attempts_left_is_not_run(kind: Any) -> None:
    (outcome,) = collect(kind, faults.work, [Job(0)], attempts=2, attempts_of=lambda job: 2)
    assert (outcome.code, outcome.attempt) == ("attempts-exhausted", 2)


def test_the_source_is_closed_when_the_loop_is_left(kind: Any) -> None:
    closed = []

    def source() -> Iterator[int]:
        try:
            yield from range(1000)
        finally:
            closed.append(True)

    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), kind.of(faults.double, workers=1) as pool:
            results = pool.map(source(), window=8)
            async for _ in results:
                break
            await results.aclose()
            assert closed == [True]
            assert [outcome.value async for outcome in pool.map([1, 2], window=2)] == [2, 4]

    asyncio.run(go())


def test_statistics_count_what_was_pulled_and_released(kind: Any) -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), kind.of(faults.double, workers=1) as pool:
            results = pool.map(range(20), window=4)
            count = 0
            async for _ in results:
                count += 1
                statistics = results.statistics()
                assert statistics.released == count
                assert statistics.pulled - count == statistics.window_used <= statistics.window_limit == 4
            assert (results.statistics().pulled, results.statistics().window_used) == (20, 0)
            assert results.left == ()

    asyncio.run(go())


def test_a_closed_or_drained_pool_takes_no_map(kind: Any) -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), kind.of(faults.double, workers=1) as pool:
            await pool.drain(1)
            with pytest.raises(PoolClosed):
                await anext(aiter(pool.map([1], window=1)))

    asyncio.run(go())
