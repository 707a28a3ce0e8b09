"""Bytes of uploads: from the network to a synced file, hashed on the way; the event loop never waits for a disk.

A small body stays in memory until it is accepted: its group is appended to a log and synced at once. A large one goes
to a file of its own, piece by piece. Memory is bounded for all uploads together; so is the disk, by the bound of the
blobs and by what must stay free.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from headrace.documents.errors import CorruptDocument, EmptyFile, PayloadTooLarge
from headrace.flow import Closed
from headrace.ocr.media import HEAD_BYTES, require_media_type
from headrace.service.errors import DigestMismatch
from headrace.service.group_commit import GroupCommit
from headrace.storage.blobs import Blobs
from headrace.storage.errors import StorageFull, StoreUnavailable

R = TypeVar("R")

PIECE_BYTES = 256 << 10
"""What an upload may hold in memory before it is written; more only while the thread is busy with the piece before."""

_OTHER_BYTES = "the SHA-256 of the body is not the one that was promised"
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FILES_AT_ONCE = 8  # in one step of a thread: enough to save hand-overs, few enough to leave the others some


@dataclass(slots=True)
class Spooled:
    """A whole body.

    Attributes:
        size_bytes: how many bytes.
        path: of a synced file that has no name among the blobs yet; None for a small body, which is in `pieces`.
        pieces: a small body, which counts as buffered until it is let go.
        sha256: hex; of a small body it is worked out by `seal`.
        expected: what the client promised; checked already for a file.
        adopted: the blobs have it.
        needed: it is counted among those whose bytes must stay, though they have no row yet.
    """

    size_bytes: int
    path: Path | None = None
    pieces: list[bytes] = field(default_factory=list)
    sha256: str = ""
    expected: str | None = None
    adopted: bool = False
    needed: bool = False

    def seal(self) -> None:
        """Hashes a small body; for a thread. Raises DigestMismatch."""
        if self.sha256:
            return
        digest = hashlib.sha256()
        for piece in self.pieces:
            digest.update(piece)
        sha256 = digest.hexdigest()
        if self.expected is not None and sha256 != self.expected:
            raise DigestMismatch(_OTHER_BYTES)
        self.sha256 = sha256


class _Upload:
    """One upload on its way. The file is made with its first piece."""

    __slots__ = (
        "descriptor",
        "digest",
        "expected",
        "final",
        "head",
        "path",
        "pieces",
        "size_bytes",
        "writing",
        "written_bytes",
    )

    def __init__(self, expected: str | None) -> None:
        self.path: Path | None = None
        self.expected = expected
        self.pieces: list[bytes] = []
        self.digest = hashlib.sha256()
        self.head = b""
        self.size_bytes = 0
        self.written_bytes = 0
        self.descriptor: int | None = None
        self.final = False
        self.writing: asyncio.Future[Spooled | None] | None = None


class Spool:
    """Receives bodies. Belongs to one event loop.

    Args:
        blobs: counts the bytes on disk, and takes the files in when they are accepted.
        limit_bytes: the largest document.
        buffer_bytes: bytes in memory, all uploads together; beyond it, each piece is written as it comes.
        min_free_bytes: when less than this is free on the disk, nothing is written.
        threads: that write and sync.

    Attributes:
        full: why nothing can be written now; "" when it can, as far as is known.
    """

    def __init__(
        self, blobs: Blobs, *, limit_bytes: int, buffer_bytes: int, min_free_bytes: int, threads: int = 2
    ) -> None:
        self._blobs = blobs
        self._limit_bytes = limit_bytes
        self.buffer_bytes = buffer_bytes
        self._min_free_bytes = min_free_bytes
        self._threads = GroupCommit("spool", most=_FILES_AT_ONCE, threads=threads)
        self._removals: set[asyncio.Task[None]] = set()  # bounded by the uploads that were admitted
        self.buffered_bytes = 0
        self.uploads = 0
        self.full = ""

    async def receive(
        self, body: AsyncIterator[bytes], *, declared_bytes: int | None = None, sha256: str | None = None
    ) -> Spooled:
        """Takes a body in. On any error, and when cancelled, nothing of it stays: no file, no count.

        Raises:
            EmptyFile, UnsupportedMediaType, PayloadTooLarge, DigestMismatch: bad bytes, as soon as that shows.
            CorruptDocument: not as many bytes as were declared.
            StorageFull: no room, by the bound or on the disk.
            StoreUnavailable: the disk cannot be written.
        """
        if declared_bytes is not None and declared_bytes > self._limit_bytes:
            raise self._too_large(declared_bytes)
        upload = _Upload(sha256)
        buffered = 0
        self.uploads += 1
        try:
            async for chunk in body:
                size_bytes = len(chunk)
                upload.size_bytes += size_bytes
                if upload.size_bytes > self._limit_bytes:
                    raise self._too_large(upload.size_bytes)
                if declared_bytes is not None and upload.size_bytes > declared_bytes:
                    raise CorruptDocument(f"more bytes came than the {declared_bytes:,} that were declared")
                if len(upload.head) < HEAD_BYTES:
                    upload.head += chunk[: HEAD_BYTES - len(upload.head)]
                    if len(upload.head) >= HEAD_BYTES:
                        require_media_type(upload.head)  # before the rest of it is taken
                upload.pieces.append(bytes(chunk))
                buffered += size_bytes
                self.buffered_bytes += size_bytes
                if buffered >= PIECE_BYTES or self.buffered_bytes > self.buffer_bytes:
                    await self._written(upload)
                    self.buffered_bytes -= buffered
                    buffered = 0
            if not upload.size_bytes:
                raise EmptyFile("the body has no bytes")
            if declared_bytes is not None and upload.size_bytes < declared_bytes:
                raise CorruptDocument(
                    f"{upload.size_bytes:,} bytes came, and {declared_bytes:,} were declared: the upload was cut off"
                )
            require_media_type(upload.head)
            if upload.writing is None:
                small = Spooled(upload.size_bytes, pieces=upload.pieces, expected=sha256)
                buffered = 0  # until it is let go
                return small
            upload.final = True
            spooled = await self._written(upload)
            assert spooled is not None
            return spooled
        except BaseException as error:
            if isinstance(error, StorageFull):
                self.full = str(error.strerror)
            if upload.writing is not None:
                task = asyncio.create_task(self._take_back(upload))
                self._removals.add(task)
                task.add_done_callback(self._removals.discard)
            raise
        finally:
            self.buffered_bytes -= buffered
            self.uploads -= 1

    @property
    def taken_bytes(self) -> int:
        """Bytes of all blobs, those being written among them."""
        return self._blobs.total_bytes

    @property
    def taken_limit_bytes(self) -> int | None:
        """The bound on those."""
        return self._blobs.limit_bytes

    def let_go(self, spooled: Spooled) -> None:
        """The bytes of a small body are needed no more."""
        self.buffered_bytes -= sum(map(len, spooled.pieces))
        spooled.pieces = []

    async def place(self, sha256: str) -> None:
        """Sees to it that the bytes of an accepted document can be read at their path."""
        if sha256 in self._blobs.arrivals:
            await self._threads.run(self._place_all, sha256)

    def _place_all(self, digests: Sequence[str]) -> list[Exception | None]:
        answers: list[Exception | None] = []
        for sha256 in digests:
            try:
                self._blobs.place(sha256)
                answers.append(None)
            except Exception as error:
                answers.append(translated(error))
        return answers

    async def take(self, path: Path, *, sha256: str | None = None) -> Spooled:
        """A whole, synced file in the folder of the blobs as a body; it keeps its name, and gets another one for us.

        Nothing is copied: the two must never be written to again. On any error, and when cancelled, nothing stays.

        Raises:
            EmptyFile, UnsupportedMediaType, DigestMismatch: bad bytes.
            StorageFull: no room for a name.
        """
        step = self._threads.submit(_do_all, partial(self._take, path, sha256))
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            step.add_done_callback(self._untake)
            raise

    async def step(self, function: Callable[[], R]) -> R:
        """Has something done by a thread that writes. Cancelled, it stays for the end of it: then nobody writes.

        Raises:
            StorageFull: no room on the disk.
            StoreUnavailable: it cannot be written.
            Closed: the service has stopped.
        """
        step = self._threads.submit(_do_all, function)
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            await asyncio.wait({step})
            step.cancelled() or step.exception()  # seen
            raise

    def need_free(self, size_bytes: int) -> None:
        """Raises StorageFull when these bytes would take what must stay free."""
        self._need_free(size_bytes)

    def change_limits(self, *, buffer_bytes: int, min_free_bytes: int) -> None:
        """Takes other limits while in use."""
        self.buffer_bytes, self._min_free_bytes = buffer_bytes, min_free_bytes

    def check_room(self) -> None:
        """Looks whether there is room again; for a timer."""
        try:
            self._need_free(0)
            self._blobs.reserve(0)
        except OSError as error:
            self.full = str(error.strerror)
        else:
            self.full = ""

    async def aclose(self) -> None:
        """Removes what is still to be removed, and ends the threads."""
        if self._removals:
            await asyncio.wait(set(self._removals))
        await self._threads.aclose()

    def _too_large(self, size_bytes: int) -> PayloadTooLarge:
        return PayloadTooLarge(f"it has {size_bytes:,} bytes or more; the limit is {self._limit_bytes:,}")

    async def _written(self, upload: _Upload) -> Spooled | None:
        upload.writing = self._threads.submit(self._write, upload)
        return await asyncio.shield(upload.writing)

    async def _take_back(self, upload: _Upload) -> None:
        """Removes what was written, once no thread is at it any more."""
        if upload.writing is not None:
            await asyncio.wait({upload.writing})
            upload.writing.cancelled() or upload.writing.exception()  # seen
            with suppress(Closed, OSError):  # the next start clears the folder
                await self._threads.run(self._remove, upload)

    def _untake(self, step: asyncio.Future[Spooled]) -> None:
        if not step.cancelled() and step.exception() is None:
            spooled = step.result()
            assert spooled.path is not None
            spooled.path.unlink(missing_ok=True)
            self._blobs.release(spooled.size_bytes)

    # In the threads

    def _take(self, path: Path, expected: str | None) -> Spooled:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
            if not head:
                raise EmptyFile("the body has no bytes")
            require_media_type(head)
            file.seek(0)
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            size_bytes = file.tell()
        if expected is not None and sha256 != expected:
            raise DigestMismatch(_OTHER_BYTES)
        incoming = self._blobs.incoming()
        os.link(path, incoming)
        self._blobs.count(size_bytes)  # twice for a moment, since each name is released by itself
        return Spooled(size_bytes, incoming, sha256=sha256)

    def _write(self, uploads: Sequence[_Upload]) -> list[Spooled | Exception | None]:
        answers: list[Spooled | Exception | None] = []
        for upload in uploads:
            try:
                answers.append(self._write_one(upload))
            except Exception as error:
                answers.append(translated(error))
        return answers

    def _write_one(self, upload: _Upload) -> Spooled | None:
        pieces, upload.pieces = upload.pieces, []
        size_bytes = sum(map(len, pieces))
        for piece in pieces:
            upload.digest.update(piece)
        sha256 = upload.digest.hexdigest() if upload.final else ""
        if upload.final and upload.expected is not None and sha256 != upload.expected:
            raise DigestMismatch(_OTHER_BYTES)
        if size_bytes:
            self._need_free(size_bytes)
            self._blobs.reserve(size_bytes)
            upload.written_bytes += size_bytes
            if upload.descriptor is None:
                upload.path = self._blobs.incoming()
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                upload.descriptor = os.open(upload.path, flags, 0o644)
            _write_all(upload.descriptor, pieces)
        if not upload.final:
            return None
        assert upload.descriptor is not None
        os.fsync(upload.descriptor)
        os.close(upload.descriptor)
        upload.descriptor = None
        return Spooled(upload.size_bytes, upload.path, sha256=sha256)

    def _remove(self, uploads: Sequence[_Upload]) -> list[None]:
        for upload in uploads:
            if upload.descriptor is not None:
                os.close(upload.descriptor)
                upload.descriptor = None
            if upload.path is not None:
                upload.path.unlink(missing_ok=True)
            self._blobs.release(upload.written_bytes)
            upload.written_bytes = 0
        return [None] * len(uploads)

    def _need_free(self, size_bytes: int) -> None:
        free = os.statvfs(self._blobs.folder)
        free_bytes = free.f_bavail * free.f_frsize
        if free_bytes - size_bytes < self._min_free_bytes:
            raise StorageFull(
                f"{free_bytes / 2**20:,.0f} MiB are free on the disk, and {self._min_free_bytes / 2**20:,.0f} MiB "
                "must stay free"
            )


def _do_all(functions: Sequence[Callable[[], Any]]) -> list[Any]:
    answers: list[Any] = []
    for function in functions:
        try:
            answers.append(function())
        except Exception as error:
            answers.append(translated(error))
    return answers


def _write_all(descriptor: int, pieces: Sequence[bytes]) -> None:
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def translated(error: Exception) -> Exception:
    """What the system says of a disk in words of ours: a full one, or one that cannot be written. Both pass."""
    if not isinstance(error, OSError) or isinstance(error, StorageFull):
        return error
    if error.errno in _NO_SPACE:
        return StorageFull(f"no room for the bytes: {error.strerror}")
    return StoreUnavailable(f"the folder of the bytes cannot be used: {error}")
