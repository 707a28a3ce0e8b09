"""Resumable uploads on disk: for each the file of the bytes that are here, and a small JSON of what was said of them.

    blobs/uploads/3f2a...           its length is the offset
    blobs/uploads/3f2a....json      whose it is, until when, and how it ended; outlives the bytes for a while

Beside the blobs, so that a whole upload gets its place among them by a second name, and is never copied. Everything
here blocks, and is for threads; one at a time for one upload.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from headrace.ocr.media import HEAD_BYTES, require_media_type
from headrace.service.errors import PartMismatch
from headrace.storage.blobs import Blobs

_SUFFIX = ".json"


class Phase(StrEnum):
    """Where an upload is. Only an open one has bytes, and takes more."""

    OPEN = "open"
    COMPLETE = "complete"
    FAILED = "failed"
    EXPIRED = "expired"


@dataclass(slots=True)
class Kept:
    """What is kept of an upload beside its bytes.

    Attributes:
        upload_id: hex, not to be guessed.
        client, service_class, filename, sha256, idempotency_key, batch_id, external_id: of the document, as in
            `Submission`.
        metadata: what a client wants to be told again (`Upload-Metadata` of tus).
        length_bytes: of the whole; None while the client has not said it.
        created_at, expires_at: Unix times in seconds, since they hold across restarts.
        unchecked_from: while a part with a digest comes in, where it began: what follows counts once it is checked.
        document_id: what it became.
        why: why it failed.
    """

    upload_id: str
    client: str
    service_class: int
    filename: str
    sha256: str | None
    idempotency_key: str | None
    batch_id: int | None
    external_id: str | None
    metadata: str
    length_bytes: int | None
    created_at: float
    expires_at: float
    phase: Phase = Phase.OPEN
    unchecked_from: int | None = None
    document_id: str | None = None
    why: str = ""

    @classmethod
    def from_json(cls, content: bytes) -> Kept:
        """As it was written; ValueError or TypeError when it was not written by us."""
        kept = cls(**json.loads(content))
        kept.phase = Phase(kept.phase)
        return kept


class UploadFiles:
    """The folder. What an earlier process left half made in it is removed by `load`.

    Args:
        blobs: counts the bytes, and says where the folder is.
        need_free: raises StorageFull when so many bytes would take what must stay free on the disk.
    """

    def __init__(self, blobs: Blobs, need_free: Callable[[int], None]) -> None:
        self.folder = blobs.folder / "uploads"
        self.blobs = blobs
        self.need_free = need_free

    def path(self, upload_id: str) -> Path:
        """Where the bytes of an open upload are."""
        return self.folder / upload_id

    def load(self) -> tuple[list[tuple[Kept, int]], list[str]]:
        """The open uploads with their offsets, synced; and the ids of those that ended, the oldest first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        opened: list[tuple[Kept, int]] = []
        ended: list[tuple[float, str]] = []
        known = set()
        for path in self.folder.glob(f"*{_SUFFIX}"):
            kept = _read(path)
            if kept is not None and kept.phase is not Phase.OPEN:
                ended.append((path.stat().st_mtime, kept.upload_id))
            elif kept is not None and self.path(kept.upload_id).exists():
                known.add(kept.upload_id)
                opened.append((kept, self._settled(kept)))
            else:  # its bytes are lost, and it with them: the draft forbids to go on
                path.unlink()
        for path in self.folder.iterdir():
            if path.suffix != _SUFFIX and path.name not in known:
                path.unlink()
        return opened, [upload_id for _, upload_id in sorted(ended)]

    def create(self, kept: Kept) -> None:
        """Makes it durable, with no bytes yet. Raises StorageFull."""
        self.need_free(kept.length_bytes or 0)
        self.blobs.reserve(kept.length_bytes or 0)  # whether it would fit now; what counts is what is written
        self.blobs.release(kept.length_bytes or 0)
        self.path(kept.upload_id).touch(exist_ok=False)
        try:
            self.write(kept)
        except BaseException:
            self.path(kept.upload_id).unlink()
            raise

    def write(self, kept: Kept) -> None:
        """Replaces what is kept of it; durable on return, and the old or the new after a crash."""
        path = self.folder / (kept.upload_id + _SUFFIX)
        half = path.with_suffix(".half")
        with open(half, "wb") as file:
            file.write(json.dumps(asdict(kept)).encode())
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
        _sync(self.folder)

    def read(self, upload_id: str) -> Kept | None:
        """What is kept of one; None when there is none."""
        return _read(self.folder / (upload_id + _SUFFIX))

    def end(self, kept: Kept) -> None:
        """Writes how it ended, and then removes its bytes. Raises StorageFull; then all is as before."""
        kept.metadata, kept.unchecked_from = "", None
        self.write(kept)
        self._remove_bytes(kept.upload_id)

    def remove(self, upload_id: str) -> None:
        """Removes all of it."""
        (self.folder / (upload_id + _SUFFIX)).unlink(missing_ok=True)
        self._remove_bytes(upload_id)

    def _remove_bytes(self, upload_id: str) -> None:
        path = self.path(upload_id)
        with suppress(FileNotFoundError):
            size_bytes = path.stat().st_size
            path.unlink()
            self.blobs.release(size_bytes)

    def _settled(self, kept: Kept) -> int:
        """Looks how much is there of one that a process left, makes that durable, and counts it."""
        with open(self.path(kept.upload_id), "r+b") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            most = size_bytes if kept.unchecked_from is None else kept.unchecked_from
            if kept.length_bytes is not None:
                most = min(most, kept.length_bytes)
            if size_bytes > most:
                file.truncate(most)
                size_bytes = most
            os.fsync(file.fileno())
        if kept.unchecked_from is not None:
            kept.unchecked_from = None
            self.write(kept)
        self.blobs.count(size_bytes)
        return size_bytes


class PartFile:
    """What one request adds to an upload.

    Args:
        files: where.
        kept: to what.
        offset_bytes: where the upload ends now.
        digest: algorithm and value of what is coming; other bytes do not count, and neither does half of them.

    Attributes:
        end_bytes: where the upload ends; durable after `settle`.
    """

    def __init__(self, files: UploadFiles, kept: Kept, offset_bytes: int, digest: tuple[str, bytes] | None) -> None:
        self._files, self._kept = files, kept
        self._begin_bytes = self.end_bytes = offset_bytes
        self._digest = digest
        self._hash = None if digest is None else hashlib.new(digest[0])
        self._descriptor: int | None = None

    def write(self, pieces: Sequence[bytes]) -> None:
        """Appends. On an error, nothing of these pieces counts.

        Raises:
            StorageFull: no room.
            UnsupportedMediaType: the first bytes are of no kind that is read.
        """
        size_bytes = sum(map(len, pieces))
        if not size_bytes:
            return
        if self._descriptor is None:
            self._open()
        assert self._descriptor is not None
        self._files.need_free(size_bytes)
        self._files.blobs.reserve(size_bytes)
        try:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
        except BaseException:
            self._files.blobs.release(size_bytes)
            os.ftruncate(self._descriptor, self.end_bytes)
            raise
        if self._hash is not None:
            for piece in pieces:
                self._hash.update(piece)
        before, self.end_bytes = self.end_bytes, self.end_bytes + size_bytes
        if self._hash is None and before < HEAD_BYTES <= self.end_bytes:
            require_media_type(os.pread(self._descriptor, HEAD_BYTES, 0))  # before the rest of it is taken

    def settle(self, pieces: Sequence[bytes], whole: bool) -> None:
        """Appends the last pieces and makes all durable; what does not count is gone afterwards.

        Args:
            pieces: the last ones.
            whole: whether the request came to its end.

        Raises:
            PartMismatch: the digest is another one.
            As `write`.
        """
        good = False
        try:
            self.write(pieces)
            if self._descriptor is None:
                if whole and self._digest is not None and self._hash is not None:
                    self._check(self._hash.digest())
                return
            os.fsync(self._descriptor)
            if self._hash is None:
                good = True
            elif whole:
                self._check(self._hash.digest())
                self._kept.unchecked_from = None
                self._files.write(self._kept)
                good = True
        finally:
            if self._hash is not None and not good:
                self._take_back()
            self.close()

    def close(self) -> None:
        """Lets go of the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> None:
        kept, before = self._kept, self._kept.unchecked_from
        kept.unchecked_from = None if self._digest is None else self._begin_bytes
        if kept.unchecked_from != before:  # also one that a part left that was taken back: what comes now counts
            try:
                self._files.write(kept)
            except BaseException:
                kept.unchecked_from = before
                raise
        path = self._files.path(self._kept.upload_id)
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)

    def _check(self, found: bytes) -> None:
        assert self._digest is not None
        if found != self._digest[1]:
            raise PartMismatch(f"the {self._digest[0]} of this part is not the one that was promised; send it again")

    def _take_back(self) -> None:
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, self._begin_bytes)
            self._files.blobs.release(self.end_bytes - self._begin_bytes)
            self.end_bytes = self._begin_bytes


def _read(path: Path) -> Kept | None:
    try:
        return Kept.from_json(path.read_bytes())
    except (OSError, ValueError, TypeError):
        return None


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
