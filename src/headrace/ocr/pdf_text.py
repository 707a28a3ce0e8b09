"""The text layer of a PDF page as boxes on the upright page.

pdfium gives each character and its rectangle in the page's own, unrotated space, in the order of the content stream:
on a rotated page that order is wrong, so only geometry decides what stands in a row.
"""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pypdfium2.raw as pdfium

from headrace.documents.text import Box, PageText, Polygon, TextSource, group_lines

MIN_CHARACTERS = 16
"""Fewer letters and digits than this are a stamp or a page number, and the page is recognised instead."""

MIN_CHARACTERS_OVER_SCAN = 120
"""Over an image that fills the page, fewer than this are what a scanner program wrote in the margin."""

_MAX_CHARACTERS = 20_000  # a dense A4 page has 5,000
_SCAN_AREA = 0.5
_MAX_JUNK = 0.2

_LAST_GROUP = re.compile(r"\d{3}[.,]\d{2}(?!\d)")
_INNER_GROUP = re.compile(r"\d{3}")
_FIRST_GROUP = re.compile(r"\D*\d{1,3}")
_SPACE_IN_AMOUNT = 0.7  # of the height; a blank of a typewriter font has 0.55, a gap between columns two of them


def read_text_layer(page: Any, number: int) -> PageText | None:
    """The text of the page, or None when there is too little of it, or when it is not text (unmapped glyphs).

    Args:
        page: an open `pypdfium2.PdfPage`.
        number: its number, from 1.
    """
    text = page.get_textpage()
    try:
        characters = text.count_chars()
        if characters < MIN_CHARACTERS:
            return None
        boxes = tuple(_words(page, text, min(characters, _MAX_CHARACTERS)))
    finally:
        text.close()
    if not _usable("".join(box.text for box in boxes), over_scan=_is_scan(page)):
        return None
    width, height = page.get_size()
    boxes = _whole_amounts([_printable(box) for box in boxes], width / height)
    warnings = ("text layer cut: too many characters",) if characters > _MAX_CHARACTERS else ()
    lines = group_lines(boxes, aspect=width / height)
    return PageText(number, round(width), round(height), lines, TextSource.TEXT_LAYER, warnings)


def _printable(box: Box) -> Box:
    """The box with a blank for each run of control characters; some programs write them where they mean a space."""
    text = "".join(" " if unicodedata.category(c) == "Cc" else c for c in box.text)
    return replace(box, text=" ".join(text.split()))


def _whole_amounts(boxes: Sequence[Box], aspect: float) -> tuple[Box, ...]:
    """Joins the groups of an amount whose thousands are parted by a blank, as in `1 205,10`."""
    out: list[Box] = []
    for box in boxes:
        if not box.text:
            continue
        first = len(out)
        if _LAST_GROUP.match(box.text):
            while first and _one_blank(out[first - 1], [*out[first:], box][0], aspect):
                first -= 1
                if not _INNER_GROUP.fullmatch(out[first].text):
                    break
            if first < len(out) and not _FIRST_GROUP.fullmatch(out[first].text):
                first += 1
        parts = [*out[first:], box]
        out[first:] = [Box(" ".join(part.text for part in parts), _around(parts), 1.0)]
    return tuple(out)


def _one_blank(left: Box, right: Box, aspect: float) -> bool:
    """Whether one blank parts two boxes of the same row."""
    (x0, top, x1, bottom), (x2, other_top, _, other_bottom) = _edges(left), _edges(right)
    height = min(bottom - top, other_bottom - other_top)
    same_row = min(bottom, other_bottom) - max(top, other_top) > height / 2
    return same_row and x0 < x2 and -0.2 * height < (x2 - x1) * aspect < _SPACE_IN_AMOUNT * height


def _edges(box: Box) -> tuple[float, float, float, float]:
    xs, ys = [x for x, _ in box.polygon], [y for _, y in box.polygon]
    return min(xs), min(ys), max(xs), max(ys)


def _around(boxes: Sequence[Box]) -> Polygon:
    return _place([_edges(box) for box in boxes], (1.0, 1.0))


def _usable(text: str, *, over_scan: bool) -> bool:
    good = sum(c.isalnum() for c in text)
    junk = sum(c == "\ufffd" or unicodedata.category(c) in ("Co", "Cn", "Cc") for c in text)
    return good >= (MIN_CHARACTERS_OVER_SCAN if over_scan else MIN_CHARACTERS) and junk <= _MAX_JUNK * len(text)


def _is_scan(page: Any) -> bool:
    """Whether one image covers most of the page."""
    left, bottom, right, top = page.get_bbox()
    area = max(1e-6, (right - left) * (top - bottom))
    for image in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=2):
        x0, y0, x1, y1 = image.get_bounds()
        covered = max(0.0, min(x1, right) - max(x0, left)) * max(0.0, min(y1, top) - max(y0, bottom))
        if covered > _SCAN_AREA * area:
            return True
    return False


def _words(page: Any, text: Any, characters: int) -> Iterator[Box]:
    """Runs of characters without a space between them, and on one row of the upright page."""
    upright = _Upright(page)
    word: list[str] = []
    area: list[tuple[float, float, float, float]] = []

    def finished() -> Iterator[Box]:
        if word:
            yield Box("".join(word), _place(area, upright.size), 1.0)
        word.clear()
        area.clear()

    for index in range(characters):
        char = _character(text, index)
        if not char.strip() or char in "\0\ufffe\uffff":
            yield from finished()
            continue
        rectangle = upright.rectangle(text, index)
        if rectangle is None:
            continue
        if area and not _continues(area[-1], rectangle):
            yield from finished()
        word.append(char)
        area.append(rectangle)
    yield from finished()


def _character(text: Any, index: int) -> str:
    code = pdfium.FPDFText_GetUnicode(text, index)
    return chr(code) if 0 < code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else "\ufffd"


def _continues(before: tuple[float, float, float, float], after: tuple[float, float, float, float]) -> bool:
    """Whether a character stands to the right of the one before it, on the same row."""
    height = max(before[3] - before[1], after[3] - after[1])
    beside = after[0] > before[0] - height / 2 and after[0] - before[2] < 1.5 * height
    return beside and min(before[3], after[3]) - max(before[1], after[1]) > 0


def _place(area: list[tuple[float, float, float, float]], size: tuple[float, float]) -> Polygon:
    """The rectangle around all characters, in 0..1 of the page."""
    width, height = size
    left, top = min(a[0] for a in area) / width, min(a[1] for a in area) / height
    right, bottom = max(a[2] for a in area) / width, max(a[3] for a in area) / height
    return ((left, top), (right, top), (right, bottom), (left, bottom))


class _Upright:
    """Turns the page's own space (points, y up, before /Rotate) into points of the page as it is shown, y down."""

    def __init__(self, page: Any) -> None:
        left, bottom, right, top = page.get_bbox()
        self._left, self._top = left, top
        self._width, self._height = max(1e-6, right - left), max(1e-6, top - bottom)
        self._rotation = page.get_rotation()
        turned = self._rotation in (90, 270)
        self.size = (self._height, self._width) if turned else (self._width, self._height)

    def rectangle(self, text: Any, index: int) -> tuple[float, float, float, float] | None:
        """Left, top, right, bottom of one character; None when it has no place (a generated space, a control)."""
        box = pdfium.FS_RECTF()
        if not pdfium.FPDFText_GetLooseCharBox(text, index, ctypes.byref(box)):
            return None
        (x0, y0), (x1, y1) = self._turn(box.left, box.top), self._turn(box.right, box.bottom)
        return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)

    def _turn(self, x: float, y: float) -> tuple[float, float]:
        across = min(self._width, max(0.0, x - self._left))
        down = min(self._height, max(0.0, self._top - y))
        # /Rotate says by how many degrees the page is turned clockwise when it is shown.
        match self._rotation:
            case 90:
                return self._height - down, across
            case 180:
                return self._width - across, self._height - down
            case 270:
                return down, self._width - across
            case _:
                return across, down
