"""What answers look like, field by field, as the OpenAPI document has it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

ClassName = Literal["interactive", "batch", "background"]
State = Literal["queued", "running", "succeeded", "partial", "failed", "cancelled"]


class FieldError(BaseModel):
    """One thing that is wrong, and where."""

    pointer: str
    detail: str


class ProblemReply(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    instance: str | None = None
    trace_id: str | None = None
    retry_after_seconds: int | None = None
    document_id: str | None = None
    page: int | None = None
    reason: str | None = None
    limit: int | None = None
    limit_bytes: int | None = None
    actual: int | None = None
    errors: list[FieldError] | None = None


class LedgerPlace(BaseModel):
    """Where an entry stands in its book."""

    book: str
    sequence: int
    voucher: str
    entry_hash: str
    prev_hash: str


class AmendmentReply(BaseModel):
    """A correction or a review."""

    kind: str
    sequence: int
    who: str
    changes: dict[str, Any] | None = None
    decision: str | None = None
    note: str = ""


class DocumentReply(BaseModel):
    """One document. What is not known yet is not there."""

    document_id: str
    batch_id: int
    position: int
    service_class: ClassName
    filename: str
    sha256: str
    size_bytes: int
    state: State
    stage: str
    accepted_at: str | None = None
    attempt: int = 0
    pages_done: int | None = None
    pages_total: int | None = None
    ahead: int | None = None
    eta_seconds: float | None = None
    external_id: str | None = None
    kind: str | None = None
    review: str | None = None
    receipt: dict[str, Any] | None = None
    failure: dict[str, Any] | None = None
    duplicate_of: dict[str, Any] | None = None
    amendments: list[AmendmentReply] | None = None
    ledger: LedgerPlace | None = None
    replay_of: str | None = None
    replayed_as: str | None = None
    links: dict[str, str]


class BatchReply(BaseModel):
    """One batch, and how far it is."""

    batch_id: int
    book: str
    key: str | None = None
    service_class: ClassName
    state: Literal["open", "closed", "finished"]
    started_at: str
    finished_at: str | None = None
    accepted: int
    done: int
    in_flight: int
    succeeded: int
    partial: int
    duplicates: int
    failed: int
    needs_review: int
    rejected: int
    links: dict[str, str]


class Verdict(BaseModel):
    """What became of one item of a batch's body: `status` as if it had been sent alone."""

    index: int
    name: str
    status: int
    document_id: str | None = None
    position: int | None = None
    sha256: str | None = None
    replayed: bool | None = None
    problem: ProblemReply | None = None


class SubmittedBatch(BatchReply):
    """A batch that was sent as one body. `complete` is false when reading stopped early: `problem` says why."""

    complete: bool
    items_accepted: int
    items_refused: int
    problem: ProblemReply | None = None
    items: list[Verdict]


class BoundReply(BaseModel):
    """One bound."""

    unit: str
    used: float
    limit: float | None
    because: str


class ClassReply(BaseModel):
    """One class at this moment."""

    taken: bool
    waiting: int
    oldest_age_seconds: float
    longest_wait_seconds: float


class IndexingReply(BaseModel):
    """Whether search is being brought up to the ledger; what it did is counted since the start."""

    state: Literal["off", "current", "indexing", "paused", "failed"]
    because: str
    taken_in: int
    embedded: int


class CapacityReply(BaseModel):
    """Every bound, and how fast things go."""

    bounds: dict[str, BoundReply]
    oldest_eligible_age_seconds: float
    drain_rate_per_second: float | None
    retry_after_seconds: int
    level: str
    because: str
    classes: dict[ClassName, ClassReply]
    indexing: IndexingReply
    refused: dict[str, int]
    accepted: int
    done: int
    in_flight: int
    outcomes: dict[str, int]
    workers: int
    workers_busy: int
    last_event_id: int


class HealthReply(BaseModel):
    """Whether it lives, or is ready."""

    status: str
    problems: list[str] = Field(default_factory=list)


class DeadLetterReply(BaseModel):
    """One document that failed and that nobody has run again."""

    number: int
    document_id: str
    batch_id: int
    position: int
    filename: str
    failure: dict[str, Any]
    bytes_kept: bool
    failed_at: str
    replayed_in: int | None = None


class DeadLetters(BaseModel):
    """A page of dead letters."""

    items: list[DeadLetterReply]
    next_after: int | None = None


class LedgerPage(BaseModel):
    """A page of the ledger, as `export` writes it."""

    items: list[dict[str, Any]]
    next_after: int | None = None


class ProofReply(BaseModel):
    """How to check one entry: sha256(prev_hash, LF, content) is entry_hash, which is the prev_hash of the next one."""

    book: str
    sequence: int
    voucher: str
    prev_hash: str
    content: str
    entry_hash: str
    next_content: str | None
    next_hash: str | None
    head_sequence: int
    head_hash: str


class TicketReply(BaseModel):
    """A pass for `GET /v1/events?ticket=`."""

    ticket: str
    expires_in_seconds: int


class HitReply(BaseModel):
    """A receipt that was found, with its corrections."""

    document_id: str
    batch_id: int
    voucher: str
    filename: str
    merchant: str | None
    issue_date: str | None
    total: str | None
    currency: str | None
    verdict: str | None
    by: list[Literal["words", "meaning"]]
    similarity: float | None
    score: float


class SearchReply(BaseModel):
    """The best first. What is not indexed yet is counted over the whole service."""

    items: list[HitReply]
    complete: bool
    entries_behind: int
    without_vector: int
