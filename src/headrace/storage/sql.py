"""What the parts of a SQL store share: one connection, transactions, and the store's own errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Dialect, Insert, Row, Table, Update, insert, select
from sqlalchemy.exc import DBAPIError

from headrace.documents.document import Document, document_id
from headrace.documents.status import DocumentState
from headrace.storage import tables
from headrace.storage.errors import StorageFull, StoreUnavailable, UnknownBatch

_ROWS_AT_ONCE = 64  # of a table with 16 columns: 1024 values; SQLite takes 32766
QUEUED = str(DocumentState.QUEUED)
BLOB = "blob"


class WantedEvents(NamedTuple):
    """Which events a webhook is told of; `*` at the end of a kind stands for anything, no client for all of them."""

    webhook_id: int
    kinds: tuple[str, ...]
    client: str | None

    def wants(self, kind: str, client: str) -> bool:
        """Whether it is told of such an event."""
        if self.client is not None and self.client != client:
            return False
        return any(kind == its or (its.endswith("*") and kind.startswith(its[:-1])) for its in self.kinds)


class SqlPart:
    """A connection and the ways to use it. The parts of the store are subclasses, the store inherits them all."""

    def __init__(self, connection: Connection, workspace: Path) -> None:
        self._connection = connection
        self._workspace = workspace
        self._book_ids: dict[str, int] = {}  # bounded by the number of books
        self._wanted: tuple[WantedEvents, ...] | None = None  # bounded by the number of webhooks; None: to be read

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """One transaction: all of it on disk afterwards, or nothing. Inside another one, it is a part of that.

        Raises:
            StorageFull: no room.
            StoreUnavailable: the database cannot be used.
        """
        if self._connection.in_transaction():
            yield self._connection
            return
        try:
            with self._connection.begin():
                yield self._connection
        except BaseException as error:
            self._book_ids.clear()  # a book that was new in this transaction is not there any more
            self._wanted = None
            if isinstance(error, DBAPIError):
                raise translated(error) from error
            raise

    def _fast(self, statement: Insert | Update, rows: Sequence[tuple[Any, ...]], keys: tuple[str, ...] = ()) -> int:
        """Runs a statement for each tuple of its parameters, in the order it names them; returns the rows changed.

        The statement is SQLAlchemy's, its work on each row is left out: that takes longer than SQLite itself.
        """
        if not rows:
            return 0
        text, order = _positional(statement, keys, self._connection.dialect)
        assert not keys or order == keys, "columns must be named in the order of their table"
        return self._connection.exec_driver_sql(text, list(rows)).rowcount

    def _fast_insert(self, table: Table, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> None:
        """Inserts tuples of these columns, in their order, many with one statement.

        The driver gives up the interpreter for each step of a statement, and with other threads at work it waits
        milliseconds to get it back: so one step is worth many rows.
        """
        text, order = _positional(_insert(table), columns, self._connection.dialect)
        assert order == columns, "columns must be named in the order of their table"
        head, _, row = text.partition(" VALUES ")
        for start, size in _pieces(len(rows)):
            values = tuple(chain.from_iterable(rows[start : start + size]))
            self._connection.exec_driver_sql(f"{head} VALUES {', '.join([row] * size)}", values)

    def _which(self, query: str, values: Sequence[Any]) -> list[Any]:
        """The rows of `SELECT ... WHERE x IN` these values; the query ends in front of its list."""
        found: list[Any] = []
        for start, size in _pieces(len(values)):
            piece = tuple(values[start : start + size])
            found += self._connection.exec_driver_sql(f"{query} ({', '.join('?' * size)})", piece).all()
        return found

    def _book_id(self, book: str) -> int | None:
        """The book's row; None when it has none yet."""
        if book not in self._book_ids:
            found = self._connection.scalar(select(tables.books.c.id).where(tables.books.c.name == book))
            if found is None:
                return None
            self._book_ids[book] = found
        return self._book_ids[book]

    def _batch_row(self, batch_id: int) -> Row[Any]:
        """A batch with its book's name."""
        statement = select(tables.batches, tables.books.c.name.label("book")).join(tables.books)
        row = self._connection.execute(statement.where(tables.batches.c.id == batch_id)).one_or_none()
        if row is None:
            raise UnknownBatch(f"there is no batch {batch_id} in {self._workspace}")
        return row

    def _document(self, book: str, row: Row[Any]) -> Document:
        """A row of `documents` as the workers get it."""
        return Document(
            document_id(book, row.batch_id, row.position),
            row.batch_id,
            row.position,
            row.uri,
            row.path,
            row.kind,
            row.size_bytes,
            row.attempts,
        )


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    """Start and size of pieces that make up so many rows; of few sizes, so that their statements stay prepared."""
    start, size = 0, _ROWS_AT_ONCE
    while start < count:
        while size > count - start:
            size //= 2
        yield start, size
        start += size


@lru_cache(maxsize=64)
def _insert(table: Table) -> Insert:
    return insert(table)


@lru_cache(maxsize=64)
def _positional(statement: Insert | Update, keys: tuple[str, ...], dialect: Dialect) -> tuple[str, tuple[str, ...]]:
    compiled = statement.compile(dialect=dialect, column_keys=list(keys) or None)
    return str(compiled), tuple(compiled.positiontup or ())


def translated(error: DBAPIError) -> Exception:
    """The store's own error for a driver's."""
    cause = error.orig
    name = getattr(cause, "sqlite_errorname", "")
    if name.startswith("SQLITE_FULL") or name == "SQLITE_IOERR_WRITE":
        # IOERR_WRITE is how SQLite says quota and file size limit; a failing disk looks the same from here.
        return StorageFull(f"the store could not be written: disk full, quota or file size limit ({cause})")
    if isinstance(cause, sqlite3.IntegrityError):
        return error
    return StoreUnavailable(f"the store cannot be used: {cause}")
