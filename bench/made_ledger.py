"""A ledger of made receipts, each with a word that no other has: for benches that look receipts up."""

from __future__ import annotations

import datetime as dt
import hashlib
import random
from pathlib import Path
from typing import Any

from headrace.documents.receipt import (
    AmountField,
    DateField,
    LineItem,
    Merchant,
    Processing,
    Receipt,
    Source,
    TextField,
)
from headrace.documents.status import EntryKind
from headrace.ledger import BookWriter, Draft, Policy
from headrace.ledger.amendments import amendment
from headrace.simulation.words import WORDS
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import Registration

BOOK, TODAY = "main", dt.date(2026, 12, 1)
GOODS = [said for one in WORDS.values() for said in one.values()]
_TOLD: dict[str, Any] = {"confidence": 0.9, "status": "ok", "source": "ocr"}


def mark(number: int, correction: int = 0) -> str:
    """The word that only this receipt has; after its n-th correction it has another one."""
    return "r" + hashlib.sha256(b"%d.%d" % (number, correction)).hexdigest()[:12]


def receipt(document_id: str, sha256: str, number: int) -> dict[str, Any]:
    """The receipt of this number, always the same, as JSON types."""
    rng = random.Random(number)
    made = Receipt(
        document_id=document_id,
        sha256=sha256,
        source=Source(kind="file", uri=f"{number}.jpg"),
        pages=1,
        processing=Processing(pipeline_version="1", engine="null"),
        merchant=Merchant(name=TextField(value=f"Shop {number % 997}", **_TOLD)),
        receipt_number=TextField(value=mark(number), **_TOLD),
        issue_date=DateField(value=TODAY - dt.timedelta(days=number % 900), **_TOLD),
        currency=TextField(value="EUR", **_TOLD),
        payable_amount=AmountField(value=f"{number % 500}.50", **_TOLD),
        line_items=tuple(LineItem(line=n, description=rng.choice(GOODS)) for n in range(1, rng.randint(2, 8))),
    )
    return made.model_dump(mode="json")


def add(workspace: Path, first: int, count: int) -> None:
    """Commits the receipts `first`, `first + 1`, ... as a batch of their own."""
    with SqliteStore.open(workspace) as store:
        batch = store.open_batch(BOOK, f"from {first}", TODAY.isoformat(), "{}")
        names = range(first, first + count)
        store.register(batch.batch_id, [Registration(f"{name}.jpg", b"%d" % name) for name in names])
        store.finish_listing(batch.batch_id)
        writer = BookWriter(BOOK, store.head(BOOK), Policy(), TODAY)
        after = 0
        while page := store.pending(batch.batch_id, after, 1000):
            drafts = []
            for document in page:
                sha256 = hashlib.sha256(document.path).hexdigest()
                drafts.append(Draft(document, sha256, 1, receipt(document.document_id, sha256, int(document.path))))
            entries = writer.decide(drafts, {})
            store.commit(entries)
            writer.committed(entries)
            after = page[-1].position


def correct(workspace: Path, sequence: int, number: int, correction: int) -> None:
    """Gives the receipt of this entry another number: the one that `mark` says for the n-th correction."""
    with SqliteStore.open(workspace) as store:
        (outcome,) = store.entries(book=BOOK, after_sequence=sequence - 1, limit=1)
        changes = {"receipt_number": {"value": mark(number, correction), "status": "corrected", "source": "human"}}
        told = {"changes": changes, "who": "bench"}
        entry = amendment(store.head(BOOK), outcome, EntryKind.CORRECTION, told, None)
        store.amend(entry, None, "", "document.corrected")
