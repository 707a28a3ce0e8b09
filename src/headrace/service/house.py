"""What the service consists of, and its life: opened in order, followed once a second, drained, closed in reverse.

`Reception` adds what clients ask of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, TypeVar

from headrace.execution import WorkerStartFailed
from headrace.flow import Admission, ClassBounds, Closed, DrainReport, Permit, ServiceClass
from headrace.flow.drain_rate import DrainRate, RetryAfter
from headrace.ingest.bounds import Bounds
from headrace.ingest.database import DatabaseThread
from headrace.ingest.runtime import first_error, open_workspace, require_engine, worker_pool
from headrace.ingest.settings import RunSettings
from headrace.ingest.worker_starts import WorkersUnavailable
from headrace.ledger import Policy
from headrace.service.amending import Amending
from headrace.service.batch_answers import BatchAnswers
from headrace.service.bell import Bell
from headrace.service.capacity import derived_limit
from headrace.service.dispatcher import Committed, Dispatcher, look_ahead
from headrace.service.group_commit import GroupCommit
from headrace.service.indexing import Indexing
from headrace.service.intake import ROOM, Intake
from headrace.service.line import Line
from headrace.service.page_pictures import PagePictures
from headrace.service.progress import Underway
from headrace.service.resumable import ResumableUploads
from headrace.service.retention import Retention
from headrace.service.searching import Searching
from headrace.service.spool import Spool
from headrace.service.views import ServiceLimits
from headrace.service.webhooks import Webhooks
from headrace.storage.blobs import Blobs
from headrace.storage.errors import UnknownBatch
from headrace.storage.sql_service import Waits
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import Store

R = TypeVar("R")

EVENTS = "events"
_PAGE = 1000
_TICK_S = 1.0
_TIDY_S = 5.0
_FORGET_EVERY = 60  # ticks
_CACHE_BYTES = 8 << 20  # each accept touches a page of four indexes at least
_LAST_WRITES_S = 5.0


class House:
    """Store, workers, spool, line and dispatcher, opened, kept and closed together. Made in a running loop.

    Args:
        settings: as for `run`: engine, book, workspace, limits of a document.
        bounds: as for `run`.
        limits: of the service.
        policy: gives the verdicts.
    """

    def __init__(
        self, settings: RunSettings, bounds: Bounds, limits: ServiceLimits | None = None, policy: Policy | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._settings, self._bounds, self._policy = settings, bounds, policy or Policy()
        self.limits = limits or ServiceLimits()
        self._limit_bytes = self.limits.accepted_bytes
        self._ahead = look_ahead(bounds)
        self._drain_rate = DrainRate()
        expected = derived_limit(self.limits, bounds, None).value
        self._admission = Admission(
            expected,
            limit_bytes=self._limit_bytes,
            bounds=self._class_bounds(),
            load=self._load,
            weight_of=self._weight_of,
            drain_rate=self._drain_rate,
            retry_after=RetryAfter(unknown_s=expected / 2 / bounds.documents_per_s),
            keeps_rate=False,
        )
        self._line = Line(
            self._class_bounds(),
            window=bounds.window,
            least=2 * look_ahead(bounds),
            weight_of=self._weight_of,
            now=self._loop.time,
        )
        self._pool = worker_pool(settings, bounds, dt.date.today())  # noqa: DTZ011 - documents have their own
        self._bell = Bell()
        self._underway = Underway(self._loop.time, partial(self._bell.ring, EVENTS))
        self.webhooks = Webhooks(self.limits.webhooks, do=self._do, look=self._look, bell=self._bell, events=EVENTS)
        self.pages = PagePictures(settings, bounds, self.limits)
        self.search = Searching(settings.workspace, self.limits)
        self.indexing = Indexing(
            settings.workspace, self.limits, embedder=self.search.shared_embedder, busy=self._why_background_waits
        )
        self._last_event = 0
        self._state = "starting"
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._opened.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._ended: asyncio.Future[DrainReport] = self._loop.create_future()
        self._stop_began: float | None = None
        self._in_flight_at_stop = self._done_at_stop = 0
        self._ticks = 0
        # Made by `run`.
        self._store: SqliteStore
        self._reader: DatabaseThread
        self._commits: GroupCommit
        self._spool: Spool
        self.uploads: ResumableUploads
        self.retention: Retention
        self.answers: BatchAnswers
        self._intake: Intake | None = None
        self._dispatcher: Dispatcher | None = None

    # Life

    async def run(self) -> None:
        """Opens store, workers and dispatcher, goes on with what the last run left, and returns after `stop`.

        Cancelled: stops now; what is in flight stays queued in the store.

        Raises:
            EngineMissing, WorkspaceUnusable, StoreError, StorageFull: it cannot be opened.
            WorkersUnavailable: no worker can be started, now or later.
        """
        try:
            async with contextlib.AsyncExitStack() as stack:
                await self._open(stack)
                dispatcher = self._dispatcher
                assert dispatcher is not None
                async with self._pool, asyncio.TaskGroup() as tasks:
                    house = [tasks.create_task(self._tick()), tasks.create_task(self._tidy())]
                    parts = (
                        self.webhooks,
                        self.uploads,
                        self.retention,
                        self.pages,
                        self.search,
                        self.indexing,
                        self.answers,
                    )
                    house += [tasks.create_task(part.run()) for part in parts]
                    if self._stop_began is None:
                        self._state = "serving"
                    if not self._opened.done():
                        self._opened.set_result(None)
                    if self._stop_began is not None:  # it was stopped while it opened
                        await dispatcher.stop(0.0)
                    await dispatcher.run()
                    for keeping in house:
                        keeping.cancel()
                    if self._stop_began is None:
                        raise RuntimeError("the dispatcher ended by itself")
                await self._close_books()
            self._state = "stopped"
        except BaseException as error:
            error = first_error(error)
            cancelled = isinstance(error, asyncio.CancelledError)
            self._state = "stopped" if cancelled else "broken"
            if isinstance(error, WorkerStartFailed) and not error.raised:
                error = WorkersUnavailable.because(error)
            for future in (self._opened, self._ended):
                if not future.done():
                    future.set_exception(Closed("the service ended") if cancelled else error)
            self._ended.exception()
            raise error from None
        finally:
            self._admission.close()
            self._bell.ring_all()
            for held in self._line.everyone():
                if not held.permit.ended:
                    held.permit.ignore()

    async def _open(self, stack: contextlib.AsyncExitStack) -> None:
        settings = self._settings
        require_engine(settings.engine)
        store = self._store = await asyncio.to_thread(partial(open_workspace, settings.workspace, _CACHE_BYTES))
        stack.callback(store.close)
        blobs = await asyncio.to_thread(Blobs, settings.workspace / "blobs", limit_bytes=settings.blob_bytes)
        self._reader = DatabaseThread(await asyncio.to_thread(SqliteStore.read, settings.workspace))
        stack.push_async_callback(asyncio.to_thread, self._reader.close)
        self._commits = GroupCommit("database", most=self.limits.accept_group, around=self._transaction)
        stack.push_async_callback(self._commits.aclose)
        stack.push_async_callback(self._close_arrivals, blobs)
        arrivals = GroupCommit("arrivals", most=self.limits.accept_group)
        stack.push_async_callback(arrivals.aclose)
        self._spool = Spool(
            blobs,
            limit_bytes=settings.max_document_bytes,
            buffer_bytes=self.limits.buffer_bytes,
            min_free_bytes=self.limits.min_free_bytes,
            threads=4,
        )
        stack.push_async_callback(self._spool.aclose)
        self._blobs = blobs
        self._amending = Amending(store)
        self._dispatcher = Dispatcher(
            settings,
            self._bounds,
            self._policy,
            store=store,
            commits=self._commits,
            blobs=blobs,
            pool=self._pool,
            line=self._line,
            place=self._spool.place,
            on_committed=self._on_committed,
            underway=self._underway,
        )
        intake = Intake(
            settings,
            self.limits,
            admission=self._admission,
            spool=self._spool,
            blobs=blobs,
            store=store,
            arrivals=arrivals,
            commits=self._commits,
            add=self._add,
            bell=self._bell,
        )
        self.uploads = ResumableUploads(
            intake,
            self._spool,
            blobs,
            self.limits,
            most_bytes=settings.max_document_bytes,
            serving=lambda: self._state == "serving",
        )
        self.retention = Retention(self.limits, intake.keeping, self._do)
        self.answers = BatchAnswers(settings.workspace / "answers", self.limits)
        self._intake = intake
        await self._do(partial(_recover, blobs))
        await self.uploads.load()
        await asyncio.to_thread(self.answers.load)
        await self._take_over(self._dispatcher)

    async def _take_over(self, dispatcher: Dispatcher) -> None:
        """Goes on with what the last process left: all of it gets a permit, however low the limit is now."""
        await self._do(lambda store: store.take_over())
        after = (0, 0)
        while page := await self._do(partial(_waits, after)):
            for waits in page:
                size_bytes = waits.document.size_bytes
                statistics = self._admission.permits.statistics()
                self._admission.resize(
                    max(statistics.limit, statistics.held + 1),
                    limit_bytes=max(self._limit_bytes, statistics.held_bytes + size_bytes),
                )
                permit = self._admission.permits.try_acquire(1, size_bytes)
                self._add(waits, permit, max(0.0, time.time() - waits.accepted_at))
            last = page[-1].document
            after = (last.batch_id, last.position)
        self._follow_rate()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """Around each group, in the database thread."""
        with self._store.together():
            yield
            last = self._store.last_event()
        if last != self._last_event:
            self._last_event = last
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._bell.ring, EVENTS)

    def _add(self, waits: Waits, permit: Permit, waited_s: float = 0.0) -> None:
        assert self._dispatcher is not None
        self._dispatcher.add(waits, permit, waited_s)
        if self._backlog:
            self._drain_rate.resume(self._loop.time())

    @property
    def _backlog(self) -> bool:
        """Whether more wait than the workers have in hand: only then does what leaves tell how fast it can go."""
        return self._line.waiting > 0 and len(self._line) > self._ahead

    def _on_committed(self, committed: Committed) -> None:
        now = self._loop.time()
        self._drain_rate.record(len(committed.entries), now)
        if not self._backlog:
            self._drain_rate.pause(now)
        for entry in committed.entries:
            self._bell.ring(("document", entry.document_id))
            self._bell.ring(("batch", entry.batch_id))
        for batch_id in committed.finished:
            self._bell.ring(("batch", batch_id))
        self._bell.ring(ROOM)
        self.indexing.changed()

    async def _tick(self) -> None:
        """Once a second: the limit follows the measured rate, a full disk is looked at, what is old is removed."""
        while True:
            await asyncio.sleep(_TICK_S)
            self._ticks += 1
            self._follow_rate()
            self.indexing.look()
            self._line.rate_per_s = self._admission.statistics().drain_rate_per_s
            if self._spool.full:
                self._spool.check_room()
            if self._ticks % _FORGET_EVERY == 0:
                before = time.time() - self.limits.idempotency_s
                with contextlib.suppress(Exception):  # an outage: the next time
                    await self._do(
                        lambda store, before=before: store.forget(  # type: ignore[misc]
                            keys_before=before, events_kept=self.limits.events_kept
                        )
                    )

    async def _tidy(self) -> None:
        """Every few seconds drops logs of arrivals that are all read; on a full disk, later."""
        while True:
            await asyncio.sleep(_TIDY_S)
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self._blobs.arrivals.retire, _TIDY_S)

    async def _close_arrivals(self, blobs: Blobs) -> None:
        with contextlib.suppress(OSError, Closed):
            await self._commits.run(_close_all, blobs)

    def _follow_rate(self) -> None:
        limit = derived_limit(self.limits, self._bounds, self._admission.statistics().drain_rate_per_s).value
        now = self._admission.permits.statistics()
        if limit != now.limit or now.limit_bytes != self._limit_bytes:
            self._admission.resize(limit, limit_bytes=self._limit_bytes)

    def _class_bounds(self) -> dict[ServiceClass, ClassBounds]:
        most = self.limits.documents_most
        return {class_: ClassBounds(most, self.limits.class_delay_s[class_]) for class_ in ServiceClass}

    def _load(self) -> float:
        permits = self._admission.permits
        return permits.held / max(1, permits.limit)

    def _why_background_waits(self) -> str:
        """Why work that can wait shall; "" when it need not."""
        if self._state != "serving":
            return f"the service is {self._state}"
        statistics = self._admission.statistics()
        if statistics.level.refuses(ServiceClass.BACKGROUND):
            return statistics.because
        return "documents wait for a worker" if self._line.waiting else ""

    def _weight_of(self, client: Hashable) -> float:
        return self.limits.quotas.get(str(client), self.limits.default_quota).weight

    async def opened(self) -> None:
        """Returns when documents are taken; raises what `run` raises when it comes to that first."""
        await asyncio.shield(self._opened)

    async def stop(self, deadline_s: float) -> DrainReport:
        """Not ready from this moment; takes nothing more; what runs is finished by the deadline, the rest handed back.

        Handed back means: queued, durably, for the next start. The report is kept in the store (`last_drain`). A
        second call with a shorter deadline shortens it.

        Raises:
            Closed: `run` has ended in another way, or never began.
        """
        if self._stop_began is None:
            self._stop_began = self._loop.time()
            self._state = "draining"
            self._admission.close()
            self._in_flight_at_stop = len(self._line)
            self._done_at_stop = self._done
        if self._dispatcher is not None:
            await self._dispatcher.stop(deadline_s)
        return await asyncio.shield(self._ended)

    @property
    def _done(self) -> int:
        return self._dispatcher.outcomes.total() if self._dispatcher is not None else 0

    async def _close_books(self) -> None:
        """The last things in the store: leases are given back, and the report is kept."""
        assert self._stop_began is not None
        assert self._dispatcher is not None
        finished = self._done - self._done_at_stop
        killed = min(self._dispatcher.killed, len(self._line))
        report = DrainReport(
            finished=finished,
            handed_back=len(self._line) - killed,
            abandoned=killed,
            took_s=self._loop.time() - self._stop_began,
            in_time=not killed,
            errors=(self._dispatcher.problem,) if self._dispatcher.problem else (),
        )
        told = asdict(report) | {"took_s": round(report.took_s, 3)}
        try:
            async with asyncio.timeout(_LAST_WRITES_S):
                await self._do(partial(_keep_drain, told))
        except Exception as error:  # a full disk: the next start takes over, and counts a restart
            report = replace(report, errors=(*report.errors, f"the report was not kept: {error}"))
        if not self._ended.done():
            self._ended.set_result(report)

    def change_limits(self, limits: ServiceLimits) -> None:
        """Takes other limits while in use: quotas and counts at once; what is in flight stays in flight."""
        self.limits = limits
        self._limit_bytes = limits.accepted_bytes
        self.webhooks.change_limits(limits.webhooks)
        self.pages.change_limits(limits)
        self.search.change_limits(limits)
        self.indexing.limits = limits
        if self._intake is not None:
            self._intake.limits = self.uploads.limits = self.retention.limits = self.answers.limits = limits
            self._spool.change_limits(buffer_bytes=limits.buffer_bytes, min_free_bytes=limits.min_free_bytes)
        self._follow_rate()

    async def _do(self, step: Callable[[SqliteStore], R]) -> R:
        """One step in the database thread, in a transaction with whatever else waits."""
        return await self._commits.run(self._steps, step)

    def _steps(self, steps: Sequence[Callable[[SqliteStore], Any]]) -> list[Any]:
        answers: list[Any] = []
        for step in steps:
            try:
                answers.append(step(self._store))
            except UnknownBatch as error:  # nothing was written for it: the others of the group go on
                answers.append(error)
        return answers

    async def _look(self, step: Callable[[SqliteStore], R]) -> R:
        """One step on the reader, beside the writer."""

        def look(store: Store) -> R:
            assert isinstance(store, SqliteStore)
            return step(store)

        return await self._reader.call(look)


def _waits(after: tuple[int, int], store: SqliteStore) -> list[Waits]:
    return store.waits(after, _PAGE)


def _keep_drain(told: Mapping[str, Any], store: SqliteStore) -> None:
    store.give_all_back()
    store.keep_drain(told)


def _recover(blobs: Blobs, store: SqliteStore) -> None:
    blobs.recover(store.known_bytes, store.waiting_bytes)


def _close_all(closed: Sequence[Blobs]) -> list[None]:
    for blobs in closed:
        blobs.arrivals.close()
    return [None] * len(closed)
