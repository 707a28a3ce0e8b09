"""What extraction looks at: the rows of a document, cleaned once, with the boxes that stand close joined into cells."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from headrace.documents.text import Box, Line, PageText, Polygon, TextSource

# Letters that Unicode does not decompose, and that receipts print with or without their stroke.
_STROKES = str.maketrans({"ł": "l", "đ": "d", "ø": "o", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"})
# Engines write the same glyph in many ways; what stands for one character becomes that character.
_PLAIN = str.maketrans(
    {"’": "'", "‘": "'", "´": "'", "`": "'", "–": "-", "—": "-", "−": "-", "×": "x", "~": "-", "﹣": "-", "＝": "="}
)


def clean(text: str) -> str:
    """Compatibility forms made plain (full width, thin spaces), blanks single, control characters gone."""
    plain = unicodedata.normalize("NFKC", text).translate(_PLAIN)
    return " ".join("".join(c if c.isprintable() else " " for c in plain).split())


# What stands further right is not looked at: no receipt has such rows, and it bounds the cost of every pattern.
MAX_ROW_CHARACTERS = 400


@lru_cache(maxsize=4096)
def fold(text: str) -> str:
    """Without case and accents, for comparing words; digits and punctuation stay."""
    bare = unicodedata.normalize("NFKD", text.casefold().translate(_STROKES))
    # Only accents go: what marks a Japanese voiced sound makes another letter, and Hangul comes together again.
    return unicodedata.normalize("NFC", "".join(c for c in bare if not "\u0300" <= c <= "\u036f"))


@dataclass(frozen=True, slots=True)
class Cell:
    """Boxes that stand so close that they are one piece of text."""

    text: str
    left: float
    right: float
    top: float
    bottom: float
    confidence: float

    @property
    def polygon(self) -> Polygon:
        """The upright rectangle of the cell."""
        return ((self.left, self.top), (self.right, self.top), (self.right, self.bottom), (self.left, self.bottom))


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the document.

    Attributes:
        index: its place over all pages, from 0.
        page: the page's number.
        cells: left to right, never empty.
        text: the cells joined by one space; offsets of amounts and dates refer to it.
    """

    index: int
    page: int
    cells: tuple[Cell, ...]
    text: str
    source: TextSource

    @property
    def confidence(self) -> float:
        """The engine's score of the weakest cell."""
        return min(cell.confidence for cell in self.cells)

    @property
    def top(self) -> float:
        """The upper edge in 0..1 of the page."""
        return min(cell.top for cell in self.cells)

    @property
    def bottom(self) -> float:
        """The lower edge in 0..1 of the page."""
        return max(cell.bottom for cell in self.cells)

    @property
    def height(self) -> float:
        """The tallest cell, in 0..1 of the page."""
        return max(cell.bottom - cell.top for cell in self.cells)

    def cell_at(self, offset: int) -> Cell:
        """The cell that holds this offset of `text`."""
        end = 0
        for cell in self.cells:
            end += len(cell.text) + 1
            if offset < end:
                return cell
        return self.cells[-1]

    def polygon(self, start: int = 0, end: int | None = None) -> Polygon:
        """The rectangle of a part of the row; inside a cell the letters are taken as equally wide."""
        last = len(self.text) if end is None else end
        at, parts = 0, []
        for cell in self.cells:
            size = max(1, len(cell.text))
            low, high = max(start - at, 0), min(last - at, size)
            if low < high:
                width = (cell.right - cell.left) / size
                parts.append((cell.left + low * width, cell.top, cell.left + high * width, cell.bottom))
            at += len(cell.text) + 1
        if not parts:
            return self.cells[0].polygon
        left, right = min(p[0] for p in parts), max(p[2] for p in parts)
        top, bottom = min(p[1] for p in parts), max(p[3] for p in parts)
        return ((left, top), (right, top), (right, bottom), (left, bottom))


def rows_of(pages: Sequence[PageText]) -> list[Row]:
    """All rows of all pages in reading order; rows without any visible character are left out."""
    rows: list[Row] = []
    for page in pages:
        aspect = page.height_px / page.width_px if page.width_px > 0 and page.height_px > 0 else 1.0
        for line in page.lines:
            cells = _cells(line, aspect)
            if cells:
                text = " ".join(cell.text for cell in cells)
                rows.append(Row(len(rows), page.number, cells, text, page.source))
    return rows


def _cells(line: Line, aspect: float) -> tuple[Cell, ...]:
    """Joins neighbours whose gap is under half a letter's height; `aspect` turns heights into widths."""
    cells: list[Cell] = []
    room = MAX_ROW_CHARACTERS
    for box in line.boxes:
        text = clean(box.text[:room])
        room -= len(text)
        if not text:
            continue
        cell = _cell(box, text)
        if cells:
            before = cells[-1]
            low, tall = sorted((cell.bottom - cell.top, before.bottom - before.top))
            # A stamp over the row, or handwriting beside it, is much taller and never part of the printed text.
            if cell.left - before.right < 0.5 * low * aspect and tall < 1.6 * low:
                cells[-1] = Cell(
                    f"{before.text} {cell.text}",
                    min(before.left, cell.left),
                    max(before.right, cell.right),
                    min(before.top, cell.top),
                    max(before.bottom, cell.bottom),
                    min(before.confidence, cell.confidence),
                )
                continue
        cells.append(cell)
    return tuple(cells)


def _cell(box: Box, text: str) -> Cell:
    xs = [x for x, _ in box.polygon]
    ys = [y for _, y in box.polygon]
    return Cell(text, min(xs), max(xs), min(ys), max(ys), box.confidence)
