"""Duplicates: the same bytes were a receipt of this book before, or another picture of the same paper. First seen wins.

The same bytes are a fact. The same merchant, number, total and date are a proposal: the receipt stays a receipt, points
to the first one with what agrees, and a person decides. So are pictures that are alike, where total and date agree.
Text that is merely alike says nothing: two coffees at the same bar have nearly the same text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from headrace.documents.entry import FirstSeen
from headrace.documents.receipt import Check
from headrace.ledger.reading import field_value, letters


def exact_duplicate(first: FirstSeen, sha256: str, size_bytes: int) -> dict[str, Any]:
    """The link from a duplicate to the first one, with the reason.

    Only receipts can be first: two empty files, or two copies of a broken one, are failures both, since there is no
    result the second could point to.
    """
    return {
        "document_id": first.document_id,
        "sequence": first.sequence,
        "uri": first.uri,
        "kind": "exact",
        "score": 1,
        "evidence": [f"all {size_bytes} bytes are the same (SHA-256 {sha256})"],
    }


_HASH_DIGITS, _PART_DIGITS = 16, 4


@dataclass(frozen=True, slots=True)
class Likeness:
    """By what a receipt is recognised in another picture.

    Attributes:
        kind: `same_content` or `reencoded`.
        digests: hex SHA-256, in the same index as the digests of bytes, which begin otherwise; any of them is enough.
        evidence: what agrees, in words, for the link.
        fields: that were compared.
    """

    kind: str
    digests: tuple[str, ...]
    evidence: tuple[str, ...]
    fields: tuple[str, ...]


def likeness(receipt: Mapping[str, Any]) -> Likeness | None:
    """What names the purchase of this receipt (as JSON types); None where too little of it was read.

    Merchant, total and date are always needed; beside them the receipt number, or where none is printed the time: two
    coffees on one day differ in one of them. Without both, nothing tells a copy from a second purchase.
    """
    merchant = field_value(receipt.get("merchant"), "name")
    total, date = (
        field_value(receipt, "payable_amount") or field_value(receipt, "tax_inclusive_amount"),
        field_value(receipt, "issue_date"),
    )
    number, time = field_value(receipt, "receipt_number"), field_value(receipt, "issue_time")
    if not (merchant and total and date and (number or time)) or not (name := letters(merchant)):
        return None
    amount = _plain(total)
    if amount is None:
        return None
    currency = field_value(receipt, "currency") or ""
    which = f"number {letters(number)}" if number else f"time {str(time)[:5]}"
    told = f"the same receipt number {number}" if number else f"the same time {str(time)[:5]}"
    return Likeness(
        "same_content",
        (_digest("likeness", name, amount, currency, date, which),),
        (f"the same merchant {merchant}", told, f"the same total {total} {currency}".rstrip(), f"the same date {date}"),
        ("merchant.name", "receipt_number", "payable_amount", "issue_date"),
    )


def picture_likeness(receipt: Mapping[str, Any]) -> Likeness | None:
    """What the picture of this receipt is found by; None without a picture, a total or a date.

    A quarter of the fingerprint of the first page, with the total and the date. Of two pictures that differ in three of
    64 bits, one quarter at least is the same: four digests, of which one has to be known. Receipts of one shop look
    alike, so the picture alone says nothing.
    """
    readings = (receipt.get("processing") or {}).get("page_readings") or ()
    picture = next((its.get("picture_hash") for its in readings if its.get("page") == 1), None)
    total = field_value(receipt, "payable_amount") or field_value(receipt, "tax_inclusive_amount")
    date = field_value(receipt, "issue_date")
    amount = _plain(total) if total else None
    if not (picture and amount and date) or len(picture) != _HASH_DIGITS:
        return None
    currency = field_value(receipt, "currency") or ""
    parts = [picture[at : at + _PART_DIGITS] for at in range(0, _HASH_DIGITS, _PART_DIGITS)]
    return Likeness(
        "reencoded",
        tuple(_digest("picture", str(n), part, amount, currency, date) for n, part in enumerate(parts)),
        ("the pictures look alike", f"the same total {total} {currency}".rstrip(), f"the same date {date}"),
        ("payable_amount", "issue_date"),
    )


def proposal(first: FirstSeen, like: Likeness) -> dict[str, Any]:
    """The link from a receipt to an earlier one of what seems the same purchase, with what agrees."""
    return {
        "document_id": first.document_id,
        "sequence": first.sequence,
        "uri": first.uri,
        "kind": like.kind,
        "score": 1,
        "evidence": list(like.evidence),
    }


def proposal_check(first: FirstSeen, like: Likeness) -> dict[str, Any]:
    """Why a person should look at it, as a policy check."""
    return Check(
        id="policy.same-purchase",
        severity="warn",
        passed=False,
        fields=like.fields,
        message=f"it may be another picture of {first.uri} (entry {first.sequence}): {', '.join(like.evidence)}",
    ).model_dump(mode="json")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _plain(amount: str) -> str | None:
    try:
        return format(Decimal(amount).normalize(), "f")
    except InvalidOperation:
        return None
