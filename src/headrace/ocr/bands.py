"""Tall pages: cut into overlapping bands, recognised one by one, and put together without a line lost or doubled.

A supermarket slip of 1,080 x 36,000 px shown to an engine whole is either refused or shrunk until nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from headrace.documents.text import Box, Point
from headrace.ocr.engine import PageImage

_TALL = 3.0  # pages up to this many times as tall as wide are shown whole
_BAND_HEIGHT = 1.6  # of the width
_MIN_BAND_PX = 1200
_OVERLAP = 0.1  # of the band: several lines of print

Band = tuple[int, int]
"""First row and the row after the last."""


def bands(width: int, height: int) -> list[Band]:
    """The rows of each band, top to bottom; one band for a page that is not tall."""
    if height <= _TALL * width or height <= _TALL * _MIN_BAND_PX:
        return [(0, height)]
    step = max(_MIN_BAND_PX, round(_BAND_HEIGHT * width))
    overlap = round(_OVERLAP * step)
    count = max(1, -(-(height - overlap) // (step - overlap)))
    even = (height - overlap) / count  # equal bands: a sliver at the end would be read badly
    return [(round(i * even), min(height, round((i + 1) * even) + overlap)) for i in range(count)]


def cut(image: PageImage) -> Iterator[tuple[Band, PageImage]]:
    """The page band by band, without copying pixels."""
    height, width = image.pixels.shape[:2]
    for top, bottom in bands(width, height):
        yield (top, bottom), replace(image, pixels=image.pixels[top:bottom])


def on_page(boxes: Sequence[Box], band: Band, height: int) -> list[Box]:
    """The boxes of a band, in 0..1 of the page that is `height` rows high."""
    top, bottom = band

    def moved(point: Point) -> Point:
        return point[0], (top + point[1] * (bottom - top)) / height

    def placed(box: Box) -> Box:
        a, b, c, d = box.polygon
        return replace(box, polygon=(moved(a), moved(b), moved(c), moved(d)))

    return [placed(box) for box in boxes]


def join(above: Sequence[Box], below: Sequence[Box], overlap_top: float, overlap_bottom: float) -> list[Box]:
    """Puts the boxes of two neighbouring bands together.

    Both bands saw the overlap. A seam is laid through it where it crosses the fewest boxes, usually none, between two
    lines of print; what lies above it is taken from the upper band, what lies below from the lower one. Near its own
    cut edge a band sees halves of letters, so a seam in the middle is preferred.

    Args:
        above: boxes of the upper band, geometry in 0..1 of the page.
        below: boxes of the lower band.
        overlap_top: where the lower band begins, 0..1 of the page.
        overlap_bottom: where the upper band ends.
    """
    seam = _seam([*above, *below], overlap_top, overlap_bottom)
    kept = [box for box in above if _centre(box) < seam]
    crossing = [box for box in kept if box.bottom > seam]
    for box in below:
        if _centre(box) >= seam and not any(_same_place(box, other) for other in crossing):
            kept.append(box)
    return kept


def _seam(boxes: Sequence[Box], top: float, bottom: float) -> float:
    middle = (top + bottom) / 2
    edges = [edge for box in boxes for edge in (box.top, box.bottom) if top < edge < bottom]
    stops = sorted({top, bottom, *edges})
    places = [middle] + [(a + b) / 2 for a, b in pairwise(stops)]
    near = [box for box in boxes if box.bottom > top and box.top < bottom]

    def cost(place: float) -> tuple[int, float]:
        return sum(box.top < place < box.bottom for box in near), abs(place - middle)

    return min(places, key=cost)


def _centre(box: Box) -> float:
    return (box.top + box.bottom) / 2


def _same_place(one: Box, other: Box) -> bool:
    """Whether two boxes are two sightings of one line: they share most of the smaller one."""
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    smaller = min(
        (one.right - one.left) * (one.bottom - one.top), (other.right - other.left) * (other.bottom - other.top)
    )
    return width > 0 and height > 0 and width * height > 0.5 * smaller
