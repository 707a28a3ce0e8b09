"""Several pictures in one document: overlapping photographs of one long receipt, and receipts that share a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from headrace.documents.receipt import Check
from headrace.extraction.figures import Figure
from headrace.extraction.identifiers import find_receipt_number
from headrace.extraction.rows import Row, fold
from headrace.extraction.vocabulary import Kind

_LEAST_ROWS, _MOST_ROWS = 3, 80
_TOTALS = (Kind.TOTAL, Kind.PAYABLE, Kind.GROSS)


def without_overlap(rows: Sequence[Row]) -> list[Row]:
    """The rows without those that a page repeats from the end of the page before it.

    A long receipt is photographed in parts that overlap. Three rows or more, no two of them the same, must come back
    in order; one in four may differ by a misread letter.
    """
    pages: dict[int, list[Row]] = {}
    for row in rows:
        pages.setdefault(row.page, []).append(row)
    kept: list[Row] = []
    before: list[str] = []
    for page in pages.values():
        texts = ["".join(c for c in fold(row.text) if c.isalnum()) for row in page]
        kept += page[_repeated(before, texts) :]
        before = texts
    return [row if row.index == at else replace(row, index=at) for at, row in enumerate(kept)]


def _repeated(before: Sequence[str], after: Sequence[str]) -> int:
    """How many rows at the start of `after` are those at the end of `before`."""
    for count in range(min(len(before), len(after), _MOST_ROWS), _LEAST_ROWS - 1, -1):
        end, start = before[-count:], after[:count]
        same = sum(a == b for a, b in zip(end, start, strict=True))
        if same >= max(_LEAST_ROWS, count - count // 4) and len(set(start)) == count:
            return count
    return 0


def one_receipt(rows: Sequence[Row], figures: Sequence[Figure]) -> list[Check]:
    """Says so where a document seems to hold several receipts; it is read as one, and a person should look.

    Pages of their own have each a total and another receipt number; receipts side by side have two totals in a row.
    """
    totals = [f for f in figures if f.kind in _TOTALS and f.amount.marked and f.position == "right" and not f.tax_table]
    clear = [f for f in totals if f.label is not None and f.label.purity >= 0.6]
    numbers: dict[int, str] = {}
    for page in sorted({f.row.page for f in clear}):
        if found := find_receipt_number([r for r in rows if r.page == page], ()):
            numbers[page] = found.value
    message = None
    if len(numbers) > 1 and len(set(numbers.values())) == len(numbers):
        told = ", ".join(f"{page} ({number})" for page, number in list(numbers.items())[:8])
        message = f"pages with a total and a number of their own: {told}; perhaps several receipts"
    written_out = [f for f in clear if len(f.amount.number.groups) > 1]  # "TOTAL 2 3.00" counts the items
    for first, second in pairwise(written_out):
        if first.row.index == second.row.index and first.kind == second.kind and first.label_text == second.label_text:
            message = message or f"two totals side by side ({first.value:f} and {second.value:f}): perhaps two receipts"
    return [Check(id="one-receipt", severity="error", passed=False, message=message)] if message else []
