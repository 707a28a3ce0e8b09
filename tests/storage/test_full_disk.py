"""A disk that is full: a real one, of one megabyte, where we may mount it; else the limit on the size of a file."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_entries import commit_next, decide, filled, numbered

from headrace.ledger import verify
from headrace.storage.blobs import Blobs
from headrace.storage.errors import StorageFull
from headrace.storage.sqlite import SqliteStore


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here; the limit on file sizes is tested instead")
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def _fill_up(store: SqliteStore, documents: int = 6000) -> int:
    """Commits until there is no room; returns the entries that were confirmed."""
    batch = filled(store, numbered(300))
    confirmed = 0
    try:
        for key in range(documents // 300):
            while entries := commit_next(store, batch, 20):
                confirmed += len(entries)
            batch = filled(store, numbered(300), key=str(key))
    except StorageFull:
        return confirmed
    pytest.fail("the disk was never full")


def _whole(store: SqliteStore, confirmed: int) -> None:
    entries = store.entries(book="main", limit=10_000)
    assert len(entries) == confirmed
    assert verify(entries, store.head("main")).holds
    for batch in store.batches():
        accounts = store.accounts(batch.batch_id)
        assert accounts.holds
        assert accounts.done == len(store.entries(batch_id=batch.batch_id, limit=10_000))


def test_a_full_disk_leaves_no_half_entry_and_the_same_commit_works_when_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with SqliteStore.open(small_disk / "ws") as store:
        ballast.write_bytes(b"x" * 200_000)
        confirmed = _fill_up(store)
        assert confirmed > 0
        _whole(store, confirmed)
        batch = next(b for b in reversed(store.batches()) if store.pending(b.batch_id, 0, 1))
        entries = decide(store, "main", store.pending(batch.batch_id, 0, 20))
        ballast.unlink()
        store.commit(entries)
        _whole(store, confirmed + len(entries))
    with SqliteStore.open(small_disk / "ws") as store:
        _whole(store, confirmed + len(entries))


def test_a_full_disk_leaves_no_half_listing(small_disk: Path) -> None:
    with SqliteStore.open(small_disk / "ws") as store:
        batch = store.open_batch("main", "k", "2026-03-04", "{}")
        with pytest.raises(StorageFull):
            store.stage_listing(batch.batch_id, 0, ((row.path, row) for row in numbered(40_000)))
        assert store.accounts(batch.batch_id).accepted == 0
        store.stage_listing(batch.batch_id, 0, ((row.path, row) for row in numbered(100)))
        assert store.settle_listing(batch.batch_id, 0).count == 100


def test_a_full_disk_leaves_no_half_blob(small_disk: Path) -> None:
    blobs = Blobs(small_disk / "blobs")
    source = small_disk.parent / "large"
    source.write_bytes(b"x" * (2 << 20))
    with pytest.raises(StorageFull):
        blobs.put(source)
    assert blobs.total_bytes == 0
    assert [path for path in (small_disk / "blobs").rglob("*") if path.is_file()] == []
    source.write_bytes(b"small")
    assert blobs.put(source)[1] == 5


@pytest.fixture
def limited_file_size() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_a_limit_on_file_sizes_is_a_full_disk_too(tmp_path: Path, limited_file_size: None) -> None:
    with SqliteStore.open(tmp_path / "ws") as store:
        confirmed = _fill_up(store)
        assert confirmed > 0
        _whole(store, confirmed)
    blobs = Blobs(tmp_path / "blobs")
    zeros = tmp_path / "zeros"
    with zeros.open("wb") as file:
        file.truncate(799_000)
    blobs.put(zeros)
    with pytest.raises(StorageFull), open("/dev/zero", "rb") as endless:
        blobs.put(endless)
    assert blobs.total_bytes == 799_000
