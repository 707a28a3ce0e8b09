"""The pages of a PDF: their own text where there is enough of it, else rendered in gray for recognition.

pdfium must not be called from two threads at once; a worker process reads one document at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pypdfium2
import pypdfium2.raw as pdfium

from headrace.documents.errors import CorruptDocument, DocumentError, EncryptedDocument, TooManyPages
from headrace.documents.text import PageText
from headrace.ocr.engine import PageImage
from headrace.ocr.images import broken_content
from headrace.ocr.limits import WORKING_SHORT_SIDE_PX, ReadLimits, check_size
from headrace.ocr.pdf_text import read_text_layer

_POINTS_PER_INCH = 72
_DPI, _SMALL_PAGE_DPI = 200, 300
_SMALL_PAGE_PX = 1000  # a slip of 80 mm is 630 px wide at 200 dpi: its print is small, so it is rendered finer
_MAX_RENDER_PIXELS = 60_000_000
_IMAGE_DEPTH = 15  # how deep images are looked for in nested forms
_BYTES_PER_IMAGE_PIXEL = 4  # pdfium decodes to 1, 3 or 4 bytes; the worst is assumed


@contextmanager
def open_pdf(file: BinaryIO, limits: ReadLimits) -> Iterator[PdfPages]:
    """Opens a PDF that needs no password; an owner password alone forbids nothing that is done here.

    Raises:
        EncryptedDocument: it opens only with a password, or with a security handler that is not known.
        CorruptDocument: it is not readable as a PDF.
        TooManyPages: more than the limit.
    """
    try:
        document = pypdfium2.PdfDocument(file)
    except pypdfium2.PdfiumError as error:
        if error.err_code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY):
            raise EncryptedDocument("the PDF needs a password; hand in a copy without one") from error
        raise CorruptDocument(f"broken PDF: {error}") from error
    try:
        yield PdfPages(document, limits)
    finally:
        document.close()


class PdfPages:
    """The pages of an open PDF."""

    def __init__(self, document: Any, limits: ReadLimits) -> None:
        self._document = document
        self._limits = limits
        self.count: int = len(document)
        if self.count > limits.max_pages:
            raise TooManyPages(f"{self.count} pages, the limit is {limits.max_pages}")
        if self.count < 1:
            raise CorruptDocument("the PDF has no pages")

    def __iter__(self) -> Iterator[PageImage | PageText | DocumentError]:
        return map(self.read, range(1, self.count + 1))

    def read(self, number: int, *, text_layer: bool = True) -> PageImage | PageText | DocumentError:
        """Reads the text of one page, or renders it; see `Pages.read`."""
        try:
            with broken_content("PDF page", number):
                return self._read(number, text_layer)
        except DocumentError as error:
            return error

    def _read(self, number: int, text_layer: bool) -> PageImage | PageText:
        page = self._document[number - 1]
        try:
            text = read_text_layer(page, number) if text_layer else None
            return text if text is not None else self._render(page, number)
        finally:
            page.close()

    def _render(self, page: Any, number: int) -> PageImage:
        self._check_images(page, number)
        width_pt, height_pt = page.get_size()
        scale = render_scale(width_pt, height_pt)
        check_size(self._limits, math.ceil(width_pt * scale), math.ceil(height_pt * scale), 2, page=number)
        # Gray with smooth edges: nine-point print falls apart in a 1-bit raster (ocrmypdf/OCRmyPDF#1439).
        bitmap = page.render(scale=scale, grayscale=True, limit_image_cache=True)
        try:
            pixels = bitmap.to_numpy().reshape(bitmap.height, -1)[:, : bitmap.width].copy()
        finally:
            bitmap.close()
        return PageImage(number, pixels, pixels.shape[1], pixels.shape[0])

    def _check_images(self, page: Any, number: int) -> None:
        """A page of any size may hold an image of any size, and rendering decodes it in full."""
        for image in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=_IMAGE_DEPTH):
            width, height = image.get_px_size()
            check_size(self._limits, width, height, _BYTES_PER_IMAGE_PIXEL, page=number)


def render_scale(width_pt: float, height_pt: float) -> float:
    """Pixels per point for a page of this size: 200 dpi, finer for narrow slips, coarser for posters."""
    if width_pt <= 0 or height_pt <= 0:
        raise CorruptDocument(f"a PDF page of {width_pt} x {height_pt} points")
    short_pt = min(width_pt, height_pt)
    dpi = _DPI if short_pt * _DPI / _POINTS_PER_INCH >= _SMALL_PAGE_PX else _SMALL_PAGE_DPI
    return min(
        dpi / _POINTS_PER_INCH,
        WORKING_SHORT_SIDE_PX / short_pt,
        math.sqrt(_MAX_RENDER_PIXELS / (width_pt * height_pt)),
    )
