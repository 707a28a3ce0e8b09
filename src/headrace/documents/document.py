"""A document on its way: what was handed in, and where its bytes are."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a batch, as the workers get it: a reference, never the bytes.

    Attributes:
        document_id: opaque and stable: the same batch and position give the same id on every rerun.
        batch_id: the batch it was handed in with.
        position: its place in the batch, from 1.
        uri: what it is called, for people and for `source.uri`; printable text, never used to open anything.
        path: where its bytes are, as the operating system spells it (any bytes but NUL); for kind `blob`, the hex
            SHA-256 that the blob store keeps them under.
        kind: `file`, `archive-member` or `blob`: what `source.kind` says.
        size_bytes: as last seen; 0 when it is not known yet.
        attempts: how many attempts were charged so far.
        today: the day of its batch (`YYYY-MM-DD`) where the workers serve batches of several days; "" otherwise.
    """

    document_id: str
    batch_id: int
    position: int
    uri: str
    path: bytes
    kind: str = "file"
    size_bytes: int = 0
    attempts: int = 0
    today: str = ""


def document_id(book: str, batch_id: int, position: int) -> str:
    """The id of the document at this place: 80 bits of SHA-256, so that a rerun in a new workspace gives the same."""
    return "d" + hashlib.sha256(f"{book}/{batch_id}/{position}".encode()).hexdigest()[:20]


def printable(path: bytes | str) -> str:
    """A path as text that is safe in a log line, a CSV cell, a header and a page.

    Names that are not text keep their bytes as `\\xNN`; control and bidirectional marks are escaped the same way, so
    two different names never look alike because of something invisible.
    """
    text = os.fsdecode(path)
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8, kept by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
