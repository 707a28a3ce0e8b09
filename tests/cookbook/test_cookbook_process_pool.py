"""The second recipe of docs/cookbook.md: prime, refill on every completion, put into order with a heap."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from copied_process_pool import in_order

from headrace.execution import Failure, Success, WorkerPool, chunks
from headrace.flow.testing import run_virtual
from headrace.pipeline import Pipeline, Stage

WINDOW = 8


def crash_at_five(number: int) -> int:
    if number == 5:
        os._exit(1)
    return number


def divide(number: int) -> float:
    return 1 / (number - 3)


def hold_up(item: tuple[int, str]) -> int:
    """The head waits until a file is there; all others are done at once."""
    number, file = item
    while number == 0 and not Path(file).exists():
        time.sleep(0.01)
    return number


def ends(numbers: list[int]) -> tuple[int, int, int]:
    return numbers[0], numbers[-1], len(numbers)


def test_the_recipe_is_not_bounded_behind_a_slow_head() -> None:
    """The head ends when 500 were pulled: as many as one likes, so nothing bounds them."""
    head_may_end = threading.Event()
    pulled = 0

    def source() -> Iterator[int]:
        nonlocal pulled
        for number in range(600):
            pulled += 1
            if pulled == 500:
                head_may_end.set()
            yield number

    def work(number: int) -> int:
        if number == 0:
            assert head_may_end.wait(60)
        return number

    with ThreadPoolExecutor(2) as executor:
        results = in_order(executor, work, source(), WINDOW)
        assert next(results) == 0
        assert pulled >= 500 > WINDOW
        assert list(results) == list(range(1, 600))


def test_our_map_pulls_exactly_the_window_behind_a_slow_head(tmp_path: Path) -> None:
    head_may_end = tmp_path / "the head may end"
    pulled = 0

    def source() -> Iterator[tuple[int, str]]:
        nonlocal pulled
        for number in range(40):
            pulled += 1
            yield number, str(head_may_end)

    async def scenario() -> list[int]:
        async with WorkerPool.of(hold_up, workers=2) as pool:
            results = pool.map(source(), window=WINDOW)

            async def release() -> None:
                while results.statistics().buffered < WINDOW - 1:  # noqa: ASYNC110 - until all but the head are done
                    await asyncio.sleep(0.01)
                assert pulled == WINDOW
                head_may_end.touch()

            releasing = asyncio.create_task(release())
            numbers = [outcome.item[0] async for outcome in results if isinstance(outcome, Success)]
            await releasing
            return numbers

    assert asyncio.run(scenario()) == list(range(40))


def test_the_recipe_dies_with_its_pool() -> None:
    got = []
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        results = in_order(executor, crash_at_five, range(10), 4)
        with pytest.raises(BrokenProcessPool):  # noqa: PT012 - what came before it counts
            for number in results:
                got.append(number)
    assert got == list(range(len(got)))
    assert len(got) <= 5, "what comes after the crash is lost, and nobody says which item it was"


def test_our_map_loses_one_item_names_it_and_goes_on() -> None:
    async def scenario() -> list[Success[int, int] | Failure[int]]:
        async with WorkerPool.of(crash_at_five, workers=2) as pool:
            return [outcome async for outcome in pool.map(range(10), window=4)]

    outcomes = asyncio.run(scenario())
    assert [outcome.item for outcome in outcomes] == list(range(10))
    (failure,) = (outcome for outcome in outcomes if isinstance(outcome, Failure))
    assert (failure.item, failure.code) == (5, "worker-lost")


def test_one_exception_ends_the_recipe_and_what_came_after_it_is_never_seen() -> None:
    got = []
    with ThreadPoolExecutor(2) as executor, pytest.raises(ZeroDivisionError):  # noqa: PT012 - what came before it counts
        for value in in_order(executor, divide, range(10), 4):
            got.append(value)
    assert len(got) <= 3


def test_our_pipeline_hands_on_the_exception_in_its_place_and_goes_on() -> None:
    async def scenario() -> list[str | int]:
        async with Pipeline[int, float]([Stage(divide, kind="inline")]).run(range(10)) as outcomes:
            return [o.code if isinstance(o, Failure) else o.item async for o in outcomes]

    assert run_virtual(scenario()) == [0, 1, 2, "exception", 4, 5, 6, 7, 8, 9]


# ---------------------------------------------------------- 1,000 references in chunks of 200 come as 0..4, contiguous


def test_a_thousand_references_in_chunks_of_200_come_as_0_to_4_and_contiguous() -> None:
    async def backwards(chunk: tuple[int, list[int]]) -> tuple[int, list[int]]:
        await asyncio.sleep(10 - chunk[0])  # the last chunk is done first
        return chunk

    async def scenario() -> list[tuple[int, list[int]]]:
        pipeline: Pipeline[tuple[int, list[int]], tuple[int, list[int]]] = Pipeline([Stage(backwards, workers=5)])
        async with pipeline.run(enumerate(chunks(range(1_000), 200))) as outcomes:
            return [outcome.value async for outcome in outcomes if isinstance(outcome, Success)]

    came = run_virtual(scenario())
    assert [number for number, _ in came] == [0, 1, 2, 3, 4]
    assert [ends(numbers) for _, numbers in came] == [(200 * n, 200 * n + 199, 200) for n in range(5)]
    assert [number for _, numbers in came for number in numbers] == list(range(1_000))


def test_the_same_holds_over_worker_processes() -> None:
    async def scenario() -> list[tuple[int, int, int]]:
        async with WorkerPool.of(ends, workers=2) as pool:
            results = pool.map(chunks(range(1_000), 200), window=5)
            return [outcome.value async for outcome in results if isinstance(outcome, Success)]

    assert asyncio.run(scenario()) == [(200 * n, 200 * n + 199, 200) for n in range(5)]
