"""What the service is asked and what it answers: frozen values, no behaviour, no HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headrace.documents.entry import Entry, Head
from headrace.documents.status import DocumentState
from headrace.flow import Rate, ServiceClass, ShedLevel
from headrace.service.webhook_limits import WebhookLimits
from headrace.storage.store import Accounts


@dataclass(frozen=True, slots=True)
class Submission:
    """What a client says of one document, before its bytes.

    Attributes:
        client: whose it is; "" where no keys are configured.
        service_class: how urgent it is.
        filename: for display only; printable text is made of it.
        declared_bytes: from Content-Length; None for a chunked body.
        sha256: the digest that the client promised, in lower-case hex; None when it promised none.
        idempotency_key: its own name for this request; the same one again gets the same answer for 24 hours.
        batch_id: an open batch of the same client; None makes a batch of one.
        external_id: the caller's own id of the document.
    """

    client: str
    service_class: ServiceClass
    filename: str = ""
    declared_bytes: int | None = None
    sha256: str | None = None
    idempotency_key: str | None = None
    batch_id: int | None = None
    external_id: str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """Accepted: bytes and row are on disk.

    Attributes:
        document_id: opaque; what everything else is asked by.
        batch_id, position: its place.
        sha256, size_bytes: of the bytes.
        replayed: nothing new was made: the same Idempotency-Key, or the same bytes of the same client without a key.
    """

    document_id: str
    batch_id: int
    position: int
    sha256: str
    size_bytes: int
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Amendment:
    """A correction or a review: an entry of the ledger behind the outcome, which stays as it was.

    Attributes:
        kind: `correction` or `review`.
        sequence: its place in the book.
        who: who did it, as the edge said.
        changes: for a correction, the JSON merge patch (RFC 7396) on the receipt.
        decision, note: for a review: `approved` or `rejected`, and why.
    """

    kind: str
    sequence: int
    who: str
    changes: Mapping[str, Any] | None = None
    decision: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class DocumentView:
    """One document as its client sees it.

    Attributes:
        state: queued, running, succeeded, partial, failed or cancelled.
        stage: what is done to it now (`waiting`, `read`, `done`).
        attempt: which attempt it is in, or had its end in; while it waits, how many were charged to it.
        pages_done, pages_total: how far it is, and how many pages there are; None until that is known.
        filename: as the client called it, printable.
        kind: `receipt`, `duplicate`, `failure`; None until it ended.
        receipt: with its corrections applied; None until there is one.
        failure: why it failed, with the attempt.
        duplicate_of: the first receipt with the same bytes.
        review: `needs_review`, `approved` or `rejected`; None while it has no verdict that asks for one.
        version: changes with every entry about it; the ETag. 0 while it has no entry.
        entry: its outcome in the ledger; None until it ended.
        amendments: corrections and reviews, oldest first.
        ahead: how many are worked on or wait before it, about; None when it does not wait.
        eta_s: seconds until it is done by the measured rate; None when that is not known or it is done.
        replay_of, replayed_as: ids of the failed document that it runs again, and of the one that runs it again.
    """

    document_id: str
    batch_id: int
    position: int
    client: str
    service_class: ServiceClass
    filename: str
    sha256: str
    size_bytes: int
    accepted_at: float
    state: DocumentState
    stage: str
    attempt: int = 0
    pages_done: int | None = None
    pages_total: int | None = None
    kind: str | None = None
    receipt: Mapping[str, Any] | None = None
    failure: Mapping[str, Any] | None = None
    duplicate_of: Mapping[str, Any] | None = None
    review: str | None = None
    version: int = 0
    entry: Entry | None = None
    amendments: tuple[Amendment, ...] = ()
    ahead: int | None = None
    eta_s: float | None = None
    replay_of: str | None = None
    replayed_as: str | None = None
    external_id: str | None = None

    @property
    def done(self) -> bool:
        """Whether it has its end."""
        return self.entry is not None


@dataclass(frozen=True, slots=True)
class BatchView:
    """One batch as its client sees it.

    Attributes:
        key: the client's own name for it; None when it gave none.
        state: `open` (takes documents), `closed` (no more come), `finished` (all have their entries).
        accounts: accepted = done + in flight, and what became of those that are done.
    """

    batch_id: int
    book: str
    client: str
    service_class: ServiceClass
    key: str | None
    state: str
    accounts: Accounts
    started_at: float
    finished_at: float | None = None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, written in the transaction that made it happen.

    Attributes:
        event_id: rising without end; a later event has a greater one, also across restarts.
        at: Unix time in seconds; for people only.
        kind: `document.accepted`, `.running`, `.succeeded`, `.partial`, `.failed`, `.cancelled`, `.corrected`,
            `.approved`, `.rejected`; `batch.opened`, `.closed`, `.finished`.
        client: whose it is.
        document_id: None for events of batches.
        data: small JSON, such as the voucher or the failure code.
    """

    event_id: int
    at: float
    kind: str
    client: str
    batch_id: int
    document_id: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Proof:
    """That an entry is part of a chain: hash(prev_hash, LF, content) is its hash, which the next one names.

    Attributes:
        entry: with the exact bytes that were hashed in `content`.
        next_hash: the hash of the entry behind it; None when it is the last one.
        next_content: the bytes of the entry behind it, so that the link can be checked; None when it is the last one.
        head: where the book stands.
    """

    entry: Entry
    next_hash: str | None
    next_content: bytes | None
    head: Head


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound: how much of it is used, and the sum that led to it. `limit` None: there is none (the disk's own)."""

    name: str
    unit: str
    used: float
    limit: float | None
    because: str = ""


@dataclass(frozen=True, slots=True)
class ClassView:
    """One class now: whether it is taken, how many of it wait for a worker, and how long the oldest has."""

    taken: bool
    waiting: int
    oldest_age_s: float
    longest_wait_s: float
    refused: Mapping[str, int] = field(default_factory=dict)


class IndexingState(StrEnum):
    """What indexing does: not wanted, nothing to do, at work, waits for documents, or tries again later."""

    OFF = "off"
    CURRENT = "current"
    INDEXING = "indexing"
    PAUSED = "paused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class IndexingView:
    """How indexing is, why, and what it did since the start."""

    state: IndexingState = IndexingState.OFF
    because: str = ""
    taken_in: int = 0
    embedded: int = 0


@dataclass(frozen=True, slots=True)
class CapacityView:
    """Every bound, and how fast things go.

    Attributes:
        bounds: by name.
        oldest_eligible_age_s: of the documents that could be started now.
        drain_rate_per_s: documents per second while more were waiting, as measured; None until it is known.
        retry_after_s: what a refused client would be told now; 0 when one would be taken.
        level, because: which classes are refused, and why.
        classes: each class.
        refused: by kind, since the start.
        accepted, done, in_flight: the accounting identity since the start; what was found at the start counts.
        worker_rss_bytes: resident memory of each worker process, the oldest first.
        indexing: whether search is being brought up to the ledger.
    """

    bounds: tuple[Bound, ...]
    oldest_eligible_age_s: float
    drain_rate_per_s: float | None
    retry_after_s: int
    level: ShedLevel
    because: str
    classes: Mapping[ServiceClass, ClassView]
    refused: Mapping[str, int]
    accepted: int
    done: int
    in_flight: int
    outcomes: Mapping[str, int]
    workers: int
    workers_busy: int
    worker_restarts: Mapping[str, int]
    worker_rss_bytes: tuple[int, ...]
    indexing: IndexingView = IndexingView()

    def bound(self, name: str) -> Bound:
        """The bound of this name; KeyError when there is none."""
        for bound in self.bounds:
            if bound.name == name:
                return bound
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class HealthView:
    """From memory only.

    Attributes:
        live: the loop runs and nothing of ours has died.
        ready: new work is taken (load does not make it unready).
        state: `starting`, `serving`, `draining`, `stopped`, `broken`.
        problems: what is wrong, one sentence each: a full disk, a store that cannot be written.
    """

    live: bool
    ready: bool
    state: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quota:
    """What one client may do.

    Attributes:
        rate: documents per second and burst; None: any.
        weight: its weight in the fair turns of its class.
    """

    rate: Rate | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """The bounds of the service, beside those of a run. None means derived.

    Attributes:
        acceptable_delay_s: how long an accepted document may wait, about; with the drain rate it gives `documents`.
        documents: accepted and not committed, at most; None derives it, and follows the measured rate.
        documents_least, documents_most: between which a derived limit stays.
        accepted_bytes: what those may hold together.
        assumed_bytes: what a body of unknown length counts for until it is there.
        buffer_bytes: bytes of bodies in memory, all uploads together.
        min_free_bytes: free disk below which nothing is accepted.
        accept_group: documents that share one transaction at most.
        page_requests: pictures of pages that may be asked for at the same time.
        page_cache_bytes: pictures of pages that are kept on disk.
        search_requests: searches that may be under way at the same time.
        index_receipts: keep search up with the ledger, while no documents wait.
        events_kept: events that can be replayed; older ones are removed.
        quotas: by client; `default_quota` holds for the others.
        batch_answers_bytes: verdicts on items of batches that came with a key, kept to answer the same request again.
        retention_days: how long originals are kept after they were accepted, once they have their entries; None: for
            ever. Those of dead letters that were not run again stay.
        class_delay_s: the longest wait that is promised to each class.
        unfinished_uploads: resumable uploads that are not complete; None: `accepted_bytes` / the largest document.
        upload_keep_s: how long one may take from its first request to its last.
        ended_uploads_kept: of how many that ended it is remembered how.
        webhooks: of those.
    """

    acceptable_delay_s: float = 60.0
    documents: int | None = None
    documents_least: int = 16
    documents_most: int = 10_000
    accepted_bytes: int = 8 << 30
    assumed_bytes: int = 2 << 20
    buffer_bytes: int = 32 << 20
    min_free_bytes: int = 256 << 20
    accept_group: int = 256
    page_requests: int = 8
    page_cache_bytes: int = 64 << 20
    search_requests: int = 4
    index_receipts: bool = False
    events_kept: int = 100_000
    idempotency_s: float = 24 * 3600.0
    batch_answers_bytes: int = 64 << 20
    retention_days: int | None = None
    unfinished_uploads: int | None = None
    upload_keep_s: float = 24 * 3600.0
    ended_uploads_kept: int = 4096
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    default_quota: Quota = Quota()
    class_delay_s: Mapping[ServiceClass, float] = field(
        default_factory=lambda: {
            ServiceClass.INTERACTIVE: 30.0,
            ServiceClass.BATCH: 300.0,
            ServiceClass.BACKGROUND: 1800.0,
        }
    )
    webhooks: WebhookLimits = field(default_factory=WebhookLimits)
