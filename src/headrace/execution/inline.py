"""The same map without processes: one item at a time in the caller's own process. For tests, debuggers and profiles."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from time import monotonic
from typing import Any, Generic, Self, TypeVar

from headrace.execution.chunking import Source
from headrace.execution.errors import PoolBusy, PoolClosed
from headrace.execution.options import MapOptions
from headrace.execution.outcome import ATTEMPTS_EXHAUSTED, Failure, Success, describe
from headrace.execution.pool import Constant
from headrace.execution.progress import listening
from headrace.execution.statistics import DrainReport, MapStatistics, PoolStatistics, Running

T = TypeVar("T")
R = TypeVar("R")


class InlinePool(Generic[T, R]):
    """A pool of no workers, with the face of `WorkerPool`.

    What needs a process is not done: a crash is a crash of the caller, `deadline_s` and memory limits are not
    enforced, items and results are not pickled. Options that are about processes are taken and ignored. The function
    holds up the event loop while it runs.
    """

    def __init__(self, factory: Callable[[], Callable[[T], R]], **process_options: Any) -> None:
        self.workers = 1
        self._factory = factory
        self._function: Callable[[T], R] | None = None
        self._closed = False
        self._map: InlineResults[Any, Any] | None = None

    @classmethod
    def of(cls, function: Callable[[T], R], **process_options: Any) -> InlinePool[T, R]:
        """A pool for a plain function."""
        return cls(Constant(function), **process_options)

    async def __aenter__(self) -> Self:
        """Calls the factory."""
        if self._closed or self._function is not None:
            raise PoolClosed("a pool is entered once; make a new one")
        self._function = self._factory()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the map that still runs, if any."""
        self._closed = True
        if self._map is not None:
            await self._map.aclose()
        self._function = None

    def map(self, source: Iterable[T] | AsyncIterable[T], *, window: int, **options: Any) -> InlineResults[T, R]:
        """Runs the function on everything that comes from the source; options as in `WorkerPool.map`."""
        return InlineResults(self, source, MapOptions(window=window, **options))

    def statistics(self) -> PoolStatistics:
        """A snapshot: there are no workers."""
        return PoolStatistics(workers=(), started=0, restarts={}, rss_bytes=0, peak_rss_bytes=0)

    async def drain(self, deadline_s: float) -> DrainReport[T]:
        """Stops the running map; nothing can be running when this is called, so it never waits."""
        self._closed = True
        if self._map is not None:
            self._map.stop()
        return DrainReport(0, 0, () if self._map is None else self._map.left)

    def attach(self, results: InlineResults[Any, Any]) -> Callable[[T], R]:
        """Gives the function to a map."""
        if self._closed or self._function is None:
            raise PoolClosed(PoolClosed.__doc__)
        if self._map is not None and not self._map.closing:
            raise PoolBusy(PoolBusy.__doc__)
        self._map = results
        return self._function

    def detach(self, results: InlineResults[Any, Any]) -> None:
        """Takes it back."""
        if self._map is results:
            self._map = None


class InlineResults(Generic[T, R]):
    """The outcomes of one map, each made when it is asked for; see `MapResults`."""

    def __init__(self, pool: InlinePool[T, R], source: Iterable[T] | AsyncIterable[T], options: MapOptions) -> None:
        self._pool = pool
        self._given = source
        self._options = options
        self._source: Source[T] | None = None
        self._stopped = False
        self._pulled = self._released = self._charged = 0
        self._item: tuple[T, float] | None = None
        self._error: Exception | None = None  # of on_progress
        self.closing = False

    def __aiter__(self) -> AsyncIterator[Success[T, R] | Failure[T]]:
        """The outcomes, and after the last one the source's own error, if it had one."""
        if self._source is not None or self.closing:
            raise RuntimeError("these results were iterated or closed before; a map runs once")
        self._source = Source(self._given)
        return self._outcomes(self._source)

    async def _outcomes(self, source: Source[T]) -> AsyncIterator[Success[T, R] | Failure[T]]:
        try:
            function = self._pool.attach(self)
            while not (self._stopped or self.closing):
                # So that signals and other tasks get their turn between two items.
                await asyncio.sleep(0)
                pulled = await source.receive() if source.is_async else source.pull()
                if pulled is None:
                    break
                self._pulled += 1
                self._item = (pulled[0], monotonic())
                outcome = await self._run(function, pulled[0])
                self._item = None
                self._released += 1
                yield outcome
                if self._error is not None:
                    raise self._error
            if source.error is not None and not (self._stopped or self.closing):
                raise source.error
        finally:
            await self.aclose()

    async def _run(self, function: Callable[[T], R], item: T) -> Success[T, R] | Failure[T]:
        options = self._options
        attempts = 0 if options.attempts_of is None else options.attempts_of(item)
        if attempts >= options.attempts:
            detail = f"charged {attempts} of {options.attempts} attempts before; not run again"
            return Failure(item, ATTEMPTS_EXHAUSTED, detail, attempts, 0.0, False)
        while True:
            attempts += 1
            begun = monotonic()
            try:
                with listening(self._tell):
                    value = function(item)
            except Exception as error:
                raised, exception = describe(error), error
            else:
                return Success(item, value, monotonic() - begun, attempts, os.getpid())
            self._charged += 1
            again = raised.code in options.retriable
            failure = Failure.of(
                item,
                raised,
                attempt=attempts,
                elapsed_s=monotonic() - begun,
                retriable=again,
                exception=exception,
                worker=os.getpid(),
            )
            if not again or attempts >= options.attempts:
                return failure
            if options.on_charge is not None:
                await options.on_charge(item, failure)

    def _tell(self, done: int, total: int) -> None:
        if self._options.on_progress is None or self._item is None or self._error is not None:
            return
        try:
            self._options.on_progress(self._item[0], done, total)
        except Exception as error:
            self._error = error

    def statistics(self) -> MapStatistics[T]:
        """A snapshot."""
        now, options = monotonic(), self._options
        running = () if self._item is None else (Running(self._item[0], now - self._item[1], os.getpid()),)
        weigh = options.weigh or (lambda _: 0)
        return MapStatistics(
            pulled=self._pulled,
            released=self._released,
            window_used=len(running),
            window_limit=options.window,
            weight=sum(weigh(one.item) for one in running),
            byte_budget=options.byte_budget,
            buffered=0,
            running=running,
            oldest_age_s=0.0 if self._item is None else now - self._item[1],
            charged=self._charged,
            rerun=0,
        )

    @property
    def left(self) -> tuple[T, ...]:
        """Items that were pulled and whose outcome was not handed on: the running one."""
        return () if self._item is None else (self._item[0],)

    def stop(self) -> None:
        """Pulls no more; the iteration ends after the item that runs."""
        self._stopped = True

    async def aclose(self) -> None:
        """Ends the map and closes the source."""
        if not self.closing:
            self.closing = True
            self._pool.detach(self)
            await (self._source or Source(self._given)).aclose()
