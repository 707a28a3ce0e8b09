"""Turning a page upright by what is on it, after its EXIF orientation was obeyed.

A small network looks at the page (6 ms) and is only a hint: a page that it does not call upright is read in two
orientations at low resolution, or in all four when the hint is weak, and is turned when that reads clearly better. One
that already reads well as it is stays as it is, whatever the network says.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from headrace.ocr.engine import PageImage, Pixels
from headrace.ocr.restore import flatten

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headrace.ocr.engine import Engine

_SURE_UPRIGHT = 0.7
"""480 turned and upright scans: an upright one had 0.81 or more, a turned one 0.11 or less (0.63 with faded print)."""
_SURE_TURN = 0.6
_BETTER = 1.5  # read the right way up, ten scans had 2.7 times the letters of any other way at least
_LEAST_LETTERS = 4.0
_CLEAR, _CLEAR_LETTERS = 0.87, 15
_TRUSTED = 0.8  # what is read of a page that is turned must look like text: on its head, most scans have 0.7 or less
"""Mean trust in the letters of a page that reads well: 0.91 and more the right way up, 0.83 and less in any other."""
_SIDE_PX, _CONTEXT = 224, 256 / 224  # the network was trained on the middle of pages whose short side was 256
_SHOWN_LENGTH = 1.2  # of the short side: what is read of a long page to decide
_SHOWN_LEAST_PX, _SHOWN_PX = 640, 960
_TALL = 2.0
_SMALLEST_PX = 32
_FLAT = 4.0  # a window whose shades differ less than this is blank
_FAINT = 60.0
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


def turned(image: PageImage, degrees: int) -> PageImage:
    """The page turned clockwise by a multiple of 90 degrees."""
    if degrees % 180:
        image = replace(image, width_px=image.height_px, height_px=image.width_px)
    return replace(image, pixels=np.ascontiguousarray(np.rot90(image.pixels, -degrees // 90))) if degrees else image


def find_turn(image: PageImage, engine: Engine) -> int:
    """By how many degrees the page has to be turned clockwise to stand upright: 0, 90, 180 or 270.

    The same page and engine give the same answer. A page on which nothing can be read stays as it is.

    Raises:
        EngineError: the engine failed on this page.
    """
    likely = _probabilities(image.pixels)
    if likely is None or likely[0] >= _SURE_UPRIGHT:
        return 0
    # The network says by how many quarters the page *was* turned; three more bring it back.
    rivals = sorted((1, 2, 3), key=lambda quarters: -likely[quarters])
    if likely[rivals[0]] >= _SURE_TURN:
        del rivals[1:]
    shown = replace(image, pixels=flatten(_excerpt(image.pixels)))
    legible, trust = _legible(shown, engine)
    if legible >= _CLEAR_LETTERS and trust >= _CLEAR:
        return 0
    best, most = 0, max(_LEAST_LETTERS, _BETTER * legible)
    for quarters in rivals:
        degrees = (360 - 90 * quarters) % 360
        legible, trust = _legible(turned(shown, degrees), engine)
        if legible > most and trust >= _TRUSTED:
            best, most = degrees, legible
    return best


def _legible(image: PageImage, engine: Engine) -> tuple[float, float]:
    """How many letters and digits read along the rows, each weighted by the trust in it; the mean trust in all letters.

    Engines turn a column of letters by themselves: text that runs upwards is a sign against this orientation, so its
    letters count as not trusted.
    """
    height, width = image.pixels.shape[:2]
    legible = trusted = 0.0
    letters = 0
    for box in engine.recognise(image):
        count = sum(c.isalnum() for c in box.text)
        letters += count
        if (box.right - box.left) * width >= 0.8 * (box.bottom - box.top) * height:
            legible += box.confidence**2 * count
            trusted += box.confidence * count
    return legible, trusted / max(1, letters)


def _excerpt(pixels: Pixels) -> Pixels:
    """The middle of the page, small."""
    height, width = pixels.shape[:2]
    most = max(_SHOWN_LEAST_PX, round(_SHOWN_LENGTH * min(height, width)))
    top, left = max(0, height - most) // 2, max(0, width - most) // 2
    part = pixels[top : top + most, left : left + most]
    return np.asarray(Image.fromarray(part).reduce(max(1, round(max(part.shape[:2]) / _SHOWN_PX))))


def _probabilities(pixels: Pixels) -> NDArray[np.float32] | None:
    """How likely it is that the page was turned clockwise by 0, 1, 2, 3 quarters; None when it is blank."""
    if min(pixels.shape[:2]) < _SMALLEST_PX:
        return None
    seen = [_session().run(None, {"x": window})[0][0] for window in _windows(pixels)]
    return np.asarray(np.mean(seen, axis=0), np.float32) if seen else None


def _windows(pixels: Pixels) -> list[NDArray[np.float32]]:
    """Squares of the page as the network wants them: the middle, and two more of a page that is long."""
    height, width = pixels.shape[:2]
    side = round(min(height, width) / _CONTEXT)
    long = max(height, width) > _TALL * min(height, width)
    found = []
    for place in (0.5, 0.2, 0.8) if long else (0.5,):
        down, across = (place, 0.5) if height > width else (0.5, place)
        top, left = round((height - side) * down), round((width - side) * across)
        part = pixels[top : top + side, left : left + side]
        way = Image.Resampling.BOX if side >= _SIDE_PX else Image.Resampling.BILINEAR
        values = np.asarray(Image.fromarray(part).resize((_SIDE_PX, _SIDE_PX), way), np.float32)
        dark, light = np.percentile(values, (1, 90))
        if light - dark < _FLAT and values.std() < _FLAT / 4:
            continue
        if light - dark < _FAINT:  # faint print: as dark as the print that the network has learnt from
            values = np.clip((values - dark) * (255 / max(light - dark, _FLAT)), 0, 255)
        colour = values if values.ndim == 3 else np.repeat(values[:, :, np.newaxis], 3, axis=2)
        normal = (colour / np.float32(255) - _MEAN) / _DEVIATION
        found.append(np.ascontiguousarray(normal.transpose(2, 0, 1)[np.newaxis], np.float32))
    return found


@functools.cache
def _session() -> Any:
    """The network, loaded once per process; see `models/README.md` for where it is from."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # 20 MB for a page, given back at once
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    model = resources.files("headrace.ocr") / "models" / "page_orientation.onnx"
    return onnxruntime.InferenceSession(model.read_bytes(), options, providers=["CPUExecutionProvider"])
