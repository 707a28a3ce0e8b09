"""Opens a compressed stream such that no piece of it, however well it was packed, unpacks into more than asked for."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

GZIP, BZIP2, XZ, ZSTD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"

XZ_MEMORY_BYTES = 192 << 20
"""What the xz decoder may take; `xz -9` needs 65 MiB."""

_PIECE_BYTES = 1 << 16


def can_open(beginning: bytes) -> bool:
    """False for what this Python has no decoder for: Zstandard before 3.14."""
    return not beginning.startswith(ZSTD) or _zstd() is not None


def open_compressed(stream: BinaryIO, beginning: bytes) -> BinaryIO:
    """The unpacked stream, seekable forward; the stream itself when it is not compressed. Closing is the caller's."""
    if beginning.startswith(GZIP):
        return cast(BinaryIO, gzip.open(stream))
    if beginning.startswith(BZIP2):
        return cast(BinaryIO, bz2.open(stream))
    if beginning.startswith(XZ):
        return cast(BinaryIO, io.BufferedReader(_XzStream(stream), _PIECE_BYTES))
    if beginning.startswith(ZSTD) and (zstd := _zstd()) is not None:
        return cast(BinaryIO, zstd.open(stream))  # type: ignore[attr-defined]  # new in Python 3.14
    return stream


def _zstd() -> object | None:
    try:
        return importlib.import_module("compression.zstd")
    except ImportError:
        return None


class _XzStream(io.RawIOBase):
    """An xz stream, unpacked. lzma.open has no bound on the memory that the stream's own header asks for; this has."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = lzma.LZMADecompressor(memlimit=XZ_MEMORY_BYTES)
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Forward only."""
        return True

    def tell(self) -> int:
        """The place in the unpacked stream."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves forward to this place, or to the end when that comes first."""
        if whence != io.SEEK_SET or offset < self._position:
            raise io.UnsupportedOperation("an xz stream is read forward only")
        piece = bytearray(_PIECE_BYTES)
        while self._position < offset:
            if not self.readinto(memoryview(piece)[: offset - self._position]):
                break
        return self._position

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Unpacks as much as the buffer holds; 0 at the end."""
        view = memoryview(buffer)
        data = b""
        while not data:
            packed = b""
            if self._decoder.eof:  # streams may follow each other, with zeros between them
                packed = self._decoder.unused_data.lstrip(b"\0")
                while not packed and (piece := self._stream.read(_PIECE_BYTES)):
                    packed = piece.lstrip(b"\0")
                if not packed:
                    return 0
                self._decoder = lzma.LZMADecompressor(memlimit=XZ_MEMORY_BYTES)
            elif self._decoder.needs_input:
                packed = self._stream.read(_PIECE_BYTES)
                if not packed:
                    raise EOFError("the xz stream ends too early")
            data = self._decoder.decompress(packed, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)
