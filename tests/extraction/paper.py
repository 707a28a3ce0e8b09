"""Receipts as text for tests: rows of cells, set on a page the way an engine would return them."""

from __future__ import annotations

import datetime as dt

from headrace.documents.receipt import ReceiptFields
from headrace.documents.text import Box, PageText, TextSource, group_lines
from headrace.extraction import extract

TODAY = dt.date(2026, 11, 30)
_ROW = 0.02
_LETTER = 0.015


def page(*rows: str, number: int = 1, slope: float = 0.0, source: TextSource = TextSource.OCR) -> PageText:
    """A page from rows; `|` parts cells, the last cell stands at the right edge. `slope` tilts the rows."""
    boxes = []
    for index, row in enumerate(rows):
        cells = [c.strip() for c in row.split("|")]
        top = 0.02 + index * _ROW
        for place, text in enumerate(cells):
            width = max(0.01, min(0.5, _LETTER * len(text)))
            last = place == len(cells) - 1 and place > 0
            left = 0.95 - width if last else 0.03 + place * 0.22
            rise, fall = top + slope * left, top + slope * (left + width)
            low = 0.8 * _ROW
            corners = ((left, rise), (left + width, fall), (left + width, fall + low), (left, rise + low))
            boxes.append(Box(text, corners, 0.98))
    lines = group_lines(boxes)
    return PageText(number, 1000, 1000, lines, source)


def read(*rows: str, today: dt.date = TODAY, slope: float = 0.0) -> ReceiptFields:
    """The fields of a one-page receipt."""
    return extract([page(*rows, slope=slope)], today=today)


def values(fields: ReceiptFields, name: str) -> set[str]:
    """The alternatives of an amount or date field, as text."""
    return {str(a.value) for a in getattr(fields, name).alternatives}
