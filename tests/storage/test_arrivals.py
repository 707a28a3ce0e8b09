from __future__ import annotations

import hashlib
import os
import resource
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.storage.arrivals import Arrival
from headrace.storage.blobs import Blobs
from headrace.storage.direct import BLOCK_BYTES, Appender, create
from headrace.storage.errors import StorageFull


def arrival(number: int, size_bytes: int = 5000) -> Arrival:
    content = (f"{number:06d}".encode() * size_bytes)[:size_bytes]
    return Arrival(hashlib.sha256(content).hexdigest(), [content[:7], content[7:]], size_bytes)


def keep(blobs: Blobs, arrived: Sequence[Arrival]) -> list[bool]:
    blobs.reserve(sum(one.size_bytes for one in arrived))
    return blobs.log(arrived)


def content_of(blobs: Blobs, one: Arrival) -> bytes | None:
    path = blobs.path(one.sha256)
    return path.read_bytes() if path.exists() else None


def logs(blobs: Blobs) -> list[Path]:
    return sorted((blobs.folder / "arrivals").glob("*.log"))


def everything(digests: Sequence[str]) -> set[str]:
    return set(digests)


def nothing(_: Sequence[str]) -> set[str]:
    return set()


def test_what_was_logged_becomes_a_file_when_it_is_wanted_and_the_log_goes(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    arrived = [arrival(n) for n in range(2500)]  # more than one writev takes
    assert keep(blobs, arrived) == [True] * 2500
    assert content_of(blobs, arrived[3]) is None
    for one in arrived:
        blobs.place(one.sha256)
        assert content_of(blobs, one) == b"".join(one.pieces)
    assert blobs.arrivals.waiting == 0
    assert blobs.arrivals.retire() == 1
    assert logs(blobs) == []
    assert keep(blobs, [arrival(7)]) == [False]
    assert keep(blobs, [arrival(-1), arrival(-1)]) == [True, False]


def test_a_log_stays_until_the_last_of_its_records_is_a_file(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    arrived = [arrival(n) for n in range(3)]
    keep(blobs, arrived)
    for one in arrived[:2]:
        blobs.place(one.sha256)
    assert blobs.arrivals.retire() == 0
    assert not blobs.delete("0" * 64)
    assert blobs.delete(arrived[2].sha256)
    assert blobs.total_bytes == 10_000
    assert blobs.arrivals.retire() == 1
    assert content_of(blobs, arrived[2]) is None


def test_after_a_crash_what_waits_is_there_what_was_read_is_whole_and_what_nobody_knows_is_gone(tmp_path: Path) -> None:
    crashed = Blobs(tmp_path)
    waits, was_read, unknown = (arrival(n) for n in range(3))
    keep(crashed, [waits, was_read, unknown])
    crashed.place(was_read.sha256)
    crashed.path(was_read.sha256).write_bytes(b"torn by a power cut")
    blobs = Blobs(tmp_path)
    blobs.recover(lambda names: set(names) - {unknown.sha256}, lambda names: {waits.sha256} & set(names))
    assert content_of(blobs, was_read) == b"".join(was_read.pieces)
    assert unknown.sha256 not in blobs.arrivals
    assert blobs.total_bytes == 10_000
    blobs.place(waits.sha256)
    assert content_of(blobs, waits) == b"".join(waits.pieces)
    assert blobs.arrivals.retire() == 1
    keep(blobs, [arrival(9)])
    assert len(logs(blobs)) == 1


@pytest.mark.parametrize("cut_bytes", [1, 20, 4990, 5010])
def test_a_torn_record_at_the_end_of_a_log_costs_nothing_before_it(tmp_path: Path, cut_bytes: int) -> None:
    crashed = Blobs(tmp_path)
    first, torn = arrival(1), arrival(2)
    keep(crashed, [first])
    keep(crashed, [torn])
    [log] = logs(crashed)
    padding_bytes = -(44 + 5000) % BLOCK_BYTES
    os.truncate(log, log.stat().st_size - padding_bytes - cut_bytes)
    blobs = Blobs(tmp_path)
    blobs.recover(everything, everything)
    assert first.sha256 in blobs.arrivals
    assert torn.sha256 not in blobs.arrivals


def test_a_log_that_nobody_needs_is_dropped_at_the_start(tmp_path: Path) -> None:
    crashed = Blobs(tmp_path)
    keep(crashed, [arrival(1)])
    blobs = Blobs(tmp_path)
    blobs.recover(nothing, nothing)
    assert logs(blobs) == []
    assert blobs.total_bytes == 0


def test_a_full_disk_keeps_nothing_of_the_group_and_all_of_those_before(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    keep(blobs, [arrival(1)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(StorageFull):
            keep(blobs, [arrival(n) for n in range(2, 9)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert blobs.arrivals.waiting == 1
    keep(blobs, [arrival(20)])
    again = Blobs(tmp_path)
    again.recover(everything, everything)
    assert {arrival(1).sha256, arrival(20).sha256} == {
        n for n in (arrival(k).sha256 for k in range(30)) if n in again.arrivals
    }


@pytest.mark.parametrize("sizes", [[0], [1], [BLOCK_BYTES], [5000, 1], [3 << 20, 7], [1 << 20], [(1 << 20) - 1, 2, 9]])
@pytest.mark.parametrize("folder", ["", "/dev/shm"], ids=["a disk", "memory"])
def test_what_is_appended_past_the_cache_is_there_and_ends_at_a_block(
    tmp_path: Path, sizes: list[int], folder: str
) -> None:
    if folder and not os.access(folder, os.W_OK):
        pytest.skip(f"no {folder} here")
    where = Path(tempfile.mkdtemp(dir=folder or tmp_path))
    try:
        content = [os.urandom(size_bytes) for size_bytes in sizes]
        descriptor, appender = create(where / "log"), Appender()
        try:
            end = appender.append(descriptor, 0, content)
            assert appender.append(descriptor, end, [b"next"]) == end + BLOCK_BYTES
        finally:
            os.close(descriptor)
        written = (where / "log").read_bytes()
        assert end % BLOCK_BYTES == 0
        assert end - sum(sizes) < BLOCK_BYTES
        assert written[:end] == b"".join(content).ljust(end, b"\0")
        assert written[end:] == b"next".ljust(BLOCK_BYTES, b"\0")
    finally:
        shutil.rmtree(where)


def test_a_file_system_that_refuses_to_write_past_the_cache_is_written_through_it(tmp_path: Path) -> None:
    descriptor, appender = create(tmp_path / "log"), Appender()
    try:
        assert appender.append(descriptor, 7, [b"not where a block begins"]) == 7 + BLOCK_BYTES  # refused with EINVAL
    finally:
        os.close(descriptor)
    assert (tmp_path / "log").read_bytes()[7:].startswith(b"not where a block begins")


def test_a_log_whose_groups_do_not_begin_at_a_block_is_read_too(tmp_path: Path) -> None:
    folder = tmp_path / "arrivals"
    folder.mkdir()
    arrived = [arrival(n) for n in range(3)]
    records = (
        b"HRA1" + bytes.fromhex(a.sha256) + a.size_bytes.to_bytes(8, "big") + b"".join(a.pieces) for a in arrived
    )
    (folder / "00000001.log").write_bytes(b"".join(records))
    blobs = Blobs(tmp_path)
    blobs.recover(everything, everything)
    assert blobs.arrivals.waiting == 3
