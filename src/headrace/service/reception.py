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

from collections.abc import AsyncIterator, Mapping
from typing import Any

from headrace.documents.entry import Entry
from headrace.flow import Admitted, DrainReport, Permit, Refusal, ServiceClass
from headrace.ingest.bounds import Bounds
from headrace.ingest.settings import RunSettings
from headrace.ledger import Policy
from headrace.service.errors import (
    BatchClosed,
    DigestMismatch,
    EditConflict,
    IdempotencyInUse,
    IdempotencyMismatch,
    InvalidCorrection,
    NotCancellable,
    NotFound,
    NotReplayable,
    NotReviewable,
    RateLimited,
    ReceptionError,
)
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
from headrace.storage.store import DeadLetter

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


class Reception:
    """Takes documents in, has them read, and answers for them.

    Args:
        settings: as for `run`: engine, book, workspace, limits of a document.
        bounds: as for `run`.
        limits: of the service.
        policy: gives the verdicts.
    """

    def __init__(
        self, settings: RunSettings, bounds: Bounds, limits: ServiceLimits | None = None, policy: Policy | None = None
    ) -> None:
        raise NotImplementedError

    # Life

    async def run(self) -> None:
        """Opens store, workers and dispatcher, goes on with what the last run left, and returns after `stop`.

        Cancelled: stops now; what is in flight stays queued in the store.

        Raises:
            StoreError, WorkersUnavailable, StorageFull: it cannot be opened, or broke.
        """
        raise NotImplementedError

    async def opened(self) -> None:
        """Returns when documents are taken; raises what `run` raises when it comes to that first."""
        raise NotImplementedError

    async def stop(self, deadline_s: float) -> DrainReport:
        """Not ready from this moment; takes nothing more; what is in is finished or handed back by the deadline.

        The report is kept in the store (`last_drain`). A second call with a shorter deadline shortens it.
        """
        raise NotImplementedError

    def change_limits(self, limits: ServiceLimits) -> None:
        """Takes other limits while in use: quotas and counts at once; what is in flight stays in flight."""
        raise NotImplementedError

    # Documents in

    def decide(self, submission: Submission) -> Admitted | Refusal:
        """Whether this document may be sent now. Never waits, before any byte is read.

        The permit is the caller's: hand it to `accept`, or end it (`permit.ignore()`).
        """
        raise NotImplementedError

    async def admit(self, submission: Submission, deadline_s: float | None = None) -> Admitted | Refusal:
        """As `decide`, but waits in line; for the entries of a streamed batch. Cancelled, it holds nothing."""
        raise NotImplementedError

    async def accept(self, submission: Submission, permit: Permit, body: AsyncIterator[bytes]) -> Accepted:
        """Takes the bytes in; returns when they and their row are on disk.

        The permit travels with the document until its entry is committed. On any error, it is ended and nothing stays.
        Cancelled: nothing stays, unless the row was being committed in that moment: then the document is accepted.

        Raises:
            EmptyFile, UnsupportedMediaType (by the first bytes), PayloadTooLarge, DigestMismatch: bad bytes.
            CorruptDocument: fewer or more bytes than were declared.
            IdempotencyInUse, IdempotencyMismatch, BatchClosed, NotFound (the batch).
            StorageFull, StoreUnavailable: an outage; it passes by itself.
            Closed: the service stopped meanwhile.
        """
        raise NotImplementedError

    # Batches

    async def open_batch(self, client: str, service_class: ServiceClass, *, key: str | None = None) -> BatchView:
        """Starts a batch; with the key of an earlier one of this client, gives that one (`replayed`)."""
        raise NotImplementedError

    async def close_batch(self, client: str | None, batch_id: int) -> BatchView:
        """No more documents come. Closing twice does not harm. Raises NotFound."""
        raise NotImplementedError

    async def batch(self, client: str | None, batch_id: int) -> BatchView | None:
        """One batch."""
        raise NotImplementedError

    async def results(self, client: str | None, batch_id: int, after: int = 0, limit: int = 256) -> list[Entry]:
        """The next outcome entries of a batch in submission order; `after` is a position. Raises NotFound."""
        raise NotImplementedError

    async def more_results(self, batch_id: int, after: int, deadline_s: float) -> bool:
        """Waits until there is an entry behind this position; False at the deadline, or when none will come."""
        raise NotImplementedError

    # One document

    async def document(self, client: str | None, document_id: str) -> DocumentView | None:
        """One document."""
        raise NotImplementedError

    async def wait_for(self, document_id: str, deadline_s: float) -> bool:
        """Waits until the document has its entry; False at the deadline. Unknown ids wait in vain."""
        raise NotImplementedError

    async def original(self, client: str | None, document_id: str) -> bytes | None:
        """The path of the original bytes, as the system spells it; None when they are gone, or for an unknown id."""
        raise NotImplementedError

    async def cancel(self, client: str | None, document_id: str) -> DocumentView:
        """Ends a document that has no entry yet: durable on return; its failure `cancelled` takes its place in order.

        One that runs is stopped. Raises NotFound, NotCancellable.
        """
        raise NotImplementedError

    async def replay(self, client: str | None, document_id: str) -> DocumentView:
        """Runs a failed or cancelled document again, as a new document of a new batch. Raises NotFound, NotReplayable,
        Full or Closed.
        """
        raise NotImplementedError

    async def correct(
        self, client: str | None, document_id: str, changes: Mapping[str, Any], if_match: int, who: str
    ) -> DocumentView:
        """Corrects the receipt by a JSON merge patch: a new entry, never an overwrite.

        Raises:
            NotFound, NotReviewable, EditConflict (`if_match` is not the version), InvalidCorrection.
        """
        raise NotImplementedError

    async def approve(
        self, client: str | None, document_id: str, who: str, note: str = "", if_match: int | None = None
    ) -> DocumentView:
        """A person approves the receipt: a new entry. Raises NotFound, NotReviewable, EditConflict."""
        raise NotImplementedError

    async def reject(
        self, client: str | None, document_id: str, who: str, note: str = "", if_match: int | None = None
    ) -> DocumentView:
        """A person rejects the receipt: a new entry. Raises NotFound, NotReviewable, EditConflict."""
        raise NotImplementedError

    # Ledger, events, numbers

    async def ledger(self, book: str | None = None, after: int = 0, limit: int = 256) -> list[Entry]:
        """The next entries of a book (None: the service's own), amendments included, in order of sequence."""
        raise NotImplementedError

    async def proof(self, sequence: int, book: str | None = None) -> Proof | None:
        """An entry with its neighbours' hashes."""
        raise NotImplementedError

    async def dead_letters(self, after: int = 0, limit: int = 100, client: str | None = None) -> list[DeadLetter]:
        """The next failed documents that nobody has asked to run again, by number."""
        raise NotImplementedError

    async def events(self, after: int, limit: int = 256, client: str | None = None) -> list[Event]:
        """The next events. When `after` is older than what is kept, the first one kept comes next."""
        raise NotImplementedError

    async def more_events(self, after: int, deadline_s: float) -> bool:
        """Waits until there is an event behind this one; False at the deadline."""
        raise NotImplementedError

    @property
    def last_event_id(self) -> int:
        """The id of the newest event."""
        raise NotImplementedError

    async def last_drain(self) -> Mapping[str, Any] | None:
        """The report of the last stop, with `at`; None before the first."""
        raise NotImplementedError

    def capacity(self) -> CapacityView:
        """Every bound, and how fast things go. From memory."""
        raise NotImplementedError

    def health(self) -> HealthView:
        """From memory."""
        raise NotImplementedError
