"""What these tests share: small stage functions, sources that know what was taken from them, and full runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from headrace.pipeline import Failure, Pipeline, Run


async def plus_one(number: int) -> int:
    return number + 1


async def same(value: Any) -> Any:
    return value


def taking(duration_s: Callable[[Any], float]) -> Callable[[Any], Any]:
    """A stage function that takes its time."""

    async def work(value: Any) -> Any:
        await asyncio.sleep(duration_s(value))
        return value

    return work


class Numbers:
    """Numbers from 0, endless when not told otherwise; knows how many were taken, and whether it was closed."""

    def __init__(self, count: int = 10**9, error: Exception | None = None) -> None:
        self.count = count
        self.error = error
        self.pulled = 0
        self.closed = False

    def __iter__(self) -> Iterator[int]:
        try:
            for number in range(self.count):
                self.pulled += 1
                yield number
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


class AsyncNumbers(Numbers):
    async def __aiter__(self) -> AsyncIterator[int]:
        try:
            for number in range(self.count):
                await asyncio.sleep(0)
                self.pulled += 1
                yield number
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


async def outcomes_of(pipeline: Pipeline[Any, Any], source: Any) -> list[Any]:
    async with pipeline.run(source) as run:
        return [outcome async for outcome in run]


def brief(outcomes: list[Any]) -> list[Any]:
    """Values, and for failures their stage and code."""
    return [(o.stage, o.code) if isinstance(o, Failure) else o.value for o in outcomes]


def assert_accounted(run: Run[Any, Any]) -> None:
    s = run.statistics()
    assert s.accepted == s.handed_on + s.failed + s.in_flight + s.left, s
    assert s.in_flight <= s.window, s
