"""What people and reports ask a SQL store."""

from __future__ import annotations

import json
import re
from typing import Any

from sqlalchemy import LargeBinary, Row, Select, and_, cast, func, or_, select, text

from headrace.documents.document import document_id
from headrace.documents.entry import Entry, Head, format_voucher, is_voucher_number, parse_voucher
from headrace.documents.status import DocumentState
from headrace.storage.sql import SqlPart
from headrace.storage.sql_registry import as_batch
from headrace.storage.store import Accounts, Batch, DeadLetter, DocumentRecord, Sample, Telemetry
from headrace.storage.tables import batches, books, dead_letters, document_ids, documents, entries, samples


class SqlReading(SqlPart):
    """Answers questions; every answer is one transaction, so it is consistent in itself."""

    def batches(
        self, *, unfinished: bool = False, key: str | None = None, key_starts: str = "", latest: int | None = None
    ) -> list[Batch]:
        """See `ReadStore.batches`."""
        statement = select(batches, books.c.name.label("book")).join(books).order_by(batches.c.id.desc())
        if unfinished:
            statement = statement.where(batches.c.state == "open")
        if key is not None:
            statement = statement.where(batches.c.key == key)
        if key_starts:  # as a range, which the index of keys has
            statement = statement.where(batches.c.key >= key_starts, batches.c.key < key_starts + chr(0x10FFFF))
        with self._transaction() as connection:
            return [as_batch(row) for row in connection.execute(statement.limit(latest))][::-1]

    def batch_count(self) -> int:
        """See `ReadStore.batch_count`."""
        with self._transaction() as connection:
            return connection.scalar(select(func.count()).select_from(batches)) or 0

    def batch(self, batch_id: int) -> Batch:
        """See `ReadStore.batch`."""
        with self._transaction():
            return as_batch(self._batch_row(batch_id))

    def books(self) -> list[Head]:
        """See `ReadStore.books`."""
        statement = select(books.c.name, books.c.sequence, books.c.entry_hash).order_by(books.c.name)
        with self._transaction() as connection:
            return [Head(*row) for row in connection.execute(statement)]

    def accounts(self, batch_id: int) -> Accounts:
        """See `ReadStore.accounts`."""
        with self._transaction():
            row = self._batch_row(batch_id)
        return Accounts(
            row.accepted,
            row.succeeded,
            row.partial,
            row.duplicates,
            row.failed,
            row.in_flight,
            row.needs_review,
            row.rejected,
        )

    def entries(
        self, *, book: str | None = None, batch_id: int | None = None, after_sequence: int = 0, limit: int = 256
    ) -> list[Entry]:
        """See `ReadStore.entries`."""
        statement = (
            select_entries().where(entries.c.sequence > after_sequence).order_by(entries.c.sequence).limit(limit)
        )
        with self._transaction() as connection:
            if batch_id is not None:
                statement = statement.where(entries.c.batch_id == batch_id, is_outcome)
            elif book is not None:
                statement = statement.where(entries.c.book_id == self._book_id(book))
            else:
                raise ValueError("entries of which book or batch?")
            return [as_entry(row) for row in connection.execute(statement)]

    def document(self, document_id: str) -> DocumentRecord | None:
        """See `ReadStore.document`."""
        with self._transaction():
            return self._by_id(document_id)

    def find(self, reference: str, limit: int = 20) -> list[DocumentRecord]:
        """See `ReadStore.find`."""
        with self._transaction() as connection:
            found = self._by_id(reference) or self._by_voucher(reference)
            if found:
                return [found]
            tail = f"/{reference}"
            statement = (
                select(documents.c.batch_id, documents.c.position)
                .where(or_(documents.c.uri == reference, func.substr(documents.c.uri, -len(tail)) == tail))
                .order_by((documents.c.uri == reference).desc(), documents.c.batch_id.desc(), documents.c.position)
                .limit(limit)
            )
            called = [self._record(*row) for row in connection.execute(statement).all()]
            if called or not is_voucher_number(reference):
                return called
            names = connection.execute(select(books.c.name).order_by(books.c.name).limit(limit)).scalars().all()
            vouchers = (self._by_voucher(format_voucher(name, int(reference))) for name in names)
            return [record for record in vouchers if record]

    def names(self, limit: int) -> list[str]:
        """See `ReadStore.names`."""
        latest = select(documents.c.uri).order_by(documents.c.batch_id.desc(), documents.c.position.desc())
        with self._transaction() as connection:
            return list(connection.execute(latest.limit(limit)).scalars())

    def slowest(self, batch_id: int, limit: int = 10) -> list[DocumentRecord]:
        """See `ReadStore.slowest`."""
        statement = (
            select(documents.c.batch_id, documents.c.position)
            .where(documents.c.batch_id == batch_id, documents.c.elapsed_s.is_not(None))
            .order_by(documents.c.elapsed_s.desc(), documents.c.position)
            .limit(limit)
        )
        with self._transaction() as connection:
            return [self._record(*row) for row in connection.execute(statement).all()]

    def dead_letters(self, *, after_number: int = 0, limit: int = 100, replayed: bool = False) -> list[DeadLetter]:
        """See `ReadStore.dead_letters`."""
        statement = (
            select(dead_letters, documents, books.c.name.label("book"))
            .join_from(dead_letters, documents, same_document)
            .join(batches, batches.c.id == documents.c.batch_id)
            .join(books)
            .where(dead_letters.c.number > after_number)
            .order_by(dead_letters.c.number)
            .limit(limit)
        )
        if not replayed:
            statement = statement.where(dead_letters.c.replayed_in.is_(None))
        with self._transaction() as connection:
            return [
                DeadLetter(
                    row.number,
                    self._document(row.book, row),
                    json.loads(row.failure),
                    row.blob_sha256,
                    row.failed_at,
                    row.replayed_in,
                )
                for row in connection.execute(statement)
            ]

    def dead_count(self) -> int:
        """See `ReadStore.dead_count`."""
        waiting = select(func.count()).select_from(dead_letters).where(dead_letters.c.replayed_in.is_(None))
        with self._transaction() as connection:
            return int(connection.scalar(waiting) or 0)

    def samples(self, batch_id: int) -> list[Sample]:
        """See `ReadStore.samples`."""
        with self._transaction():
            return self._samples(batch_id)

    def _samples(self, batch_id: int) -> list[Sample]:
        statement = select(samples).where(samples.c.batch_id == batch_id).order_by(samples.c.number)
        return [Sample(*row[2:]) for row in self._connection.execute(statement)]

    def _by_id(self, wanted: str) -> DocumentRecord | None:
        place = self._locate(wanted)
        return self._record(*place) if place else None

    def _locate(self, wanted: str) -> tuple[int, int] | None:
        """Batch and position of a document id."""
        this = document_ids.c.document_id == wanted
        found = self._connection.execute(
            select(document_ids.c.batch_id, document_ids.c.position).where(this)
        ).one_or_none()
        if found:
            return found.batch_id, found.position
        if not _ID.fullmatch(wanted):
            return None
        # Batches that are still being listed have no index of ids yet: an id follows from book, batch and position.
        listing = select(batches.c.id, batches.c.accepted, books.c.name).join(books).where(~batches.c.listed)
        for batch_id, accepted, book in self._connection.execute(listing).all():
            for position in range(1, accepted + 1):
                if document_id(book, batch_id, position) == wanted:
                    return batch_id, position
        return None

    def _by_voucher(self, reference: str) -> DocumentRecord | None:
        parsed = parse_voucher(reference)
        if parsed is None:
            return None
        found = self._connection.execute(
            select(entries.c.batch_id, entries.c.position)
            .join(books)
            .where(books.c.name == parsed[0], entries.c.sequence == parsed[1])
        ).one_or_none()
        return self._record(*found) if found else None

    def _record(self, batch_id: int, position: int) -> DocumentRecord:
        this = (documents.c.batch_id == batch_id, documents.c.position == position)
        row = self._connection.execute(select(documents).where(*this)).one()
        entry = self._connection.execute(
            select_entries().where(entries.c.batch_id == batch_id, entries.c.position == position, is_outcome)
        ).one_or_none()
        return DocumentRecord(
            self._document(self._batch_row(batch_id).book, row),
            DocumentState(row.state),
            row.external_id,
            json.loads(row.last_failure) if row.last_failure else None,
            row.replay_of,
            _telemetry(row),
            as_entry(entry) if entry else None,
        )


_ID = re.compile("d[0-9a-f]{20}")

is_outcome = text("entries.amends = 0")
"""Leaves out corrections and reviews; a literal, so that SQLite sees that the index of outcomes answers it."""

same_document = and_(documents.c.batch_id == dead_letters.c.batch_id, documents.c.position == dead_letters.c.position)


def select_entries() -> Select[Any]:
    """Entries with their book, for `as_entry`."""
    # Cast, because whoever edits a ledger by hand leaves text behind, and that has to be read to be found out.
    content = cast(entries.c.content, LargeBinary).label("content")
    others = (column for column in entries.c if column is not entries.c.content)
    return select(*others, content, books.c.name.label("book")).join(books)


def as_entry(row: Row[Any]) -> Entry:
    """A row of `select_entries`."""
    return Entry.stored(
        book=row.book,
        sequence=row.sequence,
        batch_id=row.batch_id,
        position=row.position,
        content=row.content,
        prev_hash=row.prev_hash,
        entry_hash=row.entry_hash,
    )


def _telemetry(row: Row[Any]) -> Telemetry | None:
    if row.elapsed_s is None:
        return None
    told = json.loads(row.telemetry)
    return Telemetry(row.elapsed_s, told["pages"], told["stages_s"], tuple(told.get("observed", ())))
