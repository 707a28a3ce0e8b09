"""What happens to a receipt before it is read: fading, creases, a tilted phone, a shadow. Deterministic by seed."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Light: TypeAlias = NDArray[np.float32]
"""Brightness factors, one per pixel, around 1."""


def fade(image: Image.Image, dice: np.random.Generator) -> Image.Image:
    """Thermal paper after a summer in a wallet: the ink keeps 40 to 75 % of its contrast, with pale streaks."""
    ink = 255.0 - np.asarray(image, dtype=np.float32)
    keep = 0.40 + 0.35 * _soft_field(image.size, dice, cells=4)
    streaks = np.ones(image.width, dtype=np.float32)
    for x in dice.integers(0, image.width, size=3):
        streaks[x : x + int(dice.integers(2, 6))] = 0.7
    return Image.fromarray(np.clip(250.0 - ink * keep * streaks, 0, 255).astype(np.uint8), "L")


def crumple(image: Image.Image, dice: np.random.Generator) -> Image.Image:
    """Creases: a field of soft dents, and a few sharp folds across."""
    light = 0.86 + 0.18 * _soft_field(image.size, dice, cells=9)
    rows, columns = np.mgrid[0 : image.height, 0 : image.width].astype(np.float32)
    for _ in range(5):
        angle = float(dice.uniform(-0.5, 0.5)) + (np.pi / 2 if dice.random() < 0.4 else 0)
        x, y = dice.uniform(0, image.width), dice.uniform(0, image.height)
        distance = (columns - x) * np.sin(angle) - (rows - y) * np.cos(angle)
        light += np.where(distance > 0, -0.13, 0.07) * np.exp(-np.abs(distance) / 7)
    return _lit(image, light.astype(np.float32))


def shade(image: Image.Image, dice: np.random.Generator) -> Image.Image:
    """The shadow of a hand: one side of a soft slanted edge is darker."""
    rows, columns = np.mgrid[0 : image.height, 0 : image.width].astype(np.float32)
    slope, edge = dice.uniform(-0.6, 0.6), dice.uniform(0.35, 0.65)
    distance = columns / image.width - edge + slope * (rows / image.height - 0.5)
    return _lit(image, (1.0 - 0.38 / (1.0 + np.exp(-distance * 14))).astype(np.float32))


def photograph(image: Image.Image, dice: np.random.Generator, *, tilt_degrees: float) -> Image.Image:
    """The paper on a table, seen by a phone: turned a little, with a border of table, warm light and sensor noise."""
    table_colour = _TABLES[int(dice.integers(len(_TABLES)))]
    border = image.width // 9
    sheet = Image.new("L", (image.width + 2 * border, image.height + 2 * border), 0)
    cover = Image.new("L", sheet.size, 0)
    sheet.paste(image, (border, border))
    cover.paste(255, (border, border, border + image.width, border + image.height))
    sheet = sheet.rotate(tilt_degrees, Image.Resampling.BICUBIC, expand=True)
    cover = cover.rotate(tilt_degrees, Image.Resampling.BILINEAR, expand=True)
    grain = 0.85 + 0.3 * _soft_field(sheet.size, dice, cells=12, stretch=6)
    table = np.asarray(table_colour, dtype=np.float32)[None, None, :] * grain[:, :, None]
    shadow = np.asarray(cover.transform(cover.size, Image.Transform.AFFINE, (1, 0, -9, 0, 1, -12)), dtype=np.float32)
    table *= (1.0 - 0.45 * shadow / 255.0)[:, :, None]
    paper = np.asarray(sheet, dtype=np.float32)[:, :, None] * np.asarray((1.0, 0.985, 0.95), dtype=np.float32)
    part = (np.asarray(cover, dtype=np.float32) / 255.0)[:, :, None]
    seen = table * (1.0 - part) + paper * part
    seen += dice.normal(0.0, 3.0, size=sheet.size[::-1]).astype(np.float32)[:, :, None]
    return Image.fromarray(np.clip(seen, 0, 255).astype(np.uint8), "RGB")


_TABLES = ((118.0, 86.0, 62.0), (92.0, 98.0, 104.0), (150.0, 134.0, 112.0), (64.0, 74.0, 70.0))


def _lit(image: Image.Image, light: Light) -> Image.Image:
    return Image.fromarray(np.clip(np.asarray(image, dtype=np.float32) * light, 0, 255).astype(np.uint8), "L")


def _soft_field(size: tuple[int, int], dice: np.random.Generator, *, cells: int, stretch: int = 1) -> Light:
    """Random values 0..1 that change slowly over the picture; `stretch` makes them long in x, as the grain of wood."""
    width, height = size
    coarse = dice.random((max(2, cells * height // width), max(2, cells // stretch))).astype(np.float32)
    # Resized as 8 bit: a float picture would need no less work, and this is the same on every machine.
    image = Image.fromarray((coarse * 255).astype(np.uint8), "L").resize(size, Image.Resampling.BICUBIC)
    return np.asarray(image, dtype=np.float32) / 255.0
