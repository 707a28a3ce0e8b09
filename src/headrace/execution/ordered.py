"""One map over the workers of a pool: pulls what there is room for, sends it, and hands outcomes on in order.

An item goes: source -> pending (`intake`) -> in flight at a worker -> settled in the window -> released to the
consumer. What was sent to a worker that is lost comes back through `attempts`.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.execution.attempts import Attempts, Listener
from headrace.execution.chunk_size import ChunkSize
from headrace.execution.chunking import Source
from headrace.execution.intake import Intake
from headrace.execution.options import MapOptions
from headrace.execution.outcome import ATTEMPTS_EXHAUSTED, UNPICKLABLE_ITEM, Failure, Success, describe
from headrace.execution.process import DEPTH_LIMIT, End, Frame, Reply, WorkerProcess
from headrace.execution.statistics import DrainReport, MapStatistics, Running
from headrace.execution.watchdog import Watchdog
from headrace.execution.window import Slot, UnorderedWindow, Window
from headrace.execution.wire import ANSWERED, Doing

if TYPE_CHECKING:
    from headrace.execution.pool import WorkerPool

T = TypeVar("T")
R = TypeVar("R")

CLOSE_GRACE_S = 0.05  # for what runs when a map is closed early; then its workers are killed


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
        try:
            await self._pool.attach(self)
            self._begin(source)
            self.fill()
            release, batch, since_fill = self._window.release, max(1, self._options.window // 8), 0
            while not self.closing:
                outcome = release()
                if outcome is None:
                    if self._error is not None:
                        break
                    if since_fill:
                        since_fill = 0
                        self._fill_now()
                        continue
                    if self._outstanding == 0 and self._ended:
                        break
                    self._waiter = self._loop.create_future()
                    await self._waiter
                    continue
                # Not before the consumer has it: when it comes back for more (then in batches), or when it waits.
                if self._filling is None:
                    self._filling = self._loop.call_soon(self._fill_soon)
                yield outcome
                since_fill += 1
                if since_fill >= batch:
                    since_fill = 0
                    self._fill_now()
            error = self._error or (None if self._stopped else source.error)
            if error is not None and not self.closing:
                raise error
        finally:
            await self.aclose()

    def statistics(self) -> MapStatistics[T]:
        """A snapshot."""
        window, oldest, held = self._window, self._window.oldest, len(self._held)
        return MapStatistics(
            pulled=window.admitted + held,
            released=window.released,
            window_used=window.used + held,
            window_limit=window.limit,
            weight=window.weight,
            byte_budget=window.budget,
            buffered=window.settled,
            running=tuple(self._running()),
            oldest_age_s=0.0 if oldest is None else monotonic() - oldest.admitted_at,
            charged=self._attempts.charged,
            rerun=self._attempts.rerun,
        )

    @property
    def left(self) -> tuple[T, ...]:
        """Items that were pulled and whose outcome was not handed on, in order: what a rerun has to do."""
        return (*(slot.item for slot in self._window), *self._held)

    def stop(self) -> None:
        """Pulls no more. What runs, and what comes before it in the order, is finished and handed on; then it ends.

        What was pulled and not begun is in `left`.
        """
        if self._stopped or self.closing:
            return
        self._stopped = True
        begun = [slot.position for slot in self._window if slot.outcome is not None]
        begun += [frame.slots[-1].position for _, frame, _ in self._doing()]
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
        return DrainReport(finished, killed, (*(slot.item for slot in left), *self._held))

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
        workers, sent = self._pool.live, False
        depth_limit = self._depth_limit  # the chunk may have grown since a worker's depth was chosen
        while True:
            best: WorkerProcess | None = None
            spent: WorkerProcess | None = None
            least = depth_limit
            for worker in workers:
                load = len(worker.in_flight)
                if not worker.usable:
                    continue
                if worker.quota is not None and worker.quota <= 0:
                    spent = worker if load == 0 else spent
                elif load < worker.depth and load < least:
                    best, least = worker, load
            if best is None:
                # Replaced only when there is more to do: the last worker of a run is not started for nothing.
                if spent is None or not self._has_more():
                    break
                self._pool.recycle(spent)
                continue
            slots = self._next(best)
            if slots is None:
                break
            sent = self._send(best, slots) or sent
        if sent:
            for worker in workers:
                worker.flush()
            self._pool.watch()
            if self._watchdog is not None:
                self._watchdog.arm()
        self._wake()

    def _fill_soon(self) -> None:
        self._filling = None
        self.fill()

    def _fill_now(self) -> None:
        if self._filling is not None:
            self._filling.cancel()
            self._filling = None
        self.fill()

    def _has_more(self) -> bool:
        assert self._intake is not None
        if not self._attempts.waiting:
            self._intake.top_up(1)
        return self._attempts.waiting or bool(self._intake.pending)

    def _next(self, worker: WorkerProcess) -> list[Slot[T, Any]] | None:
        if self._attempts.waiting:
            return self._attempts.pop()
        intake = self._intake
        assert intake is not None
        want = self._chunk.now if worker.quota is None else min(self._chunk.now, worker.quota)
        intake.top_up(want)
        pending = intake.pending
        # A short chunk goes out only when the worker would stand idle, or when no more comes.
        if not pending or (len(pending) < want and worker.in_flight and not intake.ended):
            return None
        return [pending.popleft() for _ in range(min(want, len(pending)))]

    def _send(self, worker: WorkerProcess, slots: list[Slot[T, Any]]) -> bool:
        attempts = self._attempts
        spent = [slot for slot in slots if slot.attempts >= self._options.attempts]
        if spent:
            for slot in spent:
                detail = f"charged {slot.attempts} of {self._options.attempts} attempts before; not run again"
                failure = Failure(slot.item, ATTEMPTS_EXHAUSTED, detail, slot.attempts, 0.0, False)
                attempts.settle(slot, failure)
            slots = [slot for slot in slots if slot.outcome is None]
            if not slots:
                return False
        try:
            what = slots[0].item if len(slots) == 1 else [slot.item for slot in slots]
            payload = pickle.dumps(what, pickle.HIGHEST_PROTOCOL)
        except (Exception, SystemExit) as error:
            if len(slots) > 1:
                attempts.again_singly(slots)
            else:
                attempts.fail(slots[0], describe(error, UNPICKLABLE_ITEM), error, 0.0, None)
            return False
        worker.give(Frame(slots[0].position, slots), payload)
        return True

    # Taking in what became of it.

    def on_replies(self, worker: WorkerProcess, replies: list[Reply]) -> None:
        """Enters what a worker has answered, and gives it more."""
        if self.closing:
            if not any(other.in_flight for other in self._pool.live):
                self._idle.set()
            return
        chunk, fixed = self._chunk, self._pool.depth is not None
        limit = self._depth_limit
        for reply in replies:
            self._attempts.take(worker, reply)
            if chunk.chosen and reply.kind in ANSWERED:
                chunk.observe(len(reply.frame.slots), reply.elapsed_ns)
            worker.adapt_depth(reply.elapsed_ns, limit, fixed=fixed)
        self.fill()

    def on_lost(self, worker: WorkerProcess, end: End) -> bool:
        """A worker is gone: charges the item it was on, runs the others again. Says whether an item was charged."""
        frames = tuple(worker.in_flight)
        worker.in_flight.clear()
        if self.closing or self._killing:
            return False
        charged = self._attempts.take_lost(worker, frames, end)
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
        """Frames that are a worker's share of the window."""
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

    def _doing(self) -> Iterator[tuple[WorkerProcess, Frame, Doing]]:
        for worker in self._pool.live if self._intake is not None and not self.closing else ():
            doing = worker.doing()
            for frame in worker.in_flight if doing is not None else ():
                if doing is not None and frame.position == doing.position:
                    yield worker, frame, doing

    def _running(self) -> Iterator[Running[T]]:
        now_ns = monotonic_ns()
        for worker, frame, doing in self._doing():
            yield Running(frame.slots[doing.place or 0].item, (now_ns - doing.started_ns) / 1e9, worker.pid)

    def _wake(self) -> None:
        if self._stopped and self._outstanding == 0:
            self._idle.set()
        if self._waiter is None or self._waiter.done():
            return
        if self.closing or self._error is not None or self._window.ready or self._outstanding == 0:
            self._waiter.set_result(None)
