"""What is to be sent: a file or bytes, its name, its digest. Opened anew for each attempt, and never held whole."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, TypeVar
from urllib.parse import quote

from headrace.documents.document import printable

T = TypeVar("T")

NAME_CHARACTERS = 255
"""What the server keeps of a name; longer ones are cut here, so that they can be recognised."""

_PIECE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Upload:
    """One document to be sent.

    Attributes:
        content: where it is, or its bytes.
        name: what it is called, for people; "" takes the file's name. In a batch, name and bytes tell documents apart.
        external_id: your own id of it.
    """

    content: str | bytes | os.PathLike[str] | os.PathLike[bytes]
    name: str = ""
    external_id: str | None = None

    @property
    def shown_name(self) -> str:
        """The name as the server keeps it."""
        name: str | bytes = self.name
        if not name and not isinstance(self.content, bytes):
            name = os.path.basename(os.fsencode(self.content))
        return printable(name)[:NAME_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Prepared:
    """An upload that was looked at: how long it is, and what its bytes are. `kept` holds them when they are few."""

    upload: Upload
    name: str
    size_bytes: int
    sha256: str
    kept: bytes | None

    def headers(self, key: str) -> dict[str, str]:
        """What goes in front of the bytes."""
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(self.size_bytes),
            "Repr-Digest": f"sha-256=:{base64.b64encode(bytes.fromhex(self.sha256)).decode()}:",
            "Idempotency-Key": f'"{key}"',
        }
        if self.name:
            headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(self.name, safe='')}"
        return headers

    @contextmanager
    def opened(self, offset_bytes: int = 0) -> Iterator[bytes | AsyncIterator[bytes]]:
        """The bytes from an offset on. Closed afterwards, however the request ends; OSError when they are gone."""
        if self.kept is not None:
            yield self.kept[offset_bytes:]
            return
        assert not isinstance(self.upload.content, bytes)
        with open(self.upload.content, "rb") as file:
            file.seek(offset_bytes)
            yield _pieces(file, self.size_bytes - offset_bytes)


async def prepare(upload: Upload) -> Prepared:
    """Looks at the bytes, in a thread, one piece at a time.

    Raises:
        OSError: they cannot be read.
    """
    if isinstance(upload.content, bytes) and len(upload.content) <= _PIECE_BYTES:
        return _look(upload)
    return await in_thread(partial(_look, upload))


def _look(upload: Upload) -> Prepared:
    content = upload.content
    if isinstance(content, bytes):
        return Prepared(upload, upload.shown_name, len(content), hashlib.sha256(content).hexdigest(), content)
    with open(content, "rb") as file:
        first = file.read(_PIECE_BYTES)
        digest = hashlib.sha256(first)
        size_bytes = len(first)
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            size_bytes += len(piece)
    kept = first if size_bytes == len(first) else None
    return Prepared(upload, upload.shown_name, size_bytes, digest.hexdigest(), kept)


async def _pieces(file: BinaryIO, size_bytes: int) -> AsyncIterator[bytes]:
    # A file that has changed since it was looked at: the server finds that by the length or the digest.
    left_bytes = size_bytes
    while left_bytes and (piece := await in_thread(partial(file.read, min(left_bytes, _PIECE_BYTES)))):
        left_bytes -= len(piece)
        yield piece


async def in_thread(function: Callable[[], T]) -> T:
    """Runs a short step in a thread, and stays for its end even when cancelled: nothing is closed under its hands."""
    step = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(step)
    except asyncio.CancelledError:
        await asyncio.wait({step})
        if not step.cancelled():
            step.exception()
        raise
