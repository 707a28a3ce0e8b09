"""A workspace as a run leaves it: receipts, a duplicate, a failure, and a batch that is not done."""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path
from typing import Any

from headrace.documents.errors import DocumentFailure
from headrace.documents.receipt import AmountField, Check, DateField, Merchant, Processing, Receipt, Source, TextField
from headrace.documents.status import DocumentState
from headrace.ledger import BookWriter, Draft, Policy
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import Registration, Telemetry

TODAY = dt.date(2026, 3, 4)
NASTY = '=HYPERLINK("http://evil","click")'


def receipt(document_id: str, sha256: str, uri: str, **more: Any) -> dict[str, Any]:
    told = {"confidence": 0.93, "status": "ok", "source": "ocr"}
    made = Receipt(
        document_id=document_id,
        sha256=sha256,
        source=Source(kind="file", uri=uri),
        pages=1,
        processing=Processing(pipeline_version="1", engine="null"),
        **{
            "tax_inclusive_amount": AmountField(value="12.50", raw_text="12,50 EUR", **told),
            "issue_date": DateField(value="2026-03-03", raw_text="03.03.26", **told),
            "currency": TextField(value="EUR", **told),
            "merchant": Merchant(name=TextField(value="Café Grün", **told)),
            "checks": (Check(id="sum", severity="error", passed=True, message="net + tax = total"),),
        }
        | more,
    )
    return made.model_dump(mode="json")


def field(kind: Any, value: Any) -> Any:
    return kind(value=value, confidence=0.5, status="ok", source="ocr")


def make_workspace(folder: Path, receipts: list[dict[str, Any]] | None = None) -> Path:
    """Batch 1 is finished: a.jpg, b.jpg, a copy of a.jpg, c.jpg that failed, then one for each of `receipts`.

    Batch 2 has done one of two documents.
    """
    more = receipts or []
    with SqliteStore.open(folder) as store:
        batch = store.open_batch("main", "scans", TODAY.isoformat(), "{}")
        rows = [("a.jpg", b"a"), ("b.jpg", b"b"), ("copy of a.jpg", b"a"), ("c.jpg", b"c")]
        rows += [(f"{n}.jpg", b"%d" % n) for n in range(len(more))]
        store.register(batch.batch_id, [Registration(uri, path, size_bytes=1, mtime_ns=1) for uri, path in rows])
        store.finish_listing(batch.batch_id)
        second = store.open_batch("main", "others", TODAY.isoformat(), "{}")
        store.register(second.batch_id, [Registration("d.jpg", b"d"), Registration("e.jpg", b"e")])
        writer = BookWriter("main", store.head("main"), Policy(), TODAY)
        for batch_id, limit in ((batch.batch_id, 1000), (second.batch_id, 1)):
            drafts = []
            for document in store.pending(batch_id, 0, limit):
                sha256 = hashlib.sha256(document.path).hexdigest()
                if document.uri == "c.jpg":
                    failure = DocumentFailure("corrupt-document", "decode", "the file is cut off", 2)
                    drafts.append(Draft(document, sha256, 1, state=DocumentState.FAILED, failure=failure.as_dict()))
                else:
                    fields = more[int(document.uri[:-4])] if document.uri[0].isdigit() else {}
                    read = receipt(document.document_id, sha256, document.uri, **fields)
                    drafts.append(Draft(document, sha256, 1, read))
            entries = writer.decide(drafts, store.first_seen("main", [str(draft.sha256) for draft in drafts]))
            store.commit(entries, [Telemetry(0.25, 1)] * len(entries))
            writer.committed(entries)
        store.finish_batch(batch.batch_id)
    return folder
