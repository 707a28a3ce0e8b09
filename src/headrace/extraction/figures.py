"""Every amount of a document with the words that announce it, to its left or in the row above or below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from headrace.documents.text import Polygon
from headrace.extraction.amounts import Amount, Convention, Number, find_numbers, read, vote
from headrace.extraction.currencies import meanings
from headrace.extraction.date_forms import FoundDate
from headrace.extraction.labels import Label, classify
from headrace.extraction.rows import Row, fold
from headrace.extraction.vocabulary import TAX_WORD, Kind

_CODE_LETTERS = re.compile(r"^[\W\d_]*(?:[A-Z]{1,3}\d?|[a-z])?[\W_]*$")
_WORDS = re.compile(r"[^\W\d_]{2,}")
_PHONE = re.compile(
    r"(?i:\b(?:tel|te1|fax|ph|phone|hp|h/p|tlf|hotline)\b)[^\d]{0,12}[\d+(][\d\s()+-]{5,}|\+\d{2}[\s-]\d"
)
# Worn type: "RM5:00", "7-00" at the end of a row. Never a clock, never a range.
_ODD_MARK = re.compile(r"(?<=RM)(\d{1,4}):(\d{2})(?![\d:])|(?<![\d:.,-])(\d{1,4})-(00)\s*$")
_CLOCK = re.compile(r"(?<![\d.,])\d{1,2}:\d{2}(?::\d{2})?(?!\d)")
_TAX_TABLE = re.compile(
    rf"\b(?:{TAX_WORD})\b.{{0,14}}\b(?:summary|sunnary|analysis|code|breakdown|details?|rate|info)\b|\bsummary\b.{{0,8}}\bamount\b|"
    r"\b(?:summary|amount|amt)\b.{0,14}\b(?:gst|tax|vat)\b\W*(?:\(?rm\)?)?\W*$"
)
_TAX_COLUMN = re.compile(
    rf"\b(?:{TAX_WORD}|net|netto|gross|brutto|satz|rate|base|cuota|ht|ttc|imponibile|imposta|bruto|neto|taux|tipo|amount|amt)\b"
)
_LEAVES_TABLE = {Kind.TENDERED, Kind.CHANGE, Kind.PAYABLE, Kind.ROUNDED_TOTAL, Kind.CARD, Kind.SUBTOTAL, Kind.ROUNDING}

_COUNTS = (Kind.COUNT, Kind.POINTS, Kind.TIP_SUGGESTION)

_CELL_EDGE = "\x1f"

Position = Literal["right", "below", "above"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One amount and what announces it.

    Attributes:
        amount: the number and its value.
        row: where it stands.
        label: what announces it, or None.
        label_text: the words, as printed.
        position: where the amount stands from its label.
        tax_table: it stands in the table of tax rates, where "total" means the total of the table.
        order: its place among the amounts behind the same label, from 0; `last` marks the rightmost.
    """

    amount: Amount
    row: Row
    label: Label | None
    label_text: str
    position: Position = "right"
    tax_table: bool = False
    order: int = 0
    last: bool = True

    @property
    def value(self) -> Decimal:
        """The preferred reading."""
        return self.amount.value

    @property
    def kind(self) -> Kind | None:
        """What its label announces."""
        return self.label.kind if self.label else None

    @property
    def polygon(self) -> Polygon:
        """Where the amount stands."""
        return self.row.polygon(self.amount.number.start, self.amount.number.end)


@dataclass(frozen=True, slots=True)
class RowNumbers:
    """A row with dates and telephone numbers masked out, and the numbers that are left."""

    row: Row
    text: str
    numbers: tuple[Number, ...]


def by_row(figures: Sequence[Figure]) -> dict[int, list[Figure]]:
    """The figures of each row, by the row's index."""
    rows: dict[int, list[Figure]] = {}
    for figure in figures:
        rows.setdefault(figure.row.index, []).append(figure)
    return rows


def numbers_of(rows: Sequence[Row], dates: Sequence[FoundDate]) -> list[RowNumbers]:
    """The numbers of every row; offsets are those of `Row.text`."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for found in dates:
        spans.setdefault(found.row, []).append((found.start, found.end))
    out = []
    for row in rows:
        # Numbers do not run over the edge of a cell: "6 | 165.00" is two of them. The mark is still white space.
        text = _CELL_EDGE.join(cell.text for cell in row.cells)
        for start, end in spans.get(row.index, ()):
            text = text[:start] + "\x00" * (end - start) + text[end:]
        text = _ODD_MARK.sub(lambda m: f"{m[1] or m[3]}.{m[2] or m[4]}", text)
        text = _CLOCK.sub(lambda m: "\x00" * len(m[0]), text)
        numbers = () if _PHONE.search(text) else tuple(find_numbers(text))
        out.append(RowNumbers(row, text, numbers))
    return out


def convention_of(rows: Sequence[RowNumbers], currency: str | None) -> Convention:
    """The document's vote on decimal and grouping marks."""
    return vote((n for r in rows for n in r.numbers), currency)


def figures_of(rows: Sequence[RowNumbers], convention: Convention) -> list[Figure]:
    """All amounts with their labels; an amount below or above a bare label comes once more, labelled."""
    tables = _tax_tables(rows)
    out: list[Figure] = []
    for entry in rows:
        out.extend(_row_figures(entry, convention, entry.row.index in tables))
    return out + _loose_labels(rows, by_row(out))


def _row_figures(entry: RowNumbers, convention: Convention, in_table: bool) -> list[Figure]:
    """Splits a row into labels and the amounts behind each of them."""
    segments: list[tuple[str, list[Amount]]] = [("", [])]
    at = 0
    for number in entry.numbers:
        if number.percent:
            continue
        between = entry.text[at : number.start].replace(_CELL_EDGE, " ")
        at = number.end
        if _is_label(between, first=not segments[-1][1]):
            if segments[-1][1] or not segments[-1][0]:
                segments.append((between.strip(" \x00:.*-="), []))
            else:
                segments[-1] = (f"{segments[-1][0]} {between}".strip(), segments[-1][1])
        amount = read(number, convention)
        if number.marks == (" ",) and convention.minor == 2 and _fills_cell(entry.text, number):
            amount = replace(amount, marked=True)  # "| 2 10 |" among amounts like 2.30: the mark was not seen
        segments[-1][1].append(amount)
    figures = []
    for text, amounts in segments:
        label = classify(text) if text else None
        for order, amount in enumerate(amounts):
            if label is not None and label.kind is Kind.CHANGE and amount.value < 0:
                amount = replace(amount, value=-amount.value)  # German tills print what goes back with a minus
            last = order == len(amounts) - 1
            if last and convention.minor == 0 and label is not None and label.kind not in _COUNTS:
                # Where prices have no minor units, a bare number behind "cash" is money.
                amount = replace(amount, marked=amount.marked or _is_plain(amount.number))
            figures.append(Figure(amount, entry.row, label, text, "right", in_table, order, last))
    return figures


def _is_plain(number: Number) -> bool:
    return not (number.marks or number.measured or number.percent) and len(number.groups[0]) <= 7


def _fills_cell(text: str, number: Number) -> bool:
    """True where the number is all there is in its cell, and other cells stand before it."""
    before, after = text[: number.start].rstrip(" "), text[number.end :].lstrip(" ")
    return before.endswith(_CELL_EDGE) and (not after or after[0] == _CELL_EDGE)


def _is_label(text: str, *, first: bool) -> bool:
    """True when the text between two amounts announces the second, and is not a tax code or unit behind the first."""
    bare = text.strip(" \x00:.*-=@()")
    if not bare:
        return False
    if meanings(bare):
        return False
    if any(ord(c) > 0x2E80 for c in bare):
        return len(bare) > 1 or first
    return bool(_WORDS.search(bare)) and (first or not _CODE_LETTERS.match(bare) or classify(bare) is not None)


def _tax_tables(rows: Sequence[RowNumbers]) -> set[int]:
    """The rows of the tables that list amounts by tax rate."""
    inside: set[int] = set()
    left = 0
    for entry in rows:
        folded = fold(entry.row.text)
        heads = len(set(_TAX_COLUMN.findall(folded)))
        if (_TAX_TABLE.search(folded) or heads >= 3) and not any(n.marks for n in entry.numbers):
            left = 8
            continue
        if left:
            label = classify(entry.row.text)
            if label and label.kind in _LEAVES_TABLE and label.purity >= 0.5:
                left = 0
                continue
            if any(not n.percent for n in entry.numbers):
                inside.add(entry.row.index)
            left -= 1
    return inside


def _loose_labels(rows: Sequence[RowNumbers], placed: dict[int, list[Figure]]) -> list[Figure]:
    """Labels without an amount in their row take the bare amounts of the row below, else of the row above."""
    out: list[Figure] = []
    for at, entry in enumerate(rows):
        if any(not n.percent and (n.marks or n.currency or n.dash) for n in entry.numbers):
            continue
        labels = [(cell, label) for cell in entry.row.cells if (label := classify(cell.text)) and label.purity >= 0.5]
        if not labels:
            whole = classify(entry.row.text)
            if whole is None or whole.purity < 0.5:
                continue
            labels = [(entry.row.cells[0], whole)]
        for step, position in ((1, "below"), (-1, "above")):
            if not 0 <= at + step < len(rows):
                continue
            near = rows[at + step].row
            figures = [f for f in placed.get(near.index, []) if f.amount.marked]
            gap = max(near.top - entry.row.bottom, entry.row.top - near.bottom)
            if (
                not figures
                or near.page != entry.row.page
                or any(f.label_text or f.tax_table for f in figures)
                or gap > 1.6 * entry.row.height
            ):
                continue
            out.extend(_aligned(labels, figures, "below" if position == "below" else "above"))
            break
    return out


def _aligned(labels: Sequence[tuple[object, Label]], figures: Sequence[Figure], position: Position) -> list[Figure]:
    """Each label with the amount that stands under (or over) it; a single label takes the last amount."""
    out = []
    for index, (cell, label) in enumerate(labels):
        if len(labels) == 1:
            figure = figures[-1]
        else:
            middle = (cell.left + cell.right) / 2  # type: ignore[attr-defined]
            figure = min(figures, key=lambda f: abs((f.polygon[0][0] + f.polygon[1][0]) / 2 - middle))
            if len(figures) == len(labels):
                figure = figures[index]
        out.append(Figure(figure.amount, figure.row, label, getattr(cell, "text", ""), position, figure.tax_table))
    return out
