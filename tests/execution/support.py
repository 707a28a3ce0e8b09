"""What the tests of pools share: running a map to its end, looking at processes, waiting for conditions."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.execution import Failure, PoolStatistics, Success, WorkerPool

LIMIT_S = 30.0  # nothing here may hang


@dataclass
class Run:
    outcomes: list[Any] = field(default_factory=list)
    pool: PoolStatistics | None = None
    error: BaseException | None = None

    @property
    def values(self) -> list[Any]:
        return [outcome.value for outcome in self.outcomes if isinstance(outcome, Success)]

    @property
    def failures(self) -> list[Failure[Any]]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, Failure)]

    @property
    def items(self) -> list[Any]:
        return [outcome.item for outcome in self.outcomes]


def run_map(
    function: Callable[[Any], Any], source: Any, *, workers: int = 2, pool: dict[str, Any] | None = None, **options: Any
) -> Run:
    """Runs one map to its end in a fresh pool, and keeps what came and what it raised."""

    async def go() -> Run:
        run = Run()
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(function, workers=workers, **(pool or {})) as opened:
            try:
                async for outcome in opened.map(source, **{"window": 16, **options}):
                    run.outcomes.append(outcome)
            except ValueError as error:
                run.error = error
            run.pool = opened.statistics()
        return run

    return asyncio.run(go())


class SharedPool:
    """One pool for many tests, each of which runs a map in it; whatever they do to it, it must serve the next."""

    def __init__(self, function: Callable[[Any], Any], workers: int = 2) -> None:
        self._runner = asyncio.Runner()
        self.pool: WorkerPool[Any, Any] = WorkerPool.of(function, workers=workers)
        self._runner.run(self.pool.__aenter__())

    def run_map(self, source: Any, **options: Any) -> Run:
        async def go() -> Run:
            run = Run()
            async with asyncio.timeout(LIMIT_S):
                try:
                    async for outcome in self.pool.map(source, **{"window": 16, **options}):
                        run.outcomes.append(outcome)
                except ValueError as error:
                    run.error = error
            return run

        return self._runner.run(go())

    def close(self) -> None:
        self._runner.run(self.pool.__aexit__())
        self._runner.close()


async def until(condition: Callable[[], Any], *, within_s: float = 10.0) -> None:
    """Returns as soon as the condition is true."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - the state of other processes sends no event
            await asyncio.sleep(0.005)


def wait_for(condition: Callable[[], Any], *, within_s: float = 10.0) -> bool:
    """The same without a loop; says whether it became true."""
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def processes_with(tag: str) -> list[int]:
    """Living processes that have this text in their environment."""
    return list(_processes_with(tag.encode()))


def _processes_with(tag: bytes) -> Iterator[int]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environ, open(f"/proc/{pid}/stat") as stat:
                if tag in environ.read() and stat.read().rpartition(")")[2].split()[0] != "Z":
                    yield int(pid)
        except OSError:
            continue


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
