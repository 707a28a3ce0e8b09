"""Thumbnails for the report: a page of a source file, upright, small, as a JPEG in base64. One in memory at a time."""

from __future__ import annotations

import base64
import hashlib
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from PIL import Image

from headrace.documents.document import Document
from headrace.documents.errors import DocumentError
from headrace.documents.text import PageText
from headrace.ocr import media
from headrace.ocr.engine import PageImage
from headrace.ocr.images import broken_content
from headrace.ocr.limits import ReadLimits, check_size
from headrace.ocr.orientation import CLOCKWISE_DEGREES
from headrace.ocr.pages import open_pages
from headrace.ocr.upright import turned
from headrace.storage.blobs import blob_path

WIDTH_PX = 320
_TALLEST = 4.0  # height over width that is kept; a slip of five metres would be one grey line
_QUALITY = 68
# Smaller than what a worker may take: this runs in the process that writes the report.
_LIMITS = ReadLimits(max_pixels=60_000_000, max_bytes=250_000_000, max_pages=200)
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A small picture of one page.

    Attributes:
        jpeg: base64.
        width, height: in pixels.
        shown: the part of the page's height that is in it, from the top; 1.0 for all.
    """

    jpeg: str
    width: int
    height: int
    shown: float = 1.0


def source_path(document: Document, blobs: Path) -> Path:
    """Where the bytes of a document are: its file, or the blob that was kept of an archive member."""
    name = document.path.decode("ascii", "replace")
    if document.kind != "file" and len(name) == 64 and all(char in "0123456789abcdef" for char in name):
        return blob_path(blobs, name)
    return Path(document.path.decode("utf-8", "surrogateescape"))


def thumbnail(path: Path, sha256: str | None, page: int, rotation: int | None = None) -> Thumbnail | str:
    """A picture of one page, or in words why there is none. Raises nothing for a bad file.

    The file has to be the one that was read: a picture of other bytes would be false evidence. Only give it documents
    that were read well: one that killed its worker would kill the report.

    Args:
        path: the source.
        sha256: hex digest of what was read; None when nobody could.
        page: from 1.
        rotation: degrees by which the stored page was turned clockwise to be read, so that the picture stands as the
            geometry does; None turns it by its EXIF orientation only.
    """
    try:
        with media.open_source(bytes(path)) as file:
            if sha256 is None or _digest(file) != sha256:
                return "the file has changed since it was read"
            kind = media.require_media_type(file.read(media.HEAD_BYTES))
            file.seek(0)
            return _small(_picture(file, kind, page, rotation))
    except DocumentError as error:
        return error.detail
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
    file.seek(0)
    return digest.hexdigest()


def _picture(file: BinaryIO, kind: str, wanted: int, rotation: int | None) -> Image.Image:
    with open_pages(file, kind, _LIMITS) as pages:
        page = pages.read(wanted)
        if isinstance(page, PageImage):
            more = 0 if rotation is None else (rotation - CLOCKWISE_DEGREES[page.orientation]) % 360
            return Image.fromarray(turned(page, more).pixels)
        if not isinstance(page, PageText):
            raise page
    return _rendered(file, wanted)


def _rendered(file: BinaryIO, number: int) -> Image.Image:
    """A PDF page that has its own text: nobody rendered it to read it."""
    import pypdfium2
    import pypdfium2.raw as pdfium

    file.seek(0)
    with broken_content("PDF page", number), closing(pypdfium2.PdfDocument(file)) as document:
        page = document[number - 1]
        for image in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE]):
            width, height = image.get_px_size()
            check_size(_LIMITS, width, height, 4, page=number)
        width_pt, height_pt = page.get_size()
        scale = 2 * WIDTH_PX / max(1.0, width_pt)  # twice the size: the reduction smooths it
        check_size(_LIMITS, int(width_pt * scale), int(height_pt * scale), 2, page=number)
        picture: Image.Image = page.render(scale=scale, grayscale=True, limit_image_cache=True).to_pil()
        return picture


def _small(image: Image.Image) -> Thumbnail:
    tallest = round(image.width * _TALLEST)
    shown = min(1.0, tallest / image.height)
    if shown < 1.0:
        image = image.crop((0, 0, image.width, tallest))
    if image.width > WIDTH_PX:
        image = image.resize(
            (WIDTH_PX, max(1, round(image.height * WIDTH_PX / image.width))), Image.Resampling.LANCZOS, reducing_gap=2.0
        )
    out = BytesIO()
    image.save(out, "JPEG", quality=_QUALITY, optimize=True)
    return Thumbnail(base64.b64encode(out.getvalue()).decode(), image.width, image.height, shown)
