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

from headrace.ocr.character_table import CharacterTable, is_latin, is_other_script
from headrace.ocr.engine import Pixels
from headrace.ocr.recognition_model import Floats, RecognitionModel
from headrace.ocr.scripts import Scripts
from headrace.ocr.text_detector import Corners

_LINE_PX = 48  # the height the network reads
_NARROWED = 0.9
"""Lines are shown so much narrower than they are: less work, and words keep together. 120 SROIE scans: 0.925 of the
words and 8.9 wrong characters a page at 0.9, 0.919 and 9.5 at 1.0, 0.919 and 9.6 at 0.8."""
_STEP_PX = 32
_MAX_WIDTH_PX = 3200
_BATCH_PX = 1024  # padded width of all lines of a batch: bounds memory
_SAMPLE_LINES = 8  # all characters for these cost 3 % of a page
_SAMPLE_CONFIDENCE = 0.5
_UPENDED = 1.5  # a box this much taller than wide holds a line that runs upwards


class TextRecogniser:
    """Reads lines of text.

    Only Latin letters, digits and signs are looked for, unless the page is in another script: a few of its lines are
    read with every character the model knows, and what they turn out to be decides for the page. So digits on a Latin
    page are never read as a stroke of Chinese, and a Japanese page is read as what it is.

    Args:
        session: an onnxruntime session of `model.network`.
        model: see `recognition_model.open_model`.
        scripts: `LATIN` and `ALL` leave nothing to be decided.
    """

    def __init__(self, session: Any, model: RecognitionModel, scripts: Scripts = Scripts.AUTO) -> None:
        self._session = session
        self._input = session.get_inputs()[0].name
        self._every = CharacterTable(model.weights, model.bias, model.characters)
        self._latin = self._every.only(is_latin)
        self._scripts = scripts

    def read(self, pixels: Pixels, lines: Sequence[Corners]) -> list[tuple[str, float]]:
        """The text and the mean confidence of each line, in the order given.

        Args:
            pixels: the RGB page.
            lines: corners of the lines on it.
        """
        results = [("", 0.0)] * len(lines)
        widths = [_width_at_line_height(corners) for corners in lines]
        table, left = self._table(pixels, lines, widths, results)
        for index, features in self._features(pixels, lines, widths, left):
            results[index] = table.name(features)
        return results

    def _table(
        self, pixels: Pixels, lines: Sequence[Corners], widths: Sequence[int], results: list[tuple[str, float]]
    ) -> tuple[CharacterTable, list[int]]:
        """What to name the lines of this page by, and the lines that are still to be read."""
        if self._scripts is not Scripts.AUTO:
            return self._latin if self._scripts is Scripts.LATIN else self._every, list(range(len(lines)))
        ranked = sorted(range(len(lines)), key=widths.__getitem__)
        first = max(0, (len(lines) - _SAMPLE_LINES) // 2)
        sample = ranked[first : first + _SAMPLE_LINES]  # of middle length: words, neither prices nor rules of dashes
        seen = list(self._features(pixels, lines, widths, sample))
        named = [(index, self._every.name(features)) for index, features in seen]
        if is_other_script(text for _, (text, confidence) in named if confidence >= _SAMPLE_CONFIDENCE):
            table = self._every
        else:
            table = self._latin
            named = [(index, table.name(features)) for index, features in seen]
        for index, result in named:
            results[index] = result
        return table, ranked[:first] + ranked[first + _SAMPLE_LINES :]

    def _features(
        self, pixels: Pixels, lines: Sequence[Corners], widths: Sequence[int], wanted: Sequence[int]
    ) -> Iterator[tuple[int, Floats]]:
        """What the network sees on each wanted line: places x features."""
        for width, members in _batches(widths, wanted):
            values = np.zeros((len(members), 3, _LINE_PX, width), np.float32)
            for row, index in enumerate(members):
                cut = _cut(pixels, lines[index], width)
                values[row, :, :, : cut.shape[1]] = cut[:, :, ::-1].transpose(2, 0, 1) * np.float32(1 / 127.5) - 1
            yield from zip(members, self._session.run(None, {self._input: values})[0], strict=True)


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
    return max(1, min(_MAX_WIDTH_PX, math.ceil(_NARROWED * _LINE_PX * width / height)))


def _batches(widths: Sequence[int], wanted: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Groups lines by padded width, so that a batch has one width and at most `_BATCH_PX` of it in all."""
    padded = [math.ceil(width / _STEP_PX) * _STEP_PX for width in widths]
    batch: list[int] = []
    for index in sorted(wanted, key=padded.__getitem__):
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
    target = min(max_width, max(1, math.ceil(_NARROWED * _LINE_PX * line.shape[1] / line.shape[0])))
    return np.asarray(cv2.resize(np.ascontiguousarray(line), (target, _LINE_PX)), np.uint8)
