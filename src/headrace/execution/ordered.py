"""One map over the workers of a pool: pulls what there is room for, sends it, and hands outcomes on in order.

An item goes: source -> pending (`intake`) -> in flight at a worker -> settled in the window -> released to the
consumer. What was sent to a worker that is lost comes back through `attempts`.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from itertools import repeat
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.execution.attempts import Attempts, Listener
from headrace.execution.chunk_size import ChunkSize
from headrace.execution.chunking import Source
from headrace.execution.intake import Intake
from headrace.execution.options import MapOptions
from headrace.execution.outcome import ATTEMPTS_EXHAUSTED, UNPICKLABLE_ITEM, Failure, Success, describe
from headrace.execution.process import DEPTH_LIMIT, End, Reply, WorkerProcess
from headrace.execution.progress import Progress
from headrace.execution.statistics import DrainReport, MapStatistics, Running
from headrace.execution.watchdog import Watchdog
from headrace.execution.window import Chunk, UnorderedWindow, Window
from headrace.execution.wire import ANSWERED, Doing

if TYPE_CHECKING:
    from headrace.execution.pool import WorkerPool

T = TypeVar("T")
R = TypeVar("R")

CLOSE_GRACE_S = 0.05  # for what runs when a map is closed early; then its workers are killed


def _load(worker: WorkerProcess) -> int:
    return len(worker.in_flight)


class MapResults(Generic[T, R]):
    """The outcomes of one map, in order; to be iterated once.

    Leaving the loop early closes the map, as `aclose` does: the source is closed, work that was not begun is taken
    back, and what still runs 50 ms later is killed with its worker.
    """

    def __init__(self, pool: WorkerPool[T, R], source: Iterable[T] | AsyncIterable[T], options: MapOptions) -> None:
        self._pool = pool
        self._given = source
        self._options = options
        chunk = None if options.chunk == "auto" else options.chunk
        self._chunk = ChunkSize(chunk, window=options.window, workers=pool.workers)
        self._share = options.window // pool.workers  # of the window, for each worker
        window = Window if options.ordered else UnorderedWindow
        self._window: Window[T, Success[T, R] | Failure[T]] = window(options.window, options.byte_budget)
        self._source: Source[T] | None = None
        self._intake: Intake[T] | None = None
        self._watchdog = None if options.deadline_s is None else Watchdog(pool.live, options.deadline_s)
        self._attempts: Attempts[T, R] = Attempts(self._window, options, Listener(self.fill, self.fail))
        self._error: BaseException | None = None
        self._stopped = False
        self._killing = False  # set by a drain whose deadline has passed
        self.closing = False
        self._closed = asyncio.Event()
        self._idle = asyncio.Event()  # while stopping or closing: nothing is outstanding, or in flight
        self._waiter: asyncio.Future[None] | None = None
        self._filling: asyncio.Handle | None = None
        self._hungry = True  # a worker has room, and only the window or the source kept it from being given more

    # For the consumer.

    def __aiter__(self) -> AsyncIterator[Success[T, R] | Failure[T]]:
        """The outcomes, and after the last one the source's own error, if it had one.

        Raises:
            RuntimeError: it was iterated before.
            PoolClosed, PoolBusy: the pool cannot take this map.
            WorkerStartFailed: workers die again and again before they finish anything.
        """
        if self._source is not None or self.closing:
            raise RuntimeError("these results were iterated or closed before; a map runs once")
        self._source = Source(self._given)
        return self._outcomes(self._source)

    async def _outcomes(self, source: Source[T]) -> AsyncIterator[Success[T, R] | Failure[T]]:
        ready, pop = self._window.ready, self._window.ready.popleft
        batch, most = 1, max(1, self._options.window // 4)
        try:
            await self._pool.attach(self)
            self._begin(source)
            self.fill()
            while not self.closing:
                if not ready:
                    if self._error is not None or (self._outstanding == 0 and self._ended):
                        break
                    self._waiter = self._loop.create_future()
                    await self._waiter
                    continue
                # What the consumer takes makes room. It is used when the consumer has let the loop run, or comes back
                # for more after a batch; batches grow for one that does not let the loop run.
                if self._filling is None and (self._hungry or len(ready) > 1):
                    self._filling = self._loop.call_soon(self._fill_soon)
                for _ in repeat(None, batch):
                    yield pop()
                    if not ready:
                        break
                batch = 1 if self._filling is None else min(2 * batch, most)
                if self._hungry:
                    self.fill()
            error = self._error or (None if self._stopped else source.error)
            if error is not None and not self.closing:
                raise error
        finally:
            await self.aclose()

    def statistics(self) -> MapStatistics[T]:
        """A snapshot."""
        window, oldest_at, held = self._window, self._window.oldest_at, len(self._held)
        return MapStatistics(
            pulled=window.admitted + held,
            released=window.released,
            window_used=window.used + held,
            window_limit=window.limit,
            weight=window.weight,
            byte_budget=window.budget,
            buffered=window.settled,
            running=tuple(self._running()),
            oldest_age_s=0.0 if oldest_at is None else monotonic() - oldest_at,
            charged=self._attempts.charged,
            rerun=self._attempts.rerun,
        )

    @property
    def left(self) -> tuple[T, ...]:
        """Items that were pulled and whose outcome was not handed on, in order: what a rerun has to do."""
        return (*self._window.items, *self._held)

    def stop(self) -> None:
        """Pulls no more. What runs, and what comes before it in the order, is finished and handed on; then it ends.

        What was pulled and not begun is in `left`.
        """
        if self._stopped or self.closing:
            return
        self._stopped = True
        begun = [chunk.end for chunk in self._window if chunk.outcomes is not None]
        begun += [chunk.end for _, chunk, _ in self._doing()]
        ceiling = max(begun, default=0)
        for worker in self._pool.live:
            worker.set_ceiling(ceiling)
        self._attempts.stop(ceiling)
        if self._intake is not None:
            self._attempts.finished += self._intake.stop()
        self._wake()

    async def drain(self, deadline_s: float) -> DrainReport[T]:
        """Stops, waits until nothing runs, kills what still runs at the deadline, and says what is left."""
        before = self._window.admitted - len(self._window.unsettled)
        killed = 0
        self.stop()
        try:
            async with asyncio.timeout(deadline_s):
                await self._idle.wait()
        except TimeoutError:
            killed = sum(1 for _ in self._doing())
            self._killing = True
            for worker in self._pool.live:
                if worker.in_flight:
                    worker.discard(End("closed", "the deadline of the drain has passed"))
            self._attempts.give_up()
            self._wake()
        left = self._window.unsettled
        finished = self._window.admitted - len(left) - before
        return DrainReport(finished, killed, (*left, *self._held))

    async def aclose(self) -> None:
        """Ends the map now: closes the source, leaves no work running, drops outcomes that were not taken.

        Cancelled, it has killed at once what it would have waited for.
        """
        if self.closing:
            await self._closed.wait()
            return
        self.closing = True
        busy = [worker for worker in self._pool.live if worker.in_flight] if self._intake is not None else []
        try:
            self._window.withdraw()
            if self._filling is not None:
                self._filling.cancel()
            if self._watchdog is not None:
                self._watchdog.cancel()
            if self._intake is not None:
                self._intake.stop()
            for worker in busy:
                worker.set_ceiling(0)
            self._idle.clear()
            self._wake()
            await self._attempts.aclose()
            if any(worker.in_flight for worker in busy):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_GRACE_S):
                        await self._idle.wait()
        finally:
            for worker in busy:
                if worker.in_flight:
                    worker.discard(End("closed", "the map was closed early"))
            self._pool.detach(self)
            self._idle.set()
            try:
                await (self._intake or self._source or Source(self._given)).aclose()
            finally:
                self._closed.set()

    # Giving out work.

    def _begin(self, source: Source[T]) -> None:
        self._loop = asyncio.get_running_loop()
        self._intake = Intake(
            source,
            self._window,
            chunk=self._chunk,
            weigh=self._options.weigh,
            attempts_of=self._options.attempts_of,
            on_arrival=self.fill,
        )
        for worker in self._pool.live:
            worker.reset_depth()
        if self._stopped:  # stopped before it began
            self._intake.stop()

    def fill(self) -> None:
        """Gives the workers what they have room for, the least loaded first; pulls as much as that takes."""
        if self.closing or self._intake is None:
            return
        limit = self._depth_limit  # the chunk may have grown since a worker's depth was chosen
        open_, spent = [], []
        for worker in self._pool.live:
            if worker.usable:
                if worker.quota is not None and worker.quota <= 0:
                    spent.append(worker)
                elif _load(worker) <= min(worker.depth, limit) // 2:  # then it is filled up: half as many trips
                    open_.append(worker)
        given = self._serve(open_, limit) if open_ else []
        # Replaced only when there is more to do: the last worker of a run is not started for nothing.
        for worker in spent:
            if not worker.in_flight and self._has_more():
                self._pool.recycle(worker)
        # One that is recycled asks when its successor is there.
        self._hungry = (bool(open_) or any(worker.usable for worker in spent)) and not self._ended
        if given:
            for worker in given:
                worker.flush()
            self._pool.watch()
            if self._watchdog is not None:
                self._watchdog.arm()
        self._wake()

    def _serve(self, open_: list[WorkerProcess], limit: int) -> list[WorkerProcess]:
        """Evens the workers out until none has room, which empties the list, or nothing more is to be had."""
        given = []
        while open_:
            if len(open_) > 1:
                open_.sort(key=_load)
            worker, load = open_[0], _load(open_[0])
            most = min(worker.depth, limit)
            level = most if len(open_) == 1 else min(most, _load(open_[1]) + 1)
            if not self._give(worker, level - load):
                break
            given.append(worker)
            if _load(worker) >= most or (worker.quota is not None and worker.quota <= 0):
                del open_[0]
        return given

    def _fill_soon(self) -> None:
        self._filling = None
        if self._hungry:
            self.fill()

    def _has_more(self) -> bool:
        assert self._intake is not None
        if not self._attempts.waiting:
            self._intake.top_up(1, self._chunk.now)
        return self._attempts.waiting or bool(self._intake.pending)

    def _give(self, worker: WorkerProcess, room: int) -> bool:
        """Gives a worker up to so many chunks; false when there is nothing to give."""
        attempts, intake, size = self._attempts, self._intake, self._chunk.now
        assert intake is not None
        if attempts.waiting:
            self._send(worker, attempts.pop())
            return True
        if worker.quota is not None:
            size, room = min(size, worker.quota), 1
        intake.top_up(room * size, size)
        for given in range(room):
            chunk = intake.next(size, idle=not worker.in_flight)
            if chunk is None:
                return given > 0
            self._send(worker, chunk)
        return True

    def _send(self, worker: WorkerProcess, chunk: Chunk[T, Any]) -> None:
        """Gives it to the worker; what cannot be sent is settled, or comes back through the attempts."""
        items = chunk.items
        if chunk.attempts >= self._options.attempts:
            detail = f"charged {chunk.attempts} of {self._options.attempts} attempts before; not run again"
            failure = Failure(items[0], ATTEMPTS_EXHAUSTED, detail, chunk.attempts, 0.0, False)
            self._attempts.settle(chunk, [failure])
            return
        try:
            payload = pickle.dumps(items[0] if len(items) == 1 else items, pickle.HIGHEST_PROTOCOL)
        except (Exception, SystemExit) as error:
            if len(items) > 1:
                self._attempts.again_singly(chunk)
            else:
                self._attempts.fail(chunk, describe(error, UNPICKLABLE_ITEM), error, 0.0, None)
            return
        worker.give(chunk, payload)

    # Taking in what became of it.

    def on_replies(self, worker: WorkerProcess, replies: list[Reply]) -> None:
        """Enters what a worker has answered, and gives it more."""
        if self.closing:
            if not any(other.in_flight for other in self._pool.live):
                self._idle.set()
            return
        size, take = self._chunk, self._attempts.take
        for reply in replies:
            if size.chosen and reply[1] in ANSWERED:
                size.observe(len(reply[0].items), reply[2])
            take(worker, reply)
        worker.adapt_depth(replies, self._depth_limit, fixed=self._pool.depth is not None)
        self.fill()

    def on_progress(self, worker: WorkerProcess, progress: Progress) -> None:
        """Passes on how far a worker is."""
        if self._options.on_progress is None or self.closing:
            return
        try:
            self._options.on_progress(worker.in_flight[0].items[progress.place], progress.done, progress.total)
        except Exception as error:
            self.fail(error)

    def on_lost(self, worker: WorkerProcess, end: End) -> bool:
        """A worker is gone: charges the item it was on, runs the others again. Says whether an item was charged."""
        chunks = tuple(worker.in_flight)
        worker.in_flight.clear()
        if self.closing or self._killing:
            return False
        charged = self._attempts.take_lost(worker, chunks, end)
        self.fill()
        return charged

    def fail(self, error: BaseException) -> None:
        """Ends the map with an error, after the outcomes that can be handed on."""
        if self._error is None:
            self._error = error
        self._wake()

    # What is where.

    @property
    def _depth_limit(self) -> int:
        """Chunks that are a worker's share of the window."""
        return max(1, min(self._pool.depth or DEPTH_LIMIT, self._share // self._chunk.now))

    @property
    def _outstanding(self) -> int:
        return self._window.admitted - self._attempts.finished

    @property
    def _ended(self) -> bool:
        return self._intake is not None and self._intake.ended

    @property
    def _held(self) -> tuple[T, ...]:
        return () if self._intake is None or self._intake.held is None else (self._intake.held[0],)

    def _doing(self) -> Iterator[tuple[WorkerProcess, Chunk[T, Any], Doing]]:
        for worker in self._pool.live if self._intake is not None and not self.closing else ():
            doing = worker.doing()
            for chunk in worker.in_flight if doing is not None else ():
                if doing is not None and chunk.position == doing.position:
                    yield worker, chunk, doing

    def _running(self) -> Iterator[Running[T]]:
        now_ns = monotonic_ns()
        for worker, chunk, doing in self._doing():
            place, told = doing.place or 0, worker.progress
            far = told[1:] if told is not None and told.place == place else (0, 0)
            yield Running(chunk.items[place], (now_ns - doing.started_ns) / 1e9, worker.pid, *far)

    def _wake(self) -> None:
        if self._stopped and self._outstanding == 0:
            self._idle.set()
        if self._waiter is None or self._waiter.done():
            return
        if self.closing or self._error is not None or self._window.ready or self._outstanding == 0:
            self._waiter.set_result(None)
