"""How it was paid: method, amount, the last four digits of a card."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from headrace.documents.receipt import Payment
from headrace.extraction.figures import Figure
from headrace.extraction.rows import Row
from headrace.extraction.vocabulary import Kind

MAX_PAYMENTS = 6
_LAST4 = re.compile(r"(?i)(?:[*x×•#.]{2,}|\*\*|xx)[\s-]*(\d{4})(?!\d)")
_CARD_NUMBER = re.compile(r"(?<!\d)\d{4,6}[*xX×•]{2,}\d*[*xX]*(\d{4})(?!\d)")


def card_last4(rows: Sequence[Row]) -> str | None:
    """The last four digits behind the masked ones of a card number."""
    for row in rows:
        for pattern in (_CARD_NUMBER, _LAST4):
            if m := pattern.search(row.text.replace(" ", "")):
                return m[1]
    return None


def find_payments(
    rows: Sequence[Row], figures: Sequence[Figure], payable: Decimal | None, tendered: Figure | None
) -> tuple[Payment, ...]:
    """The payments printed: cards with their amount, cash given."""
    last4 = card_last4(rows)
    out: list[Payment] = []
    seen: set[tuple[str, Decimal]] = set()
    for f in figures:
        if (
            f.kind is not Kind.CARD
            or not f.amount.marked
            or not f.last
            or f.label is None
            or f.label.purity < 0.4
            or f.tax_table
        ):
            continue
        if (payable is not None and f.value > payable) or f.value == 0:
            continue
        if any(amount == f.value for _, amount in seen):
            continue  # the card slip repeats what the receipt says
        seen.add((f.label.text, f.value))
        out.append(Payment(method=f.label_text.strip(" *:")[:40] or f.label.text, amount=f.value, card_last4=last4))
    if tendered is not None and tendered.value > 0 and not (out and sum(p.amount or 0 for p in out) == payable):
        out.append(Payment(method=tendered.label_text.strip(" *:")[:40] or "cash", amount=tendered.value))
    return tuple(out[:MAX_PAYMENTS])
