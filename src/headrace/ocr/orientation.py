"""Turning a page upright by its EXIF orientation: once, at decoding, and never by anyone else.

Values are those of TIFF 6.0 tag 274 / EXIF 0x0112: where the first row and the first column of the stored image are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import ExifTags, Image

from headrace.ocr.engine import Pixels

UPRIGHT = 1
_TURNS: dict[int, Callable[[Pixels], Pixels]] = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a.swapaxes(0, 1)[::-1, ::-1],
    8: lambda a: np.rot90(a, 1),
}


CLOCKWISE_DEGREES = {1: 0, 2: 0, 3: 180, 4: 180, 5: 270, 6: 90, 7: 90, 8: 270}
"""How far `turn_upright` turns; 2, 4, 5 and 7 are mirrored from left to right before."""


def read_orientation(image: Image.Image) -> tuple[int, tuple[str, ...]]:
    """The orientation an image says it has, and a warning when what it says is nonsense: then it counts as upright."""
    try:
        value = image.getexif().get(ExifTags.Base.Orientation, UPRIGHT)
    except Exception:  # broken EXIF blocks raise many kinds of errors, and none of them is worth a document
        return UPRIGHT, ("unreadable EXIF block, taken as upright",)
    if value in _TURNS:
        return int(value), ()
    return UPRIGHT, (f"EXIF orientation {value!r} does not exist, taken as upright",)


def turn_upright(pixels: Pixels, orientation: int) -> Pixels:
    """The pixels turned so that text stands upright; a new array only when something has to move."""
    return np.ascontiguousarray(_TURNS[orientation](pixels))


def swaps_sides(orientation: int) -> bool:
    """Whether width and height change places."""
    return orientation >= 5
