"""One page of a document as a picture file for people: upright, at the size at which it is recognised, and unrestored.

Decodes what strangers handed in: to be called in a worker process.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from PIL import Image

from headrace.documents.errors import DocumentError, ImageTooLarge
from headrace.ocr import media
from headrace.ocr.engine import PageImage, Pixels
from headrace.ocr.limits import ReadLimits
from headrace.ocr.orientation import CLOCKWISE_DEGREES
from headrace.ocr.pages import open_pages
from headrace.ocr.upright import turned

MEDIA_TYPE = "image/jpeg"
_QUALITY = 85
_MAX_SIDE_PX = 65_500  # of a JPEG


@dataclass(frozen=True, slots=True)
class Picture:
    """What was written.

    Attributes:
        page_count: how many pages the document has.
        size_bytes: of the file; 0 when there is no such page, and no file then.
    """

    page_count: int
    size_bytes: int


def write_picture(
    source: bytes | str, number: int, target: bytes | str, limits: ReadLimits, rotation: int | None = None
) -> Picture:
    """Writes a page as JPEG, complete or not at all.

    Args:
        source: the document.
        number: the page, from 1; one that there is not is no error.
        target: where to; what is there is replaced.
        limits: of the document.
        rotation: by how many degrees clockwise the stored page has to be turned, as `PageReading.rotation_applied`
            says; None when that is not known: then by what its file says, and no more.

    Raises:
        DocumentError: the document cannot be opened, or this page not be decoded.
        OSError: the picture cannot be written.
    """
    with media.open_source(source) as file:
        kind = media.require_media_type(file.read(media.HEAD_BYTES))
        file.seek(0)
        with open_pages(file, kind, limits) as pages:
            count = pages.count
            if not 1 <= number <= count:
                return Picture(count, 0)
            page = pages.read(number, text_layer=False)
    if isinstance(page, DocumentError):
        raise page
    assert isinstance(page, PageImage)  # as it was asked for
    if rotation is not None:
        page = turned(page, (rotation - CLOCKWISE_DEGREES[page.orientation]) % 360)
    return Picture(count, _write(page.pixels, number, os.fsencode(target)))


def _write(pixels: Pixels, number: int, target: bytes) -> int:
    height, width = pixels.shape[:2]
    if max(height, width) > _MAX_SIDE_PX:
        raise ImageTooLarge(f"{width} x {height}: a picture has at most {_MAX_SIDE_PX} pixels a side", page=number)
    part = target + b".part"
    try:
        Image.fromarray(pixels).save(os.fsdecode(part), "JPEG", quality=_QUALITY)
        size_bytes = os.stat(part).st_size
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    return size_bytes
