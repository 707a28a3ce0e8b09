"""Lanes over worker processes: calls one by one, on top of a pool's map over a stream of items."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AsyncExitStack
from typing import Any

from headrace.execution import PoolClosed, Results, WorkerPool
from headrace.flow import Closed, Receiver, Sender, channel
from headrace.pipeline.lanes import Lane, Outcome
from headrace.pipeline.stage import Pool, Stage

_CLOSED = "the workers of this stage are closed"


class PoolCalls:
    """Turns the map of a pool into calls: what is sent into the map comes back to whoever sent it.

    Args:
        pool: open already, or `own`ed: opened and closed here.
    """

    def __init__(self, pool: Any, stage: Stage, *, own: bool) -> None:
        self._pool: Pool = pool
        self._stage = stage
        self._own = own
        self._stack = AsyncExitStack()
        self._waiting: dict[int, deque[asyncio.Future[Outcome]]] = {}  # by the identity of the argument
        self._error: BaseException | None = None
        self._collector: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Starts the pool, if it is owned, and its map. Raises WorkerStartFailed; leaves no process then."""
        if self._own:
            await self._stack.enter_async_context(self._pool)  # type: ignore[arg-type]  # an owned one is a WorkerPool
        ends: tuple[Sender[Any], Receiver[Any]] = channel(self._pool.workers)
        self._sender, receiver = ends
        results = self._pool.map(
            receiver,
            window=self._pool.workers,
            ordered=False,
            deadline_s=self._stage.deadline_s,
            retriable=self._stage.retriable,
        )
        self._collector = asyncio.get_running_loop().create_task(
            self._collect(results), name=f"{self._stage.name} results"
        )

    async def call(self, argument: Any) -> Outcome:
        """Sends an argument in and waits for its outcome. Cancelled, the worker goes on until this is closed."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if self._error is not None:
            raise self._error
        # Equal identities are the same object, so it does not matter which of its calls gets which outcome.
        self._waiting.setdefault(id(argument), deque()).append(future)
        try:
            self._sender.try_send(argument)  # there is room: no more calls than workers come at once
        except Closed:
            self._forget(argument, future)
            raise self._error or PoolClosed(_CLOSED) from None
        return await future

    async def aclose(self) -> None:
        """Ends the map, killing what still runs 50 ms later, and the pool if it is owned."""
        if self._collector is not None:
            self._sender.close()
            self._collector.cancel()
            await asyncio.wait({self._collector})
        await self._stack.aclose()

    async def _collect(self, results: Results[Any, Any]) -> None:
        try:
            async for outcome in results:
                future = self._waiting[id(outcome.item)][0]
                self._forget(outcome.item, future)
                if not future.done():
                    future.set_result(outcome)
        except Exception as error:
            self._error = error
        finally:
            self._sender.close()
            error_for_all = self._error = self._error or PoolClosed(_CLOSED)
            for future in [future for futures in self._waiting.values() for future in futures]:
                if not future.done():
                    future.set_exception(error_for_all)
            self._waiting.clear()
            await results.aclose()

    def _forget(self, argument: Any, future: asyncio.Future[Outcome]) -> None:
        futures = self._waiting[id(argument)]
        futures.remove(future)
        if not futures:
            del self._waiting[id(argument)]


class ProcessLane(Lane):
    """Calls in a worker process, which is killed at the deadline, by its pool."""

    def __init__(self, calls: PoolCalls, *, own: bool) -> None:
        super().__init__(None)
        self._calls = calls
        self._own = own

    @classmethod
    def of(cls, stage: Stage) -> ProcessLane:
        """A lane with a process of its own, so that lanes come and go while the others work."""
        factory, options = stage.factory, dict(stage.pool_options)
        pool: Any
        if factory is not None:
            pool = WorkerPool(factory, workers=1, **options)
        else:
            assert stage.function is not None
            pool = WorkerPool.of(stage.function, workers=1, **options)
        return cls(PoolCalls(pool, stage, own=True), own=True)

    async def open(self) -> None:
        """Starts the process."""
        if self._own:
            await self._calls.open()

    async def call(self, argument: Any) -> Outcome:
        """Has the process call it."""
        return await self._calls.call(argument)

    async def aclose(self) -> None:
        """Ends the process; kills it when it is busy."""
        if self._own:
            await self._calls.aclose()
