"""Receipts drawn for the tests: no fonts, no files, nothing but Pillow's built-in typeface."""

from __future__ import annotations

import io
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

LINES = (
    "CORNER SHOP LTD",
    "12 MAIN STREET",
    "DATE 04/03/2025",
    "GREEN TEA 3.20",
    "DARK BREAD 4.55",
    "TOTAL 7.75",
    "THANK YOU",
)
PAPER_PX = 520


def draw_receipt(lines: Sequence[str] = LINES, *, width: int = PAPER_PX, letter_px: int = 34) -> Image.Image:
    """A gray receipt; words that look like amounts stand at the right edge."""
    font = ImageFont.load_default(letter_px)
    step = round(letter_px * 1.7)
    paper = Image.new("L", (width, step * (len(lines) + 2)), 255)
    pen = ImageDraw.Draw(paper)
    for row, line in enumerate(lines):
        words, _, last = line.rpartition(" ")
        y = step * (row + 1)
        if "." in last:
            pen.text((30, y), words, fill=0, font=font)
            pen.text((width - 30, y), last, fill=0, font=font, anchor="ra")
        else:
            pen.text((30, y), line, fill=0, font=font)
    return paper


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    """The image as the bytes of a file."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def exif_with_orientation(value: int) -> Image.Exif:
    """An EXIF block that says nothing but the orientation."""
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


# How the stored pixels have to be turned so that the tag turns them back (TIFF 6.0, tag 274).
STORED_AS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


def stored_with_orientation(upright: Image.Image, value: int) -> Image.Image:
    """The image as a camera stores it when it writes this orientation."""
    turn = STORED_AS[value]
    return upright if turn is None else upright.transpose(turn)
