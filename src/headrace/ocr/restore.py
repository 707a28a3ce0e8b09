"""Faded print and shadows: how bad a page is, and a copy of it in gray that an engine reads better.

The copy is only for the engine. Nothing moves in it, so what is found has its place on the page as it was handed in.
It is never black and white: a threshold decides about faint print before anybody has read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import cv2
import numpy as np
from numpy.typing import NDArray

from headrace.documents.text import Box
from headrace.ocr.engine import Pixels

FAINT_CONTRAST = 0.25
"""Print that keeps less of the light than this back: clean scans have 0.46 and more, 8 % contrast has 0.1 at most."""
UNEVEN_LIGHT, SURE_LETTERS = 0.4, 0.95
"""Paper that is this much darker in one place than in another, with letters of which the engine is less sure than that:
in shadows down to a quarter of the light it read sharp print as well as in full light."""

_TILE_PX = 8
_PAPER_TILES = 9  # larger than a letter, smaller than the edge of a shadow
_INK_TILES = 15  # some lines of print: each place has letters near it that say how dark print is there
_LEAST_DEPTH = 12.0  # shades; blank paper has no print to measure, and its noise must not become print
_SMOOTHING = 0.7  # pixels; what makes faint print dark makes the grain of the sensor as dark
_STRIP_TILES = 32
_MEASURED_BOXES = 120
_MEASURED_PX = 1500  # of one box


@dataclass(frozen=True, slots=True)
class Paper:
    """How well a page can be read, measured where text was found.

    Attributes:
        contrast: how much darker print is than the paper around it, 0..1, of half of the boxes.
        evenness: the darkest paper over the lightest, 0..1.
        trust: the engine's mean trust in a letter, 0..1.
    """

    contrast: float
    evenness: float
    trust: float

    @property
    def trouble(self) -> str:
        """What is wrong with it, in words; empty when nothing is."""
        if self.contrast < FAINT_CONTRAST:
            return "faint print"
        return "uneven light" if self.evenness < UNEVEN_LIGHT and self.trust < SURE_LETTERS else ""


def judge(pixels: Pixels, boxes: Sequence[Box]) -> Paper | None:
    """Measures the paper under the boxes; None when there are none."""
    height, width = pixels.shape[:2]
    shades, depths = [], []
    for box in boxes[:: max(1, -(-len(boxes) // _MEASURED_BOXES))]:
        top, bottom = int(box.top * height), int(box.bottom * height) + 1
        left, right = int(box.left * width), int(box.right * width) + 1
        part = pixels[top:bottom, left:right]
        step = max(1, part.shape[0] * part.shape[1] // _MEASURED_PX)
        sample = (part[..., 1] if part.ndim == 3 else part).reshape(-1)[::step]
        if not sample.size:
            continue
        ink, paper = np.percentile(sample, (5, 90))
        shades.append(float(paper))
        depths.append(float(paper - ink) / max(1.0, float(paper)))
    if not shades:
        return None
    dark, light = np.percentile(shades, (10, 90))
    letters = sum(len(box.text) for box in boxes)
    trust = sum(box.confidence * len(box.text) for box in boxes) / max(1, letters)
    return Paper(median(depths), float(dark) / max(1.0, float(light)), trust)


def flatten(pixels: Pixels) -> Pixels:
    """The page in gray with paper white and print dark everywhere, whatever light fell on it.

    Each pixel is placed between the paper and the ink of its neighbourhood. Needs about three bytes per pixel.
    """
    gray = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY) if pixels.ndim == 3 else pixels
    gray = np.asarray(cv2.GaussianBlur(gray, (0, 0), _SMOOTHING), np.uint8)
    height, width = gray.shape
    paper, depth = _light(gray)
    flat = np.empty_like(gray)
    for first in range(0, len(paper), _STRIP_TILES):
        top = first * _TILE_PX
        rows = gray[top : top + _STRIP_TILES * _TILE_PX].astype(np.float32)
        share = (_spread(paper, first, *rows.shape) - rows) / _spread(depth, first, *rows.shape)
        flat[top : top + len(rows)] = np.clip(255.5 - 255 * share, 0, 255).astype(np.uint8)
    return np.asarray(flat[:height, :width], np.uint8)


def _light(gray: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """For each tile: how light the paper is, and by how many shades print is darker."""
    height, width = gray.shape
    tiles = (-(-width // _TILE_PX), -(-height // _TILE_PX))
    near, wide = np.ones((_PAPER_TILES, _PAPER_TILES), np.uint8), np.ones((_INK_TILES, _INK_TILES), np.uint8)
    # Closing: print is narrower than the kernel and goes, an edge of a shadow is not and stays.
    paper = cv2.morphologyEx(cv2.resize(gray, tiles, interpolation=cv2.INTER_AREA), cv2.MORPH_CLOSE, near)
    darkest = cv2.erode(gray, np.ones((_TILE_PX, _TILE_PX), np.uint8))
    ink = cv2.erode(cv2.resize(darkest, tiles, interpolation=cv2.INTER_NEAREST), wide)
    paper_light = np.asarray(cv2.GaussianBlur(paper.astype(np.float32), (0, 0), _PAPER_TILES / 3), np.float32)
    ink_light = np.asarray(cv2.GaussianBlur(ink.astype(np.float32), (0, 0), _INK_TILES / 3), np.float32)
    return paper_light, np.maximum(paper_light - ink_light, np.float32(_LEAST_DEPTH))


def _spread(tiles: NDArray[np.float32], first: int, rows: int, columns: int) -> NDArray[np.float32]:
    """The values of the tiles from row `first` on, for each pixel: a tile more on both sides hides the seams."""
    above = min(first, 1)
    part = tiles[first - above : first + _STRIP_TILES + 1]
    size = (part.shape[1] * _TILE_PX, part.shape[0] * _TILE_PX)
    full = cv2.resize(part, size, interpolation=cv2.INTER_LINEAR)
    return np.asarray(full[above * _TILE_PX : above * _TILE_PX + rows, :columns], np.float32)
