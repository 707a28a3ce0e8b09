"""Decoding single images: any mode becomes 8-bit gray or RGB on white paper, upright, reduced to the working size.

Pillow's plugins are called directly, by the kind found in the content. `Image.open` would judge sizes by a process-wide
limit, and its registry is shared with the host program; nothing here changes or depends on either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
from PIL import Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from headrace.documents.errors import CorruptDocument, DocumentError, ImageTooLarge, UnsupportedMediaType
from headrace.ocr import media
from headrace.ocr.engine import TRUNCATED_IMAGE, PageImage, Pixels
from headrace.ocr.limits import ReadLimits, check_size, reduction
from headrace.ocr.orientation import UPRIGHT, read_orientation, swaps_sides, turn_upright

# Bytes of memory per pixel: Pillow's own, and those of the copy that the conversion to gray or RGB makes.
_BYTES_PER_PIXEL = {"1": 2, "L": 1, "P": 5, "LA": 11, "PA": 11, "I;16": 4, "I;16B": 4, "I;16L": 4, "I": 8, "F": 8}
_BYTES_PER_PIXEL |= {"RGB": 4, "RGBA": 9, "RGBX": 8, "CMYK": 8, "YCbCr": 8, "LAB": 8, "HSV": 8}
_JPEG_DRAFT_SCALES = (8, 4, 2)
_ADDRESS = re.compile(r" (at )?0x[0-9a-f]{6,}")
_MAX_COLOUR_PIXELS = 16_000_000
_COPIED_ROWS = 256


class TiffImage(TiffImageFile):
    """A TIFF whose size was already judged: without Pillow's own, process-wide opinion of it."""

    def load_prepare(self) -> None:
        """Makes room for the page, as the parent does, minus the second size check."""
        if self._im is None:
            self.im = Image.core.new(  # type: ignore[attr-defined]
                self.mode, self._tile_size
            )
        super().load_prepare()


class EndedJpeg(JpegImageFile):
    """A JPEG that gives what there is when its data runs out, without Pillow's process-wide switch for that.

    Attributes:
        ended_early: True once the data ran out before the last pixel.
    """

    ended_early = False

    def load_read(self, read_bytes: int) -> bytes:
        """The next bytes of pixel data; once, in place of missing ones, a proper end of the image."""
        assert self.fp is not None
        data = self.fp.read(read_bytes)
        if not data and not self.ended_early:
            self.ended_early = True
            return b"\xff\xd9"
        return data


def _open_heic(file: BinaryIO) -> Image.Image:
    try:
        from pillow_heif.as_plugin import HeifImageFile
    except ImportError as error:
        raise UnsupportedMediaType("HEIC needs the package pillow-heif: pip install pillow-heif") from error
    opened: Image.Image = HeifImageFile(file)  # type: ignore[no-untyped-call]
    return opened


def _open_avif(file: BinaryIO) -> Image.Image:
    try:
        from PIL import _avif  # noqa: F401 - present only when this Pillow was built with AVIF
        from PIL.AvifImagePlugin import AvifImageFile
    except ImportError as error:
        raise UnsupportedMediaType("this Pillow was built without AVIF: install a wheel of Pillow >= 11.3") from error
    return AvifImageFile(file)


_OPENERS: dict[str, Callable[[BinaryIO], Image.Image]] = {
    media.JPEG: EndedJpeg,
    media.PNG: PngImageFile,
    media.WEBP: WebPImageFile,
    media.GIF: GifImageFile,
    media.BMP: BmpImageFile,
    media.TIFF: TiffImage,
    media.HEIC: _open_heic,
    media.AVIF: _open_avif,
}


@contextmanager
def broken_content(kind: str, page: int | None = None) -> Iterator[None]:
    """What a decoder raises inside becomes a `DocumentError`: decoders raise anything for broken files."""
    try:
        yield
    except (DocumentError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise ImageTooLarge(str(error), page=page) from error
    except Exception as error:
        # A decoder that names an object of its own names where that is in memory: another place on every run.
        said = _ADDRESS.sub("", str(error)) or type(error).__name__
        raise CorruptDocument(f"broken {kind}: {said}", page=page) from error


def open_image(file: BinaryIO, kind: str) -> Image.Image:
    """Reads the header of an image file; no pixel is decoded yet.

    Args:
        file: at its start; it has to stay open while the image is used.
        kind: the media type, as `media.media_type` found it.

    Raises:
        CorruptDocument: the header is broken.
        UnsupportedMediaType: the codec is missing here; the message says which package to install.
    """
    with broken_content(kind):
        return _OPENERS[kind](file)


def decode(image: Image.Image, kind: str, limits: ReadLimits, *, page: int) -> PageImage:
    """Decodes the current frame of an opened image.

    A truncated JPEG gives what there is, with a warning. HEIC is turned by its decoder, by the rule of its own
    container (`irot`); its EXIF orientation is a copy for old readers and is left alone.

    Raises:
        ImageTooLarge: by its header, before anything is decoded.
        CorruptDocument: it does not decode.
    """
    width, height = image.size
    _check_before_decoding(image, limits, page)
    with broken_content(kind, page):
        before, warnings = read_orientation(image)
        image.load()
        # After loading, because a TIFF is turned by Pillow while it loads and a PNG may say it after its pixels.
        orientation = read_orientation(image)[0]
        if kind == media.HEIC:
            before, orientation, warnings = UPRIGHT, UPRIGHT, ()
        pixels = to_pixels(image, reduction(*image.size), gray=_too_large_for_colour(width, height))
        if kind == media.TIFF:
            pixels, width, height = _square_pixels(image, pixels, width, height, turned=swaps_sides(before))
    if isinstance(image, EndedJpeg) and image.ended_early:
        warnings = (*warnings, TRUNCATED_IMAGE)
    if swaps_sides(orientation):
        width, height = height, width
    said = orientation if orientation != UPRIGHT else before  # of a TIFF, Pillow has forgotten it by now
    return PageImage(page, turn_upright(pixels, orientation), width, height, warnings, said)


def _check_before_decoding(image: Image.Image, limits: ReadLimits, page: int) -> None:
    width, height = image.size
    if width < 1 or height < 1:
        raise CorruptDocument(f"an image of {width} x {height} pixels", page=page)
    bytes_per_pixel: float = _BYTES_PER_PIXEL.get(image.mode, 8)
    if isinstance(image, JpegImageFile):
        bytes_per_pixel = _draft(image)
    check_size(limits, width, height, bytes_per_pixel, page=page)


def _draft(image: JpegImageFile) -> float:
    """Lets a JPEG be decoded small, and in gray where colour would be dropped; the bytes needed per pixel of its size.

    Decoding at 1/2, 1/4 or 1/8 leaves out the fine frequencies before they cost anything: several times faster.
    """
    width, height = image.size
    factor = reduction(width, height)
    scale = next((s for s in _JPEG_DRAFT_SCALES if s <= factor), 1)
    image.draft("L" if _too_large_for_colour(width, height) else image.mode, (width // scale, height // scale))
    bytes_per_pixel = _BYTES_PER_PIXEL.get(image.mode, 8) * (image.size[0] * image.size[1]) / (width * height)
    if image.info.get("progressive"):
        # All coefficients of a progressive JPEG are in memory at once, at full size and 2 bytes each.
        shares = [across * down for _, across, down, _ in image.layer]
        bytes_per_pixel += 2 * sum(shares) / max(shares)
    return bytes_per_pixel


def _too_large_for_colour(width: int, height: int) -> bool:
    """Whether the page, once reduced, is so large that it is kept in gray: a third of the memory, the same text."""
    return width * height > _MAX_COLOUR_PIXELS * reduction(width, height) ** 2


def to_pixels(image: Image.Image, factor: int = 1, *, gray: bool = False) -> Pixels:
    """The pixels of a loaded image as 8-bit gray or RGB on white, each side divided by `factor`.

    16-bit values are shifted by what their largest value needs: a plain conversion would clip them all to white.
    """
    mode = image.mode
    if mode in ("I", "F") or mode.startswith("I;16"):
        return _reduced(Image.fromarray(_to_eight_bits(np.asarray(image))), factor)
    if image.has_transparency_data:
        image = _on_white(image)
    wanted = "L" if gray or mode in ("1", "L") else "RGB"
    return _reduced(image if image.mode == wanted else image.convert(wanted), factor)


def _reduced(image: Image.Image, factor: int) -> Pixels:
    return _as_array(image.reduce(factor) if factor > 1 else image)


def _as_array(image: Image.Image) -> Pixels:
    """The pixels of a gray or RGB image, copied some rows at a time: `np.asarray` needs room for all of them twice.

    The rows are cut out with `resize`, since `crop` judges sizes by Pillow's process-wide limit.
    """
    width, height = image.size
    pixels = np.empty((height, width) if image.mode == "L" else (height, width, 3), np.uint8)
    for top in range(0, height, _COPIED_ROWS):
        bottom = min(height, top + _COPIED_ROWS)
        rows = (0, top, width, bottom)
        pixels[top:bottom] = np.asarray(image.resize((width, bottom - top), Image.Resampling.NEAREST, rows))
    return pixels


def _to_eight_bits(values: Any) -> Pixels:
    """Floats by their range, integers by the bits that are used."""
    if values.dtype.kind == "f":
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        scaled = (np.nan_to_num(values, nan=high) - low) * (255.0 / (high - low or 1.0))
        return np.asarray(scaled, np.uint8)
    shift = max(0, int(values.max(initial=0)).bit_length() - 8)
    return np.asarray(np.maximum(values, 0) >> shift, np.uint8)


def _on_white(image: Image.Image) -> Image.Image:
    """Ink may be in the alpha channel only: without paper under it the whole page would be black."""
    rgba = image.convert("RGBA")
    paper = Image.new("RGB", rgba.size, "white")
    paper.paste(rgba, mask=rgba.getchannel("A"))
    return paper


def _square_pixels(
    image: Image.Image, pixels: Pixels, width: int, height: int, *, turned: bool
) -> tuple[Pixels, int, int]:
    """Stretches the coarser side of a fax (204 x 98 dpi) so that letters keep their shape."""
    try:
        across, down = (float(d) for d in image.info["dpi"])
        stretch = across / down  # above 1: rows are too far apart
    except (KeyError, ValueError, TypeError, ZeroDivisionError):
        return pixels, width, height
    if turned:  # the resolution is that of the stored image; Pillow has turned the pixels
        stretch = 1 / stretch
    if not 1.1 < max(stretch, 1 / stretch) < 4:
        return pixels, width, height
    rows, columns = pixels.shape[:2]
    if stretch > 1:
        height = round(height * stretch)
    else:
        width = round(width / stretch)
    # A page that is large already is squared by making its finer side smaller.
    if (stretch > 1) == (pixels.size < _MAX_COLOUR_PIXELS):
        rows = max(1, round(rows * stretch))
    else:
        columns = max(1, round(columns / stretch))
    resized = Image.fromarray(pixels).resize((columns, rows), Image.Resampling.BILINEAR)
    return np.asarray(resized), width, height
