"""The states of a document and the two axes of its end: what became of it, and whether a person should look."""

from __future__ import annotations

from enum import StrEnum


class DocumentState(StrEnum):
    """Where a document is. `queued -> running -> succeeded | partial | failed | cancelled`; the last four are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"


class EntryKind(StrEnum):
    """What a ledger entry records: a document's outcome (the first three), or what a person did to it afterwards."""

    RECEIPT = "receipt"
    DUPLICATE = "duplicate"
    FAILURE = "failure"
    CORRECTION = "correction"
    REVIEW = "review"


class Verdict(StrEnum):
    """What the checks and the policy say of a receipt. A failure has none."""

    ACCEPTED = "accepted"
    NEEDS_REVIEW = "needs_review"
    REJECTED = "rejected"
    DUPLICATE = "duplicate"
