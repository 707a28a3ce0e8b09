"""A workspace whose receipts are about something, so that a search has what to find."""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path
from typing import Any

from headrace.documents.entry import Entry
from headrace.documents.errors import DocumentFailure
from headrace.documents.status import DocumentState, EntryKind, Verdict
from headrace.ledger import BookWriter, Draft, Policy
from headrace.ledger.amendments import amendment
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import Registration

TODAY = dt.date(2026, 3, 4)

TAXI = ("Radio Táxis de Lisboa", "taxi ride to the airport", "Lisboa, Portugal", "2026-02-03", "61.40", "EUR")
BREAD = ("Bäckerei Grün", "bread rolls, apple pie", "Hauptstraße 5, Bremen", "2026-01-20", "7.85", "EUR")
PAINT = ("Hardware Depot", "wall paint, brush, screws", "12 Mill Road, Leeds", "2025-11-02", "118.00", "GBP")
HOTEL = ("Hotel Aurora", "two nights, breakfast, city tax", "Via Roma 1, Torino", "2026-02-04", "244.00", "EUR")
FOUR = (TAXI, BREAD, PAINT, HOTEL)


def receipt_of(told: tuple[str, ...], document_id: str = "d", uri: str = "a.jpg") -> dict[str, Any]:
    name, goods, address, date, total, currency = told
    return {
        "document_id": document_id,
        "sha256": "0" * 64,
        "source": {"kind": "file", "uri": uri},
        "merchant": {"name": {"value": name}, "address": {"value": address}},
        "issue_date": {"value": date, "status": "ok"},
        "currency": {"value": currency, "status": "ok"},
        "payable_amount": {"value": total, "status": "ok"},
        "line_items": [{"line": n, "description": one} for n, one in enumerate(goods.split(", "), start=1)],
        "payments": [{"method": "card"}],
    }


def add_receipts(workspace: Path, told: list[tuple[str, ...]] | tuple[tuple[str, ...], ...], key: str = "scans") -> int:
    """A finished batch of these, then a copy of the first and a document that failed; returns its number."""
    with SqliteStore.open(workspace) as store:
        batch = store.open_batch("main", key, TODAY.isoformat(), "{}")
        names = [f"{key}/{n}.jpg" for n in range(len(told))] + [f"{key}/copy.jpg", f"{key}/broken.jpg"]
        store.register(batch.batch_id, [Registration(name, name.encode(), size_bytes=1, mtime_ns=1) for name in names])
        store.finish_listing(batch.batch_id)
        drafts = []
        for number, document in enumerate(store.pending(batch.batch_id, 0, len(names))):
            if number > len(told):
                failure = DocumentFailure("corrupt-document", "decode", "the file is cut off")
                drafts.append(Draft(document, "f" * 64, 1, state=DocumentState.FAILED, failure=failure.as_dict()))
                continue
            of = 0 if number == len(told) else number
            sha256 = hashlib.sha256(f"{key}/{of}".encode()).hexdigest()
            drafts.append(Draft(document, sha256, 1, receipt_of(told[of], document.document_id, document.uri)))
        for start in range(0, len(drafts), 500):
            writer = BookWriter("main", store.head("main"), Policy(rules=()), TODAY)
            group = drafts[start : start + 500]
            entries = writer.decide(group, store.first_seen("main", [d for one in group for d in one.digests]))
            store.commit(entries)
        store.finish_batch(batch.batch_id)
    return batch.batch_id


def receipts_in(workspace: Path) -> list[Entry]:
    with SqliteStore.read(workspace) as store:
        entries: list[Entry] = []
        while page := store.entries(book="main", after_sequence=entries[-1].sequence if entries else 0, limit=500):
            entries += page
        return [entry for entry in entries if entry.kind is EntryKind.RECEIPT]


def correct(workspace: Path, outcome: Entry, changes: dict[str, Any]) -> None:
    with SqliteStore.open(workspace) as store:
        told = {"changes": changes, "who": "auditor"}
        entry = amendment(store.head("main"), outcome, EntryKind.CORRECTION, told, None)
        store.amend(entry, None, "", "document.corrected")


def review(workspace: Path, outcome: Entry, verdict: Verdict) -> None:
    with SqliteStore.open(workspace) as store:
        told = {"decision": "rejected", "note": "", "who": "auditor"}
        entry = amendment(store.head("main"), outcome, EntryKind.REVIEW, told, verdict)
        store.amend(entry, "rejected", "", "document.rejected")
