"""How much one document may ask for. Sizes are judged here and nowhere else: from headers, before decoding."""

from __future__ import annotations

import math
from dataclasses import dataclass

from headrace.documents.errors import ImageTooLarge

DECODED_BYTES_PER_PIXEL = 4
"""Of the largest page: gray, colour as Pillow keeps it, or a JPEG that is decoded smaller; with alpha, fewer pixels."""

WORKING_SHORT_SIDE_PX = 2500
"""Pages are reduced while decoding until the short side is about this: A4 at 300 dpi; receipts need no more."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits of one document. None of them can be switched off; raise the number instead.

    Attributes:
        max_pixels: of one page, as its header says, before reduction. A4 at 1200 dpi has 139 million.
        max_bytes: estimated memory to decode one page, with what JPEG saves by decoding at reduced size counted in.
            None takes `DECODED_BYTES_PER_PIXEL` for each of `max_pixels`.
        max_pages: of one document.
        page_timeout_s: seconds for one page, decoding and recognition. It is looked at where Python is in charge: after
            decoding, and after each band of a tall page. Native code is never interrupted: that is the parent's
            deadline, which kills the worker.
        document_timeout_s: seconds for the document; pages not begun by then become page failures and the rest is
            kept. Choose it a little shorter than the parent's deadline, or the kill comes first and takes all pages.
    """

    max_pixels: int = 120_000_000
    max_bytes: int | None = None
    max_pages: int = 200
    page_timeout_s: float = 60.0
    document_timeout_s: float = math.inf

    def __post_init__(self) -> None:
        for name in ("max_pixels", "max_bytes", "max_pages"):
            value = getattr(self, name)
            if value is None and name == "max_bytes":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number from 1, not {value!r}")
        for name in ("page_timeout_s", "document_timeout_s"):
            if not getattr(self, name) > 0:  # also refuses NaN; 0 would mean "fail everything"
                raise ValueError(f"{name} must be more than 0 seconds, not {getattr(self, name)!r}")

    @property
    def page_bytes(self) -> int:
        """What decoding one page may take."""
        return self.max_bytes or self.max_pixels * DECODED_BYTES_PER_PIXEL


def check_size(limits: ReadLimits, width: int, height: int, bytes_per_pixel: float, *, page: int) -> None:
    """The one place that decides whether a page is too large.

    Args:
        limits: the limits of the document.
        width: pixels, as the header says.
        height: pixels, as the header says.
        bytes_per_pixel: what the decoder will need for one pixel of that size.
        page: the page's number, for the error.

    Raises:
        ImageTooLarge: with the limit and the actual size in its detail.
    """
    pixels = width * height
    if pixels > limits.max_pixels:
        raise ImageTooLarge(
            f"{width} x {height} is {pixels:,} pixels, the limit is {limits.max_pixels:,}; scan at a lower resolution",
            page=page,
        )
    needed = int(pixels * bytes_per_pixel)
    if needed > limits.page_bytes:
        raise ImageTooLarge(
            f"{width} x {height} needs about {needed:,} bytes to decode, the limit is {limits.page_bytes:,}; "
            "scan at a lower resolution or in gray",
            page=page,
        )


def reduction(width: int, height: int) -> int:
    """By which whole number a page of this size is divided so that its short side is near the working size."""
    return max(1, round(min(width, height) / WORKING_SHORT_SIDE_PX))
