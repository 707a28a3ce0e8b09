"""The workers of a stage: made, added, let go and counted while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from headrace.flow import Closed
from headrace.pipeline.lanes import AsyncLane, InlineLane, Lane, ThreadLane
from headrace.pipeline.process_lane import PoolCalls, ProcessLane
from headrace.pipeline.stage import Stage
from headrace.pipeline.worker import Worker

if TYPE_CHECKING:
    from headrace.pipeline.stage_run import StageRun


class Crew:
    """All workers of one running stage, each with a lane of its own.

    Args:
        stage: what they work for.
        stage_run: where they get their items.
        start: starts a task that belongs to the run.

    Attributes:
        count: how many there are to be; those that are on their way out are not counted.
        closed: set when the run is closed: nobody begins anything more, and nobody is added.
    """

    def __init__(
        self, stage: Stage, stage_run: StageRun, start: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]
    ) -> None:
        self._stage = stage
        self._stage_run = stage_run
        self._start = start
        self._workers: list[Worker] = []
        self._numbers = 0
        self._shared: PoolCalls | None = None
        self._resizing = asyncio.Lock()
        self.count = stage.workers
        self.closed = False

    def __iter__(self) -> Iterator[Worker]:
        """All that still live."""
        return iter(self._workers)

    async def open(self) -> None:
        """Makes them; returns when what they need is loaded. What that raises leaves nothing behind."""
        if self._stage.pool is not None:
            self._shared = PoolCalls(self._stage.pool, self._stage, own=False)
            await self._shared.open()
        await self._add(self._stage.workers)

    async def resize(self, workers: int) -> None:
        """Adds workers and waits until they are ready, or lets some go: idle ones now, busy ones after their call.

        Cancelled while new ones are loaded, it has changed nothing.

        Raises:
            Closed: the run was closed meanwhile.
            ValueError: below 1, or more than the given pool has.
        """
        if workers < 1:
            raise ValueError(f"a stage has at least 1 worker, not {workers}; pause it instead")
        if self._stage.pool is not None and workers > self._stage.pool.workers:
            raise ValueError(f"the pool of {self._stage.name} has {self._stage.pool.workers} workers, not {workers}")
        async with self._resizing:
            if workers > self.count:
                await self._add(workers - self.count)
            elif workers < self.count:
                self._let_go(self.count - workers)

    async def aclose(self) -> None:
        """Ends what they share, once their tasks have ended."""
        for worker in list(self._workers):
            if not worker.begun:
                await worker.lane.aclose()
                self.gone(worker)
        if self._shared is not None:
            await self._shared.aclose()

    def gone(self, worker: Worker) -> None:
        """A worker has ended."""
        self._workers.remove(worker)

    def at_work(self) -> int:
        """How many items they have that have no outcome yet."""
        return sum(not passage.settled for worker in self._workers for passage in worker.group)

    async def _add(self, count: int) -> None:
        lanes = [self._new_lane() for _ in range(count)]
        try:
            async with asyncio.TaskGroup() as opening:
                for lane in lanes:
                    opening.create_task(lane.open())
            # Only now: the run may have been closed while they were loaded.
            if self.closed:
                raise Closed("the run was closed")
        except BaseException as error:
            for lane in lanes:
                await lane.aclose()
            if isinstance(error, BaseExceptionGroup):  # they fail alike: one of them says it
                raise error.exceptions[0] from None
            raise
        for lane in lanes:
            self._numbers += 1
            worker = Worker(self._stage_run, lane)
            self._workers.append(worker)
            worker.task = self._start(worker.work(), f"{self._stage.name} worker {self._numbers}")
        self._recount()

    def _let_go(self, count: int) -> None:
        staying = [worker for worker in self._workers if not worker.retired]
        # Idle ones first: they can go at once.
        for worker in sorted(staying, key=lambda worker: bool(worker.group))[:count]:
            worker.retire()
        self._recount()

    def _recount(self) -> None:
        self.count = sum(not worker.retired for worker in self._workers)

    def _new_lane(self) -> Lane:
        stage = self._stage
        if self._shared is not None:
            return ProcessLane(self._shared, own=False)
        if stage.kind == "process":
            return ProcessLane.of(stage)
        if stage.kind == "thread":
            return ThreadLane(stage.function, stage.factory, stage.deadline_s, f"{stage.name} thread")
        function = stage.factory() if stage.factory is not None else stage.function
        assert function is not None
        return InlineLane(function) if stage.kind == "inline" else AsyncLane(function, stage.deadline_s)
