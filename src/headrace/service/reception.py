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

import datetime as dt
import json
import os
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from headrace.documents.entry import Entry
from headrace.documents.status import DocumentState
from headrace.flow import Admitted, Closed, Permit, Refusal, ServiceClass
from headrace.service.amending import Amend
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
from headrace.service.looking import APPROVED, REJECTED, as_batch_view, as_document, may_see
from headrace.service.records import Records
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
from headrace.storage.errors import UnknownBatch
from headrace.storage.sql_accept import NewDocument
from headrace.storage.sqlite import SqliteStore

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


class Reception(Records):
    """Takes documents in, has them read, and answers for them. Made in a running loop.

    Args: as for `House`.
    """

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
        if (far := self._underway.of(document_id)) is not None:
            return as_document(seen, far=far, eta_s=far.eta_s)
        ahead, rate = self._line.ahead_of(held), self._admission.statistics().drain_rate_per_s
        return as_document(seen, ahead=ahead, eta_s=(ahead + 1) / rate if rate else None)

    async def wait_for(self, document_id: str, deadline_s: float) -> bool:
        """Waits until the document has its entry; False at the deadline, and when the service ends before.

        Unknown ids wait in vain.
        """

        async def is_done() -> bool | None:
            if self._state in ("stopped", "broken"):
                return None
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
        view = await self._surely(client, document_id)
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
        if await self.original(client, document_id) is None:
            raise NotReplayable(f"the bytes of {document_id} are not kept any more")
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


def _is_finished(store: SqliteStore, batch_id: int) -> bool:
    batch = store.batch(batch_id)
    return batch.state == "finished" or (batch.listed and not store.accounts(batch_id).in_flight)
