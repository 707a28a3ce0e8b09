"""What of a receipt is searched: one text for words and meaning, and the values to filter by."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from headrace.documents.entry import Entry
from headrace.documents.status import EntryKind
from headrace.ledger.amendments import merged
from headrace.ledger.reading import field_value, letters
from headrace.storage.sql_search import SearchReceipt

TEXT_VERSION = 1
"""Raise it when `receipt_text` says something else for the same receipt: all texts are then made anew."""

LONGEST_TEXT = 2000
"""Characters. A model reads the first few hundred; a receipt of a thousand lines shall not fill the store."""

_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_LARGEST_1E4 = 10**17  # far from what a BigInteger holds, and from what a receipt says


def receipt_text(receipt: Mapping[str, Any], uri: str) -> str:
    """The text of a receipt that is embedded, and that words are looked for in.

    In this order, because a model gives up at its longest text: merchant, goods, place, date (as ISO and in words),
    total and currency, how it was paid, the number of the receipt, the name of the file. Fields that are missing are
    left out. At most `LONGEST_TEXT` characters; no evidence, confidence or geometry.

    Args:
        receipt: as JSON types, with its corrections applied.
        uri: what the document is called.
    """
    return "\n".join(" ".join(part.split()) for part in _parts(receipt, uri) if part)[:LONGEST_TEXT]


def _parts(receipt: Mapping[str, Any], uri: str) -> Iterator[str]:
    merchant = receipt.get("merchant") or {}
    yield field_value(merchant, "name") or ""
    yield ", ".join(str(item.get("description") or "") for item in _list(receipt, "line_items"))
    yield field_value(merchant, "address") or ""
    if date := _date(receipt):
        yield f"{date.isoformat()} {_MONTHS[date.month - 1]} {date.year}"
    if total := _total(receipt):
        yield f"{total} {field_value(receipt, 'currency') or ''}"
    yield " ".join(str(payment.get("method") or "") for payment in _list(receipt, "payments"))
    if (kind := str(receipt.get("document_type") or "receipt")) != "receipt":  # a word of every text finds nothing
        yield kind.replace("_", " ")
    yield field_value(receipt, "receipt_number") or ""
    yield field_value(merchant, "website") or ""
    yield uri.rsplit("/", 1)[-1]


def searched(of: Sequence[Entry]) -> SearchReceipt | None:
    """What search keeps of a document.

    Args:
        of: its outcome, then its amendments in order: corrections are applied, the last review has the verdict.

    Returns:
        None when the outcome is no receipt, or damaged.
    """
    outcome, *amendments = of
    receipt = outcome.receipt
    if outcome.kind is not EntryKind.RECEIPT or not isinstance(receipt, dict):
        return None
    verdict = outcome.verdict
    for one in amendments:
        told = one.body.get("told")
        if one.kind is EntryKind.CORRECTION and isinstance(told, dict):
            receipt = merged(receipt, told.get("changes") or {})
        elif one.kind is EntryKind.REVIEW:
            verdict = one.verdict
    text = receipt_text(receipt, outcome.uri)
    merchant, date, total = field_value(receipt.get("merchant"), "name"), _date(receipt), _total(receipt)
    return SearchReceipt(
        book=outcome.book,
        sequence=outcome.sequence,
        batch_id=outcome.batch_id,
        text=text,
        text_sha256=hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest(),
        merchant=merchant,
        merchant_letters=letters(merchant) if merchant else None,
        issue_date=date.isoformat() if date else None,
        total_1e4=ten_thousandths(total) if total else None,
        currency=field_value(receipt, "currency"),
        verdict=str(verdict) if verdict else None,
    )


def ten_thousandths(amount: str | Decimal) -> int | None:
    """An amount as a whole number, so that a database compares it exactly; None for what is no usable amount."""
    try:
        scaled = Decimal(amount).scaleb(4).to_integral_value()
    except InvalidOperation:
        return None
    return int(scaled) if scaled.is_finite() and abs(scaled) < _LARGEST_1E4 else None


def _total(receipt: Mapping[str, Any]) -> str | None:
    return field_value(receipt, "payable_amount") or field_value(receipt, "tax_inclusive_amount")


def _date(receipt: Mapping[str, Any]) -> dt.date | None:
    try:
        return dt.date.fromisoformat(field_value(receipt, "issue_date") or "")
    except ValueError:
        return None


def _list(receipt: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = receipt.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []
