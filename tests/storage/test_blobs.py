"""Bytes by digest: whole or not at all, once, within their bound."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import threading
from pathlib import Path

import pytest

from headrace.storage.blobs import Blobs
from headrace.storage.errors import StorageFull


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_bytes_are_kept_under_their_digest(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    sha256, size_bytes = blobs.put(io.BytesIO(b"receipt"))
    assert (sha256, size_bytes) == (hashlib.sha256(b"receipt").hexdigest(), 7)
    assert blobs.path(sha256) == tmp_path / sha256[:2] / sha256[2:]
    assert blobs.path(sha256).read_bytes() == b"receipt"
    assert _files(tmp_path) == [blobs.path(sha256)]


def test_streams_and_both_spellings_of_a_path_give_the_same(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    odd = os.fsencode(tmp_path) + b"/\x96 odd\n.jpg"
    with open(odd, "wb") as file:
        file.write(b"x" * (3 << 20))
    with open(odd, "rb") as stream:
        first = blobs.put(stream)
    assert blobs.put(odd) == blobs.put(Path(os.fsdecode(odd))) == first
    assert blobs.total_bytes == 3 << 20
    assert len(_files(tmp_path / "blobs")) == 1


def test_a_source_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    class Broken(io.RawIOBase):
        def __init__(self) -> None:
            self.parts = [b"x" * 1000]

        def read(self, size: int = -1) -> bytes:
            if self.parts:
                return self.parts.pop()
            raise OSError(errno.EIO, "the card was pulled out")

    blobs = Blobs(tmp_path)
    with pytest.raises(OSError, match="pulled out") as error:
        blobs.put(Broken())  # type: ignore[arg-type]
    assert not isinstance(error.value, StorageFull)
    with pytest.raises(FileNotFoundError):
        blobs.put(tmp_path / "none")
    assert (blobs.total_bytes, _files(tmp_path)) == (0, [])


def test_the_bound_counts_bytes_and_is_never_passed(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path, limit_bytes=10)
    sha256, _ = blobs.put(io.BytesIO(b"123456"))
    with pytest.raises(StorageFull) as error:
        blobs.put(io.BytesIO(b"abcde"))
    assert error.value.errno == errno.ENOSPC
    assert (blobs.total_bytes, len(_files(tmp_path))) == (6, 1)
    blobs.put(io.BytesIO(b"abcd"))
    assert blobs.total_bytes == 10
    assert blobs.delete(sha256)
    assert not blobs.delete(sha256)
    assert blobs.total_bytes == 4


def test_the_bound_holds_for_what_was_there_before(tmp_path: Path) -> None:
    Blobs(tmp_path).put(io.BytesIO(b"123456"))
    again = Blobs(tmp_path, limit_bytes=10)
    with pytest.raises(StorageFull):
        again.put(io.BytesIO(b"abcde"))
    assert again.total_bytes == 6


def test_what_a_crash_left_half_written_is_removed(tmp_path: Path) -> None:
    Blobs(tmp_path)
    (tmp_path / "incoming" / "0123").write_bytes(b"half")
    blobs = Blobs(tmp_path)
    assert (blobs.total_bytes, _files(tmp_path)) == (0, [])


def test_many_threads_with_the_same_bytes_keep_them_once(tmp_path: Path) -> None:
    blobs, start = Blobs(tmp_path, limit_bytes=10_000), threading.Barrier(8)

    def put(n: int) -> None:
        start.wait()
        blobs.put(io.BytesIO(b"same" * 100))
        blobs.put(io.BytesIO(b"own %d" % n))

    threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert len(_files(tmp_path)) == 9
    assert blobs.total_bytes == sum(path.stat().st_size for path in _files(tmp_path)) == 400 + 8 * 5
