"""What an OCR engine is. The implementations stand beside this file; one suite of tests runs over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from headrace.documents.text import Box

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]
else:
    Pixels = Any


TRUNCATED_IMAGE = "truncated image: the lower part is missing"
"""The one warning that makes a document partial."""


@dataclass(frozen=True, slots=True, eq=False)
class PageImage:
    """One upright page, ready to be recognised.

    Attributes:
        number: the page, from 1.
        pixels: 8 bit, height x width (gray) or height x width x 3 (RGB); paper is light. Read only by agreement.
        width_px: width of the upright page as it was handed in; `pixels` may be a reduced copy of it.
        height_px: height, the same way.
        warnings: what was odd but did not stop decoding, in words for a person (`truncated image`).
        orientation: what the file's EXIF said, and `pixels` were turned by already; 1 when it said nothing.
    """

    number: int
    pixels: Pixels
    width_px: int
    height_px: int
    warnings: tuple[str, ...] = ()
    orientation: int = 1


class Effort(StrEnum):
    """How hard an engine looks at a page. Models are the same and loaded once; memory has the same bound.

    `THOROUGH` is for pages on which `USUAL` found too little: RapidOCR shows them to its detector about 1.5 times as
    large (small pages are enlarged for it), which costs two to three times the CPU. Engines that know only one way
    read as usual.
    """

    USUAL = "usual"
    THOROUGH = "thorough"


class Engine(Protocol):
    """Finds the text on one page. One engine per process, used by one thread at a time; loaded once, used often."""

    @property
    def name(self) -> str:
        """The name it is chosen by: `rapidocr`, `rapidocr-plain`, `tesseract`, `null`."""

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models it reads with, as recorded in `processing.models`."""

    @property
    def needs_pages(self) -> bool:
        """False when the engine would not look at a page, so that none has to be decoded."""

    def recognise(self, image: PageImage, effort: Effort = Effort.USUAL) -> tuple[Box, ...]:
        """The runs of text on the page, in any order, geometry in 0..1 of `image.pixels`.

        The same page and effort give the same boxes. Tall pages come in bands, cut by the caller.

        Raises:
            EngineError: the engine failed on this page.
        """

    def close(self) -> None:
        """Frees models and native memory. Closing twice is allowed; recognising afterwards is not."""
