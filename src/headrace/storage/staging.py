"""Sorting more rows than memory should hold: a throw-away SQLite file beside the store.

Nothing in it needs to last, so it has no journal and is never synced; after a crash it is simply deleted. SQLite's own
sorter does the work on disk, with a page cache of fixed size.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.storage.errors import StorageFull, StoreUnavailable
from headrace.storage.store import FILE, Registration

CHUNK_ROWS = 1024
_CACHE_KIB = 1024

Name = tuple[str, bytes, str, int, int, str | None]
"""uri, path, kind, size_bytes, mtime_ns, external_id."""


class Staging:
    """A file of names to sort, of names to leave out, and of ids to sort. One user at a time; bounded memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        discard(path)
        # The sorter's own files go where SQLite thinks best, which is a disk unless /var/tmp is none.
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        for pragma in (
            "journal_mode=OFF",
            "synchronous=OFF",
            f"cache_size=-{_CACHE_KIB}",
            "temp_store=FILE",
            "locking_mode=EXCLUSIVE",
        ):
            self._database.execute(f"PRAGMA {pragma}").fetchall()
        self._database.execute("CREATE TABLE names (key BLOB, uri, path, kind, size, mtime, external_id)")

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_names(self, rows: Iterable[tuple[bytes, Registration]]) -> int:
        """Takes names in any order; returns how many."""
        count = 0
        named = ((key, r.uri, r.path, r.kind, r.size_bytes, r.mtime_ns, r.external_id) for key, r in rows)
        with _full_disk():
            while chunk := list(islice(named, CHUNK_ROWS)):
                self._insert("INSERT INTO names VALUES (?, ?, ?, ?, ?, ?, ?)", chunk)
                count += len(chunk)
        return count

    def leave_out(self, rows: Iterable[tuple[str | bytes, int, int]]) -> None:
        """Documents (`same_name`, size, mtime) that `names()` will not give."""
        with _full_disk():
            self._database.execute("DROP TABLE IF EXISTS done")  # of an attempt that a full disk ended
            self._database.execute("CREATE TABLE done (name, size, mtime)")
            rows = iter(rows)
            while chunk := list(islice(rows, CHUNK_ROWS)):
                self._insert("INSERT INTO done VALUES (?, ?, ?)", chunk)
            self._database.execute("CREATE INDEX done_by_name ON done (name, size, mtime)")

    def names(self) -> Iterator[Name]:
        """The names by key; equal keys in the order they came."""
        left_out = self._database.execute("SELECT 1 FROM sqlite_master WHERE name = 'done'").fetchone()
        with _full_disk():
            yield from self._database.execute(
                "SELECT uri, path, kind, size, mtime, external_id FROM names n "
                f"{_UNLESS_DONE if left_out else ''} ORDER BY key, rowid"
            )

    def among(self, rows: Iterable[tuple[int, str | bytes]]) -> Iterator[int]:
        """Of pairs (number, `same_name`), the numbers whose name `names()` gives; to be called after `leave_out`."""
        with _full_disk():
            self._database.execute("DROP TABLE IF EXISTS wanted")
            self._database.execute("CREATE TABLE wanted (number INTEGER, name)")
            rows = iter(rows)
            while chunk := list(islice(rows, CHUNK_ROWS)):
                self._insert("INSERT INTO wanted VALUES (?, ?)", chunk)
            self._database.execute("CREATE INDEX wanted_by_name ON wanted (name)")
            found = self._database.execute(
                f"SELECT w.number FROM names n CROSS JOIN wanted w ON w.name = {_SAME_NAME} {_UNLESS_DONE}"
            )
            for (number,) in found:
                yield number

    def count(self) -> int:
        """How many names were added."""
        count: int = self._database.execute("SELECT count(*) FROM names").fetchone()[0]
        return count

    def sorted_ids(self, rows: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
        """The pairs (id, position) by id."""
        with _full_disk():
            self._database.execute("CREATE TABLE ids (id TEXT, position INTEGER)")
            rows = iter(rows)
            while chunk := list(islice(rows, CHUNK_ROWS)):
                self._insert("INSERT INTO ids VALUES (?, ?)", chunk)
            yield from self._database.execute("SELECT id, position FROM ids ORDER BY id")

    def close(self) -> None:
        """Deletes the file."""
        self._database.close()
        discard(self._path)

    def _insert(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        self._database.execute("BEGIN")
        self._database.executemany(statement, rows)
        self._database.execute("COMMIT")


_SAME_NAME = f"CASE n.kind WHEN '{FILE}' THEN n.path ELSE n.uri END"  # as `same_name` has it
_UNLESS_DONE = (
    f"WHERE NOT EXISTS (SELECT 1 FROM done d WHERE (d.name, d.size, d.mtime) = ({_SAME_NAME}, n.size, n.mtime))"
)


def discard(path: Path) -> None:
    """Deletes what a staging file left behind."""
    path.unlink(missing_ok=True)


@contextlib.contextmanager
def _full_disk() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname in ("SQLITE_FULL", "SQLITE_IOERR_WRITE"):
            raise StorageFull(f"no room to sort names: {error}") from error
        raise StoreUnavailable(f"names cannot be sorted: {error}") from error
