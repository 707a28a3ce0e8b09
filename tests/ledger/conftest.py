"""Drafts of receipts and failures, as the workers would hand them over."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from headrace.documents.document import Document, document_id
from headrace.documents.errors import DocumentFailure
from headrace.documents.receipt import (
    AmountField,
    DateField,
    Merchant,
    Processing,
    Receipt,
    Source,
    TextField,
)
from headrace.documents.status import DocumentState
from headrace.ledger import Draft


def _field(kind: Any, value: Any, **more: Any) -> Any:
    return (
        kind() if value is None else kind(value=value, **({"confidence": 0.9, "status": "ok", "source": "ocr"} | more))
    )


@pytest.fixture
def receipt() -> Callable[..., dict[str, Any]]:
    def make(
        total: Any = "12.50", date: Any = "2026-03-03", currency: Any = "EUR", merchant: Any = "Cafe", **more: Any
    ) -> dict[str, Any]:
        total_more = more.pop("total_more", {})
        date_more = more.pop("date_more", {})
        made = Receipt(
            document_id="d0",
            sha256="0" * 64,
            source=Source(kind="file", uri="a.jpg"),
            pages=1,
            processing=Processing(pipeline_version="1", engine="null"),
            tax_inclusive_amount=_field(AmountField, total, **total_more),
            issue_date=_field(DateField, date, **date_more),
            currency=_field(TextField, currency),
            merchant=Merchant(name=_field(TextField, merchant)),
            **more,
        )
        return made.model_dump(mode="json")

    return make


@pytest.fixture
def draft(receipt: Callable[..., dict[str, Any]]) -> Callable[..., Draft]:
    def make(position: int, content: bytes | None = None, *, failed: bool = False, batch_id: int = 1) -> Draft:
        content = f"bytes of {position}".encode() if content is None else content
        document = Document(document_id("main", batch_id, position), batch_id, position, f"{position}.jpg", b"x")
        sha256 = hashlib.sha256(content).hexdigest()
        if failed:
            failure = DocumentFailure("corrupt-document", "decode", "broken").as_dict()
            return Draft(document, sha256, len(content), state=DocumentState.FAILED, failure=failure)
        return Draft(document, sha256, len(content), receipt())

    return make
