"""Batches and the documents in them, in SQL."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, exists, func, insert, not_, or_, select, update

from headrace.documents.document import document_id
from headrace.documents.entry import GENESIS
from headrace.storage.errors import BatchNotDone
from headrace.storage.sql import QUEUED, SqlPart
from headrace.storage.staging import CHUNK_ROWS, Name, Staging
from headrace.storage.store import Batch, Positions, Registration, same_name
from headrace.storage.tables import batches, books, dead_letters, document_ids, documents, listings, samples

_COUNTERS = ("accepted", "succeeded", "partial", "duplicates", "failed", "in_flight", "needs_review", "rejected")
_DOCUMENT = (
    "batch_id",
    "position",
    "uri",
    "path",
    "kind",
    "size_bytes",
    "mtime_ns",
    "external_id",
    "replay_of",
    "state",
    "attempts",
)

_same_document = and_(documents.c.batch_id == dead_letters.c.batch_id, documents.c.position == dead_letters.c.position)


def as_batch(row: Row[Any]) -> Batch:
    """A row of `batches` with its book's name."""
    return Batch(
        row.id, row.book, row.key, row.today, row.settings_json, row.state, row.listed, row.started_at, row.finished_at
    )


class SqlRegistry(SqlPart):
    """Opens batches, gives documents their positions, finishes batches."""

    def __init__(self, connection: Connection, workspace: Path) -> None:
        super().__init__(connection, workspace)
        self._staged: dict[tuple[int, int], Staging] = {}  # one for each source being listed

    def open_batch(self, book: str, key: str, today: str, settings_json: str) -> Batch:
        """See `RegisterStore.open_batch`."""
        with self._transaction():
            return self._open_batch(book, key, today, settings_json)

    def _open_batch(self, book: str, key: str, today: str, settings_json: str) -> Batch:
        book_id = self._book_id(book)
        if book_id is None:
            new = insert(books).values(name=book, sequence=0, entry_hash=GENESIS).returning(books.c.id)
            book_id = self._connection.execute(new).scalar_one()
        values = {"book_id": book_id, "key": key, "today": today, "settings_json": settings_json, "state": "open"}
        values |= {"listed": False, "started_at": time.time(), **dict.fromkeys(_COUNTERS, 0)}
        opened = insert(batches).values(**values).returning(batches.c.id)
        return self._batch(self._connection.execute(opened).scalar_one())

    def find_batch(self, key: str) -> Batch | None:
        """See `RegisterStore.find_batch`."""
        statement = select(batches.c.id).where(batches.c.key == key).order_by(batches.c.id.desc()).limit(1)
        with self._transaction() as connection:
            batch_id = connection.scalar(statement)
            return None if batch_id is None else self._batch(batch_id)

    def _batch(self, batch_id: int) -> Batch:
        return as_batch(self._batch_row(batch_id))

    def register(self, batch_id: int, rows: Sequence[Registration]) -> Positions:
        """See `RegisterStore.register`."""
        names = [(r.uri, r.path, r.kind, r.size_bytes, r.mtime_ns, r.external_id) for r in rows]
        with self._transaction():
            return self._append(batch_id, iter(names))

    def _append(self, batch_id: int, names: Iterator[Name], replay_of: Iterator[str] | None = None) -> Positions:
        """Puts documents behind those the batch has, and counts them. Positions are contiguous: nothing is deleted."""
        batch = self._batch_row(batch_id)
        if batch.listed:
            raise ValueError(f"batch {batch_id} is listed: no more documents can be added")
        last = batch.accepted
        while chunk := list(islice(names, CHUNK_ROWS)):
            rows = [
                (batch_id, position, *name, next(replay_of) if replay_of else None, QUEUED, 0)
                for position, name in enumerate(chunk, last + 1)
            ]
            self._fast_insert(documents, _DOCUMENT, rows)
            last += len(chunk)
        added = last - batch.accepted
        counters = {"accepted": batches.c.accepted + added, "in_flight": batches.c.in_flight + added}
        self._connection.execute(update(batches).where(batches.c.id == batch_id).values(counters))
        return Positions(batch.accepted + 1, last)

    def stage_listing(self, batch_id: int, source_index: int, rows: Iterable[tuple[bytes, Registration]]) -> int:
        """See `RegisterStore.stage_listing`."""
        self._unstage(batch_id, source_index)
        staging = Staging(self._workspace / f"listing-{batch_id}-{source_index}.tmp")
        self._staged[batch_id, source_index] = staging
        try:
            return staging.add_names(rows)
        except BaseException:
            self._unstage(batch_id, source_index)
            raise

    def settle_listing(self, batch_id: int, source_index: int, *, skip_done_of_key: str | None = None) -> Positions:
        """See `RegisterStore.settle_listing`."""
        with self._transaction() as connection:
            settled = self._listed(batch_id).get(source_index)
            if settled is None:
                staging = self._staged.get((batch_id, source_index))
                if staging and skip_done_of_key is not None:
                    staging.leave_out(self._done_before(batch_id, skip_done_of_key))
                    self._take_again(batch_id, skip_done_of_key, staging)
                added = self._append(batch_id, staging.names() if staging else iter(()))
                skipped = staging.count() - added.count if staging else 0
                settled = Positions(added.first, added.last, skipped)
                connection.execute(
                    insert(listings).values(
                        batch_id=batch_id,
                        source_index=source_index,
                        first_position=settled.first,
                        last_position=settled.last,
                        skipped=settled.skipped,
                    )
                )
        self._unstage(batch_id, source_index)
        return settled

    def _take_again(self, batch_id: int, key: str, staging: Staging) -> None:
        """The dead letters of earlier batches with this key whose documents are registered again wait no more."""
        waiting = (
            select(dead_letters.c.number, *(documents.c[name] for name in ("kind", "path", "uri")))
            .join_from(dead_letters, documents, _same_document)
            .join(batches, batches.c.id == documents.c.batch_id)
            .where(batches.c.key == key, batches.c.id < batch_id, dead_letters.c.replayed_in.is_(None))
        )
        rows = self._connection.execute(waiting).yield_per(CHUNK_ROWS)
        numbers = staging.among((row.number, same_name(row.kind, row.path, row.uri)) for row in rows)
        while chunk := list(islice(numbers, CHUNK_ROWS)):
            taken = dead_letters.c.number.in_(chunk)
            self._connection.execute(update(dead_letters).where(taken).values(replayed_in=batch_id))

    def _done_before(self, batch_id: int, key: str) -> Iterator[tuple[str | bytes, int, int]]:
        """`same_name`, size and mtime of what earlier batches with this key are done with for good."""
        # How a document that was run again by the same command ended, says the batch in which it was.
        by_the_same = select(batches.c.id).where(batches.c.key == key)
        waits = or_(dead_letters.c.replayed_in.is_(None), dead_letters.c.replayed_in.in_(by_the_same))
        again = exists().where(and_(_same_document, dead_letters.c.retriable, waits))
        statement = (
            select(*(documents.c[name] for name in ("kind", "path", "uri", "size_bytes", "mtime_ns")))
            .join(batches, batches.c.id == documents.c.batch_id)
            .where(batches.c.key == key, batches.c.id < batch_id)
            # Where nothing is known of the file's age, "unchanged" cannot be said.
            .where(documents.c.state != QUEUED, documents.c.mtime_ns != 0, not_(again))
        )
        for rows in self._connection.execute(statement).partitions(CHUNK_ROWS):
            for row in rows:
                yield same_name(row.kind, row.path, row.uri), row.size_bytes, row.mtime_ns

    def _unstage(self, batch_id: int, source_index: int) -> None:
        staging = self._staged.pop((batch_id, source_index), None)
        if staging:
            staging.close()

    def listed(self, batch_id: int) -> dict[int, Positions]:
        """See `RegisterStore.listed`."""
        with self._transaction():
            return self._listed(batch_id)

    def _listed(self, batch_id: int) -> dict[int, Positions]:
        rows = self._connection.execute(select(listings).where(listings.c.batch_id == batch_id))
        return {row.source_index: Positions(row.first_position, row.last_position, row.skipped) for row in rows}

    def finish_listing(self, batch_id: int) -> None:
        """See `RegisterStore.finish_listing`."""
        with self._transaction():
            self._finish_listing(batch_id)

    def _finish_listing(self, batch_id: int) -> None:
        batch = self._batch_row(batch_id)
        if batch.listed:
            return
        ids = ((document_id(batch.book, batch_id, position), position) for position in range(1, batch.accepted + 1))
        if batch.accepted <= CHUNK_ROWS:
            self._add_ids(batch_id, iter(sorted(ids)))
        else:
            with Staging(self._workspace / f"ids-{batch_id}.tmp") as staging:
                self._add_ids(batch_id, staging.sorted_ids(ids))
        self._connection.execute(update(batches).where(batches.c.id == batch_id).values(listed=True))

    def _add_ids(self, batch_id: int, by_id: Iterator[tuple[str, int]]) -> None:
        while chunk := list(islice(by_id, CHUNK_ROWS)):
            rows = [(name, batch_id, position) for name, position in chunk]
            self._fast_insert(document_ids, ("document_id", "batch_id", "position"), rows)

    def finish_batch(self, batch_id: int) -> None:
        """See `RegisterStore.finish_batch`."""
        with self._transaction() as connection:
            batch = self._batch_row(batch_id)
            if not batch.listed or batch.in_flight:
                raise BatchNotDone(
                    f"batch {batch_id} is not done: {batch.in_flight} documents in flight"
                    + ("" if batch.listed else ", sources not all listed")
                )
            if batch.state != "finished":
                values = {"state": "finished", "finished_at": time.time()}
                connection.execute(update(batches).where(batches.c.id == batch_id).values(values))

    def drop_batch(self, batch_id: int) -> None:
        """See `RegisterStore.drop_batch`."""
        with self._transaction() as connection:
            if self._batch_row(batch_id).accepted or batch_id != connection.scalar(select(func.max(batches.c.id))):
                raise BatchNotDone(f"batch {batch_id} has documents, or is not the newest")
            for table in (listings, samples):
                connection.execute(delete(table).where(table.c.batch_id == batch_id))
            connection.execute(delete(batches).where(batches.c.id == batch_id))
