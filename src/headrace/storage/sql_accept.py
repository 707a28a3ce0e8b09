"""What the service accepts, in SQL: documents with their owner, many in one transaction; batches that stay open."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Row, bindparam, func, insert, select, update

from headrace.documents.document import document_id
from headrace.documents.entry import GENESIS
from headrace.storage.errors import BatchListed, KeyUsed, UnknownBatch
from headrace.storage.sql import BLOB, QUEUED
from headrace.storage.sql_webhooks import SqlWebhooks
from headrace.storage.tables import (
    batches,
    books,
    document_ids,
    documents,
    events,
    idempotency_keys,
    open_batches,
    submissions,
)

UPLOAD_KEY = "upload"
"""The key of a batch that was made for one document; of another one of the service, the client's own or its number."""

_BATCH: tuple[str, ...] = (
    "id",
    "book_id",
    "key",
    "today",
    "settings_json",
    "state",
    "listed",
    "started_at",
    "accepted",
    "succeeded",
)
_BATCH += ("partial", "duplicates", "failed", "in_flight", "needs_review", "rejected")
_DOCUMENT: tuple[str, ...] = (
    "batch_id",
    "position",
    "uri",
    "path",
    "kind",
    "size_bytes",
    "mtime_ns",
    "external_id",
    "replay_of",
)
_DOCUMENT += ("state", "attempts")
_SUBMISSION = ("batch_id", "position", "client", "class", "sha256", "accepted_at", "lease", "fence", "restarts")
_KEY = ("key", "client", "fingerprint", "batch_id", "position", "used_at")
_EVENT = ("at", "kind", "client", "batch_id", "document_id", "data")
_PER_QUERY = 400
_NO_DATA = "{}"

_GROW = (
    update(batches)
    .where(batches.c.id == bindparam("of_batch"))
    .values(accepted=batches.c.accepted + bindparam("more"), in_flight=batches.c.in_flight + bindparam("more_flying"))
)


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to be accepted: its bytes are in the blobs already, synced.

    Attributes:
        client, service_class: whose, and how urgent.
        sha256, size_bytes: of the bytes.
        uri: what it is called, printable; "" takes its id.
        key, fingerprint: the idempotency key and what it was used for.
        batch_id: an open batch; None makes one of its own.
        same_again: without a key, take the same bytes of the same client for the same document.
        replay_of: id of the document that it runs again.
    """

    client: str
    service_class: int
    sha256: str
    size_bytes: int
    uri: str = ""
    key: str | None = None
    fingerprint: str = ""
    batch_id: int | None = None
    external_id: str | None = None
    replay_of: str | None = None
    same_again: bool = True


@dataclass(frozen=True, slots=True)
class Placed:
    """Where it is, since when, and the day of its batch; `again` when nothing new was made."""

    batch_id: int
    position: int
    document_id: str
    uri: str
    again: bool = False
    at: float = 0.0
    today: str = ""


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch of the service: whose it is. `again`: it was there already."""

    batch_id: int
    client: str
    service_class: int
    key: str | None
    again: bool = False


class SqlAccept(SqlWebhooks):
    """Takes documents in. Everything here belongs into a transaction of the caller's, or is one of its own."""

    def accept(
        self, wanted: Sequence[NewDocument], *, book: str, today: str, settings_json: str, key_age_s: float
    ) -> list[Placed | Exception]:
        """Gives each document its place and writes all that belongs to it, in one transaction.

        What a key or the bytes were used for is looked up in here, and between those of this group too: of two equal
        requests, one makes the document and the other one finds it.

        Returns:
            For each where it is, or why it has no place: `KeyUsed`, `UnknownBatch`, `BatchListed`.
        """
        with self._transaction():
            last = self._connection.exec_driver_sql("SELECT coalesce(max(id), 0) FROM batches").scalar_one()
            group = _Group(int(last), time.time())
            self._find_keys(wanted, group, group.now - key_age_s)
            self._find_contents(wanted, group)
            book_id = self._make_book(book)
            placed = [self._place(document, book, today, group) for document in wanted]
            self._write(group.new, group, book_id, today, settings_json)
            return placed

    def _place(self, document: NewDocument, book: str, today: str, group: _Group) -> Placed | Exception:
        """Decides on one document; what is new is remembered in the group."""
        if document.key is not None:
            used = group.keys.get((document.client, document.key))
            if used is not None:
                if used[0] != document.fingerprint:
                    return KeyUsed("this idempotency key was used for another request")
                return replace(used[1], again=True)
        elif document.same_again and document.batch_id is None:
            first = group.contents.get((document.client, document.sha256))
            if first is not None:
                return replace(first, again=True)
        if document.batch_id is None:
            group.last_batch += 1
            batch_id, position = group.last_batch, 1
        else:
            batch_id = document.batch_id
            last = self._last_position(batch_id, document.client, group)
            if isinstance(last, Exception):
                return last
            position = group.positions[batch_id] = last + 1
            group.grown[batch_id] = group.grown.get(batch_id, 0) + 1
        name = document_id(book, batch_id, position)
        where = Placed(batch_id, position, name, document.uri or name, at=group.now, today=today)
        group.new.append((document, where))
        if document.key is not None:
            group.keys[document.client, document.key] = (document.fingerprint, where)
        if document.same_again and document.batch_id is None:
            group.contents[document.client, document.sha256] = where
        return where

    def _last_position(self, batch_id: int, client: str, group: _Group) -> int | Exception:
        if batch_id not in group.positions:
            row = self._open_row(batch_id)
            if row is None:
                return UnknownBatch(f"there is no batch {batch_id}")
            group.owners[batch_id] = row.client
            group.listed[batch_id] = row.listed
            group.positions[batch_id] = row.accepted
        if group.owners[batch_id] != client:
            return UnknownBatch(f"there is no batch {batch_id}")
        if group.listed[batch_id]:
            return BatchListed(f"batch {batch_id} is closed: no more documents can be added")
        return group.positions[batch_id]

    def _open_row(self, batch_id: int) -> Row[Any] | None:
        return self._connection.execute(
            select(open_batches, batches.c.listed, batches.c.accepted, batches.c.state)
            .join(batches, batches.c.id == open_batches.c.batch_id)
            .where(open_batches.c.batch_id == batch_id)
        ).one_or_none()

    def _find_keys(self, wanted: Sequence[NewDocument], group: _Group, not_before: float) -> None:
        keys = list({document.key for document in wanted if document.key is not None})
        for start in range(0, len(keys), _PER_QUERY):
            statement = (
                select(idempotency_keys, documents.c.uri, books.c.name.label("book"))
                .join(
                    documents,
                    (documents.c.batch_id == idempotency_keys.c.batch_id)
                    & (documents.c.position == idempotency_keys.c.position),
                )
                .join(batches, batches.c.id == idempotency_keys.c.batch_id)
                .join(books)
                .where(idempotency_keys.c.key.in_(keys[start : start + _PER_QUERY]))
                .where(idempotency_keys.c.used_at >= not_before)
            )
            for row in self._connection.execute(statement):
                name = document_id(row.book, row.batch_id, row.position)
                where = Placed(row.batch_id, row.position, name, row.uri)
                group.keys[row.client, row.key] = (row.fingerprint, where)

    def _find_contents(self, wanted: Sequence[NewDocument], group: _Group) -> None:
        """The documents of the same bytes that may stand for those: not failed, not cancelled, and not of a batch."""
        wanted_once = {bytes.fromhex(d.sha256) for d in wanted if d.same_again and d.batch_id is None and d.key is None}
        # Most bytes are new, and only the index is asked for those.
        known = self._which("SELECT DISTINCT sha256 FROM submissions WHERE sha256 IN", list(wanted_once))
        digests = [sha256 for (sha256,) in known]
        for start in range(0, len(digests), _PER_QUERY):
            statement = (
                select(submissions, documents.c.uri, books.c.name.label("book"))
                .join(
                    documents,
                    (documents.c.batch_id == submissions.c.batch_id) & (documents.c.position == submissions.c.position),
                )
                .join(batches, batches.c.id == submissions.c.batch_id)
                .join(books)
                .where(submissions.c.sha256.in_(digests[start : start + _PER_QUERY]))
                .where(documents.c.state.not_in(("failed", "cancelled")), submissions.c.cancelled_by.is_(None))
                .order_by(submissions.c.batch_id.desc(), submissions.c.position.desc())
            )
            for row in self._connection.execute(statement):  # the first one stays
                name = document_id(row.book, row.batch_id, row.position)
                group.contents[row.client, row.sha256.hex()] = Placed(row.batch_id, row.position, name, row.uri)

    def _write(
        self,
        new: Sequence[tuple[NewDocument, Placed]],
        group: _Group,
        book_id: int,
        today: str,
        settings_json: str,
    ) -> None:
        now = group.now
        counters = (1, 0, 0, 0, 0, 1, 0, 0)
        singles = [
            (w.batch_id, book_id, UPLOAD_KEY, today, settings_json, "open", 1, now, *counters)
            for document, w in new
            if document.batch_id is None
        ]
        self._fast_insert(batches, _BATCH, singles)
        new_state = (QUEUED, 0)
        rows: list[tuple[Any, ...]] = [
            (
                w.batch_id,
                w.position,
                w.uri,
                d.sha256.encode(),
                BLOB,
                d.size_bytes,
                0,
                d.external_id,
                d.replay_of,
                *new_state,
            )
            for d, w in new
        ]
        self._fast_insert(documents, _DOCUMENT, rows)
        self._fast_insert(
            document_ids,
            ("document_id", "batch_id", "position"),
            sorted((w.document_id, w.batch_id, w.position) for _, w in new),
        )
        owned = [
            (w.batch_id, w.position, d.client, int(d.service_class), bytes.fromhex(d.sha256), now, 0, 0, 0)
            for d, w in new
        ]
        self._fast_insert(submissions, _SUBMISSION, owned)
        for d, w in new:
            if d.key is not None:
                key = (d.key, d.client, d.fingerprint, w.batch_id, w.position, now)
                # An expired one may still be there.
                self._connection.exec_driver_sql(
                    f"INSERT OR REPLACE INTO idempotency_keys ({', '.join(_KEY)}) VALUES (?, ?, ?, ?, ?, ?)", key
                )
        self._fast(_GROW, [(more, more, batch_id) for batch_id, more in group.grown.items()])
        self.tell(
            [(now, "document.accepted", d.client, w.batch_id, w.document_id, _NO_DATA) for d, w in new],
        )

    def tell(self, rows: Sequence[tuple[float, str, str, int, str | None, str]]) -> None:
        """Writes events: at, kind, client, batch, document, data as JSON; and what webhooks are told of them."""
        self._fast_insert(events, _EVENT, rows)
        self._tell_webhooks(rows)

    def tell_one(
        self, kind: str, client: str, batch_id: int, document: str | None = None, data: dict[str, Any] | None = None
    ) -> None:
        """Writes one event."""
        self.tell([(time.time(), kind, client, batch_id, document, json.dumps(data) if data else _NO_DATA)])

    def _make_book(self, book: str) -> int:
        book_id = self._book_id(book)
        if book_id is None:
            new = insert(books).values(name=book, sequence=0, entry_hash=GENESIS).returning(books.c.id)
            book_id = int(self._connection.execute(new).scalar_one())
        return book_id

    # Batches that stay open

    def open_service_batch(
        self, client: str, service_class: int, key: str | None, *, book: str, today: str, settings_json: str
    ) -> OpenBatch:
        """Starts a batch of the service, or finds the one that this client has started with the same key."""
        with self._transaction() as connection:
            if key is not None:
                found = connection.execute(
                    select(open_batches).where(open_batches.c.client == client, open_batches.c.key == key)
                ).one_or_none()
                if found is not None:
                    return OpenBatch(found.batch_id, client, found._mapping["class"], key, again=True)
            last = connection.scalar(select(func.coalesce(func.max(batches.c.id), 0))) or 0
            batch_id, book_id = last + 1, self._make_book(book)
            name = key or f"batch:{batch_id}"
            row = (batch_id, book_id, name, today, settings_json, "open", False, time.time(), *(0,) * 8)
            self._fast_insert(batches, _BATCH, [row])
            self._fast_insert(
                open_batches, ("batch_id", "client", "class", "key"), [(batch_id, client, int(service_class), key)]
            )
            self.tell_one("batch.opened", client, batch_id)
            return OpenBatch(batch_id, client, int(service_class), key)

    def close_service_batch(self, batch_id: int, client: str | None) -> bool:
        """No more documents come; finishes it when all it has have their entries. Returns whether it is finished.

        Raises:
            UnknownBatch: there is none, or it is another client's.
        """
        with self._transaction() as connection:
            row = self._open_row(batch_id)
            if row is None or (client is not None and row.client != client):
                raise UnknownBatch(f"there is no batch {batch_id}")
            if not row.listed:
                connection.execute(update(batches).where(batches.c.id == batch_id).values(listed=True))
                self.tell_one("batch.closed", row.client, batch_id, data={"documents": row.accepted})
            return bool(self.finish_done([batch_id])) or row.state == "finished"

    def finish_done(self, batch_ids: Sequence[int]) -> list[int]:
        """Marks those of these batches finished that are listed and have nothing in flight; returns which."""
        done: list[int] = []
        now = time.time()
        for start in range(0, len(batch_ids), _PER_QUERY):
            statement = (
                update(batches)
                .where(batches.c.id.in_(batch_ids[start : start + _PER_QUERY]))
                .where(batches.c.listed, batches.c.in_flight == 0, batches.c.state == "open")
                .values(state="finished", finished_at=now)
                .returning(batches.c.id)
            )
            done += self._connection.scalars(statement).all()
        if done:
            owned = select(open_batches.c.batch_id, open_batches.c.client).where(open_batches.c.batch_id.in_(done))
            for row in self._connection.execute(owned).all():
                self.tell_one("batch.finished", row.client, row.batch_id)
        return done

    def forget(self, *, keys_before: float, events_kept: int) -> None:
        """Removes keys that have expired and events beyond the number that is kept."""
        with self._transaction() as connection:
            connection.execute(idempotency_keys.delete().where(idempotency_keys.c.used_at < keys_before))
            last = connection.scalar(select(func.max(events.c.id))) or 0
            connection.execute(events.delete().where(events.c.id <= last - events_kept))


class _Group:
    """What is known while a group is accepted."""

    def __init__(self, last_batch: int, now: float) -> None:
        self.last_batch = last_batch
        self.now = now
        self.keys: dict[tuple[str, str], tuple[str, Placed]] = {}
        self.contents: dict[tuple[str, str], Placed] = {}
        self.positions: dict[int, int] = {}
        self.owners: dict[int, str] = {}
        self.listed: dict[int, bool] = {}
        self.grown: dict[int, int] = {}
        self.new: list[tuple[NewDocument, Placed]] = []
