"""Dead letters that are run again, and the time series of a run, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from sqlalchemy import ColumnElement, Row, delete, select, update

from headrace.documents.document import document_id
from headrace.storage.errors import UnknownDocument
from headrace.storage.sql import BLOB
from headrace.storage.sql_reading import SqlReading, same_document
from headrace.storage.sql_registry import SqlRegistry
from headrace.storage.store import REPLAY_KEY, SAMPLES_LIMIT, Batch, Sample, superfluous
from headrace.storage.tables import dead_letters, documents, samples

_PAGE_ROWS = 1000
_SAMPLE = (
    "batch_id",
    "number",
    "at_s",
    "rss_bytes",
    "window_used",
    "in_flight_bytes",
    "documents_done",
    "documents_per_s",
)


class SqlReplay(SqlRegistry, SqlReading):
    """Registers failed documents again, and keeps samples."""

    def replay(self, document_ids: Sequence[str] | None = None) -> list[Batch]:
        """See `Store.replay`."""
        with self._transaction():
            if document_ids is None:
                sources = self._batches_with_dead()
                return [self._replay_batch(source, dead_letters.c.batch_id == source) for source in sources]
            numbers: dict[int, list[int]] = {}
            for wanted in dict.fromkeys(document_ids):
                letter = self._waiting_letter(wanted)
                numbers.setdefault(letter.batch_id, []).append(letter.number)
            return [
                self._replay_batch(source, dead_letters.c.number.in_(numbers[source])) for source in sorted(numbers)
            ]

    def _batches_with_dead(self) -> list[int]:
        waiting = dead_letters.c.replayed_in.is_(None)
        return list(
            self._connection.scalars(select(dead_letters.c.batch_id).where(waiting).distinct().order_by("batch_id"))
        )

    def _waiting_letter(self, wanted: str) -> Row[Any]:
        place = self._locate(wanted)
        letter = None
        if place:
            this = (dead_letters.c.batch_id == place[0], dead_letters.c.position == place[1])
            letter = self._connection.execute(select(dead_letters).where(*this)).one_or_none()
        if letter is None:
            raise UnknownDocument(f"{wanted} is no dead letter")
        if letter.replayed_in is not None:
            raise UnknownDocument(f"{wanted} is replayed already, in batch {letter.replayed_in}")
        return letter

    def _replay_batch(self, source: int, chosen: ColumnElement[bool]) -> Batch:
        """A new batch with the chosen dead letters of one batch, a page at a time."""
        old = self._batch_row(source)
        new = self._open_batch(old.book, f"{REPLAY_KEY}{source}", old.today, old.settings_json)
        page = (
            select(dead_letters.c.number, dead_letters.c.blob_sha256, documents)
            .join_from(dead_letters, documents, same_document)
            .where(chosen, dead_letters.c.replayed_in.is_(None))
            .order_by(dead_letters.c.position)
            .limit(_PAGE_ROWS)
        )
        while rows := self._connection.execute(page).all():
            names = [_name(row) for row in rows]
            old_ids = (document_id(old.book, source, row.position) for row in rows)
            self._append(new.batch_id, iter(names), old_ids)
            taken = dead_letters.c.number.in_([row.number for row in rows])
            self._connection.execute(update(dead_letters).where(taken).values(replayed_in=new.batch_id))
        self._finish_listing(new.batch_id)
        return self._batch(new.batch_id)

    def add_sample(self, batch_id: int, sample: Sample) -> None:
        """See `Store.add_sample`."""
        with self._transaction() as connection:
            kept = connection.execute(
                select(samples.c.number, samples.c.at_s)
                .where(samples.c.batch_id == batch_id)
                .order_by(samples.c.number)
            ).all()
            number = kept[-1].number + 1 if kept else 1
            self._fast_insert(samples, _SAMPLE, [(batch_id, number, *astuple(sample))])
            if len(kept) >= SAMPLES_LIMIT:
                out = kept[superfluous([*(row.at_s for row in kept), sample.at_s])].number
                connection.execute(delete(samples).where(samples.c.batch_id == batch_id, samples.c.number == out))


def _name(row: Row[Any]) -> tuple[str, bytes, str, int, int, str | None]:
    """The name to register again: the blob, where the bytes were kept."""
    if row.blob_sha256:
        return row.uri, row.blob_sha256.encode(), BLOB, row.size_bytes, row.mtime_ns, row.external_id
    return row.uri, row.path, row.kind, row.size_bytes, row.mtime_ns, row.external_id
