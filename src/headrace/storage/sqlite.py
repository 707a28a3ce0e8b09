"""The embedded store: one SQLite file in a workspace, one writer, any number of readers while it writes.

workspace/
  lock            held (flock) by the one process that writes
  search.lock     held by the one process that writes what search has derived, beside the other
  headrace.db     batches, documents, entries; -wal and -shm beside it while it is open
  blobs/          bytes, by digest
  *.tmp           names being sorted; deleted at the next start
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Engine, StaticPool, create_engine, event
from sqlalchemy.exc import DBAPIError

from headrace.storage.errors import SchemaTooNew, StoreUnavailable, WorkspaceBusy, WorkspaceMissing
from headrace.storage.sql import translated
from headrace.storage.sql_replay import SqlReplay
from headrace.storage.sql_retention import SqlRetention
from headrace.storage.sql_search import SqlSearch
from headrace.storage.sql_service import SqlService
from headrace.storage.staging import discard
from headrace.storage.tables import SCHEMA_VERSION, metadata, stamp

DATABASE = "headrace.db"
CACHE_BYTES = 1 << 20
"""Page cache of the connection. Memory of the store is about this plus one group of entries, whatever its size."""

_BUSY_TIMEOUT_MS = 10_000
_PAGE_BYTES = 8192  # three or more entries share a page; with 4096 most would have one alone and waste half of it
_CHECKPOINT_PAGES = 2048  # 16 MiB of log: the index of digests touches many pages, and the log gathers their changes
_DURABILITY = "WAL, synchronous=FULL: committed means synced to disk"


class SqliteStore(SqlService, SqlReplay, SqlRetention, SqlSearch):
    """A `Store` in a workspace. Use `open` to write, `read` to look while another process may write.

    It belongs to one thread at a time and may be handed over. As a context manager it closes itself.
    """

    durability = _DURABILITY

    def __init__(self, engine: Engine, workspace: Path, lock: int | None) -> None:
        super().__init__(engine.connect(), workspace)
        self._engine = engine
        self._lock = lock

    @classmethod
    def open(
        cls, workspace: Path, *, create: bool = True, exclusive: bool = True, cache_bytes: int = CACHE_BYTES
    ) -> SqliteStore:
        """Opens the workspace to write, brings its tables up to date and clears what a crash left behind.

        Args:
            workspace: the folder.
            create: make it when it is not there.
            exclusive: take the workspace's lock; only tests that want two writers do not.
            cache_bytes: page cache of the database.

        Raises:
            WorkspaceBusy: another process writes here.
            WorkspaceMissing: there is none, and `create` is False.
            SchemaTooNew: a later headrace wrote it.
            StoreUnavailable, StorageFull: the database cannot be used, or was emptied.
        """
        if create:
            workspace.mkdir(parents=True, exist_ok=True)
        elif not (workspace / DATABASE).exists():
            raise WorkspaceMissing(f"there is no workspace at {workspace}")
        lock = _take_lock(workspace) if exclusive else None
        try:
            if exclusive:
                for left_over in workspace.glob("*.tmp"):
                    discard(left_over)
            _refuse_emptied(workspace)
            engine = _engine(workspace, "rwc", cache_bytes)
            try:
                _bring_up_to_date(engine, workspace)
                return cls(engine, workspace, lock)
            except BaseException:
                engine.dispose()
                raise
        except BaseException as error:
            _give_lock(lock)
            if isinstance(error, DBAPIError):
                raise translated(error) from error
            raise

    @classmethod
    def open_beside(cls, workspace: Path, *, cache_bytes: int = CACHE_BYTES) -> SqliteStore:
        """Opens the workspace to write what search derives from the ledger, while a run or a service may write it.

        Both write short transactions and wait for each other's. One process at a time does this: it has a lock of its
        own. The methods of `SqlSearch` and those that read are all it may use.

        Raises:
            WorkspaceBusy: another process does this, or the tables are old and a run has the workspace.
            WorkspaceMissing, SchemaTooNew, StoreUnavailable, StorageFull: see `open`.
        """
        if not (workspace / DATABASE).exists():
            raise WorkspaceMissing(f"there is no workspace at {workspace}; `headrace run` makes one")
        lock = _take_lock(workspace, "search.lock")
        try:
            _refuse_emptied(workspace)
            engine = _engine(workspace, "rw", cache_bytes)
            try:
                version = _schema_version(engine)
                _refuse_newer(version, workspace)
                if version != SCHEMA_VERSION:
                    cls.open(workspace, create=False).close()  # brings the tables up to date
                return cls(engine, workspace, lock)
            except BaseException:
                engine.dispose()
                raise
        except BaseException as error:
            _give_lock(lock)
            if isinstance(error, DBAPIError):
                raise translated(error) from error
            raise

    @classmethod
    def read(cls, workspace: Path, *, cache_bytes: int = CACHE_BYTES) -> SqliteStore:
        """Opens the workspace to look only: no lock, works while a run writes, sees each commit at once.

        Raises:
            WorkspaceMissing: there is none.
            SchemaTooNew, StoreUnavailable: it cannot be read by this version, or not at all.
        """
        if not (workspace / DATABASE).exists():
            raise WorkspaceMissing(f"there is no workspace at {workspace}; `headrace run` makes one")
        _refuse_emptied(workspace)
        engine = _engine(workspace, "ro", cache_bytes)
        try:
            version = _schema_version(engine)
            if version != SCHEMA_VERSION:
                _refuse_newer(version, workspace)
                raise StoreUnavailable(f"{workspace} was written by an older headrace; any `headrace run` updates it")
            return cls(engine, workspace, None)
        except BaseException as error:
            engine.dispose()
            if isinstance(error, DBAPIError):
                raise translated(error) from error
            raise

    def close(self) -> None:
        """See `Store.close`."""
        for source in list(self._staged):
            self._unstage(*source)
        self._connection.close()
        self._engine.dispose()
        _give_lock(self._lock)
        self._lock = None

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _engine(workspace: Path, mode: str, cache_bytes: int) -> Engine:
    """An engine with one connection, whose transactions are begun by SQLAlchemy and not by the driver."""
    # as_uri() escapes what a URI must not hold, so that any folder name works.
    address = f"{(workspace / DATABASE).absolute().as_uri()}?mode={mode}"
    engine = create_engine(
        "sqlite://",
        creator=lambda: _connect(address, mode, cache_bytes),
        poolclass=StaticPool,
    )
    begin = "BEGIN" if mode == "ro" else "BEGIN IMMEDIATE"

    @event.listens_for(engine, "begin")
    def _begin(connection: Any) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _connect(address: str, mode: str, cache_bytes: int) -> Any:
    connection = sqlite3.connect(
        address, uri=True, isolation_level=None, check_same_thread=False, timeout=_BUSY_TIMEOUT_MS / 1000
    )
    pragmas = [
        f"busy_timeout={_BUSY_TIMEOUT_MS}",
        f"cache_size=-{max(64, cache_bytes >> 10)}",
        "temp_store=FILE",
        "foreign_keys=ON",
    ]
    if mode != "ro":
        # The page size holds for new files only, and must come first.
        pragmas += [
            f"page_size={_PAGE_BYTES}",
            "journal_mode=WAL",
            "synchronous=FULL",
            f"wal_autocheckpoint={_CHECKPOINT_PAGES}",
        ]
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}").fetchall()
    return connection


def _schema_version(engine: Engine) -> int:
    with engine.connect() as connection:
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def _refuse_newer(version: int, workspace: Path) -> None:
    if version > SCHEMA_VERSION:
        raise SchemaTooNew(f"{workspace} was written by a later headrace (tables {version}, known {SCHEMA_VERSION})")


def _refuse_emptied(workspace: Path) -> None:
    """A database of no bytes beside a blob folder was emptied: a new ledger in its place would hide the loss.

    A first start that is killed at once leaves such a file, too; but it has made no blob folder by then, because that
    comes after the tables. What is still in the log (-wal) is not lost.

    Raises:
        StoreUnavailable: says what to do.
    """
    database, log = workspace / DATABASE, workspace / f"{DATABASE}-wal"
    if not database.exists() or database.stat().st_size or (log.exists() and log.stat().st_size):
        return
    blobs = workspace / "blobs"
    if blobs.is_dir() and any(blobs.iterdir()):
        raise StoreUnavailable(
            f"the database {database} is empty, but the workspace was in use: the ledger was damaged; "
            "restore it from a backup, or start afresh with another --workspace"
        )


def _bring_up_to_date(engine: Engine, workspace: Path) -> None:
    """Makes the tables of a new store, or runs the migrations that an old one lacks.

    A new one does without Alembic, which costs a start 0.1 s and 10 MB; a test holds both ways against each other.
    The version is set last: an interrupted start does it again.
    """
    version = _schema_version(engine)
    _refuse_newer(version, workspace)
    if version == SCHEMA_VERSION:
        return
    with engine.connect() as connection:
        if version == 0:
            metadata.create_all(connection)
            stamp(connection)
        else:
            from headrace.storage import migrations

            migrations.upgrade(connection)
        connection.commit()
        connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.commit()
    # The names of the new files must last as well as what is in them.
    descriptor = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _take_lock(workspace: Path, name: str = "lock") -> int:
    """A lock of the workspace, with our process id in it for those who come second."""
    descriptor = os.open(workspace / name, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        text = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise WorkspaceBusy(str(workspace), int(text) if text.isdigit() else 0) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _give_lock(lock: int | None) -> None:
    if lock is not None:
        with suppress(OSError):
            os.close(lock)  # the lock goes with its last descriptor; the file stays, or two could lock two files
