"""Batches with documents, and their entries as the real ledger decides them from made-up readings."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Collection, Sequence
from typing import Any

from headrace.documents.document import Document
from headrace.documents.entry import Entry
from headrace.documents.errors import DocumentFailure
from headrace.documents.status import DocumentState
from headrace.ledger import BookWriter, Draft, Policy
from headrace.storage.store import Batch, Registration, Store

TODAY = dt.date(2026, 3, 4)


def names(*uris: str, **more: Any) -> list[Registration]:
    return [Registration(uri, uri.encode(), **({"size_bytes": 10, "mtime_ns": 1} | more)) for uri in uris]


def numbered(count: int) -> list[Registration]:
    return names(*(f"{n}.jpg" for n in range(1, count + 1)))


def filled(store: Store, rows: Sequence[Registration], *, key: str = "k", book: str = "main") -> Batch:
    """A batch with these documents, all listed."""
    batch = store.open_batch(book, key, TODAY.isoformat(), "{}")
    store.register(batch.batch_id, rows)
    store.finish_listing(batch.batch_id)
    return batch


def reading(document: Document, *, failed: bool = False, partial: bool = False, retriable: bool = False) -> Draft:
    """A draft; the same path means the same bytes."""
    sha256 = hashlib.sha256(document.path).hexdigest()
    if failed:
        failure = DocumentFailure("corrupt-document", "decode", "it is broken", retriable=retriable)
        return Draft(document, sha256, 10, state=DocumentState.FAILED, failure=failure.as_dict())
    receipt = {"document_id": document.document_id, "sha256": sha256, "source": {"kind": "file", "uri": document.uri}}
    state = DocumentState.PARTIAL if partial else DocumentState.SUCCEEDED
    return Draft(document, sha256, 10, receipt | {"tax_inclusive_amount": {"value": "1.00", "status": "ok"}}, state)


def decide(
    store: Store,
    book: str,
    documents: Sequence[Document],
    *,
    failed: Collection[str] = (),
    partial: Collection[str] = (),
    retriable: bool = False,
) -> list[Entry]:
    """The entries for these documents behind the head; `failed` and `partial` name uris."""
    drafts = [reading(d, failed=d.uri in failed, partial=d.uri in partial, retriable=retriable) for d in documents]
    writer = BookWriter(book, store.head(book), Policy(rules=()), TODAY)
    return writer.decide(drafts, store.first_seen(book, [digest for d in drafts for digest in d.digests]))


def commit_next(store: Store, batch: Batch, count: int = 1000, **told: Any) -> list[Entry]:
    """Ends the next documents of a batch and returns their entries."""
    entries = decide(store, batch.book, store.pending(batch.batch_id, 0, count), **told)
    store.commit(entries)
    return entries
