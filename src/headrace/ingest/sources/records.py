"""Cuts a stream of bytes into records: lines, or names that end in NUL. Nothing longer than the limit is ever held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

RECORD_BYTES = 1 << 16
"""The longest line, name or manifest row that is read."""

BOM = b"\xef\xbb\xbf"


class Readable(Protocol):
    """A binary stream that hands over what it has without waiting for more."""

    def read1(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, at least one, b"" at the end."""
        ...


class Records:
    """The records of a stream, once, without their end; None stands for one that is longer than RECORD_BYTES.

    Each is handed on as soon as its end has been read, so an endless stream works. A carriage return before a newline
    and a byte order mark at the start of lines are no part of any record. The stream is read, not closed.

    Attributes:
        end: what records end in. When it is not given, the first piece of the stream that holds a NUL or a newline
            decides, and a NUL wins: a name may hold newlines, but never a NUL.
    """

    def __init__(self, stream: Readable, end: bytes | None = b"\n") -> None:
        self.end = end
        self._stream = stream

    def __iter__(self) -> Iterator[bytes | None]:
        """Reads on."""
        rest = b""
        first, too_long = True, False
        while piece := self._stream.read1(RECORD_BYTES):
            if self.end is None and (b"\0" in piece or b"\n" in piece):
                self.end = b"\0" if b"\0" in piece else b"\n"
            rest += piece
            if first and (len(rest) >= len(BOM) or (self.end or b"\n") in rest):
                rest, first = rest if self.end == b"\0" else rest.removeprefix(BOM), False
            *records, rest = rest.split(self.end or b"\n")
            for record in records:
                yield None if too_long or len(record) > RECORD_BYTES else self._trimmed(record)
                too_long = False
            if len(rest) > RECORD_BYTES:
                too_long, rest = True, b""
        if rest or too_long:
            yield None if too_long else self._trimmed(rest)

    def _trimmed(self, record: bytes) -> bytes:
        return record if self.end == b"\0" else record.removesuffix(b"\r")
