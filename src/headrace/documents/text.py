"""The text on a document: boxes as an engine saw them, lines as a person reads them.

All geometry is in 0..1 of the upright page: x to the right, y down, so that it survives scaling and is what a client
can draw over any rendering of the page.
"""

from __future__ import annotations

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

    A slanted page is straightened first: the median slope of the wide boxes' upper edges is taken out of every centre.

    Args:
        boxes: in any order.
        aspect: page width over page height, in pixels, so that slopes measured in 0..1 are true.
    """
    if not boxes:
        return ()
    slopes = [
        (b.polygon[1][1] - b.polygon[0][1]) / (b.polygon[1][0] - b.polygon[0][0])
        for b in boxes
        if (b.polygon[1][0] - b.polygon[0][0]) * aspect > 3 * (b.bottom - b.top)
    ]
    slope = median(slopes) if slopes else 0.0

    def centre(box: Box) -> float:
        return (box.top + box.bottom) / 2 - slope * (box.left + box.right) / 2

    def height(box: Box) -> float:
        return max(1e-6, (box.bottom - box.top) - abs(slope) * (box.right - box.left))

    rows: list[list[Box]] = []
    for box in sorted(boxes, key=centre):
        # Only the newest rows can overlap a box that comes later in the order of centres.
        for row in reversed(rows[-3:]):
            row_centre = sum(centre(b) for b in row) / len(row)
            row_height = median(height(b) for b in row)
            overlap = (row_height + height(box)) / 2 - abs(centre(box) - row_centre)
            beside = all(
                box.left >= b.right - 0.3 * (b.right - b.left) or box.right <= b.left + 0.3 * (b.right - b.left)
                for b in row
            )
            if beside and overlap > 0.5 * min(row_height, height(box)):
                row.append(box)
                break
        else:
            rows.append([box])
    return tuple(Line(tuple(sorted(row, key=lambda b: b.left))) for row in rows)
