"""The pages of a document, one in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Protocol

from PIL import Image

from headrace.documents.errors import CorruptDocument, DocumentError, TooManyPages
from headrace.documents.text import PageText
from headrace.ocr import media
from headrace.ocr.engine import PageImage
from headrace.ocr.images import broken_content, decode, open_image
from headrace.ocr.limits import ReadLimits

Page = PageImage | PageText | DocumentError
"""A page to recognise, a page whose text needs no recognition, or why this page cannot be read."""


class Pages(Protocol):
    """The pages of one open document; iterate once, or read the pages that are wanted, in order, each once."""

    @property
    def count(self) -> int:
        """How many pages there are, known before the first is decoded."""

    def __iter__(self) -> Iterator[Page]:
        """Decodes page after page, when asked for the next. A broken page is an item, and the rest follows."""

    def read(self, number: int, *, text_layer: bool = True) -> Page:
        """Decodes one page, counted from 1; without `text_layer`, a picture of it also where it has text of its own."""


@contextmanager
def open_pages(file: BinaryIO, kind: str, limits: ReadLimits) -> Iterator[Pages]:
    """Opens a document and counts its pages; decodes nothing yet.

    Args:
        file: at its start, seekable, open as long as the pages are used.
        kind: the media type, as `media.require_media_type` found it.
        limits: the limits of the document.

    Raises:
        CorruptDocument: it cannot be opened.
        EncryptedDocument: it needs a password.
        TooManyPages: more than the limit.
        UnsupportedMediaType: the codec is missing here.
    """
    if kind == media.PDF:
        from headrace.ocr.pdf import open_pdf  # pdfium is loaded only where there is a PDF

        with open_pdf(file, limits) as pdf:
            yield pdf
        return
    image = open_image(file, kind)
    try:
        yield ImagePages(image, kind, limits)
    finally:
        image.close()


class ImagePages:
    """The frames of an image file: all of a TIFF, the first of everything else (an animation is one picture)."""

    def __init__(self, image: Image.Image, kind: str, limits: ReadLimits) -> None:
        self._image = image
        self._kind = kind
        self._limits = limits
        self.count = self._count_frames() if kind == media.TIFF else 1

    def __iter__(self) -> Iterator[Page]:
        return map(self.read, range(1, self.count + 1))

    def read(self, number: int, *, text_layer: bool = True) -> Page:
        """Decodes one frame; see `Pages.read`."""
        try:
            if self.count > 1:
                with broken_content(self._kind, number):
                    self._image.seek(number - 1)
            page: Page = decode(self._image, self._kind, self._limits, page=number)
        except DocumentError as error:
            page = error
        if self.count == 1:
            self._image.close()  # the decoder's own copy of the pixels, while the page is being recognised
        return page

    def _count_frames(self) -> int:
        """Walks the directories, not the pixels. A broken one is counted: it becomes a page failure later."""
        for frame in range(1, self._limits.max_pages + 1):
            try:
                self._image.seek(frame)
            except EOFError:
                self._image.seek(0)
                return frame
            except Exception as error:  # an unknown pixel layout ends the page; a broken directory ends the file
                if isinstance(error, (SyntaxError, KeyError)):
                    continue
                raise CorruptDocument(f"broken {self._kind}, page {frame + 1}: {error}") from error
        raise TooManyPages(f"more than {self._limits.max_pages} pages")
