"""Bytes that have just arrived: appended to one file, synced once for all that came together; files of their own later.

    append (one sync for a group) ──> accepted ──> place: a file of its own, unsynced ──> retire: sync all, drop the log

Making and syncing a file for each document takes several times what everything else about it does. So an arrival is a
record of a log, which is durable at once, and becomes a file when somebody wants to read it. A log is dropped when all
its records are files and those are synced. What a crash left is read again at the next start (`recover`).

    record: b"HRA1", SHA-256 (32 bytes), size (8 bytes, big endian), content
    group:  records, and zeros up to the end of the block (`storage.direct`)
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from headrace.storage.direct import Appender, create, round_up

_MAGIC = b"HRA1"
_HEADER_BYTES = len(_MAGIC) + 32 + 8
_SEGMENT_BYTES = 64 << 20  # what one sync of everything is worth; and about what a log may keep on disk in vain
_FILES_ONE_BY_ONE = 128  # more are synced together with everything else on the file system
_PIECE_BYTES = 1 << 20


class Arrival(NamedTuple):
    """What is to be kept: hex digest, the content in pieces, how many bytes."""

    sha256: str
    pieces: Sequence[bytes]
    size_bytes: int


@dataclass(slots=True)
class _Segment:
    """One log.

    Attributes:
        descriptor, direct: to read from, and to append by.
        size_bytes: of its whole groups.
        left: records that are no files yet, by digest: offset and size of the content.
        placed: digests of those that became files.
        readers: threads that read from it now.
        appended_at: when the last group came, in seconds of the monotonic clock.
    """

    path: Path
    descriptor: int
    direct: int | None = None
    size_bytes: int = 0
    left: dict[str, tuple[int, int]] = field(default_factory=dict)
    placed: list[str] = field(default_factory=list)
    readers: int = 0
    appended_at: float = 0.0

    def close(self) -> None:
        """Gives its descriptors back."""
        os.close(self.descriptor)
        if self.direct is not None:
            os.close(self.direct)


class Arrivals:
    """The logs of arrivals. One thread appends; several may place.

    Args:
        folder: of the logs; made when it is not there.
        path_of: where the file with a digest belongs.
        incoming: gives a name for a file that is not whole yet.
    """

    def __init__(self, folder: Path, path_of: Callable[[str], Path], incoming: Callable[[], Path]) -> None:
        self._folder = folder
        self._path_of = path_of
        self._incoming = incoming
        self._lock = threading.Lock()
        self._appending = threading.Lock()  # taken before the other one
        self._where: dict[str, _Segment] = {}  # bounded by what is accepted and was not read yet
        self._segments: list[_Segment] = []
        self._active: _Segment | None = None
        self._number = 0
        self._appender = Appender()

    def __contains__(self, sha256: str) -> bool:
        return sha256 in self._where

    @property
    def waiting(self) -> int:
        """Records that are no files yet."""
        return len(self._where)

    @property
    def left_bytes(self) -> int:
        """Bytes of those, where there is no file with them either."""
        with self._lock:
            return sum(
                size_bytes
                for segment in self._segments
                for sha256, (_, size_bytes) in segment.left.items()
                if not self._path_of(sha256).exists()
            )

    def append(self, arrived: Sequence[Arrival]) -> None:
        """Keeps these; on disk on return. When it raises, none of them counts, and what was written is cut off."""
        if arrived:
            with self._appending:
                self._append(arrived)

    def _append(self, arrived: Sequence[Arrival]) -> None:
        segment = self._active or self._new_segment()
        assert segment.direct is not None
        start = at = segment.size_bytes
        places = {}
        buffers: list[bytes] = []
        for sha256, pieces, size_bytes in arrived:
            buffers.append(_MAGIC + bytes.fromhex(sha256) + size_bytes.to_bytes(8, "big"))
            buffers += pieces
            places[sha256] = (at + _HEADER_BYTES, size_bytes)
            at += _HEADER_BYTES + size_bytes
        try:
            at = self._appender.append(segment.direct, start, buffers)
            os.fdatasync(segment.direct)
        except BaseException:
            os.ftruncate(segment.direct, start)
            raise
        with self._lock:
            segment.size_bytes = at
            segment.appended_at = time.monotonic()
            for sha256, place in places.items():
                segment.left[sha256] = place
                self._where[sha256] = segment
        if at >= _SEGMENT_BYTES:
            self._active = None

    def place(self, sha256: str) -> bool:
        """Makes a record a file, so that it can be read; False when it is no record (any more)."""
        with self._lock:
            segment = self._where.get(sha256)
            if segment is None:
                return False
            offset, size_bytes = segment.left[sha256]
            segment.readers += 1
        incoming, path = self._incoming(), self._path_of(sha256)
        try:
            with open(incoming, "xb", buffering=0) as file:
                _copy(segment.descriptor, offset, size_bytes, file.fileno())
            path.parent.mkdir(exist_ok=True)
            incoming.rename(path)
        except BaseException:
            incoming.unlink(missing_ok=True)
            raise
        finally:
            with self._lock:
                segment.readers -= 1
        self.drop(sha256, placed=True)
        return True

    def drop(self, sha256: str, *, placed: bool = False) -> int:
        """Forgets a record: it is a file, or was not accepted. Returns its size; 0 when there was none."""
        with self._lock:
            segment = self._where.pop(sha256, None)
            if segment is None:
                return 0
            if placed:
                segment.placed.append(sha256)
            return segment.left.pop(sha256)[1]

    def retire(self, idle_s: float = 0.0) -> int:
        """Drops the logs of which nothing is left, after a sync of the files that came of them; returns how many.

        Any one thread, beside those that append and place.

        Args:
            idle_s: the log that is appended to is dropped, too, when nothing has come for so long.
        """
        with self._appending:
            active = self._active
            if active is not None and active.size_bytes and time.monotonic() - active.appended_at >= idle_s:
                self._active = None
            with self._lock:
                done = [one for one in self._segments if one is not self._active and not one.left and not one.readers]
                self._segments = [one for one in self._segments if one not in done]
        if done:
            self._sync([sha256 for segment in done for sha256 in segment.placed])
        for segment in done:
            segment.path.unlink(missing_ok=True)
            segment.close()
        return len(done)

    def _sync(self, placed: Sequence[str]) -> None:
        if len(placed) > _FILES_ONE_BY_ONE:
            _sync_everything(self._folder)
            return
        paths = [self._path_of(sha256) for sha256 in placed]
        for path in [*paths, *{path.parent for path in paths}, *{path.parent.parent for path in paths}]:
            with suppress(FileNotFoundError):
                _sync_one(path)

    def recover(self, known: Callable[[Sequence[str]], set[str]], waiting: Callable[[Sequence[str]], set[str]]) -> None:
        """Takes in the logs that a crash left.

        Args:
            known: which of these digests were accepted; the others are forgotten.
            waiting: which of those are still to be read; the others become files at once, again: what was written
                before a power cut may be torn.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(self._folder.glob("*.log")):
            self._number = max(self._number, int(path.stem))
            segment = _Segment(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC), size_bytes=path.stat().st_size)
            self._segments.append(segment)
            found = dict(_records(segment.descriptor))
            names = list(found)
            accepted, later = known(names), waiting(names)
            for sha256 in names:
                if sha256 in accepted and sha256 not in self._where:
                    segment.left[sha256] = found[sha256]
                    self._where[sha256] = segment
                    if sha256 not in later:
                        self.place(sha256)
        self.retire()

    def close(self) -> None:
        """Drops what it may; the rest is for the next start."""
        with suppress(OSError):
            self.retire()
        for segment in self._segments:
            segment.close()
        self._segments.clear()
        self._where.clear()
        self._active = None

    def _new_segment(self) -> _Segment:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._number += 1
        path = self._folder / f"{self._number:08d}.log"
        direct = create(path)
        segment = _Segment(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC), direct)
        _sync_one(self._folder)
        with self._lock:
            self._segments.append(segment)
        self._active = segment
        return segment


def _copy(source: int, offset: int, size_bytes: int, target: int) -> None:
    end = offset + size_bytes
    while offset < end:
        copied = os.sendfile(target, source, offset, end - offset)
        if not copied:
            raise OSError("the log of arrivals is shorter than it was")
        offset += copied


def _records(descriptor: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """The whole records of a log: digest, offset and size. Ends at the first one that is torn."""
    at = 0
    while True:
        header = os.pread(descriptor, _HEADER_BYTES, at)
        if not header.startswith(_MAGIC):  # the next group begins at a block
            at = round_up(at)
            header = os.pread(descriptor, _HEADER_BYTES, at)
        if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
            return
        sha256, size_bytes = header[4:36].hex(), int.from_bytes(header[36:], "big")
        start = at + _HEADER_BYTES
        digest, at = hashlib.sha256(), start
        while at < start + size_bytes:
            piece = os.pread(descriptor, min(_PIECE_BYTES, start + size_bytes - at), at)
            if not piece:
                return
            digest.update(piece)
            at += len(piece)
        if digest.hexdigest() != sha256:
            return
        yield sha256, (start, size_bytes)


def _sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_everything(folder: Path) -> None:
    """One sync for all files of the file system: Python has no call for it, the C library has."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
    finally:
        os.close(descriptor)
