"""Finishes: the last step from paper to file. Each is a way in which receipts reach an office, worn and encoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from random import Random

import numpy as np
import pillow_heif
from PIL import ExifTags, Image

from headrace.simulation.paper import Paper
from headrace.simulation.pdf import Lock, scan_pdf, text_pdf
from headrace.simulation.wear import crumple, fade, photograph, shade

# EXIF orientation -> what was done to the upright pixels so that the tag undoes it.
_UNDONE_BY = {
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
    8: Image.Transpose.ROTATE_270,
}


@dataclass(frozen=True, slots=True)
class Finish:
    """A file format with what happened to the paper before; `make` gives the bytes of the file."""

    name: str
    suffix: str
    make: Callable[[Paper, Random, np.random.Generator], bytes]


def jpeg(image: Image.Image, *, quality: int, orientation: int = 1, maker_note_bytes: int = 0) -> bytes:
    """A baseline JPEG as a phone writes it.

    Args:
        image: upright.
        quality: of the JPEG.
        orientation: EXIF tag; the pixels are turned so that the tag makes them upright again.
        maker_note_bytes: size of the block that phones put before the picture.
    """
    exif = Image.Exif()
    exif[ExifTags.Base.Make] = "Headrace"
    exif[ExifTags.Base.Orientation] = orientation
    if maker_note_bytes:
        exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.MakerNote] = bytes(maker_note_bytes)
    if orientation != 1:
        image = image.transpose(_UNDONE_BY[orientation])
    out = BytesIO()
    image.save(out, "JPEG", quality=quality, exif=exif)
    return out.getvalue()


def _encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    out = BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def _phone(paper: Paper, dice: Random, noise: np.random.Generator) -> Image.Image:
    return photograph(shade(paper.draw(), noise), noise, tilt_degrees=_tilt(dice, 1.0, 2.5))


def _tilt(dice: Random, least: float, most: float) -> float:
    return dice.choice((-1, 1)) * dice.uniform(least, most)


def _phone_photo(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    return jpeg(_phone(paper, dice, noise), quality=84)


def _clean_png(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    return _encoded(paper.draw(), "PNG")


def _faded(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    return jpeg(fade(paper.draw(), noise), quality=85)


def _sideways(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    return jpeg(_phone(paper, dice, noise), quality=82, orientation=dice.choice((3, 6, 8)))


def _e_receipt(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    return text_pdf(paper)


def _crumpled(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    return jpeg(crumple(paper.draw(), noise), quality=78)


def _webp(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    return _encoded(_phone(paper, dice, noise), "WEBP", quality=80, method=2)


def _scan(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    pages = paper.pages(paper.draw())
    turned = [p.rotate(_tilt(dice, 0.2, 0.9), Image.Resampling.BICUBIC, fillcolor=250) for p in pages]
    return scan_pdf(turned)


def _heic(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    out = BytesIO()
    pillow_heif.from_pillow(_phone(paper, dice, noise)).save(out, quality=70)
    return out.getvalue()


def _low_quality(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    return jpeg(shade(paper.draw(), noise), quality=30)


def _fax(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    """A TIFF of 1-bit pages with an empty one after the first, as a sheet feeder gives it."""
    pages = [page.convert("1", dither=Image.Dither.NONE) for page in paper.pages(paper.draw())]
    if len(pages) > 1:
        pages.insert(1, Image.new("1", pages[0].size, 1))
    return _encoded(pages[0], "TIFF", save_all=True, append_images=pages[1:], compression="group4", dpi=(200, 200))


def _steep(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    return jpeg(photograph(crumple(paper.draw(), noise), noise, tilt_degrees=_tilt(dice, 3.0, 4.0)), quality=80)


def _owner_locked(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    return text_pdf(paper, Lock(user="", owner="till-47"))


FINISHES: tuple[Finish, ...] = (
    Finish("phone photo", ".jpg", _phone_photo),
    Finish("clean", ".png", _clean_png),
    Finish("thermal fading", ".jpg", _faded),
    Finish("phone photo sideways (EXIF)", ".jpg", _sideways),
    Finish("text layer", ".pdf", _e_receipt),
    Finish("crumpled", ".jpg", _crumpled),
    Finish("phone photo", ".webp", _webp),
    Finish("scan", ".pdf", _scan),
    Finish("phone photo", ".heic", _heic),
    Finish("JPEG quality 30", ".jpg", _low_quality),
    Finish("fax", ".tiff", _fax),
    Finish("crumpled phone photo, tilted 4 degrees", ".jpg", _steep),
    Finish("text layer, owner password", ".pdf", _owner_locked),
)
# A sheet with two pages is worth drawing as files that have pages.
SHEET_FINISHES: tuple[Finish, ...] = (FINISHES[10], FINISHES[4], FINISHES[7], FINISHES[0], FINISHES[12], FINISHES[1])
