"""Letters for drawn receipts: Pillow's bundled font, and the marks and currency signs that it lacks.

The bundled font (Aileron) has ASCII only. No font file is shipped with headrace, so that a machine without fonts draws
the same receipts; accents and currency signs are put together from a base letter and a few strokes.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

# Signs that are a base letter with strokes through it.
_STRUCK = {"€": "C", "£": "L", "¥": "Y", "ł": "l", "Ł": "L"}
_BOLD = 0.8  # pixels by which bold letters are wider, on each side


@dataclass(frozen=True, slots=True)
class Face:
    """How the one font is made to look like several.

    Attributes:
        width: horizontal scale; 0.85 is the narrow print of till rolls.
        weight: pixels by which letters are wider on each side; bold adds `_BOLD` more.
        capitals: whether the printer knows capitals only.
    """

    width: float = 1.0
    weight: float = 0
    capitals: bool = False

    def spell(self, text: str) -> str:
        """The text as this printer prints it."""
        return text.upper() if self.capitals else text


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise RuntimeError(
            "this Pillow was built without FreeType; install the Pillow wheel from PyPI to draw receipts"
        )
    return font


def length_px(text: str, size: int, face: Face, *, bold: bool = False) -> int:
    """How wide the text will be drawn."""
    stroke = face.weight + (_BOLD if bold else 0)
    return round((_font(size).getlength(_base(face.spell(text))) + 2 * stroke) * face.width)


def strip(text: str, size: int, face: Face, *, bold: bool = False) -> Image.Image:
    """The text as an `L` mask, `length_px` wide and 1.5 x `size` high; 255 is ink. The baseline is at 1.1 x `size`."""
    text = unicodedata.normalize("NFC", face.spell(text))
    font, stroke = _font(size), face.weight + (_BOLD if bold else 0)
    mask = Image.new("L", (max(1, round(font.getlength(_base(text)) + 2 * stroke)), round(size * 1.5)), 0)
    pen = ImageDraw.Draw(mask)
    baseline = round(size * 1.1)
    # Bold is struck twice, a little apart: an outline around the letters would close the dots of i and j.
    for left in (0.0, stroke, 2 * stroke) if stroke else (0.0,):
        pen.text((left, baseline), _base(text), font=font, fill=255, anchor="ls")
    for at, char in enumerate(text):
        if not char.isascii():
            left = stroke + font.getlength(_base(text[:at]))
            _add_strokes(pen, char, left, baseline, size, stroke)
    if face.width != 1.0:
        mask = mask.resize((max(1, round(mask.width * face.width)), mask.height), Image.Resampling.BILINEAR)
    return mask


def _base(text: str) -> str:
    """The text with every letter replaced by the ASCII letter that it is built on: one for one, so widths hold."""
    return "".join(_base_letter(char) for char in text)


def _base_letter(char: str) -> str:
    if char.isascii():
        return char
    if char in _STRUCK:
        return _STRUCK[char]
    letter = unicodedata.normalize("NFD", char)[0]
    if not letter.isascii():
        raise ValueError(f"no strokes are known for {char!r}; add it to _STRUCK or print another word")
    return letter


def _add_strokes(pen: ImageDraw.ImageDraw, char: str, left: float, baseline: int, size: int, stroke: float) -> None:
    font, letter = _font(size), _base_letter(char)
    x0, top, x1, bottom = font.getbbox(letter, anchor="ls")
    x0, x1, top, bottom = left + x0, left + x1, baseline + top, baseline + bottom
    middle, height, line = (x0 + x1) / 2, bottom - top, max(2, round(size / 14 + stroke))
    if char == "€":
        for part in (0.42, 0.60):
            pen.line((x0 - size * 0.08, top + height * part, middle + size * 0.12, top + height * part), 255, line)
    elif char == "£":
        pen.line((x0 - size * 0.08, top + height * 0.52, middle + size * 0.08, top + height * 0.52), 255, line)
        pen.arc((x0, top - 1, x1, top + height * 0.62), 180, 345, 255, line)
    elif char == "¥":
        for part in (0.55, 0.75):
            pen.line((x0 + size * 0.06, top + height * part, x1 - size * 0.06, top + height * part), 255, line)
    elif char in "łŁ":
        reach, rise = size * 0.13, height * 0.10
        x = middle if char == "ł" else x0 + size * 0.06
        pen.line((x - reach, top + height * 0.55 + rise, x + reach, top + height * 0.55 - rise), 255, line)
    else:
        mark = unicodedata.normalize("NFD", char)[1]
        _add_mark(pen, mark, middle, top, bottom, size, line)


def _add_mark(pen: ImageDraw.ImageDraw, mark: str, x: float, top: float, bottom: float, size: int, line: int) -> None:
    a, y = size * 0.11, top - size * 0.06  # half the width of a mark, and its lower edge
    if mark == "\N{COMBINING ACUTE ACCENT}":
        pen.line((x - a * 0.4, y, x + a * 0.8, y - a * 1.3), 255, line)
    elif mark == "\N{COMBINING GRAVE ACCENT}":
        pen.line((x + a * 0.4, y, x - a * 0.8, y - a * 1.3), 255, line)
    elif mark == "\N{COMBINING CIRCUMFLEX ACCENT}":
        pen.line((x - a, y, x, y - a * 1.2, x + a, y), 255, line)
    elif mark == "\N{COMBINING CARON}":
        pen.line((x - a, y - a * 1.2, x, y, x + a, y - a * 1.2), 255, line)
    elif mark == "\N{COMBINING TILDE}":
        pen.line((x - a, y, x - a * 0.4, y - a * 0.7, x + a * 0.4, y - a * 0.2, x + a, y - a * 0.9), 255, line)
    elif mark in ("\N{COMBINING DIAERESIS}", "\N{COMBINING DOT ABOVE}"):
        for centre in (x - a, x + a) if mark == "\N{COMBINING DIAERESIS}" else (x,):
            r = line * 0.62
            pen.ellipse((centre - r, y - a * 0.6 - r, centre + r, y - a * 0.6 + r), 255)
    elif mark == "\N{COMBINING RING ABOVE}":
        pen.ellipse((x - a * 0.8, y - a * 1.4, x + a * 0.8, y + a * 0.2), outline=255, width=max(2, line - 1))
    elif mark in ("\N{COMBINING CEDILLA}", "\N{COMBINING OGONEK}"):
        x = x if mark == "\N{COMBINING CEDILLA}" else x + a
        pen.arc((x - a * 0.7, bottom - line, x + a * 0.7, bottom + a * 1.5), 270, 90, 255, line)
    else:
        raise ValueError(f"no stroke is known for the mark {unicodedata.name(mark)}")
