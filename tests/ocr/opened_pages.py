"""Opening a document the way `read_document` does, and comparing what comes out with what was drawn."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from headrace.documents.errors import DocumentError
from headrace.ocr import media
from headrace.ocr.engine import PageImage
from headrace.ocr.limits import ReadLimits
from headrace.ocr.pages import Page, open_pages


def read_pages(content: bytes, limits: ReadLimits | None = None) -> list[Page]:
    file = io.BytesIO(content)
    kind = media.require_media_type(content[: media.HEAD_BYTES])
    with open_pages(file, kind, limits or ReadLimits()) as pages:
        found = list(pages)
        assert pages.count == len(found)
    return found


def read_image(content: bytes, limits: ReadLimits | None = None) -> PageImage:
    (page,) = read_pages(content, limits)
    if isinstance(page, DocumentError):
        raise page
    assert isinstance(page, PageImage)
    return page


def ink(pixels: np.ndarray) -> np.ndarray:
    gray = pixels if pixels.ndim == 2 else pixels.mean(2)
    return gray < 128


def assert_same_page(page: PageImage, expected: Image.Image, *, share: float = 0.001) -> None:
    """The same ink in the same places, but for what a lossy format does to edges."""
    assert page.pixels.dtype == np.uint8
    assert page.pixels.shape[:2] == (expected.height, expected.width)
    assert (ink(page.pixels) != ink(np.asarray(expected.convert("L")))).mean() <= share
