"""The text on a document: boxes as an engine saw them, lines as a person reads them.

All geometry is in 0..1 of the upright page: x to the right, y down, so that it survives scaling and is what a client
can draw over any rendering of the page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

Point = tuple[float, float]
Polygon = tuple[Point, Point, Point, Point]
"""Four corners, clockwise from the top left of the text."""


class TextSource(StrEnum):
    """Where text came from."""

    OCR = "ocr"
    TEXT_LAYER = "text_layer"


@dataclass(frozen=True, slots=True)
class Box:
    """One run of text as the engine found it.

    Attributes:
        text: what it says.
        polygon: its corners in 0..1 of the upright page.
        confidence: 0..1, the engine's own score; 1.0 for a text layer.
    """

    text: str
    polygon: Polygon
    confidence: float

    @property
    def left(self) -> float:
        """The smallest x."""
        return min(x for x, _ in self.polygon)

    @property
    def right(self) -> float:
        """The largest x."""
        return max(x for x, _ in self.polygon)

    @property
    def top(self) -> float:
        """The smallest y."""
        return min(y for _, y in self.polygon)

    @property
    def bottom(self) -> float:
        """The largest y."""
        return max(y for _, y in self.polygon)


@dataclass(frozen=True, slots=True)
class Line:
    """The boxes that stand in one row, left to right."""

    boxes: tuple[Box, ...]

    @property
    def text(self) -> str:
        """The row as one string, boxes joined by a space."""
        return " ".join(box.text for box in self.boxes)

    @property
    def confidence(self) -> float:
        """The weakest box decides: a row is as sure as its least sure part."""
        return min(box.confidence for box in self.boxes)

    @property
    def polygon(self) -> Polygon:
        """The upright rectangle around all boxes."""
        left, right = min(b.left for b in self.boxes), max(b.right for b in self.boxes)
        top, bottom = min(b.top for b in self.boxes), max(b.bottom for b in self.boxes)
        return ((left, top), (right, top), (right, bottom), (left, bottom))


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of one page.

    Attributes:
        number: the page, from 1.
        width_px, height_px: size of the upright page that the geometry refers to (points for a text layer).
        lines: rows in reading order, top to bottom.
        source: OCR or the document's own text layer.
        warnings: what was odd but did not stop the page (`truncated image`, `bad EXIF orientation`).
    """

    number: int
    width_px: int
    height_px: int
    lines: tuple[Line, ...]
    source: TextSource = TextSource.OCR
    warnings: tuple[str, ...] = ()


def group_lines(boxes: Sequence[Box], *, aspect: float = 1.0) -> tuple[Line, ...]:
    """Builds rows from boxes by vertical overlap; never in the engine's order, which mixes columns.

    Slanted and curled paper is followed: wide boxes show the slope of their row, and every box takes the median slope
    of the wide ones nearest to it in height, so that a slope which changes down the page is no harm.

    Args:
        boxes: in any order.
        aspect: page width over page height, in pixels, so that slopes measured in 0..1 are true.
    """
    if not boxes:
        return ()
    placed = _placed(boxes, aspect)
    slant = median(p.slope for p in placed)
    rows: list[list[_Placed]] = []
    for new in sorted(placed, key=lambda p: p.y - slant * p.x):
        best, best_overlap = None, 0.5
        # Only the newest rows can overlap a box that comes later down the page.
        for row in rows[-_OPEN_ROWS:]:
            near = min(row, key=lambda p: abs(p.x - new.x))
            drift = new.y - near.y - (new.slope + near.slope) / 2 * (new.x - near.x)
            height = min(near.height, new.height)
            overlap = ((near.height + new.height) / 2 - abs(drift)) / height
            if overlap > best_overlap and all(_beside(new.box, p.box) for p in row):
                best, best_overlap = row, overlap
        if best is None:
            rows.append([new])
        else:
            best.append(new)
    return tuple(Line(tuple(p.box for p in sorted(row, key=lambda p: p.box.left))) for row in rows)


_OPEN_ROWS = 5
_NEIGHBOURS = 9


@dataclass(frozen=True, slots=True)
class _Placed:
    """A box with its centre, the height of its letters and the slope of the text around it."""

    box: Box
    x: float
    y: float
    height: float
    slope: float


def _placed(boxes: Sequence[Box], aspect: float) -> list[_Placed]:
    heights: list[float] = []
    wide: list[tuple[float, float, float]] = []  # x, y and slope of the boxes that are long enough to show one
    for box in boxes:
        (x0, y0), (x1, y1), (_, y2), (_, y3) = box.polygon
        # The upright part of the side edges: the letters alone, without the rise of a slanted box.
        heights.append(max(1e-6, (abs(y3 - y0) + abs(y2 - y1)) / 2))
        if (x1 - x0) * aspect > 2.5 * heights[-1]:
            wide.append((*_centre(box), (y1 - y0) / (x1 - x0)))
    slant = median(slope for _, _, slope in wide) if wide else 0.0
    # Nearest means nearest down the straightened page, or the two ends of a slanted row would not be neighbours.
    ranked = sorted((y - slant * x, slope) for x, y, slope in wide)
    levels = [level for level, _ in ranked]
    placed = []
    for box, height in zip(boxes, heights, strict=True):
        x, y = _centre(box)
        at = bisect_left(levels, y - slant * x)
        low = max(0, min(at - _NEIGHBOURS // 2, len(ranked) - _NEIGHBOURS))
        near = [slope for _, slope in ranked[low : low + _NEIGHBOURS]]
        placed.append(_Placed(box, x, y, height, median(near) if near else 0.0))
    return placed


def _centre(box: Box) -> Point:
    return sum(x for x, _ in box.polygon) / 4, sum(y for _, y in box.polygon) / 4


def _beside(a: Box, b: Box) -> bool:
    """True when the first box covers at most a third of the width of the second."""
    return a.left >= b.right - 0.3 * (b.right - b.left) or a.right <= b.left + 0.3 * (b.right - b.left)
