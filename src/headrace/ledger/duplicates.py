"""Duplicates: the same bytes were a receipt of this book before, or another picture of the same paper. First seen wins.

The same bytes are a fact. The same merchant, number, total and date are a proposal: the receipt stays a receipt, points
to the first one with what agrees, and a person decides. Text that is merely alike says nothing: two coffees at the same
bar have nearly the same text.
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


@dataclass(frozen=True, slots=True)
class Likeness:
    """What names a purchase, whatever picture it was read from.

    Attributes:
        digest: hex SHA-256 over merchant, total, currency, date, and the number or else the time. It lies in the same
            index as the digests of bytes, which begin otherwise.
        evidence: the same in words, for the link.
    """

    digest: str
    evidence: tuple[str, ...]


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
    try:
        amount = format(Decimal(total).normalize(), "f")
    except InvalidOperation:
        return None
    currency = field_value(receipt, "currency") or ""
    which = f"number {letters(number)}" if number else f"time {str(time)[:5]}"
    digest = hashlib.sha256("\n".join(("likeness", name, amount, currency, date, which)).encode()).hexdigest()
    told = f"the same receipt number {number}" if number else f"the same time {str(time)[:5]}"
    total_told = f"the same total {total} {currency}".rstrip()
    return Likeness(digest, (f"the same merchant {merchant}", told, total_told, f"the same date {date}"))


def same_purchase(first: FirstSeen, evidence: tuple[str, ...]) -> dict[str, Any]:
    """The link from a receipt to an earlier one of what seems the same purchase: a proposal, with what agrees."""
    return {
        "document_id": first.document_id,
        "sequence": first.sequence,
        "uri": first.uri,
        "kind": "same_content",
        "score": 1,
        "evidence": list(evidence),
    }


def same_purchase_check(first: FirstSeen, evidence: tuple[str, ...]) -> dict[str, Any]:
    """Why a person should look at it, as a policy check."""
    return Check(
        id="policy.same-purchase",
        severity="warn",
        passed=False,
        fields=("merchant.name", "receipt_number", "payable_amount", "issue_date"),
        message=f"it may be another picture of {first.uri} (entry {first.sequence}): {', '.join(evidence)}",
    ).model_dump(mode="json")
