"""The rest of what the service keeps, in SQL: who works on what, ends, amendments, what clients look at."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, TextClause, bindparam, func, insert, literal_column, select, text, update

from headrace.documents.document import Document
from headrace.documents.entry import Entry, Head
from headrace.documents.status import EntryKind, Verdict
from headrace.storage.errors import LeaseLost
from headrace.storage.sql import BLOB, QUEUED
from headrace.storage.sql_accept import Placed, SqlAccept
from headrace.storage.sql_ledger import SqlLedger
from headrace.storage.sql_reading import as_entry, is_outcome, select_entries
from headrace.storage.sql_records import SqlRecords
from headrace.storage.store import Telemetry
from headrace.storage.tables import (
    batches,
    books,
    dead_letters,
    documents,
    drains,
    entries,
    open_batches,
    reviews,
    submissions,
)

WAITS, WORKED_ON, ENDED = 0, 1, 2
_DIGESTS_PER_QUERY = 400
_ENTRY = ("book_id", "sequence", "batch_id", "position", "content", "prev_hash", "entry_hash", "amends")

_here = (submissions.c.batch_id == bindparam("of_batch"), submissions.c.position == bindparam("at_position"))
_LEASE = (
    update(submissions)
    .where(*_here, submissions.c.fence == bindparam("held_fence"), submissions.c.lease < literal_column(str(ENDED)))
    .values(lease=literal_column(str(WORKED_ON)), fence=submissions.c.fence + literal_column("1"))
)
_END = (
    update(submissions)
    .where(*_here, submissions.c.fence == bindparam("held_fence"), submissions.c.lease < literal_column(str(ENDED)))
    .values(lease=literal_column(str(ENDED)))
)


@dataclass(frozen=True, slots=True)
class Waits:
    """A document that has no entry yet, as the dispatcher needs it.

    Attributes:
        document: with the blob's digest as its path, and the day of its batch.
        client, service_class: whose, and how urgent.
        accepted_at: Unix time.
        fence: of its last lease.
        restarts: how often the service ended while it was worked on.
        cancelled_by: who asked for its end; None when nobody did.
        single: whether its batch was made for it alone.
        book: where its entry goes.
    """

    document: Document
    client: str
    service_class: int
    accepted_at: float
    fence: int = 0
    restarts: int = 0
    cancelled_by: str | None = None
    single: bool = True
    book: str = ""


class SqlService(SqlLedger, SqlRecords, SqlAccept):
    """The service's part of a store."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """One transaction around several steps: all of them on disk afterwards, or none."""
        with self._transaction():
            yield

    # Work

    def waits(self, after: tuple[int, int] = (0, 0), limit: int = 1000) -> list[Waits]:
        """The next documents of the service without an entry, in order of batch and position."""
        later = (submissions.c.batch_id > after[0]) | (
            (submissions.c.batch_id == after[0]) & (submissions.c.position > after[1])
        )
        statement = (
            select(
                documents,
                *(submissions.c[name] for name in ("client", "class", "accepted_at", "fence", "restarts")),
                submissions.c.cancelled_by,
                batches.c.today,
                books.c.name.label("book"),
                open_batches.c.batch_id.label("stays_open"),
            )
            .join_from(
                submissions,
                documents,
                (documents.c.batch_id == submissions.c.batch_id) & (documents.c.position == submissions.c.position),
            )
            .join(batches, batches.c.id == submissions.c.batch_id)
            .join(books)
            .join(open_batches, open_batches.c.batch_id == submissions.c.batch_id, isouter=True)
            .where(text("submissions.lease < 2"), later, documents.c.state == QUEUED)
            .order_by(submissions.c.batch_id, submissions.c.position)
            .limit(limit)
        )
        with self._transaction() as connection:
            return [
                Waits(
                    _dated(self._document(row.book, row), row.today),
                    row.client,
                    row._mapping["class"],
                    row.accepted_at,
                    row.fence,
                    row.restarts,
                    row.cancelled_by,
                    row.stays_open is None,
                    row.book,
                )
                for row in connection.execute(statement)
            ]

    def take_over(self) -> int:
        """After a restart: what was worked on when the last process ended waits again. Returns how many.

        Ends, too, the leases of documents that got their entry by other ways, such as `run --replay`.
        """
        with self._transaction() as connection:
            ended = (
                select(literal_column("1"))
                .select_from(documents)
                .where(documents.c.batch_id == submissions.c.batch_id, documents.c.position == submissions.c.position)
                .where(documents.c.state != QUEUED)
                .exists()
            )
            connection.execute(update(submissions).where(text("lease < 2"), ended).values(lease=ENDED))
            again = (
                update(submissions)
                .where(text("lease < 2"), submissions.c.lease == WORKED_ON)
                .values(lease=WAITS, restarts=submissions.c.restarts + 1)
            )
            return connection.execute(again).rowcount

    def lease(self, held: Sequence[tuple[Document, int, str]]) -> None:
        """Gives documents to the workers, durably; each with the fence of its last lease, which rises by one.

        Args:
            held: document, fence, client.

        Raises:
            LeaseLost: one of them has another fence, or its end; nothing was written.
        """
        with self._transaction():
            rows = [(document.batch_id, document.position, fence) for document, fence, _ in held]
            if self._fast(_LEASE, rows) != len(rows):
                raise LeaseLost("a document was taken by somebody else")
            now = time.time()
            self.tell(
                [(now, "document.running", client, d.batch_id, d.document_id, "{}") for d, _, client in held],
            )

    def end(
        self,
        group: Sequence[Entry],
        telemetry: Sequence[Telemetry],
        held: Sequence[tuple[int, str]],
        *,
        kept: Mapping[str, str],
    ) -> list[int]:
        """Commits outcomes of leased documents, with their states, events and ends of batches, in one transaction.

        Args:
            group, telemetry, kept: as for `commit`.
            held: fence and client for each entry.

        Returns:
            The batches that are finished with this.

        Raises:
            LeaseLost: one of them is not held any more with this fence; nothing was written.
            HeadMoved, StorageFull: see `commit`.
        """
        with self._transaction():
            rows = [(e.batch_id, e.position, fence) for e, (fence, _) in zip(group, held, strict=True)]
            if self._fast(_END, rows) != len(rows):
                raise LeaseLost("a document was given to somebody else, or has its end")
            self.commit(group, telemetry, kept=kept)
            now = time.time()
            self.tell(
                [
                    (now, f"document.{e.state}", client, e.batch_id, e.document_id, _told(e))
                    for e, (_, client) in zip(group, held, strict=True)
                ]
            )
            return self.finish_done(list({e.batch_id for e in group}))

    def still_held(self, held: Sequence[tuple[Document, int]]) -> list[bool]:
        """Whether each is still held with this fence."""
        statement = select(submissions.c.fence, submissions.c.lease)
        answers = []
        with self._transaction() as connection:
            for document, fence in held:
                row = connection.execute(
                    statement.where(
                        submissions.c.batch_id == document.batch_id, submissions.c.position == document.position
                    )
                ).one_or_none()
                answers.append(row is not None and row.fence == fence and row.lease < ENDED)
        return answers

    def give_all_back(self) -> int:
        """At the end of an orderly stop: whatever is still leased waits again, and no restart is counted."""
        again = update(submissions).where(text("lease < 2"), submissions.c.lease == WORKED_ON).values(lease=WAITS)
        with self._transaction() as connection:
            return connection.execute(again).rowcount

    def knows_bytes(self, sha256: str) -> bool:
        """Whether a document of the service, or a dead letter, has these bytes."""
        here: Select[Any] = select(literal_column("1")).where(submissions.c.sha256 == bytes.fromhex(sha256)).limit(1)
        letter: Select[Any] = select(literal_column("1")).where(dead_letters.c.blob_sha256 == sha256).limit(1)
        with self._transaction() as connection:
            return connection.scalar(here) is not None or connection.scalar(letter) is not None

    def known_bytes(self, digests: Sequence[str]) -> set[str]:
        """Which of these hex digests are of documents of the service."""
        return self._of_bytes(digests, text("1 = 1"))

    def waiting_bytes(self, digests: Sequence[str]) -> set[str]:
        """Which of these are of documents that have no entry yet."""
        return self._of_bytes(digests, text("submissions.lease < 2"))

    def _of_bytes(self, digests: Sequence[str], such: TextClause) -> set[str]:
        wanted = [bytes.fromhex(digest) for digest in digests]
        found: set[str] = set()
        with self._transaction() as connection:
            for start in range(0, len(wanted), _DIGESTS_PER_QUERY):
                among = submissions.c.sha256.in_(wanted[start : start + _DIGESTS_PER_QUERY])
                found |= {
                    digest.hex() for digest in connection.scalars(select(submissions.c.sha256).where(among, such))
                }
        return found

    def ask_to_end(self, document: Document, who: str) -> bool:
        """Notes, durably, that a document shall be cancelled; False when it has its end."""
        statement = (
            update(submissions)
            .where(submissions.c.batch_id == document.batch_id, submissions.c.position == document.position)
            .where(submissions.c.lease < ENDED)
            .values(cancelled_by=func.coalesce(submissions.c.cancelled_by, who))
        )
        with self._transaction() as connection:
            return connection.execute(statement).rowcount == 1

    def mark_replayed(self, old: Document, new_batch: int) -> None:
        """The dead letter of a document that is run again waits no more."""
        letter = (dead_letters.c.batch_id == old.batch_id, dead_letters.c.position == old.position)
        with self._transaction() as connection:
            connection.execute(update(dead_letters).where(*letter).values(replayed_in=new_batch))

    # Amendments

    def amend(self, entry: Entry, decision: str | None, client: str, kind: str) -> None:
        """Appends a correction or a review behind the head of its book, with its event, in one transaction.

        Raises:
            HeadMoved: it does not follow the head.
        """
        with self._transaction() as connection:
            self._follow_head([entry])
            row = (self._book_id(entry.book), entry.sequence, entry.batch_id, entry.position, entry.content)
            self._fast_insert(entries, _ENTRY, [(*row, entry.prev_hash, entry.entry_hash, True)])
            here = (reviews.c.batch_id == entry.batch_id, reviews.c.position == entry.position)
            before = connection.execute(select(reviews).where(*here)).one_or_none()
            if before is None:
                values = {"batch_id": entry.batch_id, "position": entry.position}
                connection.execute(insert(reviews).values(**values, decision=decision, version=entry.sequence))
            else:
                kept = decision or before.decision
                connection.execute(update(reviews).where(*here).values(decision=kept, version=entry.sequence))
            if decision is not None:
                self._recount(entry, before.decision if before else None, decision)
            data = {"voucher": entry.voucher}
            self.tell_one(kind, client, entry.batch_id, entry.document_id, data)

    def _recount(self, entry: Entry, before: str | None, after: str) -> None:
        """Moves the document between the counters of verdicts."""
        outcome = self._outcome(entry.batch_id, entry.position)
        was = before or _as_decision(outcome.verdict if outcome else None)
        counter = {"needs_review": batches.c.needs_review, "rejected": batches.c.rejected}
        values = {}
        if was in counter and was != after:
            values[was] = counter[was] - 1
        if after in counter and was != after:
            values[after] = counter[after] + 1
        if values:
            self._connection.execute(update(batches).where(batches.c.id == entry.batch_id).values(values))

    def _outcome(self, batch_id: int, position: int) -> Entry | None:
        here = (entries.c.batch_id == batch_id, entries.c.position == position, is_outcome)
        row = self._connection.execute(select_entries().where(*here)).one_or_none()
        return as_entry(row) if row else None

    def entry_and_next(self, book: str, sequence: int) -> tuple[list[Entry], Head]:
        """The entry and the one behind it, with the head of the book, in one look."""
        with self._transaction() as connection:
            book_id = self._book_id(book)
            if book_id is None:
                return [], Head(book)
            statement = (
                select_entries()
                .where(entries.c.book_id == book_id, entries.c.sequence.in_((sequence, sequence + 1)))
                .order_by(entries.c.sequence)
            )
            return [as_entry(row) for row in connection.execute(statement)], self._head(book)

    def keep_drain(self, report: Mapping[str, Any]) -> None:
        """Keeps the report of a stop."""
        with self._transaction() as connection:
            connection.execute(insert(drains).values(at=time.time(), report=json.dumps(dict(report))))


def placed_document(placed: Placed, sha256: str, size_bytes: int, today: str) -> Document:
    """A document that was just accepted, as `waits` would give it."""
    return Document(
        placed.document_id,
        placed.batch_id,
        placed.position,
        placed.uri,
        sha256.encode(),
        BLOB,
        size_bytes,
        0,
        today,
    )


def _dated(document: Document, today: str) -> Document:
    return Document(
        document.document_id,
        document.batch_id,
        document.position,
        document.uri,
        document.path,
        document.kind,
        document.size_bytes,
        document.attempts,
        today,
    )


def _told(entry: Entry) -> str:
    told: dict[str, Any] = {"voucher": entry.voucher, "kind": str(entry.kind)}
    if entry.kind is EntryKind.FAILURE:
        told["code"] = (entry.failure or {}).get("code")
    if entry.verdict is not None:
        told["verdict"] = str(entry.verdict)
    return json.dumps(told)


def _as_decision(verdict: Verdict | None) -> str | None:
    return str(verdict) if verdict in (Verdict.NEEDS_REVIEW, Verdict.REJECTED) else None
