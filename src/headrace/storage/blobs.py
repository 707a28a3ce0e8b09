"""Bytes kept by their SHA-256, in a folder. Once `put` returns, they survive a power cut."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from headrace.storage.arrivals import Arrival, Arrivals
from headrace.storage.errors import StorageFull

_CHUNK_BYTES = 1 << 20
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; b"" at the end."""


def blob_path(folder: Path, sha256: str) -> Path:
    """Where the bytes with this hex digest are, or would be."""
    return folder / sha256[:2] / sha256[2:]


class Blobs:
    """A content-addressed folder: `ab/cdef...` holds the bytes whose digest is `abcdef...`.

    The same bytes are kept once. A file is only ever seen whole: it is written and hashed elsewhere, synced, then
    renamed into its place. One process writes at a time (the workspace's lock sees to that); several threads may.

    Args:
        folder: made when it is not there; what an earlier process left half written in it is removed.
        limit_bytes: the bound on all blobs together, those being written included; None: as the disk has room.
    """

    def __init__(self, folder: Path, *, limit_bytes: int | None = None) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._incoming = folder / "incoming"
        self._taken_bytes: int | None = None
        self._lock = threading.Lock()
        self._incoming.mkdir(parents=True, exist_ok=True)
        for stale in self._incoming.iterdir():
            stale.unlink(missing_ok=True)
        self._arrived = folder / "arrived"
        self._arrived.mkdir(exist_ok=True)
        _sync(folder)
        self._settle_left_over()
        self.arrivals = Arrivals(folder / "arrivals", self.path, self.incoming)

    @property
    def total_bytes(self) -> int:
        """The bytes of all blobs and of those being written; counted file by file once, then kept up to date."""
        if self._taken_bytes is None:
            with self._lock:
                return self._total()
        return self._taken_bytes  # without the lock: others hold it while they sync, and the event loop asks

    def put(self, source: Readable | Path | bytes) -> tuple[str, int]:
        """Keeps the bytes of a stream, or of the file at a path (`bytes` is a path too, as the system spells it).

        Returns:
            The hex SHA-256 and the size in bytes.

        Raises:
            StorageFull: the bound or the disk is full.
            OSError: the source cannot be read. In both cases nothing is kept and nothing is left behind.
        """
        if isinstance(source, Path | bytes):
            with open(source, "rb") as stream:
                return self._put(stream)
        return self._put(source)

    def incoming(self) -> Path:
        """A new name, in the folder of what is not whole yet; for those who write themselves, and then `adopt`."""
        return self._incoming / secrets.token_hex(16)

    def reserve(self, size_bytes: int) -> None:
        """Counts bytes that are about to be written. Raises StorageFull, and counts nothing, over the bound."""
        self._take(size_bytes)

    def release(self, size_bytes: int) -> None:
        """Counts bytes no more: they were not written, or are gone again."""
        self._give(size_bytes)

    def count(self, size_bytes: int) -> None:
        """Counts bytes that are there already, whatever the bound."""
        self._give(-size_bytes)

    def adopt(self, arrived: Sequence[tuple[Path, str]]) -> list[bool]:
        """Makes whole, synced and reserved files durable under their digests, with one sync for all of them.

        They go through the folder `arrived`: its one sync makes all their names durable. Their moves to where they
        belong need none: after a power cut each is in one of the two places, and the next start looks into both.

        Args:
            arrived: where each is, and its hex SHA-256. One that is not there any more was adopted before.

        Returns:
            For each whether it is new. The reservation of one that is not is the caller's to release.

        Raises:
            StorageFull: no room for a name; some may have theirs.
        """
        with _full_disk():
            for incoming, sha256 in arrived:
                with suppress(FileNotFoundError):
                    incoming.rename(self._arrived / sha256)
            _sync(self._arrived)
            return [self._settle(sha256) for _, sha256 in arrived]

    def log(self, arrived: Sequence[Arrival]) -> list[bool]:
        """Makes the bytes of small, reserved documents durable, with one sync for all; see `storage.arrivals`.

        One thread at a time. They can be read once `place` was called.

        Returns:
            For each whether it is new. The reservation of one that is not is the caller's to release.

        Raises:
            StorageFull: no room; none of them is kept.
        """
        new: dict[str, Arrival] = {}
        answers = []
        for one in arrived:
            path = self.path(one.sha256)
            if one.sha256 in new or one.sha256 in self.arrivals:
                answers.append(False)
            elif path.exists():
                if not self.arrivals.waiting:
                    _sync(path.parent)  # whoever put it may have died before this
                answers.append(False)
            else:
                new[one.sha256] = one
                answers.append(True)
        with _full_disk():
            self.arrivals.append(list(new.values()))
        return answers

    def place(self, sha256: str) -> None:
        """Sees to it that the bytes are at their path, if they are here at all. Any thread."""
        with _full_disk():
            self.arrivals.place(sha256)

    def recover(self, known: Callable[[Sequence[str]], set[str]], waiting: Callable[[Sequence[str]], set[str]]) -> None:
        """Takes in what a crash of the service left in logs; see `Arrivals.recover`."""
        self.arrivals.recover(known, waiting)
        left_bytes = self.arrivals.left_bytes
        with self._lock:
            self._taken_bytes = None
            self._taken_bytes = self._total() + left_bytes

    def _settle(self, sha256: str) -> bool:
        """Moves a file from `arrived` to its place; False when the bytes were there already."""
        path, here = self.path(sha256), self._arrived / sha256
        with self._lock:
            if path.exists():
                # What is there may not be durable under that name: this one is, until that is.
                _sync(path.parent)
                here.unlink(missing_ok=True)
                return False
            if not path.parent.exists():
                path.parent.mkdir()
                _sync(self.folder)
            try:
                here.rename(path)
            except FileNotFoundError:  # twice in this group
                return False
            return True

    def _settle_left_over(self) -> None:
        """Looks after what a power cut left in `arrived`: whole files go where they belong, torn ones are removed."""
        for left in self._arrived.iterdir():
            with open(left, "rb") as file:
                whole = hashlib.file_digest(file, "sha256").hexdigest() == left.name
            if whole:
                self._move_in(left, self.path(left.name))
            left.unlink(missing_ok=True)

    def path(self, sha256: str) -> Path:
        """Where the bytes with this hex digest are; whether they are there is for the caller to see."""
        return blob_path(self.folder, sha256)

    def delete(self, sha256: str) -> bool:
        """Removes a blob; False when there was none."""
        path = self.path(sha256)
        if logged_bytes := self.arrivals.drop(sha256):
            self._give(logged_bytes)
            return True
        with self._lock:
            try:
                size_bytes = path.stat().st_size
                path.unlink()
            except FileNotFoundError:
                return False
            if self._taken_bytes is not None:
                self._taken_bytes -= size_bytes
        return True

    def _put(self, stream: Readable) -> tuple[str, int]:
        incoming = self._incoming / secrets.token_hex(16)
        taken_bytes = 0
        digest = hashlib.sha256()
        try:
            with _full_disk(), open(incoming, "xb", buffering=0) as file:
                while chunk := stream.read(_CHUNK_BYTES):
                    self._take(len(chunk))
                    taken_bytes += len(chunk)
                    digest.update(chunk)
                    _write_all(file.fileno(), chunk)
                os.fsync(file.fileno())
                sha256, size_bytes = digest.hexdigest(), taken_bytes
                if self._move_in(incoming, self.path(sha256)):
                    taken_bytes = 0  # they stay taken
            return sha256, size_bytes
        finally:
            incoming.unlink(missing_ok=True)
            self._give(taken_bytes)

    def _move_in(self, incoming: Path, path: Path) -> bool:
        """Gives a whole and synced file its name, and syncs the name; False when the bytes were there already."""
        with self._lock:
            new = not path.exists()
            if new:
                if not path.parent.exists():
                    path.parent.mkdir()
                    _sync(self.folder)
                incoming.rename(path)
            # Also when it was there: whoever put it may have died before this.
            _sync(path.parent)
            return new

    def _total(self) -> int:
        if self._taken_bytes is None:
            self._taken_bytes = sum(path.stat().st_size for path in self.folder.glob("??/*"))
        return self._taken_bytes

    def _take(self, size_bytes: int) -> None:
        with self._lock:
            wanted_bytes = self._total() + size_bytes
            if self.limit_bytes is not None and wanted_bytes > self.limit_bytes:
                raise StorageFull(f"the blobs would take more than their bound of {self.limit_bytes} bytes")
            self._taken_bytes = wanted_bytes

    def _give(self, size_bytes: int) -> None:
        with self._lock:
            self._taken_bytes = self._total() - size_bytes


def _write_all(descriptor: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _full_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE and not isinstance(error, StorageFull):
            raise StorageFull(f"no room for the bytes: {error.strerror}") from error
        raise
