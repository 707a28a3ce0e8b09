"""A workspace with real entries, written through the real store and the real ledger; no engine is needed."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from headrace.documents.document import Document, printable
from headrace.documents.status import DocumentState
from headrace.ledger import BookWriter, Policy
from headrace.ledger.writer import Draft
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import Registration, Sample, Telemetry

SETTINGS = {"engine": "null", "bounds": {"tree_ceiling_bytes": 900 << 20, "window": 16, "workers": 2}}


def picture(path: Path, size: tuple[int, int] = (600, 900), shade: int = 200) -> bytes:
    """Writes a JPEG and returns its bytes."""
    Image.new("L", size, shade).save(path, "JPEG")
    return path.read_bytes()


def value(of: object, **more: Any) -> dict[str, Any]:
    """A field object."""
    corners = [[0.1, 0.1], [0.5, 0.1], [0.5, 0.2], [0.1, 0.2]]
    return {"value": of, "status": "ok", "confidence": 0.9, "page": 1, "polygon": corners, **more}


@dataclass
class Made:
    """One document for the workspace: a receipt with these fields, or a failure."""

    name: str
    merchant: str = "Corner Shop"
    total: str | None = "10.00"
    currency: str | None = "EUR"
    date: str | None = "2026-03-01"
    failure: dict[str, Any] | None = None
    checks: list[dict[str, Any]] = field(default_factory=list)
    data: bytes | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    state: DocumentState = DocumentState.SUCCEEDED


def _receipt(made: Made, document: Document, sha256: str) -> dict[str, Any]:
    return {
        "document_id": document.document_id,
        "sha256": sha256,
        "source": {"kind": "file", "uri": document.uri},
        "pages": 1,
        "merchant": {"name": value(made.merchant)},
        "issue_date": value(made.date) if made.date else {"value": None, "status": "missing"},
        "currency": value(made.currency) if made.currency else {"value": None, "status": "missing"},
        "payable_amount": value(made.total) if made.total else {"value": None, "status": "missing"},
        "checks": made.checks,
        "line_items": [],
        **made.extra,
    }


Fill = Callable[..., Path]


def make_workspace(folder: Path, documents: Sequence[Made], *, samples: int = 5, left: int = 0) -> Path:
    """Makes `folder/workspace` with a batch of these documents, whose files are in `folder/sources`."""
    workspace, sources = folder / "workspace", folder / "sources"
    sources.mkdir(exist_ok=True)
    with SqliteStore.open(workspace) as store:
        batch = store.open_batch("main", "key", "2026-11-30", json.dumps(SETTINGS))
        rows = []
        for made in documents:
            path = sources / made.name
            if made.data is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(made.data)
            rows.append(Registration(printable(bytes(path)), bytes(path)))
        rows += [Registration(f"waiting-{n}", b"/nowhere") for n in range(left)]
        store.register(batch.batch_id, rows)
        store.finish_listing(batch.batch_id)
        writer = BookWriter("main", store.head("main"), Policy(), dt.date(2026, 11, 30))
        pending = store.pending(batch.batch_id, limit=len(rows) + 1)
        for start in range(0, len(documents), 200):
            drafts = []
            for made, document in list(zip(documents, pending, strict=False))[start : start + 200]:
                data = made.data if made.data is not None else made.name.encode("utf-8", "surrogatepass")
                sha256 = hashlib.sha256(data).hexdigest()
                if made.failure:
                    state = DocumentState.FAILED
                    drafts.append(Draft(document, sha256, len(data), None, state, made.failure))
                else:
                    receipt = _receipt(made, document, sha256)
                    drafts.append(Draft(document, sha256, len(data), receipt, made.state))
            seen = store.first_seen("main", [d.sha256 for d in drafts if d.sha256])
            entries = writer.decide(drafts, seen)
            store.commit(entries, [Telemetry(0.5 + entry.sequence, 1) for entry in entries])
            writer.committed(entries)
        for second in range(samples):
            store.add_sample(
                batch.batch_id, Sample(float(second), (100 + second) << 20, second % 5, 1 << 20, second, 2.5)
            )
        if not left:
            store.finish_batch(batch.batch_id)
    return workspace


FAILURE = {
    "code": "corrupt-document",
    "stage": "decode",
    "detail": "broken image/jpeg: cut off",
    "page": None,
    "retriable": False,
}
