"""What the text says: the PP-OCR recognition network over lines cut out of the page.

Lines are read in batches of equal padded width: the network is convolutional, so a line padded to the width of a longer
neighbour costs as much as the neighbour. The padded width goes in steps, to have company without much waste.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from headrace.ocr.engine import Pixels
from headrace.ocr.text_detector import Corners

_LINE_PX = 48  # the height the network reads
_STEP_PX = 64
_MAX_WIDTH_PX = 3200
_BATCH_PX = 1024  # padded width of all lines of a batch: bounds memory, which is mostly 18,710 classes per 8 px
_UPENDED = 1.5  # a box this much taller than wide holds a line that runs upwards


class TextRecogniser:
    """Reads lines of text.

    Args:
        session: an onnxruntime session of a PP-OCR recognition model that carries its characters as metadata.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        self._input = session.get_inputs()[0].name
        characters = session.get_modelmeta().custom_metadata_map["character"].splitlines()
        self._characters = ["", *characters, " "]  # class 0 is the blank of CTC, the last one is the space

    def read(self, pixels: Pixels, lines: Sequence[Corners]) -> list[tuple[str, float]]:
        """The text and the mean confidence of each line, in the order given.

        Args:
            pixels: the RGB page.
            lines: corners of the lines on it.
        """
        results = [("", 0.0)] * len(lines)
        for width, members in _batches([_width_at_line_height(corners) for corners in lines]):
            values = np.zeros((len(members), 3, _LINE_PX, width), np.float32)
            for row, index in enumerate(members):
                cut = _cut(pixels, lines[index], width)
                values[row, :, :, : cut.shape[1]] = cut[:, :, ::-1].transpose(2, 0, 1) * np.float32(1 / 127.5) - 1
            for index, classes in zip(members, self._session.run(None, {self._input: values})[0], strict=True):
                results[index] = self._decode(classes)
        return results

    def _decode(self, classes: NDArray[np.float32]) -> tuple[str, float]:
        """Greedy CTC: the best class at each place, repeats and blanks dropped."""
        best = classes.argmax(1)
        kept = best != 0
        kept[1:] &= best[1:] != best[:-1]
        if not kept.any():
            return "", 0.0
        confidence = float(classes[np.nonzero(kept)[0], best[kept]].mean())
        return "".join(self._characters[i] for i in best[kept]), min(1.0, confidence)


def _sides(corners: Corners) -> tuple[float, float]:
    """Width and height of a box that may be turned a little."""
    top_left, top_right, bottom_right, bottom_left = corners
    width = max(math.dist(top_left, top_right), math.dist(bottom_left, bottom_right))
    height = max(math.dist(top_left, bottom_left), math.dist(top_right, bottom_right))
    return max(1.0, width), max(1.0, height)


def _width_at_line_height(corners: Corners) -> int:
    width, height = _sides(corners)
    if height >= _UPENDED * width:
        width, height = height, width
    return max(1, min(_MAX_WIDTH_PX, math.ceil(_LINE_PX * width / height)))


def _batches(widths: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Groups lines by padded width, so that a batch has one width and at most `_BATCH_PX` of it in all."""
    padded = [math.ceil(width / _STEP_PX) * _STEP_PX for width in widths]
    batch: list[int] = []
    for index in sorted(range(len(widths)), key=padded.__getitem__):
        if batch and (padded[index] != padded[batch[0]] or (len(batch) + 1) * padded[index] > _BATCH_PX):
            yield padded[batch[0]], batch
            batch = []
        batch.append(index)
    if batch:
        yield padded[batch[0]], batch


def _cut(pixels: Pixels, corners: Corners, max_width: int) -> Pixels:
    """One line, straightened, at the height the network reads."""
    width, height = (round(side) for side in _sides(corners))
    upright = np.array([(0, 0), (width, 0), (width, height), (0, height)], np.float32)
    turn = cv2.getPerspectiveTransform(np.ascontiguousarray(corners), upright)
    line = cv2.warpPerspective(pixels, turn, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    if height >= _UPENDED * width:
        line = np.rot90(line)
    target = min(max_width, max(1, math.ceil(_LINE_PX * line.shape[1] / line.shape[0])))
    return np.asarray(cv2.resize(np.ascontiguousarray(line), (target, _LINE_PX)), np.uint8)
