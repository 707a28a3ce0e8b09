"""How a document ends that no worker has an outcome of: cancelled, or lost with the service again and again."""

from __future__ import annotations

from dataclasses import replace

from headrace.documents.errors import WORKER_LOST, DocumentFailure
from headrace.documents.status import DocumentState
from headrace.ledger import Draft
from headrace.service.line import Held

CANCELLED = "cancelled"


def draft_of(held: Held) -> Draft:
    """Its end as it is decided on now: who asked for a cancellation in time gets it, whatever was read."""
    assert held.draft is not None
    draft = cancelled(held) if held.cancelled_by is not None else held.draft
    return replace(draft, owner=str(held.client)) if held.client else draft


def digest_of(held: Held) -> str:
    """The digest of its bytes, which is what its path is while it waits."""
    return held.document.path.decode()


def cancelled(held: Held) -> Draft:
    """Its end when somebody asked for it."""
    failure = DocumentFailure(CANCELLED, "execute", "it was cancelled before it was done", None, retriable=False)
    return _ended(held, DocumentState.CANCELLED, failure)


def lost(held: Held) -> Draft:
    """Its end when it may be what ends the service."""
    detail = "the service ended again and again while it was worked on"
    return _ended(held, DocumentState.FAILED, DocumentFailure(WORKER_LOST, "execute", detail, None, retriable=True))


def _ended(held: Held, state: DocumentState, failure: DocumentFailure) -> Draft:
    document = held.document
    return Draft(document, digest_of(held), document.size_bytes, None, state, failure.as_dict())
