"""Rows as clients see them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.documents.entry import Entry
from headrace.documents.status import DocumentState, EntryKind, Verdict
from headrace.flow import ServiceClass
from headrace.ledger.amendments import merged
from headrace.service.progress import PageProgress
from headrace.service.views import Amendment, BatchView, DocumentView, Event
from headrace.storage.sql_accept import OpenBatch
from headrace.storage.sql_records import Seen
from headrace.storage.sql_service import ENDED, WORKED_ON
from headrace.storage.store import Accounts, Batch

APPROVED, REJECTED, NEEDS_REVIEW = "approved", "rejected", "needs_review"


def may_see(client: str | None, owner: str | None) -> bool:
    """Whether a client may see what this owner has. None sees all; what came by `run` is for those without keys."""
    return client is None or client == (owner or "")


def as_document(
    seen: Seen, *, ahead: int | None = None, eta_s: float | None = None, far: PageProgress | None = None
) -> DocumentView:
    """A document from one look at the store, and how far it is, if it is being read."""
    record, owner = seen.record, seen.owner
    document, entry = record.document, record.entry
    amendments = tuple(as_amendment(one) for one in seen.amendments)
    failure = record.last_failure if entry is None else entry.failure
    pages = (record.telemetry.pages or None) if record.telemetry else None  # 0: nobody looked at any
    far = far if entry is None else None
    return DocumentView(
        document_id=document.document_id,
        batch_id=document.batch_id,
        position=document.position,
        client=owner.client if owner else "",
        service_class=ServiceClass(owner.service_class) if owner else ServiceClass.BATCH,
        filename=document.uri,
        sha256=owner.sha256 if owner else ((entry.sha256 if entry else None) or ""),
        size_bytes=document.size_bytes,
        accepted_at=owner.accepted_at if owner else seen.batch.started_at,
        state=_state(seen),
        stage=_stage(seen),
        attempt=document.attempts + (_stage(seen) != "waiting"),
        pages_done=far.pages_done if far else pages,
        pages_total=far.pages_total if far else pages,
        kind=str(entry.kind) if entry else None,
        receipt=corrected(entry.receipt, amendments) if entry and entry.receipt else None,
        failure=failure,
        duplicate_of=entry.duplicate_of if entry else None,
        review=review_of(seen),
        version=seen.version,
        entry=entry,
        amendments=amendments,
        ahead=ahead if entry is None else None,
        eta_s=eta_s if entry is None else None,
        replay_of=record.replay_of,
        replayed_as=seen.replayed_as,
        external_id=record.external_id,
    )


def _state(seen: Seen) -> DocumentState:
    if seen.record.state is not DocumentState.QUEUED or seen.owner is None:
        return seen.record.state
    if seen.owner.cancelled_by is not None:
        return DocumentState.CANCELLED  # its entry comes in its turn
    return DocumentState.RUNNING if seen.owner.lease == WORKED_ON else DocumentState.QUEUED


def _stage(seen: Seen) -> str:
    if seen.record.entry is not None or (seen.owner is not None and seen.owner.lease == ENDED):
        return "done"
    return "read" if seen.owner is not None and seen.owner.lease == WORKED_ON else "waiting"


def review_of(seen: Seen) -> str | None:
    """What a person decided last; else what the policy asks for."""
    if seen.decision is not None:
        return seen.decision
    verdict = seen.record.entry.verdict if seen.record.entry else None
    return {Verdict.NEEDS_REVIEW: NEEDS_REVIEW, Verdict.REJECTED: REJECTED}.get(verdict) if verdict else None


def as_amendment(entry: Entry) -> Amendment:
    """An entry that amends another one."""
    told: Mapping[str, Any] = entry.body.get("told") or {}
    return Amendment(
        str(entry.kind),
        entry.sequence,
        str(told.get("who", "")),
        told.get("changes") if entry.kind is EntryKind.CORRECTION else None,
        told.get("decision"),
        str(told.get("note", "")),
    )


def corrected(receipt: Mapping[str, Any], amendments: tuple[Amendment, ...]) -> dict[str, Any]:
    """A receipt with all its corrections, oldest first."""
    result = dict(receipt)
    for one in amendments:
        if one.changes is not None:
            result = merged(result, one.changes)
    return result


def as_batch_view(batch: Batch, accounts: Accounts, owner: OpenBatch) -> BatchView:
    """A batch of the service."""
    state = "finished" if batch.state == "finished" else "closed" if batch.listed else "open"
    return BatchView(
        batch.batch_id,
        batch.book,
        owner.client,
        ServiceClass(owner.service_class),
        owner.key,
        state,
        accounts,
        batch.started_at,
        batch.finished_at,
        owner.again,
    )


def as_event(row: Any) -> Event:
    """A row of `events`."""
    return Event(row.id, row.at, row.kind, row.client, row.batch_id, row.document_id, json.loads(row.data))
