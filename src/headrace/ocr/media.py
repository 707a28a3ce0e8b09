"""What kind of file it is, by its first bytes, and how to open it without being trapped. Standard library only."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from headrace.documents.errors import EmptyFile, UnreadableSource, UnsupportedMediaType

JPEG, PNG, WEBP, GIF, BMP, TIFF = "image/jpeg", "image/png", "image/webp", "image/gif", "image/bmp", "image/tiff"
HEIC, AVIF, PDF = "image/heic", "image/avif", "application/pdf"
UNKNOWN = "application/octet-stream"
MEDIA_TYPES = (JPEG, PNG, WEBP, GIF, BMP, TIFF, HEIC, AVIF, PDF)
"""Every kind of file that can be read."""

HEAD_BYTES = 1024
"""How much `media_type` wants to see: a PDF may have rubbish before its mark (ISO 32000-1, annex H, note 13)."""

_MAGIC = (
    (b"\xff\xd8\xff", JPEG),
    (b"\x89PNG\r\n\x1a\n", PNG),
    (b"GIF87a", GIF),
    (b"GIF89a", GIF),
    (b"II*\0", TIFF),
    (b"MM\0*", TIFF),
    (b"II+\0", TIFF),  # BigTIFF
    (b"MM\0+", TIFF),
)
_HEIC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"}
_AVIF_BRANDS = {b"avif", b"avis"}
_HEIF_BRANDS = {b"mif1", b"msf1", b"mif2"}
_BMP_HEADER_SIZES = {12, 16, 40, 52, 56, 64, 108, 124}


def media_type(head: bytes) -> str:
    """The kind of file that begins with these bytes; `application/octet-stream` when it is none we read.

    Args:
        head: the first `HEAD_BYTES` bytes, or all there are.
    """
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return WEBP
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BMP_HEADER_SIZES:
        return BMP
    if head[4:8] == b"ftyp":
        return _iso_media_type(head)
    return PDF if b"%PDF-" in head else UNKNOWN


def _iso_media_type(head: bytes) -> str:
    """HEIC or AVIF by the brands in the `ftyp` box; a video has other brands."""
    box = head[: int.from_bytes(head[:4], "big")]
    brands = {box[8:12]} | {box[i : i + 4] for i in range(16, len(box) - 3, 4)}
    if brands & _AVIF_BRANDS:
        return AVIF
    return HEIC if brands & (_HEIC_BRANDS | _HEIF_BRANDS) else UNKNOWN


def require_media_type(head: bytes) -> str:
    """Like `media_type`, for those who must read the document.

    Raises:
        UnsupportedMediaType: it is of no kind that is read.
    """
    kind = media_type(head)
    if kind == UNKNOWN:
        hint = " (a zip archive: hand it in as an archive)" if head.startswith(b"PK\x03\x04") else ""
        kinds = ", ".join(sorted(kind.partition("/")[2] for kind in MEDIA_TYPES))
        raise UnsupportedMediaType(f"the content is of no kind that is read{hint}; readable are {kinds}")
    return kind


def open_source(path: bytes | str) -> BinaryIO:
    """Opens a regular file to be read; the caller closes it.

    A named pipe is refused instead of waited for, and what was checked is what is read: the check is on the open file.

    Raises:
        UnreadableSource: gone, no regular file (folder, pipe, device, dangling link), or not allowed.
        EmptyFile: it has no bytes.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UnreadableSource(f"{_why_not_opened(path, error)}; check the name, then replay") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableSource(f"not a regular file but a {_kind_of(status.st_mode)}")
        if status.st_size == 0:
            raise EmptyFile("the file has no bytes; was it still being written?")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _why_not_opened(path: bytes | str, error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is a link to something that is gone" if os.path.islink(path) else "it does not exist"
    return f"it cannot be opened: {error.strerror}" if isinstance(error, OSError) else "it is no valid path"


def _kind_of(mode: int) -> str:
    kinds = ((stat.S_ISDIR, "folder"), (stat.S_ISFIFO, "named pipe"), (stat.S_ISSOCK, "socket"))
    return next((name for is_kind, name in kinds if is_kind(mode)), "device")
