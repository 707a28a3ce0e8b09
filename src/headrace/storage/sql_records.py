"""What clients of the service look at, in SQL: documents, batches, entries, events, dead letters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, text

from headrace.documents.document import document_id
from headrace.documents.entry import Entry
from headrace.storage.sql_accept import OpenBatch
from headrace.storage.sql_reading import SqlReading, as_entry, is_outcome, select_entries
from headrace.storage.sql_registry import as_batch
from headrace.storage.store import Batch, DeadLetter, DocumentRecord
from headrace.storage.tables import (
    batches,
    books,
    dead_letters,
    documents,
    drains,
    entries,
    events,
    open_batches,
    reviews,
    submissions,
)


@dataclass(frozen=True, slots=True)
class Owner:
    """The service's side of a document."""

    client: str
    service_class: int
    sha256: str
    accepted_at: float
    lease: int
    cancelled_by: str | None


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything about one document, in one consistent look.

    Attributes:
        record: what the store knows of any document.
        owner: None for one that came by `run`.
        batch: its batch.
        amendments: entries behind its outcome, in order.
        decision, version: what a person decided last; the sequence of the last entry about it, 0 when there is none.
        replayed_as: id of the document that runs it again.
    """

    record: DocumentRecord
    owner: Owner | None
    batch: Batch
    amendments: tuple[Entry, ...]
    decision: str | None
    version: int
    replayed_as: str | None


class SqlRecords(SqlReading):
    """The looking part of the service's store. Changes nothing."""

    def look(self, wanted: str) -> Seen | None:
        """One document by id."""
        with self._transaction() as connection:
            place = self._locate(wanted)
            if place is None:
                return None
            record = self._record(*place)
            row = connection.execute(
                select(submissions).where(submissions.c.batch_id == place[0], submissions.c.position == place[1])
            ).one_or_none()
            owner = None
            if row is not None:
                told = (row.client, row._mapping["class"], row.sha256.hex(), row.accepted_at, row.lease)
                owner = Owner(*told, row.cancelled_by)
            amending = (
                select_entries()
                .where(entries.c.batch_id == place[0], entries.c.position == place[1], text("entries.amends = 1"))
                .order_by(entries.c.sequence)
            )
            review = connection.execute(
                select(reviews).where(reviews.c.batch_id == place[0], reviews.c.position == place[1])
            ).one_or_none()
            version = review.version if review else (record.entry.sequence if record.entry else 0)
            return Seen(
                record,
                owner,
                as_batch(self._batch_row(place[0])),
                tuple(as_entry(one) for one in connection.execute(amending)),
                review.decision if review else None,
                version,
                self._replayed_as(wanted, place),
            )

    def _replayed_as(self, wanted: str, place: tuple[int, int]) -> str | None:
        """The document that runs a failed one again."""
        letter = (dead_letters.c.batch_id == place[0], dead_letters.c.position == place[1])
        batch_id = self._connection.scalar(select(dead_letters.c.replayed_in).where(*letter))
        if batch_id is None:
            return None
        found = self._connection.execute(
            select(documents.c.position, books.c.name)
            .join(batches, batches.c.id == documents.c.batch_id)
            .join(books)
            .where(documents.c.batch_id == batch_id, documents.c.replay_of == wanted)
            .limit(1)
        ).one_or_none()
        return document_id(found.name, batch_id, found.position) if found else None

    def owner_of_batch(self, batch_id: int) -> OpenBatch | None:
        """Whose batch this is; None when it does not exist or is not of the service."""
        with self._transaction() as connection:
            row = connection.execute(select(open_batches).where(open_batches.c.batch_id == batch_id)).one_or_none()
            if row is not None:
                return OpenBatch(batch_id, row.client, row._mapping["class"], row.key)
            only = connection.execute(
                select(submissions).where(submissions.c.batch_id == batch_id, submissions.c.position == 1)
            ).one_or_none()
            return OpenBatch(batch_id, only.client, only._mapping["class"], None) if only else None

    def outcomes(self, batch_id: int, after_position: int = 0, limit: int = 256) -> list[Entry]:
        """The next outcome entries of a batch, by position."""
        statement = (
            select_entries()
            .where(entries.c.batch_id == batch_id, entries.c.position > after_position, is_outcome)
            .order_by(entries.c.position)
            .limit(limit)
        )
        with self._transaction() as connection:
            return [as_entry(row) for row in connection.execute(statement)]

    def happened(self, after: int, limit: int = 256, client: str | None = None) -> list[Any]:
        """The next events, as rows of `events`."""
        statement = select(events).where(events.c.id > after).order_by(events.c.id).limit(limit)
        if client is not None:
            statement = statement.where(events.c.client == client)
        with self._transaction() as connection:
            return list(connection.execute(statement).all())

    def last_event(self) -> int:
        """The id of the newest event ever; 0 before the first."""
        with self._transaction() as connection:
            return int(connection.exec_driver_sql("SELECT max(id) FROM events").scalar_one() or 0)

    def letters_of(self, client: str, after_number: int, limit: int) -> list[DeadLetter]:
        """The next dead letters of one client."""
        found: list[DeadLetter] = []
        while len(found) < limit and (page := self.dead_letters(after_number=after_number, limit=limit)):
            after_number = page[-1].number
            for letter in page:
                owner = self.owner_of_batch(letter.document.batch_id)
                if owner is not None and owner.client == client:
                    found.append(letter)
        return found[:limit]

    def last_drain(self) -> dict[str, Any] | None:
        """The report of the last stop, with `at`."""
        with self._transaction() as connection:
            row = connection.execute(select(drains).order_by(drains.c.id.desc()).limit(1)).one_or_none()
            return {"at": row.at, **json.loads(row.report)} if row else None
