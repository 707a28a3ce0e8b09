"""The contract of a source: what it finds, and how it fails.

    SourceError                 the arguments make no sense: said before any work starts (exit code 2)
      BrokenSource              a source broke while it was read: the documents before it are good (exit code 3)

A document that cannot be read is neither: it is a `Found` with a `problem`, costs only itself, and the others go on.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Protocol
from urllib.parse import quote_from_bytes

from headrace.documents.errors import DocumentError, UnreadableSource

FILE = "file"
ARCHIVE_MEMBER = "archive-member"

NOTHING_SKIPPED: Mapping[str, int] = MappingProxyType({})


class SourceError(Exception):
    """A source that cannot be used. The message names it and says what to do."""

    exit_code: ClassVar[int] = 2


class BrokenSource(SourceError):
    """A source that broke off: `items` documents were found before, and all of them are good."""

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, *, items: int) -> None:
        super().__init__(message)
        self.items = items


class Content(Protocol):
    """The bytes of an archive member, read once, front to back."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; b"" at the end.

        Raises:
            DocumentError: costs this member only.
            BrokenSource: costs the rest of its source.
        """
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """One document that a source found.

    Attributes:
        uri: what it is called, for people; printable, never used to open anything.
        path: where the bytes are, absolute, as the operating system spells it; None for archive members and problems.
        kind: `file` or `archive-member`.
        size_bytes: as seen now; 0 when it is not known.
        mtime_ns: as seen now; 0 when it is not known.
        external_id: the id its manifest row gives it.
        sort_key: its place among the documents of an unordered source; None from sources that come in order.
        content: the bytes of an archive member, valid only until the next document is asked for.
        problem: why it cannot be read at all; becomes this document's failure.
    """

    uri: str
    path: bytes | None
    kind: str = FILE
    size_bytes: int = 0
    mtime_ns: int = 0
    external_id: str | None = None
    sort_key: bytes | None = None
    content: Content | None = None
    problem: DocumentError | None = None


class Source(Protocol):
    """Where documents come from. Iterating is lazy; closing the iterator early closes whatever it had opened."""

    @property
    def key(self) -> str:
        """Who this source is, the same on every run: its kind and absolute path, ASCII, never its date or size."""
        ...

    @property
    def ordered(self) -> bool:
        """True when documents come in their final order; False when they are to be sorted by `sort_key`."""
        ...

    @property
    def skipped(self) -> Mapping[str, int]:
        """What the latest pass left out, counted by reason. The reasons come from a fixed table, so this is bounded."""
        ...

    def __iter__(self) -> Iterator[Found]:
        """Starts a new pass. Raises BrokenSource after the last good document when the source breaks off."""
        ...


def source_key(kind: str, path: bytes) -> str:
    """The identity of a source: one to one with the absolute path, and plain ASCII whatever bytes the path has."""
    return f"{kind}:{quote_from_bytes(os.path.abspath(path))}"


def found_file(uri: str, path: bytes, *, external_id: str | None = None, sort_key: bytes | None = None) -> Found:
    """The document at this path, looked at but not opened; what is missing or no regular file becomes a problem."""
    try:
        seen = os.stat(path)
    except (OSError, ValueError) as error:
        reason = "is a link to something that is gone" if os.path.islink(path) else _reason(error)
        problem = UnreadableSource(f"{uri} {reason}; check the name and run again")
        return Found(uri, path, external_id=external_id, sort_key=sort_key, problem=problem)
    wrong = None
    if not stat.S_ISREG(seen.st_mode):
        wrong = UnreadableSource(f"{uri} is {_file_type(seen.st_mode)}, not a regular file")
    return Found(uri, path, FILE, seen.st_size, seen.st_mtime_ns, external_id, sort_key, problem=wrong)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    return f"cannot be looked at ({getattr(error, 'strerror', None) or error})"


def _file_type(mode: int) -> str:
    names = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(mode), "a device")
