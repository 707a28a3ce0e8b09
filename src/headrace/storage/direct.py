"""Appending past the page cache: what is written once and read once, if ever, need not fill the machine's memory.

A new page of the cache costs more than everything else that is done with the bytes in it. The price: writes begin and
end at multiples of a block, and go through a buffer of ours. Where a file system cannot do it, the cache is used.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

BLOCK_BYTES = 4096
_BUFFER_BYTES = 1 << 20


def round_up(size_bytes: int) -> int:
    """The next multiple of a block."""
    return -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES


def create(path: Path) -> int:
    """Makes a file; returns a descriptor to write it by `Appender`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags | os.O_DIRECT, 0o644)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return os.open(path, flags & ~os.O_EXCL, 0o644)  # the kernel may have made it before it said no


class Appender:
    """Writes groups of buffers. One thread at a time."""

    def __init__(self) -> None:
        self._buffer = memoryview(mmap.mmap(-1, _BUFFER_BYTES))  # begins at a page, as the kernel wants it

    def append(self, descriptor: int, at: int, buffers: Iterable[bytes]) -> int:
        """Writes these one behind the other from `at` on, and zeros up to the end of the block; returns that end.

        Nothing is synced. What was written when it raises is the caller's to cut off.
        """
        filled = 0
        for buffer in buffers:
            rest = memoryview(buffer)
            while rest:
                size_bytes = min(len(rest), _BUFFER_BYTES - filled)
                self._buffer[filled : filled + size_bytes] = rest[:size_bytes]
                filled += size_bytes
                rest = rest[size_bytes:]
                if filled == _BUFFER_BYTES:
                    at = _write(descriptor, self._buffer, at)
                    filled = 0
        end = round_up(filled)
        self._buffer[filled:end] = bytes(end - filled)
        return _write(descriptor, self._buffer[:end], at)


def _write(descriptor: int, rest: memoryview, at: int) -> int:
    while rest:
        try:
            written = os.pwrite(descriptor, rest, at)
        except OSError as error:
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            if error.errno != errno.EINVAL or not flags & os.O_DIRECT:
                raise
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_DIRECT)  # its blocks are larger, or it cannot at all
            continue
        at += written
        rest = rest[written:]
    return at
