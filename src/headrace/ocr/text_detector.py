"""Where text is: the PP-OCR detection network and the reading of its probability map.

The method is differentiable binarisation (Liao et al. 2020, arXiv:1911.08947): the network marks the cores of text
lines, each core's smallest rectangle is grown back by a fixed ratio of its area to its circumference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from headrace.ocr.engine import Pixels

Corners = NDArray[np.float32]
"""4 x 2: the corners of one text line in pixels, clockwise from the top left."""

_STRIDE = 32  # the network halves its input five times
_STRIP_PX = 1280 * 512
"""Pixels of the page the network sees at once: its activations take about 200 bytes for each. A page seen whole is read
no better and costs more (40 SROIE scans: 456 MB and 9.9 CPU-s whole, 328 MB and 8.0 CPU-s in strips). In strips half as
large it missed lines of 110 px: it judges letters by what is around them."""
_MARGIN_PX = 2 * _STRIDE  # rows above and below a strip that are shown to the network, but not taken from it
_PIXEL_THRESHOLD = 0.3
_BOX_THRESHOLD = 0.5
_GROWTH = 1.6
_MIN_CORE_PX = 3
_MIN_SIDE_PX = 5
_MAX_BOXES = 1000
_JOIN = np.ones((2, 2), np.uint8)


class TextDetector:
    """Finds text lines on a page.

    Args:
        session: an onnxruntime session of a PP-OCR detection model.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._input = session.get_inputs()[0].name

    def find(self, pixels: Pixels, side_px: int) -> list[Corners]:
        """The corners of each line of text on an RGB image, in no order; at most 1,000.

        Args:
            pixels: the page.
            side_px: the network is shown the page with this long side; time grows with its square, memory does not:
                see `_STRIP_PX`.
        """
        height, width = pixels.shape[:2]
        seen = _scaled(pixels, side_px)
        probability = np.vstack([self._probability(seen, top, bottom) for top, bottom in _strips(*seen.shape[:2])])
        back = np.array([width / seen.shape[1], height / seen.shape[0]], np.float32)
        return [corners * back for corners in _boxes(probability)]

    def _probability(self, seen: Pixels, top: int, bottom: int) -> NDArray[np.float32]:
        """How likely each pixel of the rows from `top` to `bottom` is the core of a line, 0..1."""
        first, last = max(0, top - _MARGIN_PX), min(len(seen), bottom + _MARGIN_PX)
        # The network was trained on BGR in -1..1.
        values = seen[first:last, :, ::-1].transpose(2, 0, 1)[np.newaxis].astype(np.float32)
        values *= 1 / 127.5
        values -= 1
        found = self._session.run(None, {self._input: values})[0][0, 0]
        return np.asarray(found[top - first : bottom - first], np.float32)


def _scaled(pixels: Pixels, side_px: int) -> Pixels:
    height, width = pixels.shape[:2]
    scale = side_px / max(height, width)
    size = [max(_STRIDE, round(side * scale / _STRIDE) * _STRIDE) for side in (width, height)]
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(pixels, size, interpolation=way), np.uint8)


def _strips(height: int, width: int) -> Iterator[tuple[int, int]]:
    """First row and the row after the last of each strip; all but the last are equal, in whole strides."""
    room = max(2 * _STRIDE, (_STRIP_PX // width - 2 * _MARGIN_PX) // _STRIDE * _STRIDE)
    count = 1 if height * width <= _STRIP_PX else math.ceil(height / room)
    rows = math.ceil(height / count / _STRIDE) * _STRIDE
    return ((top, min(height, top + rows)) for top in range(0, height, rows))


def _boxes(probability: NDArray[np.float32]) -> list[Corners]:
    mask = cv2.dilate((probability > _PIXEL_THRESHOLD).astype(np.uint8), _JOIN)
    contours, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    found = []
    for contour in contours[:_MAX_BOXES]:
        centre, (width, height), angle = cv2.minAreaRect(contour)
        if min(width, height) < _MIN_CORE_PX:
            continue
        if _mean_inside(probability, _corners(centre, width, height, angle)) < _BOX_THRESHOLD:
            continue
        grow = width * height * _GROWTH / (width + height)  # twice the distance each side moves out
        if min(width, height) + grow < _MIN_SIDE_PX:
            continue
        found.append(_clockwise(_corners(centre, width + grow, height + grow, angle), probability.shape))
    return found


def _corners(centre: Any, width: float, height: float, angle: float) -> Corners:
    return np.asarray(cv2.boxPoints((centre, (width, height), angle)), np.float32)


def _mean_inside(probability: NDArray[np.float32], corners: Corners) -> float:
    rows, columns = probability.shape
    left, top = np.clip(np.floor(corners.min(0)).astype(int), 0, (columns - 1, rows - 1))
    right, bottom = np.clip(np.ceil(corners.max(0)).astype(int), 0, (columns - 1, rows - 1))
    mask = np.zeros((bottom - top + 1, right - left + 1), np.uint8)
    cv2.fillPoly(mask, [(corners - (left, top)).astype(np.int32)], 1)
    return float(cv2.mean(probability[top : bottom + 1, left : right + 1], mask)[0])


def _clockwise(corners: Corners, shape: tuple[int, ...]) -> Corners:
    """Top left, top right, bottom right, bottom left, inside the image."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = (pair[np.argsort(pair[:, 1], kind="stable")] for pair in (by_x[:2], by_x[2:]))
    ordered = np.array([left[0], right[0], right[1], left[1]], np.float32)
    return np.clip(ordered, 0, np.array([shape[1], shape[0]], np.float32))
