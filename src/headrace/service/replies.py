"""What is answered, as JSON: how views become the models of `reply_models`. No other place knows both."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from headrace.documents.entry import Entry, format_voucher
from headrace.flow import ServiceClass
from headrace.service.progress import PageProgress
from headrace.service.reception import Accepted, BatchView, CapacityView, DocumentView, Event, HealthView, Proof
from headrace.storage.store import DeadLetter

if TYPE_CHECKING:
    from headrace.search import Found

CLASSES: dict[str, ServiceClass] = {class_.name.lower(): class_ for class_ in ServiceClass}


def document(view: DocumentView) -> dict[str, Any]:
    """A document."""
    reply: dict[str, Any] = {
        "document_id": view.document_id,
        "batch_id": view.batch_id,
        "position": view.position,
        "service_class": view.service_class.name.lower(),
        "filename": view.filename,
        "sha256": view.sha256,
        "size_bytes": view.size_bytes,
        "state": str(view.state),
        "stage": view.stage,
        "accepted_at": timestamp(view.accepted_at),
        "attempt": view.attempt,
        "pages_done": view.pages_done,
        "pages_total": view.pages_total,
        "ahead": view.ahead,
        "eta_seconds": None if view.eta_s is None else round(view.eta_s, 3),
        "external_id": view.external_id,
        "kind": view.kind,
        "review": view.review,
        "receipt": view.receipt,
        "failure": view.failure,
        "duplicate_of": view.duplicate_of,
        "amendments": [_amendment(view, n) for n in range(len(view.amendments))] or None,
        "ledger": ledger_place(view.entry) if view.entry else None,
        "replay_of": view.replay_of,
        "replayed_as": view.replayed_as,
        "links": document_links(view.document_id, view.batch_id),
    }
    return {name: value for name, value in reply.items() if value is not None}


def accepted(told: Accepted, service_class: ServiceClass, filename: str) -> dict[str, Any]:
    """A document that has just been accepted: what is known of it without asking the store."""
    return {
        "document_id": told.document_id,
        "batch_id": told.batch_id,
        "position": told.position,
        "service_class": service_class.name.lower(),
        "filename": filename,
        "sha256": told.sha256,
        "size_bytes": told.size_bytes,
        "state": "queued",
        "stage": "waiting",
        "attempt": 0,
        "links": document_links(told.document_id, told.batch_id),
    }


def entity_tag(view: DocumentView) -> str:
    """Strong once there is an entry, since only entries change it then; weak before."""
    if view.entry is None:
        return f'W/"{view.state}-{view.stage}-{view.attempt}-{view.ahead}-{view.pages_done}"'
    return f'"{view.version}{"r" if view.replayed_as else ""}"'


def batch(view: BatchView) -> dict[str, Any]:
    """A batch."""
    accounts = view.accounts
    reply: dict[str, Any] = {
        "batch_id": view.batch_id,
        "book": view.book,
        "key": view.key,
        "service_class": view.service_class.name.lower(),
        "state": view.state,
        "started_at": timestamp(view.started_at),
        "finished_at": None if view.finished_at is None else timestamp(view.finished_at),
        "accepted": accounts.accepted,
        "done": accounts.done,
        "in_flight": accounts.in_flight,
        "succeeded": accounts.succeeded,
        "partial": accounts.partial,
        "duplicates": accounts.duplicates,
        "failed": accounts.failed,
        "needs_review": accounts.needs_review,
        "rejected": accounts.rejected,
        "links": {"self": f"/v1/batches/{view.batch_id}", "results": f"/v1/batches/{view.batch_id}/results"},
    }
    return {name: value for name, value in reply.items() if value is not None}


def capacity(view: CapacityView, last_event_id: int) -> dict[str, Any]:
    """Every bound, and from where on to listen to events."""
    return {
        "bounds": {
            bound.name: {"unit": bound.unit, "used": bound.used, "limit": bound.limit, "because": bound.because}
            for bound in view.bounds
        },
        "oldest_eligible_age_seconds": round(view.oldest_eligible_age_s, 3),
        "drain_rate_per_second": view.drain_rate_per_s,
        "retry_after_seconds": view.retry_after_s,
        "level": view.level.name.lower(),
        "because": view.because,
        "classes": {
            class_.name.lower(): {
                "taken": its.taken,
                "waiting": its.waiting,
                "oldest_age_seconds": round(its.oldest_age_s, 3),
                "longest_wait_seconds": its.longest_wait_s,
            }
            for class_, its in view.classes.items()
        },
        "indexing": {
            "state": str(view.indexing.state),
            "because": view.indexing.because,
            "taken_in": view.indexing.taken_in,
            "embedded": view.indexing.embedded,
        },
        "refused": dict(view.refused),
        "accepted": view.accepted,
        "done": view.done,
        "in_flight": view.in_flight,
        "outcomes": dict(view.outcomes),
        "workers": view.workers,
        "workers_busy": view.workers_busy,
        "last_event_id": last_event_id,
    }


def health(view: HealthView) -> dict[str, Any]:
    """Health."""
    return {"status": view.state, "problems": list(view.problems)}


def dead_letter(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter."""
    reply: dict[str, Any] = {
        "number": letter.number,
        "document_id": letter.document.document_id,
        "batch_id": letter.document.batch_id,
        "position": letter.document.position,
        "filename": letter.document.uri,
        "failure": letter.failure,
        "bytes_kept": letter.blob_sha256 is not None,
        "failed_at": timestamp(letter.failed_at),
    }
    return reply if letter.replayed_in is None else reply | {"replayed_in": letter.replayed_in}


def proof(told: Proof) -> dict[str, Any]:
    """A proof; contents are the exact text that was hashed."""
    entry = told.entry
    return {
        "book": entry.book,
        "sequence": entry.sequence,
        "voucher": entry.voucher,
        "prev_hash": entry.prev_hash,
        "content": entry.content.decode(),
        "entry_hash": entry.entry_hash,
        "next_content": None if told.next_content is None else told.next_content.decode(),
        "next_hash": told.next_hash,
        "head_sequence": told.head.sequence,
        "head_hash": told.head.entry_hash,
    }


def event(told: Event) -> dict[str, Any]:
    """An event."""
    reply: dict[str, Any] = {
        "id": told.event_id,
        "at": timestamp(told.at),
        "kind": told.kind,
        "batch_id": told.batch_id,
    }
    if told.document_id is not None:
        reply["document_id"] = told.document_id
    return reply | dict(told.data)


def progress(told: PageProgress) -> dict[str, Any]:
    """How far a document is that is being read."""
    reply: dict[str, Any] = {
        "kind": "document.progress",
        "batch_id": told.batch_id,
        "document_id": told.document_id,
        "stage": "read",
        "attempt": told.attempt,
        "pages_done": told.pages_done,
        "pages_total": told.pages_total,
    }
    return reply if told.eta_s is None else reply | {"eta_seconds": round(told.eta_s, 1)}


def ledger_place(entry: Entry) -> dict[str, Any]:
    """Where an entry stands."""
    return {
        "book": entry.book,
        "sequence": entry.sequence,
        "voucher": format_voucher(entry.book, entry.sequence),
        "entry_hash": entry.entry_hash,
        "prev_hash": entry.prev_hash,
    }


def found(found: Found) -> dict[str, Any]:
    """What a search found."""
    return {
        "items": [
            {
                "document_id": hit.entry.document_id,
                "batch_id": hit.entry.batch_id,
                "voucher": hit.entry.voucher,
                "filename": hit.entry.uri,
                "merchant": hit.merchant,
                "issue_date": hit.issue_date,
                "total": None if hit.total is None else str(hit.total),
                "currency": hit.currency,
                "verdict": hit.verdict,
                "by": list(hit.by),
                "similarity": hit.similarity,
                "score": hit.score,
            }
            for hit in found.hits
        ],
        "complete": found.complete,
        "entries_behind": found.entries_behind,
        "without_vector": found.without_vector,
    }


def document_links(document_id: str, batch_id: int) -> dict[str, str]:
    """Where else to look."""
    return {
        "self": f"/v1/documents/{document_id}",
        "file": f"/v1/documents/{document_id}/file",
        "first_page": f"/v1/documents/{document_id}/pages/1",
        "batch": f"/v1/batches/{batch_id}",
    }


def timestamp(unix_s: float) -> str:
    """RFC 3339 in UTC, with milliseconds."""
    return dt.datetime.fromtimestamp(unix_s, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _amendment(view: DocumentView, n: int) -> dict[str, Any]:
    its = view.amendments[n]
    told: dict[str, Any] = {"kind": its.kind, "sequence": its.sequence, "who": its.who, "note": its.note}
    if its.changes is not None:
        told["changes"] = dict(its.changes)
    return told if its.decision is None else told | {"decision": its.decision}
