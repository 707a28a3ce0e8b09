"""What the run and the ledger's writer need, in SQL: pending documents, attempts, heads, commits."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, literal_column, select, update
from sqlalchemy.exc import IntegrityError

from headrace.documents.document import Document, document_id
from headrace.documents.entry import Entry, FirstSeen, Head
from headrace.documents.status import DocumentState, EntryKind, Verdict
from headrace.storage.errors import HeadMoved, UnknownDocument
from headrace.storage.sql import QUEUED, SqlPart
from headrace.storage.store import Telemetry, counter_of
from headrace.storage.tables import batches, books, dead_letters, documents, first_seen
from headrace.storage.tables import entries as entry_table

_ENTRY = ("book_id", "sequence", "batch_id", "position", "content", "prev_hash", "entry_hash")
_FIRST = ("book_id", "sha256", "sequence", "batch_id", "position")
_DEAD = ("batch_id", "position", "failure", "retriable", "blob_sha256", "failed_at")
_DIGESTS_PER_QUERY = 500  # SQLite takes a bounded number of parameters

_END_DOCUMENT = (
    update(documents)
    .where(
        documents.c.batch_id == bindparam("in_batch"),
        documents.c.position == bindparam("at_position"),
        documents.c.state == literal_column(f"'{QUEUED}'"),
    )
    .values(state=bindparam("to_state"), elapsed_s=bindparam("took_s"), telemetry=bindparam("measured"))
)

_COUNTED = ("succeeded", "partial", "duplicates", "failed", "in_flight", "needs_review", "rejected")
_COUNT = (
    update(batches)
    .where(batches.c.id == bindparam("of_batch"))
    .values({name: batches.c[name] + bindparam(f"more_{name}") for name in _COUNTED})
)


class SqlLedger(SqlPart):
    """Hands out pending documents and takes entries, each group in one transaction."""

    def pending(self, batch_id: int, after_position: int = 0, limit: int = 1000) -> list[Document]:
        """See `WorkStore.pending`."""
        statement = (
            select(documents)
            .where(documents.c.batch_id == batch_id, documents.c.position > after_position)
            .where(documents.c.state == QUEUED)
            .order_by(documents.c.position)
            .limit(limit)
        )
        with self._transaction() as connection:
            book = self._batch_row(batch_id).book
            return [self._document(book, row) for row in connection.execute(statement)]

    def charge_attempt(self, document: Document, failure: Mapping[str, Any]) -> int:
        """See `WorkStore.charge_attempt`."""
        this = (documents.c.batch_id == document.batch_id, documents.c.position == document.position)
        values = {"attempts": documents.c.attempts + 1, "last_failure": json.dumps(dict(failure))}
        with self._transaction() as connection:
            connection.execute(update(documents).where(*this).values(values))
            attempts = connection.scalar(select(documents.c.attempts).where(*this))
            if attempts is None:
                raise UnknownDocument(f"there is no document {document.document_id}")
            return int(attempts)

    def head(self, book: str) -> Head:
        """See `BookStore.head`."""
        with self._transaction():
            return self._head(book)

    def _head(self, book: str) -> Head:
        row = self._connection.execute(
            select(books.c.sequence, books.c.entry_hash).where(books.c.name == book)
        ).one_or_none()
        return Head(book, row.sequence, row.entry_hash) if row else Head(book)

    def first_seen(self, book: str, digests: Iterable[str]) -> dict[str, FirstSeen]:
        """See `BookStore.first_seen`."""
        wanted = list({bytes.fromhex(digest) for digest in digests})
        found: dict[str, FirstSeen] = {}
        with self._transaction() as connection:
            book_id = self._book_id(book)
            for start in range(0, len(wanted), _DIGESTS_PER_QUERY):
                statement = (
                    select(first_seen, documents.c.uri)
                    .join(
                        documents,
                        (documents.c.batch_id == first_seen.c.batch_id)
                        & (documents.c.position == first_seen.c.position),
                    )
                    .where(first_seen.c.book_id == book_id)
                    .where(first_seen.c.sha256.in_(wanted[start : start + _DIGESTS_PER_QUERY]))
                )
                for row in connection.execute(statement):
                    name = document_id(book, row.batch_id, row.position)
                    found[row.sha256.hex()] = FirstSeen(name, row.sequence, row.uri)
        return found

    def commit(
        self,
        entries: Sequence[Entry],
        telemetry: Sequence[Telemetry] = (),
        *,
        kept: Mapping[str, str] | None = None,
    ) -> None:
        """See `BookStore.commit`."""
        if not entries:
            return
        if telemetry and len(telemetry) != len(entries):
            raise ValueError(f"{len(telemetry)} measurements for {len(entries)} entries")
        try:
            with self._transaction():
                self._follow_head(entries)
                self._write_entries(entries)
                ended = self._end_documents(entries, telemetry)
                self._count(entries)
                self._keep_dead(entries, kept or {})
                if ended != len(entries):
                    raise HeadMoved(f"{len(entries) - ended} of these documents have ended before, or do not exist")
        except IntegrityError as error:
            raise HeadMoved(f"an entry is there already: {error.orig}") from error

    def _follow_head(self, group: Sequence[Entry]) -> None:
        """Checks that the group follows the head on disk, and moves the head to its end."""
        book = group[0].book
        head = self._head(book)
        for entry in group:
            if (entry.book, entry.sequence, entry.prev_hash) != (book, head.sequence + 1, head.entry_hash):
                raise HeadMoved(f"entry {entry.voucher} does not follow {book}-{head.sequence:06d}")
            head = Head(book, entry.sequence, entry.entry_hash)
        self._connection.execute(
            update(books).where(books.c.name == book).values(sequence=head.sequence, entry_hash=head.entry_hash)
        )

    def _write_entries(self, group: Sequence[Entry]) -> None:
        book_id = self._book_id(group[0].book)
        rows = [(book_id, e.sequence, e.batch_id, e.position, e.content, e.prev_hash, e.entry_hash) for e in group]
        self._fast_insert(entry_table, _ENTRY, rows)
        receipts = [
            (book_id, bytes.fromhex(digest), e.sequence, e.batch_id, e.position) for e in group for digest in e.known_by
        ]
        self._fast_insert(first_seen, _FIRST, receipts)

    def _end_documents(self, group: Sequence[Entry], telemetry: Sequence[Telemetry]) -> int:
        """Gives each document its final state; returns how many were waiting for it."""
        measured: list[tuple[float | None, str | None]] = [(t.elapsed_s, _as_json(t)) for t in telemetry]
        measured = measured or [(None, None)] * len(group)
        rows = [
            (str(entry.state), took_s, text, entry.batch_id, entry.position)
            for entry, (took_s, text) in zip(group, measured, strict=True)
        ]
        return self._fast(_END_DOCUMENT, rows)

    def _count(self, group: Sequence[Entry]) -> None:
        """Moves the documents from `in_flight` to what they became, in the counters of each batch."""
        by_batch: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for entry in group:
            by_batch[entry.batch_id][counter_of(entry)] += 1
            if entry.verdict in (Verdict.NEEDS_REVIEW, Verdict.REJECTED):
                by_batch[entry.batch_id][str(entry.verdict)] += 1
            by_batch[entry.batch_id]["in_flight"] -= 1
        rows = [(*(counts[name] for name in _COUNTED), batch_id) for batch_id, counts in by_batch.items()]
        self._fast(_COUNT, rows)

    def _keep_dead(self, group: Sequence[Entry], kept: Mapping[str, str]) -> None:
        now = time.time()
        rows = [
            (
                entry.batch_id,
                entry.position,
                json.dumps(entry.failure),
                bool((entry.failure or {}).get("retriable")),
                kept.get(entry.document_id),
                now,
            )
            for entry in group
            if entry.kind is EntryKind.FAILURE and entry.state is not DocumentState.CANCELLED
        ]
        self._fast_insert(dead_letters, _DEAD, rows)


def _as_json(telemetry: Telemetry) -> str:
    told: dict[str, Any] = {"pages": telemetry.pages, "stages_s": dict(telemetry.stages_s)}
    return json.dumps(told | ({"observed": telemetry.observed} if telemetry.observed else {}))
