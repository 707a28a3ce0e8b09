"""Whether a document is looked at a second time, and which of the two readings is kept. Pure: the same on every rerun.

The rule, in this order: the reading with more points settled (total, date, merchant read; nothing that contradicts; a
sum that proves the total), then the one with more legible text; of a picture that is not poor, clearly more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.documents.receipt import ReceiptFields
    from headrace.documents.text import PageText

SURE_LINE = 0.9
"""A total is doubted when the engine's score of its line is below this."""

CLEARLY_MORE = 1.03
"""So much more legible text makes the second reading of a good picture the better one; less is chance. Of faint print
any more is enough: of 24 faint scans, the restored copy gave more right words in all but one."""

_PROOFS = ("cash", "net-plus-tax", "items")
_NOT_ARITHMETIC = ("required-fields", "date-not-future")


def doubts(fields: ReceiptFields, pages: Sequence[PageText]) -> list[str]:
    """What does not add up in a receipt, in words; empty for one that needs no second look."""
    found = []
    total = fields.payable_amount
    if total.value is None:
        found.append("no total")
    elif total.status != "ok":
        found.append("doubtful total")
    elif not _proven(fields) and _total_score(fields, pages) < SURE_LINE:
        found.append("low score on the total's line")
    if fields.issue_date.value is None:
        found.append("no date")
    if _contradicted(fields):
        found.append("sums do not agree")
    return found


def settled(fields: ReceiptFields) -> int:
    """How many points of a receipt are settled, 0 to 6."""
    total = fields.payable_amount
    return sum(
        (
            total.value is not None,
            total.value is not None and total.status == "ok",
            fields.issue_date.value is not None,
            fields.merchant.name.value is not None,
            not _contradicted(fields),
            _proven(fields),
        )
    )


def better(before: int, after: int, text_before: float, text_after: float, *, poor: bool = False) -> bool:
    """Whether the second reading is kept.

    Args:
        before, after: points settled by the first and by the second reading.
        text_before, text_after: how legible their text is (`cascade.legibility`).
        poor: whether the pages were looked at again because of a poor picture.
    """
    return after > before or (after == before and text_after > (1 if poor else CLEARLY_MORE) * text_before)


def _contradicted(fields: ReceiptFields) -> bool:
    return any(c.severity == "error" and not c.passed and c.id not in _NOT_ARITHMETIC for c in fields.checks)


def _proven(fields: ReceiptFields) -> bool:
    return any(c.passed and c.id in _PROOFS for c in fields.checks)


def _total_score(fields: ReceiptFields, pages: Sequence[PageText]) -> float:
    """The engine's score of the box in which the total stands; 1 when there is no such box."""
    total = fields.payable_amount
    if total.polygon is None:
        return 1.0
    x = sum(x for x, _ in total.polygon) / 4
    y = sum(y for _, y in total.polygon) / 4
    boxes = [b for page in pages if page.number == total.page for line in page.lines for b in line.boxes]
    around = [b.confidence for b in boxes if b.left <= x <= b.right and b.top <= y <= b.bottom]
    return min(around, default=1.0)
