"""The directory at the end of a zip archive, read entry by entry: a million members take no more memory than one.

Layout: APPNOTE.TXT of PKWARE, sections 4.3.12 (entry), 4.3.14 to 4.3.16 (the end records), 4.5.3 (Zip64).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_MAX_COMMENT_BYTES = 0xFFFF
_OPEN_32 = 0xFFFF_FFFF  # "too large for this field: see Zip64"
_UNIX = 3
_ZIP64_FIELD = 1


class DirectoryError(Exception):
    """The directory contradicts itself."""


@dataclass(frozen=True, slots=True)
class Directory:
    """Where the directory lies in the file; `shift_bytes` is what stands before the archive (a self-extractor)."""

    start: int
    end: int
    shift_bytes: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What the directory says of one member. `offset` is where its local header is in the file."""

    name: bytes
    flags: int
    method: int
    crc32: int
    packed_bytes: int
    size_bytes: int
    offset: int
    unix_mode: int

    @property
    def is_folder(self) -> bool:
        """A member that is only a folder; it has no bytes."""
        return self.name.endswith(b"/")


def find_directory(file: int) -> Directory | None:
    """Looks for the directory from the end of the file; None when there is none: the archive was cut off.

    Raises:
        DirectoryError: it says that it is one part of a split archive, or lies outside of the file.
    """
    file_bytes = os.fstat(file).st_size
    tail_start = max(0, file_bytes - _END.size - _MAX_COMMENT_BYTES)
    tail = os.pread(file, file_bytes - tail_start, tail_start)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        return None
    _, disk, _, _, _, size, offset, _ = _END.unpack_from(tail, at)
    if disk not in (0, 0xFFFF):
        raise DirectoryError("it is the last part of a split archive; join the parts first")
    end = tail_start + at
    locator = os.pread(file, _END64_LOCATOR.size, max(0, end - _END64_LOCATOR.size))
    if locator.startswith(b"PK\x06\x07") and end >= _END64_LOCATOR.size + _END64.size:
        # The record stands right before its locator, unless it has extensions; then the locator knows where.
        for place in (end - _END64_LOCATOR.size - _END64.size, _END64_LOCATOR.unpack(locator)[2]):
            record = os.pread(file, _END64.size, place)
            if len(record) == _END64.size and record.startswith(b"PK\x06\x06"):
                *_, size, offset = _END64.unpack(record)
                end = place
                break
    if end - size - offset < 0:
        raise DirectoryError("its directory lies outside of the file")
    return Directory(end - size, end, end - size - offset)


def read_entries(file: int, directory: Directory) -> Iterator[Entry]:
    """The entries in the directory's order.

    Raises:
        DirectoryError: what should be an entry is none.
    """
    position = directory.start
    while position < directory.end:
        fixed = os.pread(file, _ENTRY.size, position)
        if len(fixed) < _ENTRY.size or not fixed.startswith(b"PK\x01\x02"):
            raise DirectoryError("its directory is broken")
        (_, made_by, _, flags, method, _, _, crc32, packed, size, name_bytes, extra_bytes, comment_bytes, _, _, mode,
         offset) = _ENTRY.unpack(fixed)  # fmt: skip
        rest = os.pread(file, name_bytes + extra_bytes, position + _ENTRY.size)
        name, extra = rest[:name_bytes], rest[name_bytes:]
        size, packed, offset = _zip64(extra, size, packed, offset)
        if made_by >> 8 == 0 and b"/" not in name:  # old Windows tools write their own kind of slash
            name = name.replace(b"\\", b"/")
        unix_mode = mode >> 16 if made_by >> 8 == _UNIX else 0
        yield Entry(name, flags, method, crc32, packed, size, offset + directory.shift_bytes, unix_mode)
        position += _ENTRY.size + name_bytes + extra_bytes + comment_bytes


def _zip64(extra: bytes, *fields: int) -> tuple[int, ...]:
    """The fields, those that are too large for 32 bits taken from the Zip64 extra field, which lists only them."""
    if _OPEN_32 not in fields:
        return fields
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == _ZIP64_FIELD:
            large = iter(struct.unpack_from(f"<{min(length, len(extra) - at - 4) // 8}Q", extra, at + 4))
            return tuple(next(large, field) if field == _OPEN_32 else field for field in fields)
        at += 4 + length
    return fields
