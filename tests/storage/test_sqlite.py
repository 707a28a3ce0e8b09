"""What only the embedded store promises: its lock, its readers, its tables, its memory, and its end by kill -9."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from made_entries import commit_next, filled, names, numbered
from sqlalchemy import create_engine

from headrace.ledger import verify
from headrace.storage import migrations, tables
from headrace.storage.errors import SchemaTooNew, StoreUnavailable, WorkspaceBusy, WorkspaceMissing
from headrace.storage.sqlite import DATABASE, SqliteStore
from headrace.storage.store import Registration

HERE = Path(__file__).parent


def test_a_second_writer_is_told_who_is_there(sqlite: SqliteStore, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceBusy, match=f"process {os.getpid()}") as error:
        SqliteStore.open(tmp_path)
    assert error.value.pid == os.getpid()
    sqlite.close()
    SqliteStore.open(tmp_path).close()


def test_closing_twice_does_not_harm(sqlite: SqliteStore) -> None:
    sqlite.close()
    sqlite.close()


def test_an_emptied_database_beside_a_blob_folder_is_refused_and_stays(tmp_path: Path) -> None:
    SqliteStore.open(tmp_path).close()
    (tmp_path / DATABASE).write_bytes(b"")
    SqliteStore.open(tmp_path).close()  # no blob folder yet: a first start that was cut off
    (tmp_path / DATABASE).write_bytes(b"")
    (tmp_path / "blobs" / "incoming").mkdir(parents=True)
    for look in (SqliteStore.read, SqliteStore.open):
        with pytest.raises(StoreUnavailable, match="the ledger was damaged") as refused:
            look(tmp_path)
        assert refused.value.exit_code == 5
    assert (tmp_path / DATABASE).read_bytes() == b""


def test_no_workspace_is_made_by_looking(tmp_path: Path) -> None:
    for look in (SqliteStore.read, lambda path: SqliteStore.open(path, create=False)):
        with pytest.raises(WorkspaceMissing):
            look(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_reader_sees_every_commit_of_a_writer_and_never_half_of_one(sqlite: SqliteStore, tmp_path: Path) -> None:
    batch = filled(sqlite, numbered(20))
    with SqliteStore.read(tmp_path) as reader:
        assert reader.accounts(batch.batch_id).in_flight == 20
        for done in range(4, 21, 4):
            commit_next(sqlite, batch, 4)
            assert reader.head("main").sequence == done
            assert reader.accounts(batch.batch_id).done == done
            assert len(reader.entries(book="main")) == done
        sqlite.add_sample(batch.batch_id, sample := _sample())
        assert reader.samples(batch.batch_id) == [sample]


def test_a_reader_cannot_write(sqlite: SqliteStore, tmp_path: Path) -> None:
    filled(sqlite, [])
    with SqliteStore.read(tmp_path) as reader, pytest.raises(StoreUnavailable, match="readonly"):
        reader.open_batch("main", "k", "2026-03-04", "{}")


def test_a_workspace_with_an_odd_name_opens(tmp_path: Path) -> None:
    odd = tmp_path / "50% of it? #1 %41"
    SqliteStore.open(odd).close()
    assert [path.name for path in tmp_path.iterdir()] == [odd.name]
    SqliteStore.read(odd).close()


def test_the_store_may_be_handed_to_another_thread(sqlite: SqliteStore) -> None:
    batch = filled(sqlite, numbered(2))
    thread = Thread(target=commit_next, args=(sqlite, batch))
    thread.start()
    thread.join(timeout=30)
    assert sqlite.head("main").sequence == 2


def test_every_commit_is_synced_and_memory_is_bounded(sqlite: SqliteStore) -> None:
    def told(pragma: str) -> object:
        return sqlite._connection.exec_driver_sql(f"PRAGMA {pragma}").scalar_one()

    with sqlite._transaction():
        assert (told("journal_mode"), told("synchronous"), told("foreign_keys")) == ("wal", 2, 1)
        assert (told("cache_size"), told("temp_store")) == (-1024, 1)


def test_the_migrations_make_the_same_tables_as_a_new_store_has(sqlite: SqliteStore) -> None:
    names = "SELECT name, type FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
    migrated = create_engine("sqlite://")
    with migrated.connect() as connection, sqlite._transaction() as new:
        migrations.upgrade(connection)
        for each in (connection, new):
            # What SQLite keeps for its full-text index are tables that SQLAlchemy does not know; the names below do.
            known = {"include_name": lambda name, *_: not str(name).startswith(tables.FULL_TEXT)}
            context = MigrationContext.configure(each, opts=known)
            assert compare_metadata(context, tables.metadata) == []
            assert context.get_current_revision() == tables.REVISION
        assert connection.exec_driver_sql(names).all() == new.exec_driver_sql(names).all()
    migrated.dispose()


def test_a_new_store_does_without_alembic(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from headrace.storage.sqlite import SqliteStore;"
        "SqliteStore.open(Path(sys.argv[1])).close(); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script, tmp_path], check=False).returncode == 0


def test_an_ordinary_start_does_not_load_alembic(tmp_path: Path) -> None:
    SqliteStore.open(tmp_path).close()
    script = (
        "import sys; from pathlib import Path; from headrace.storage.sqlite import SqliteStore;"
        "SqliteStore.open(Path(sys.argv[1])).close(); sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script, tmp_path], check=False).returncode == 0


def test_a_start_that_was_cut_off_before_the_version_was_written_is_done_again(tmp_path: Path) -> None:
    SqliteStore.open(tmp_path).close()
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute("PRAGMA user_version = 0")
    database.close()
    with SqliteStore.open(tmp_path) as store:
        filled(store, numbered(1))


def test_a_store_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    SqliteStore.open(tmp_path).close()
    with sqlite3.connect(tmp_path / DATABASE) as database:
        database.execute(f"PRAGMA user_version = {tables.SCHEMA_VERSION + 1}")
    database.close()
    for look in (SqliteStore.read, SqliteStore.open):
        with pytest.raises(SchemaTooNew):
            look(tmp_path)


def test_a_file_that_is_no_database_is_an_outage_and_no_traceback_of_a_driver(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"this is no database, but long enough to look at" * 100)
    for look in (SqliteStore.read, SqliteStore.open):
        with pytest.raises(StoreUnavailable, match="not a database"):
            look(tmp_path)
    (tmp_path / DATABASE).unlink()
    SqliteStore.open(tmp_path).close()  # the lock was given back


def test_what_a_crash_left_of_a_listing_is_cleared(sqlite: SqliteStore, tmp_path: Path) -> None:
    batch = sqlite.open_batch("main", "k", "2026-03-04", "{}")
    sqlite.stage_listing(batch.batch_id, 0, [(b"a", *names("a"))])
    left_over = list(tmp_path.glob("*.tmp"))
    assert len(left_over) == 1
    sqlite.settle_listing(batch.batch_id, 0)
    assert not list(tmp_path.glob("*.tmp"))
    left_over[0].write_bytes(b"half a listing")
    sqlite.close()
    with SqliteStore.open(tmp_path):
        assert not list(tmp_path.glob("*.tmp"))


def test_a_long_listing_takes_no_memory(sqlite: SqliteStore) -> None:
    def rows(count: int) -> Iterator[tuple[bytes, Registration]]:
        for n in range(count):
            name = f"/scans/{n * 7919 % count:08d}.jpg".encode()
            yield name, Registration(name.decode(), name, size_bytes=n, mtime_ns=n)

    peaks = []
    for key, count in enumerate((5_000, 40_000)):
        batch = sqlite.open_batch("main", str(key), "2026-03-04", "{}")
        tracemalloc.start()
        sqlite.stage_listing(batch.batch_id, 0, rows(count))
        assert sqlite.settle_listing(batch.batch_id, 0).count == count
        sqlite.finish_listing(batch.batch_id)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
    last = sqlite.pending(batch.batch_id, 39_999)[0]
    assert last.uri == "/scans/00039999.jpg"
    assert sqlite.document(last.document_id) is not None


def test_kill_9_at_any_moment_leaves_whole_groups_only(tmp_path: Path) -> None:
    documents, seed = 3000, random.randrange(1 << 30)
    chance, group = random.Random(seed), 8
    done, kills = 0, 0
    while done < documents:
        child = subprocess.Popen(
            [sys.executable, HERE / "committing_child.py", tmp_path, str(documents), str(group)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        begun = child.stdout.readline()  # the child is inside its loop of commits
        if kills < 10:
            time.sleep(chance.uniform(0, 0.25))
            child.send_signal(signal.SIGKILL)
            kills += 1
        told = [begun, *child.stdout]
        child.stdout.close()
        child.wait(timeout=60)
        with SqliteStore.open(tmp_path) as store:
            done = _check(store, seed)
        confirmed = max((int(line) for line in told if line.endswith("\n")), default=0)
        assert done >= confirmed, f"a confirmed commit is gone (seed {seed})"
    assert kills > 3


def _check(store: SqliteStore, seed: int) -> int:
    """All that must hold of a store between two commits; returns the number of entries."""
    entries = []
    while page := store.entries(book="main", after_sequence=len(entries)):
        entries += page
    found = verify(entries, store.head("main"))
    assert found.holds, f"{found.fault} (seed {seed})"
    if not store.batches():
        return 0
    accounts = store.accounts(1)
    assert accounts.holds
    assert [entry.position for entry in entries] == list(range(1, len(entries) + 1))
    failed = sum(entry.kind == "failure" for entry in entries)
    assert (accounts.done, accounts.failed) == (len(entries), failed)
    assert store.dead_count() == failed
    with store._transaction() as connection:
        ended = connection.exec_driver_sql("SELECT count(*) FROM documents WHERE state != 'queued'").scalar_one()
        all_of_them = connection.exec_driver_sql("SELECT count(*) FROM documents").scalar_one()
    assert (ended, all_of_them) == (accounts.done, accounts.accepted)
    return len(entries)


def _sample() -> object:
    from headrace.storage.store import Sample

    return Sample(1.5, 2, 3, 4, 5, 6.5)
