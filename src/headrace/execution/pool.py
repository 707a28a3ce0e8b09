"""A pool of crash-isolated worker processes that runs one ordered, lazy, bounded map after another.

The pool owns the processes: how many live, why one is replaced, how much memory they hold. What is run on them, and
which item pays when one is lost, is the business of the map (`ordered`).
"""

from __future__ import annotations

import asyncio
import pickle
import random
from collections import Counter, deque
from collections.abc import AsyncIterable, Awaitable, Callable, Container, Iterable, Mapping
from typing import Any, Generic, Literal, Self, TypeVar

from headrace.execution import main_module
from headrace.execution.errors import ExecutionError, PoolBusy, PoolClosed, WorkerStartFailed
from headrace.execution.options import MapOptions
from headrace.execution.ordered import MapResults
from headrace.execution.outcome import MEMORY_LIMIT, WORKER_LOST, Failure
from headrace.execution.process import End, Reply, WorkerProcess
from headrace.execution.progress import Progress
from headrace.execution.statistics import DrainReport, PoolStatistics, WorkerState, WorkerStatistics
from headrace.execution.wire import NO_CEILING
from headrace.execution.worker import Hello

T = TypeVar("T")
R = TypeVar("R")

MEMORY_SAMPLE_S = 0.2
START_FAILURES = 5  # in a row, without one item finished between them
BACK_OFF_S = 0.1
BACK_OFF_LIMIT_S = 5.0
REAP_LIMIT_S = 1.0


class Constant(Generic[R]):
    """A factory that returns what it was made with."""

    def __init__(self, value: R) -> None:
        self._value = value

    def __call__(self) -> R:
        """The value."""
        return self._value


class WorkerPool(Generic[T, R]):
    """Worker processes, spawned once and used for many maps, one after another.

    A crash, a hang past the deadline or a bloated worker costs the one item that was running there; the others that
    were sent to that worker are run again, in order and uncharged. An item can therefore be begun more than once: the
    function must bear that.

    Args:
        factory: called once in every worker, without arguments; loads what is heavy and returns the function that is
            run on each item. It, the items and the results must be picklable.
        workers: how many processes.
        environment: set in the workers before anything is imported (`OMP_THREAD_LIMIT=1` and the like), on top of
            this process's own.
        memory_limit_bytes: a worker above it while an item runs is killed, and that item fails with `memory-limit`.
        recycle_rss_bytes: a worker above it after an item is replaced before the next; nobody is charged. Defaults to
            the limit, so that no item pays for what an earlier one left behind.
        recycle_after: items after which a worker is replaced.
        recycle_jitter: share by which that number varies, so that workers do not restart together.
        start_timeout_s: how long the factory may take.
        depth: chunks in flight per worker. None adapts it to the measured time of an item: 1 from 50 ms on, so that
            nothing waits behind a slow item, up to 64 for trivial ones.

    Raises:
        TypeError: the factory cannot be pickled.
    """

    def __init__(
        self,
        factory: Callable[[], Callable[[T], R]],
        *,
        workers: int,
        environment: Mapping[str, str] | None = None,
        memory_limit_bytes: int | None = None,
        recycle_rss_bytes: int | None = None,
        recycle_after: int | None = None,
        recycle_jitter: float = 0.2,
        start_timeout_s: float = 60.0,
        depth: int | None = None,
    ) -> None:
        for name, number in (("workers", workers), ("recycle_after", recycle_after), ("depth", depth)):
            if number is not None and number < 1:
                raise ValueError(f"{name} is at least 1, not {number}")
        if not 0 <= recycle_jitter < 1:
            raise ValueError(f"recycle_jitter is a share from 0 to below 1, not {recycle_jitter}")
        if not start_timeout_s > 0:
            raise ValueError(f"start_timeout_s is above 0, not {start_timeout_s}")
        try:
            self._factory = pickle.dumps(factory, pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            raise TypeError(
                f"{factory!r} cannot be sent to a worker process ({error}); define it with `def` in a module"
            ) from error
        self.workers = workers
        self.depth = depth
        self._environment = dict(environment or {})
        self._memory_limit_bytes = memory_limit_bytes
        self._recycle_rss_bytes = recycle_rss_bytes if recycle_rss_bytes is not None else memory_limit_bytes
        self._recycle_after = recycle_after
        self._recycle_jitter = recycle_jitter
        self._start_timeout_s = start_timeout_s
        self._open = False
        self._closing = False
        self._live: list[WorkerProcess] = []
        self._spawning: deque[asyncio.TimerHandle] = deque()  # at most one per worker; delays only grow
        self._failed_starts = 0
        self._started = 0
        self._restarts: Counter[str] = Counter()
        self._peak_rss_bytes = 0
        self._sampling: asyncio.TimerHandle | None = None
        self._starting: asyncio.Future[None] | None = None
        self._gone: asyncio.Event | None = None
        self._map: MapResults[Any, Any] | None = None

    @classmethod
    def of(cls, function: Callable[[T], R], **options: Any) -> WorkerPool[T, R]:
        """A pool for a plain function that needs nothing loaded; the options are those of the class."""
        return cls(Constant(function), **options)

    async def __aenter__(self) -> Self:
        """Starts the workers and returns when all are ready.

        Cancelled, or failed, it leaves no process.

        Raises:
            WorkerStartFailed: a factory raised, died, or took longer than `start_timeout_s`.
        """
        if main_module.importing():
            raise ExecutionError(main_module.UNGUARDED.format(what="worker processes"))
        if self._open or self._closing:
            raise PoolClosed("a pool is entered once; make a new one")
        self._loop = asyncio.get_running_loop()
        self._greeting = pickle.dumps(Hello(main_module.preparation(), self._factory, self._recycle_rss_bytes))
        self._open = True
        self._starting = self._loop.create_future()
        try:
            for _ in range(self.workers):
                self._spawn()
            await self._starting
        except BaseException:
            await self._close()
            raise
        finally:
            self._starting = None
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the map that still runs, if any, and ends the workers; leaves no process, also when cancelled."""
        await self._close()

    def map(
        self,
        source: Iterable[T] | AsyncIterable[T],
        *,
        window: int,
        byte_budget: int | None = None,
        weigh: Callable[[T], int] | None = None,
        chunk: int | Literal["auto"] = 1,
        deadline_s: float | None = None,
        ordered: bool = True,
        attempts: int = 1,
        attempts_of: Callable[[T], int] | None = None,
        on_charge: Callable[[T, Failure[T]], Awaitable[None]] | None = None,
        on_progress: Callable[[T, int, int], None] | None = None,
        retriable: Container[str] = frozenset({WORKER_LOST}),
    ) -> MapResults[T, R]:
        """Runs the function on everything that comes from the source.

        Nothing is pulled before the iteration starts, and then only what there is room for.

        Args:
            source: pulled in the event loop, one item at a time; a blocking iterable should not wait long.
            window: items pulled and not yet handed on.
            byte_budget: what they may weigh together; the head item is admitted whatever it weighs.
            weigh: an item's weight; needed with a budget.
            chunk: items sent to a worker at once. They come back at once, so 1 for anything slow. "auto" chooses
                from the time items take: about 2 ms of work, at most a quarter of a worker's share of the window, and
                1 as soon as items turn out slow.
            deadline_s: time an item may run, enforced from here by killing its worker: it fails with `deadline`.
            ordered: outcomes in the order of the source, or as they come.
            attempts: how often an item may be charged with a failure before that failure is its outcome.
            attempts_of: attempts charged to an item before this map; the lasting count lives with the caller.
            on_charge: awaited before a charged item is run again, so that the count can be made durable first.
            on_progress: told in the event loop how far an item is (`progress.report_progress`), seldom enough for any
                number of steps: item, done, total. When it raises, the map ends with that.
            retriable: codes of failures that are worth another attempt.

        Raises:
            ValueError: a number that makes no sense.
        """
        options = MapOptions(
            window=window,
            byte_budget=byte_budget,
            weigh=weigh,
            chunk=chunk,
            deadline_s=deadline_s,
            ordered=ordered,
            attempts=attempts,
            attempts_of=attempts_of,
            on_charge=on_charge,
            on_progress=on_progress,
            retriable=retriable,
        )
        return MapResults(self, source, options)

    def statistics(self) -> PoolStatistics:
        """A snapshot; memory as last sampled."""
        return PoolStatistics(
            workers=tuple(WorkerStatistics(w.pid, w.state, w.rss_bytes, w.items_done) for w in self._live),
            started=self._started,
            restarts=dict(self._restarts),
            rss_bytes=sum(worker.rss_bytes for worker in self._live),
            peak_rss_bytes=self._peak_rss_bytes,
        )

    async def drain(self, deadline_s: float) -> DrainReport[T]:
        """Stops pulling, lets what runs be finished, kills what still runs at the deadline; takes no more maps.

        The outcomes that are there are handed on by the running iteration, which then ends. Cancelled, it has stopped
        the map and killed nothing.
        """
        self._closing = True
        if self._map is None:
            return DrainReport(0, 0, ())
        return await self._map.drain(deadline_s)

    # What a map asks of its pool.

    async def attach(self, results: MapResults[Any, Any]) -> None:
        """Gives the workers to a map; waits for one that is closing."""
        # A loop that was left closes its map in a task of its own, which may not have begun.
        for _ in range(3):
            if self._map is None or self._map.closing:
                break
            await asyncio.sleep(0)
        if self._map is not None and self._map.closing:
            await self._map.aclose()
        if self._closing or not self._open:
            raise PoolClosed(PoolClosed.__doc__)
        if self._map is not None:
            raise PoolBusy(PoolBusy.__doc__)
        self._map = results

    def detach(self, results: MapResults[Any, Any]) -> None:
        """Takes the workers back; none of them has work of this map left."""
        if self._map is results:
            self._map = None
            for worker in self._live:
                worker.set_ceiling(NO_CEILING)

    @property
    def live(self) -> list[WorkerProcess]:
        """The workers, starting and retiring ones among them."""
        return self._live

    def watch(self) -> None:
        """Samples the memory of the workers while any of them is busy.

        This polls: the kernel has no signal for a process whose resident memory passes a number, short of a control
        group for each worker, which takes rights that we do not ask for.
        """
        if self._sampling is None:
            self._sampling = self._loop.call_later(MEMORY_SAMPLE_S, self._sample)

    def _sample(self) -> None:
        self._sampling = None
        limit_bytes, total_bytes, busy = self._memory_limit_bytes, 0, False
        for worker in self._live:
            rss_bytes = worker.sample_memory()
            total_bytes += rss_bytes
            if not worker.in_flight:
                continue
            busy = True
            if limit_bytes is not None and rss_bytes > limit_bytes and worker.doing() is not None:
                detail = f"the worker grew to {rss_bytes / 2**20:.0f} MB; the limit is {limit_bytes / 2**20:.0f} MB"
                worker.kill(End(MEMORY_LIMIT, detail))
        self._peak_rss_bytes = max(self._peak_rss_bytes, total_bytes)
        if busy:
            self.watch()

    def recycle(self, worker: WorkerProcess) -> None:
        """Replaces a worker that has run all it may."""
        worker.finish(End("recycled-count", "it has run as many items as it may"))

    # What happens to the workers.

    def on_ready(self, worker: WorkerProcess) -> None:
        """A factory has run."""
        limit_bytes = self._memory_limit_bytes
        if limit_bytes is not None and worker.rss_bytes > limit_bytes:
            detail = f"it needs {worker.rss_bytes / 2**20:.0f} MB before its first item; the limit is lower"
            worker.kill(End("start-failed", f"{detail} ({limit_bytes / 2**20:.0f} MB)"))
            return
        self._peak_rss_bytes = max(self._peak_rss_bytes, sum(w.rss_bytes for w in self._live))
        starting = self._starting
        if starting is not None and not starting.done() and all(w.usable for w in self._live):
            starting.set_result(None)
        if self._map is not None:
            self._map.fill()

    def on_replies(self, worker: WorkerProcess, replies: list[Reply]) -> None:
        """Chunks were answered."""
        if worker.items_done == 0:
            self._failed_starts = 0  # this one came up well; what the others do does not show that a new one would
        if self._map is not None:
            self._map.on_replies(worker, replies)
        if worker.state is WorkerState.RETIRING and not worker.in_flight:
            worker.finish(End("recycled-rss", "it had grown too large"))

    def on_progress(self, worker: WorkerProcess, progress: Progress) -> None:
        """A worker says how far it is."""
        if self._map is not None:
            self._map.on_progress(worker, progress)

    def on_exit(self, worker: WorkerProcess) -> None:
        """A worker is gone: says so to the map, and starts another one."""
        self._live.remove(worker)
        assert worker.end is not None
        if self._gone is not None:
            self._gone.set()
        reason = worker.end.code
        charged = self._map is not None and self._map.on_lost(worker, worker.end)
        if charged:
            self._failed_starts = 0
        elif worker.start_error or (worker.items_done == 0 and reason != "closed"):
            reason = "start-failed"
            raised = bool(worker.start_error)
            detail = worker.start_error or f"{worker.end.detail} (before it finished anything)"
            self._start_failed(WorkerStartFailed(detail, raised=raised))
        if self._starting is not None or (self._closing and self._map is None):
            return
        self._restarts[reason] += 1
        self._replace()

    def _replace(self) -> None:
        if self._failed_starts <= 1:
            self._spawn()
            return
        delay_s = min(BACK_OFF_LIMIT_S, BACK_OFF_S * 2 ** (self._failed_starts - 2))
        self._spawning.append(self._loop.call_later(delay_s, self._spawn_late))

    def _spawn_late(self) -> None:
        self._spawning.popleft()
        self._spawn()

    def _start_failed(self, error: WorkerStartFailed) -> None:
        self._failed_starts += 1
        if self._starting is not None and not self._starting.done():
            self._starting.set_exception(error)
            return
        hopeless = self._failed_starts >= START_FAILURES and not any(other.usable for other in self._live)
        if hopeless and self._map is not None:
            self._map.fail(error)

    def _spawn(self) -> None:
        if not self._open:
            return
        quota = self._recycle_after
        if quota is not None:
            quota = max(1, round(quota * random.uniform(1 - self._recycle_jitter, 1 + self._recycle_jitter)))
        try:
            worker = WorkerProcess(self, self._greeting, self._environment, quota)
        except OSError as error:  # no process, memory or file to be had: perhaps later
            detail = f"no worker process can be started: {error}"
            self._start_failed(WorkerStartFailed(detail, errno=error.errno))
            if self._starting is None:
                self._replace()
            return
        worker.limit_start(self._start_timeout_s)
        self._started += 1
        self._live.append(worker)

    async def _close(self) -> None:
        self._closing, self._open = True, False
        end = End("closed", "the pool was closed")
        try:
            if self._map is not None:
                await self._map.aclose()
            for worker in self._live:
                if worker.usable and not worker.in_flight:
                    worker.finish(end)
                elif worker.end is None:
                    worker.kill(end)
            self._gone = asyncio.Event()
            while self._live:
                self._gone.clear()
                await self._gone.wait()
        finally:
            if self._sampling is not None:
                self._sampling.cancel()
            for handle in self._spawning:
                handle.cancel()
            # Only when the waiting above was cancelled is there anything left.
            for worker in self._live:
                worker.kill(end)
            for worker in self._live:
                worker.reap_now(REAP_LIMIT_S)
            self._live.clear()
