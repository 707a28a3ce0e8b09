"""The one thing that the HTTP side talks to: everything a client can ask, with no HTTP in it.

    reception = Reception(settings, bounds, limits, policy)
    task = asyncio.create_task(reception.run())
    await reception.opened()
    match reception.decide(submission):
        case Admitted(permit): accepted = await reception.accept(submission, permit, body)   # durable
        case Refusal() as refusal: ...                                                        # says when

Belongs to one event loop. Methods that take a client answer `None`, or raise `NotFound`, for another client's things;
`client=None` sees all (an operator).
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from headrace.documents.entry import Entry
from headrace.documents.status import DocumentState
from headrace.execution import WorkerStartFailed
from headrace.flow import Admission, Admitted, ClassBounds, Closed, DrainReport, Permit, Refusal, ServiceClass
from headrace.flow.drain_rate import DrainRate
from headrace.ingest.bounds import Bounds
from headrace.ingest.database import DatabaseThread
from headrace.ingest.runtime import open_workspace, require_engine, worker_pool
from headrace.ingest.settings import RunSettings
from headrace.ingest.worker_starts import WorkersUnavailable
from headrace.ledger import Policy
from headrace.service.amending import Amend, Amending
from headrace.service.bell import Bell
from headrace.service.capacity import capacity_view, derived_limit
from headrace.service.dispatcher import Committed, Dispatcher, look_ahead
from headrace.service.errors import (
    BatchClosed,
    DigestMismatch,
    EditConflict,
    IdempotencyInUse,
    IdempotencyMismatch,
    InvalidCorrection,
    NoStorage,
    NotCancellable,
    NotFound,
    NotReplayable,
    NotReviewable,
    RateLimited,
    ReceptionError,
)
from headrace.service.group_commit import GroupCommit
from headrace.service.intake import ROOM, Intake
from headrace.service.line import Line
from headrace.service.looking import APPROVED, REJECTED, as_batch_view, as_document, as_event, may_see
from headrace.service.spool import Spool
from headrace.service.turn import Turn
from headrace.service.views import (
    Accepted,
    Amendment,
    BatchView,
    Bound,
    CapacityView,
    ClassView,
    DocumentView,
    Event,
    HealthView,
    Proof,
    Quota,
    ServiceLimits,
    Submission,
)
from headrace.service.webhooks import Webhooks
from headrace.storage.blobs import Blobs
from headrace.storage.errors import UnknownBatch
from headrace.storage.sql_accept import NewDocument
from headrace.storage.sql_service import Waits
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import DeadLetter, Store

__all__ = [
    "Accepted",
    "Amendment",
    "BatchClosed",
    "BatchView",
    "Bound",
    "CapacityView",
    "ClassView",
    "DigestMismatch",
    "DocumentView",
    "EditConflict",
    "Event",
    "HealthView",
    "IdempotencyInUse",
    "IdempotencyMismatch",
    "InvalidCorrection",
    "NoStorage",
    "NotCancellable",
    "NotFound",
    "NotReplayable",
    "NotReviewable",
    "Proof",
    "Quota",
    "RateLimited",
    "Reception",
    "ReceptionError",
    "ServiceLimits",
    "Submission",
]


R = TypeVar("R")

EVENTS = "events"
_PAGE = 1000
_TICK_S = 1.0
_TIDY_S = 5.0
_FORGET_EVERY = 60  # ticks
_CACHE_BYTES = 8 << 20  # each accept touches a page of four indexes at least
_LAST_WRITES_S = 5.0


class Reception:
    """Takes documents in, has them read, and answers for them. Made in a running loop.

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
        self._admission = Admission(
            derived_limit(self.limits, bounds, None).value,
            limit_bytes=self._limit_bytes,
            bounds=self._class_bounds(),
            load=self._load,
            weight_of=self._weight_of,
            drain_rate=self._drain_rate,
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
        self.webhooks = Webhooks(self.limits.webhooks, do=self._do, look=self._look, bell=self._bell, events=EVENTS)
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
                    house.append(tasks.create_task(self.webhooks.run()))
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
            self._state = "stopped" if isinstance(error, asyncio.CancelledError) else "broken"
            error = _first(error)
            if isinstance(error, WorkerStartFailed) and not error.raised:
                error = WorkersUnavailable.because(error)
            for future in (self._opened, self._ended):
                if not future.done():
                    future.set_exception(Closed("the service ended") if _is_cancelled(error) else error)
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
        blobs = await asyncio.to_thread(_open_blobs, settings)
        self._reader = DatabaseThread(await asyncio.to_thread(SqliteStore.read, settings.workspace))
        stack.push_async_callback(asyncio.to_thread, self._reader.close)
        self._commits = GroupCommit("database", most=self.limits.accept_group, around=self._transaction)
        stack.push_async_callback(self._commits.aclose)
        stack.push_async_callback(self._close_arrivals, blobs)
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
        )
        self._intake = Intake(
            settings,
            self.limits,
            admission=self._admission,
            spool=self._spool,
            blobs=blobs,
            store=store,
            commits=self._commits,
            add=self._add,
            bell=self._bell,
        )
        await self._do(partial(_recover, blobs))
        await self._take_over(self._dispatcher)

    async def _take_over(self, dispatcher: Dispatcher) -> None:
        """Goes on with what the last process left: all of it gets a permit, however low the limit is now."""
        await self._do(lambda store: store.take_over())
        after = (0, 0)
        while page := await self._do(partial(_waits, after, _PAGE)):
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

    async def _tick(self) -> None:
        """Once a second: the limit follows the measured rate, a full disk is looked at, what is old is removed."""
        while True:
            await asyncio.sleep(_TICK_S)
            self._ticks += 1
            self._follow_rate()
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
        permits = self._admission.permits.statistics()
        return permits.held / max(1, permits.limit)

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
        told = {
            "finished": report.finished,
            "handed_back": report.handed_back,
            "abandoned": report.abandoned,
            "took_s": round(report.took_s, 3),
            "in_time": report.in_time,
            "errors": list(report.errors),
        }
        try:
            async with asyncio.timeout(_LAST_WRITES_S):
                await self._do(partial(_keep_drain, told))
        except Exception as error:  # a full disk: the next start takes over, and counts a restart
            report = DrainReport(
                report.finished,
                report.handed_back,
                report.abandoned,
                report.took_s,
                report.in_time,
                (*report.errors, f"the report was not kept: {error}"),
            )
        if not self._ended.done():
            self._ended.set_result(report)

    def change_limits(self, limits: ServiceLimits) -> None:
        """Takes other limits while in use: quotas and counts at once; what is in flight stays in flight."""
        self.limits = limits
        self._limit_bytes = limits.accepted_bytes
        self.webhooks.change_limits(limits.webhooks)
        if self._intake is not None:
            self._intake.limits = limits
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

    # Documents in

    def decide(self, submission: Submission) -> Admitted | Refusal:
        """Whether this document may be sent now. Never waits, before any byte is read.

        The permit is the caller's: hand it to `accept`, or end it (`permit.ignore()`).
        """
        if self._intake is None or self._state != "serving":
            return self._not_serving()
        return self._intake.decide(submission)

    async def admit(self, submission: Submission, deadline_s: float | None = None) -> Admitted | Refusal:
        """As `decide`, but waits while there is no room; for the entries of a streamed batch.

        Cancelled, it holds nothing.
        """
        if self._intake is None or self._state != "serving":
            return self._not_serving()
        return await self._intake.admit(submission, deadline_s)

    def _not_serving(self) -> Closed:
        return Closed(f"the service is {self._state}", retry_after_s=5)

    async def accept(
        self, submission: Submission, permit: Permit, body: AsyncIterator[bytes], turn: Turn | None = None
    ) -> Accepted:
        """Takes the bytes in; returns when they and their row are on disk.

        With a `turn`, the row comes behind those of the turns before it: several documents of one stream can be made
        durable together, and keep their order.

        The permit travels with the document until its entry is committed. On any error, it is ended and nothing stays.
        Cancelled: nothing stays, unless the row was being committed in that moment: then the document is accepted.

        Raises:
            EmptyFile, UnsupportedMediaType (by the first bytes), PayloadTooLarge, DigestMismatch: bad bytes.
            CorruptDocument: fewer or more bytes than were declared.
            IdempotencyInUse, IdempotencyMismatch, BatchClosed, NotFound (the batch).
            StorageFull, StoreUnavailable: an outage; it passes by itself.
            Closed: the service stopped meanwhile.
        """
        if self._intake is None:
            permit.ignore()
            raise self._not_serving()
        return await self._intake.accept(submission, permit, body, turn)

    # Batches

    async def open_batch(self, client: str, service_class: ServiceClass, *, key: str | None = None) -> BatchView:
        """Starts a batch; with the key of an earlier one of this client, gives that one (`replayed`)."""
        if self._state != "serving":
            raise self._not_serving()
        book, today = self._settings.book, dt.date.today().isoformat()  # noqa: DTZ011
        told = json.dumps({"engine": self._settings.engine, "sources": ["service"], "service": True})

        def step(store: SqliteStore) -> BatchView:
            opened = store.open_service_batch(
                client, int(service_class), key, book=book, today=today, settings_json=told
            )
            batch = store.batch(opened.batch_id)
            return as_batch_view(batch, store.accounts(opened.batch_id), opened)

        return await self._do(step)

    async def close_batch(self, client: str | None, batch_id: int) -> BatchView:
        """No more documents come. Closing twice does not harm. Raises NotFound."""
        try:
            await self._do(lambda store: store.close_service_batch(batch_id, client))
        except UnknownBatch as error:
            raise NotFound(str(error)) from error
        self._bell.ring(("batch", batch_id))
        view = await self.batch(client, batch_id)
        if view is None:
            raise NotFound(f"there is no batch {batch_id}")
        return view

    async def batch(self, client: str | None, batch_id: int) -> BatchView | None:
        """One batch."""

        def step(store: SqliteStore) -> BatchView | None:
            owner = store.owner_of_batch(batch_id)
            if owner is None or not may_see(client, owner.client):
                return None
            return as_batch_view(store.batch(batch_id), store.accounts(batch_id), owner)

        return await self._look(step)

    async def results(self, client: str | None, batch_id: int, after: int = 0, limit: int = 256) -> list[Entry]:
        """The next outcome entries of a batch in submission order; `after` is a position. Raises NotFound."""

        def step(store: SqliteStore) -> list[Entry] | None:
            owner = store.owner_of_batch(batch_id)
            if owner is None or not may_see(client, owner.client):
                return None
            return store.outcomes(batch_id, after, limit)

        found = await self._look(step)
        if found is None:
            raise NotFound(f"there is no batch {batch_id}")
        return found

    async def more_results(self, batch_id: int, after: int, deadline_s: float) -> bool:
        """Waits until there is an entry behind this position; False at the deadline, or when none will come."""

        def step(store: SqliteStore) -> bool | None:
            if store.outcomes(batch_id, after, 1):
                return True
            return None if store.owner_of_batch(batch_id) is None or _is_finished(store, batch_id) else False

        return await self._bell.until(("batch", batch_id), partial(self._look, step), deadline_s)

    # One document

    async def document(self, client: str | None, document_id: str) -> DocumentView | None:
        """One document."""
        seen = await self._look(lambda store: store.look(document_id))
        if seen is None or not may_see(client, seen.owner.client if seen.owner else None):
            return None
        held = self._line.get(document_id)
        if held is None:
            return as_document(seen)
        ahead, rate = self._line.ahead_of(held), self._admission.statistics().drain_rate_per_s
        return as_document(seen, ahead=ahead, eta_s=(ahead + 1) / rate if rate else None)

    async def wait_for(self, document_id: str, deadline_s: float) -> bool:
        """Waits until the document has its entry; False at the deadline. Unknown ids wait in vain."""

        async def is_done() -> bool | None:
            if self._line.get(document_id) is not None:
                return False
            seen = await self._look(lambda store: store.look(document_id))
            return seen is not None and seen.record.entry is not None

        return await self._bell.until(("document", document_id), is_done, deadline_s)

    async def original(self, client: str | None, document_id: str) -> bytes | None:
        """The path of the original bytes, as the system spells it; None when they are gone, or for an unknown id."""
        seen = await self._look(lambda store: store.look(document_id))
        if seen is None or seen.owner is None or not may_see(client, seen.owner.client):
            return None
        await self._spool.place(seen.owner.sha256)
        path = self._blobs.path(seen.owner.sha256)
        return os.fsencode(path) if path.exists() else None

    async def cancel(self, client: str | None, document_id: str, who: str = "") -> DocumentView:
        """Ends a document that has no entry yet: durable on return; its failure `cancelled` takes its place in order.

        One that runs is stopped. Raises NotFound, NotCancellable.
        """
        view = await self.document(client, document_id)
        if view is None:
            raise NotFound(f"there is no document {document_id}")
        if self._dispatcher is None or not await self._dispatcher.cancel(document_id, who or view.client):
            raise NotCancellable(f"{document_id} has its entry already")
        return await self._surely(client, document_id)

    async def _surely(self, client: str | None, document_id: str) -> DocumentView:
        view = await self.document(client, document_id)
        if view is None:
            raise NotFound(f"there is no document {document_id}")
        return view

    async def replay(self, client: str | None, document_id: str) -> DocumentView:
        """Runs a failed or cancelled document again, as a new document of a new batch.

        Raises:
            NotFound, NotReplayable: see there.
            Full, Shed, Closed, RateLimited: no room now.
        """
        if self._intake is None:
            raise self._not_serving()
        seen = await self._look(lambda store: store.look(document_id))
        if seen is None or seen.owner is None or not may_see(client, seen.owner.client):
            raise NotFound(f"there is no document {document_id}")
        if seen.record.state not in (DocumentState.FAILED, DocumentState.CANCELLED):
            raise NotReplayable(f"{document_id} has not failed")
        if seen.replayed_as is not None:
            raise NotReplayable(f"{document_id} is run again as {seen.replayed_as}")
        owner, old = seen.owner, seen.record.document
        class_ = ServiceClass(owner.service_class)
        decision = self.decide(Submission(owner.client, class_, old.uri, old.size_bytes))
        if not isinstance(decision, Admitted):
            raise decision
        new = NewDocument(
            owner.client,
            owner.service_class,
            owner.sha256,
            old.size_bytes,
            old.uri,
            external_id=seen.record.external_id,
            replay_of=document_id,
            same_again=False,
        )
        placed = await self._intake.again(new, decision.permit, lambda store, batch: store.mark_replayed(old, batch))
        return await self._surely(client, placed.document_id)

    async def correct(
        self, client: str | None, document_id: str, changes: Mapping[str, Any], if_match: int, who: str
    ) -> DocumentView:
        """Corrects the receipt by a JSON merge patch: a new entry, never an overwrite.

        Raises:
            NotFound, NotReviewable, EditConflict (`if_match` is not the version), InvalidCorrection.
        """
        return await self._amend(Amend(client, document_id, who, if_match, changes=changes))

    async def approve(
        self, client: str | None, document_id: str, who: str, note: str = "", if_match: int | None = None
    ) -> DocumentView:
        """A person approves the receipt: a new entry. Raises NotFound, NotReviewable, EditConflict."""
        return await self._amend(Amend(client, document_id, who, if_match, decision=APPROVED, note=note))

    async def reject(
        self, client: str | None, document_id: str, who: str, note: str = "", if_match: int | None = None
    ) -> DocumentView:
        """A person rejects the receipt: a new entry. Raises NotFound, NotReviewable, EditConflict."""
        return await self._amend(Amend(client, document_id, who, if_match, decision=REJECTED, note=note))

    async def _amend(self, asked: Amend) -> DocumentView:
        await self._commits.run(self._amending.amend_all, asked)
        return await self._surely(asked.client, asked.document_id)

    # Ledger, events, numbers

    async def ledger(self, book: str | None = None, after: int = 0, limit: int = 256) -> list[Entry]:
        """The next entries of a book (None: the service's own), amendments included, in order of sequence."""
        name = book or self._settings.book
        return await self._look(lambda store: store.entries(book=name, after_sequence=after, limit=limit))

    async def proof(self, sequence: int, book: str | None = None) -> Proof | None:
        """An entry with its neighbours' hashes."""
        found, head = await self._look(lambda store: store.entry_and_next(book or self._settings.book, sequence))
        if not found or found[0].sequence != sequence:
            return None
        behind = found[1] if len(found) > 1 else None
        return Proof(found[0], behind.entry_hash if behind else None, behind.content if behind else None, head)

    async def dead_letters(self, after: int = 0, limit: int = 100, client: str | None = None) -> list[DeadLetter]:
        """The next failed documents that nobody has asked to run again, by number."""
        if client is None:
            return await self._look(lambda store: store.dead_letters(after_number=after, limit=limit))
        return await self._look(lambda store: store.letters_of(client, after, limit))

    async def events(self, after: int, limit: int = 256, client: str | None = None) -> list[Event]:
        """The next events. When `after` is older than what is kept, the first one kept comes next."""
        return [as_event(row) for row in await self._look(lambda store: store.happened(after, limit, client))]

    async def more_events(self, after: int, deadline_s: float) -> bool:
        """Waits until there is an event behind this one; False at the deadline, and when the service ends."""

        async def is_there() -> bool | None:
            if self._last_event > after:
                return True
            return None if self._state in ("stopped", "broken") else False

        return await self._bell.until(EVENTS, is_there, deadline_s)

    @property
    def last_event_id(self) -> int:
        """The id of the newest event."""
        return self._last_event

    async def last_drain(self) -> Mapping[str, Any] | None:
        """The report of the last stop, with `at`; None before the first."""
        return await self._look(lambda store: store.last_drain())

    def quota(self, client: str) -> tuple[float, float, float] | None:
        """What is left of a client's quota: documents now, burst, documents per second; None when it has none."""
        return None if self._intake is None else self._intake.tokens(client)

    def capacity(self) -> CapacityView:
        """Every bound, and how fast things go. From memory."""
        view = capacity_view(
            self.limits,
            self._bounds,
            admission=self._admission,
            line=self._line,
            pool=self._pool.statistics(),
            spool=self._spool if self._intake is not None else None,
            intake=self._intake,
            outcomes=self._dispatcher.outcomes if self._dispatcher is not None else {},
            commits=self._commits if self._intake is not None else None,
        )
        return replace(view, bounds=view.bounds + self.webhooks.bounds())

    def health(self) -> HealthView:
        """From memory."""
        problems = []
        if self._intake is not None and self._spool.full:
            problems.append(f"storage is full: {self._spool.full}")
        if self._dispatcher is not None and self._dispatcher.problem:
            problems.append(f"nothing can be committed: {self._dispatcher.problem}")
        live = self._state not in ("broken", "stopped")
        return HealthView(live, self._state == "serving" and not problems, self._state, tuple(problems))


def _waits(after: tuple[int, int], limit: int, store: SqliteStore) -> Any:
    return store.waits(after, limit)


def _keep_drain(told: Mapping[str, Any], store: SqliteStore) -> None:
    store.give_all_back()
    store.keep_drain(told)


def _is_finished(store: SqliteStore, batch_id: int) -> bool:
    batch = store.batch(batch_id)
    return batch.state == "finished" or (batch.listed and not store.accounts(batch_id).in_flight)


def _recover(blobs: Blobs, store: SqliteStore) -> None:
    blobs.recover(store.known_bytes, store.waiting_bytes)


def _close_all(closed: Sequence[Blobs]) -> list[None]:
    for blobs in closed:
        blobs.arrivals.close()
    return [None] * len(closed)


def _open_blobs(settings: RunSettings) -> Blobs:
    return Blobs(settings.workspace / "blobs", limit_bytes=settings.blob_bytes)


def _first(error: BaseException) -> BaseException:
    """What went wrong first; the rest of a group was ended by it."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _is_cancelled(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError)
