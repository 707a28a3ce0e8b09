"""Webhooks in SQL: who wants to be told of what, and each message to be delivered until it is, or is given up.

A message is written in the transaction of the event that it tells of: there is no event without its messages, and no
message of something that did not happen.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, func, insert, select, text, update

from headrace.storage.errors import TooManyWebhooks, UnknownWebhook
from headrace.storage.sql import SqlPart, WantedEvents
from headrace.storage.tables import events, webhook_messages, webhooks

WAITING, DELIVERED, DEAD = 0, 1, 2
KEEP_TRYING_S = 24 * 3600.0
"""After this, nothing is tried again."""

_MESSAGE = ("webhook_id", "message_id", "kind", "body", "made_at", "state", "tries", "due_at", "ends_at")
_waits = text("webhook_messages.state = 0")  # as the index says it, or SQLite does not use that
_ended = text("webhook_messages.state > 0")


@dataclass(frozen=True, slots=True)
class Webhook:
    """A subscription.

    Attributes:
        webhook_id: never given twice.
        url: where messages go.
        kinds: of events; `*` at the end stands for anything.
        client: whose events; None for everybody's.
        secret: what messages are signed with; shown once, kept because it is needed for each.
        description: for people.
    """

    webhook_id: int
    url: str
    kinds: tuple[str, ...]
    client: str | None
    secret: bytes = field(repr=False)
    description: str
    made_at: float


@dataclass(frozen=True, slots=True)
class Message:
    """One event for one webhook.

    Attributes:
        number: its place in the order in which messages were made.
        message_id: the same over all tries, so that a receiver can tell a repetition.
        body: the bytes that are sent, the same over all tries.
        state: WAITING, DELIVERED or DEAD.
        tries: so far, since it was made or sent again by hand.
        due_at: when it is tried next, as Unix time.
        ends_at: when no more tries are begun.
        last_at, last_status, last_error: of the last try.
    """

    number: int
    webhook_id: int
    message_id: str
    kind: str
    body: str
    made_at: float
    state: int
    tries: int
    due_at: float
    ends_at: float
    last_at: float | None
    last_status: int | None
    last_error: str | None


@dataclass(frozen=True, slots=True)
class Tried:
    """How a try went, and what follows; `due_at` is for those that wait again."""

    number: int
    state: int
    at: float
    status: int | None
    error: str | None
    due_at: float


class SqlWebhooks(SqlPart):
    """The part of a store that keeps webhooks."""

    def add_webhook(
        self, url: str, kinds: Sequence[str], client: str | None, secret: bytes, description: str, most: int
    ) -> Webhook:
        """Adds a subscription: it is told of what happens from now on.

        Raises:
            TooManyWebhooks: there are as many as there may be.
        """
        with self._transaction() as connection:
            if len(self.webhooks()) >= most:
                raise TooManyWebhooks(f"there are {most} webhooks, and no more may be; remove one first")
            now = time.time()
            told = {"url": url, "kinds": json.dumps(list(kinds)), "client": client, "description": description}
            new = insert(webhooks).values(**told, secret=secret, made_at=now, removed=False).returning(webhooks.c.id)
            number = int(connection.execute(new).scalar_one())
            self._wanted = None
            return Webhook(number, url, tuple(kinds), client, secret, description, now)

    def webhooks(self) -> list[Webhook]:
        """All subscriptions, oldest first."""
        with self._transaction() as connection:
            found = connection.execute(select(webhooks).where(~webhooks.c.removed).order_by(webhooks.c.id))
            return [_as_webhook(row) for row in found]

    def remove_webhook(self, webhook_id: int) -> None:
        """Ends a subscription. Its messages go a little later (`tidy_webhooks`): they may be many.

        Raises:
            UnknownWebhook: there is none.
        """
        with self._transaction() as connection:
            here = update(webhooks).where(webhooks.c.id == webhook_id, ~webhooks.c.removed).values(removed=True)
            if not connection.execute(here).rowcount:
                raise UnknownWebhook(f"there is no webhook {webhook_id}")
            self._wanted = None

    def messages(self, webhook_id: int, after: int, limit: int, state: int | None = None) -> list[Message] | None:
        """The next messages of a webhook by number; None when there is no such webhook."""
        with self._transaction() as connection:
            if not self._exists(webhook_id):
                return None
            here = (webhook_messages.c.webhook_id == webhook_id, webhook_messages.c.number > after)
            statement = select(webhook_messages).where(*here).order_by(webhook_messages.c.number).limit(limit)
            if state is not None:
                statement = statement.where(webhook_messages.c.state == state)
            return [_as_message(row) for row in connection.execute(statement)]

    def send_again(self, webhook_id: int, number: int) -> Message:
        """Makes a message wait from now on, with all its tries, whatever became of it.

        Raises:
            UnknownWebhook: no such webhook, or no such message of it.
        """
        now = time.time()
        here = (webhook_messages.c.webhook_id == webhook_id, webhook_messages.c.number == number)
        anew = {"state": WAITING, "tries": 0, "due_at": now, "ends_at": now + KEEP_TRYING_S}
        with self._transaction() as connection:
            if not self._exists(webhook_id):
                raise UnknownWebhook(f"there is no webhook {webhook_id}")
            if not connection.execute(update(webhook_messages).where(*here).values(anew)).rowcount:
                raise UnknownWebhook(f"webhook {webhook_id} has no delivery {number}")
            return _as_message(connection.execute(select(webhook_messages).where(*here)).one())

    def next_messages(self, wanted: Sequence[tuple[int, int]]) -> list[Message]:
        """Those that wait, by when they are due: for each webhook as many as asked for, due or not."""
        found: list[Message] = []
        with self._transaction() as connection:
            for webhook_id, limit in wanted:
                statement = (
                    select(webhook_messages)
                    .where(webhook_messages.c.webhook_id == webhook_id, _waits)
                    .order_by(webhook_messages.c.due_at)
                    .limit(limit)
                )
                found += [_as_message(row) for row in connection.execute(statement)]
        return found

    def note_try(self, tried: Tried) -> None:
        """Keeps how a try went. One whose webhook was removed meanwhile is not there any more, which is right."""
        values = {
            "state": tried.state,
            "tries": webhook_messages.c.tries + 1,
            "due_at": tried.due_at,
            "last_at": tried.at,
            "last_status": tried.status,
            "last_error": tried.error,
        }
        with self._transaction() as connection:
            connection.execute(update(webhook_messages).where(webhook_messages.c.number == tried.number).values(values))

    def tidy_webhooks(self, *, ended_kept: int, waiting_most: int, at_once: int = 1000) -> tuple[int, bool]:
        """Keeps the tables within their bounds, a piece at a time.

        What ended is kept up to a number for each webhook, the newest; of what waits beyond another number, the oldest
        are given up. A removed webhook goes with its last message.

        Returns:
            How many were given up, and whether there is more to do.
        """
        given_up, more = 0, False
        with self._transaction() as connection:
            for row in connection.execute(select(webhooks.c.id, webhooks.c.removed)).all():
                if row.removed:
                    left = self._delete(row.id, None, 0, at_once)
                    more = more or left
                    if not left:
                        connection.execute(webhooks.delete().where(webhooks.c.id == row.id))
                    continue
                more = self._delete(row.id, _ended, ended_kept, at_once) or more
                over = self._beyond(row.id, _waits, waiting_most, at_once)
                if over:
                    error = f"given up: more than {waiting_most} waited"
                    dead = {"state": DEAD, "last_error": error}
                    connection.execute(update(webhook_messages).where(webhook_messages.c.number.in_(over)).values(dead))
                given_up += len(over)
                more = more or len(over) == at_once
        return given_up, more

    def _delete(self, webhook_id: int, which: Any, kept: int, at_once: int) -> bool:
        numbers = self._beyond(webhook_id, which, kept, at_once)
        if numbers:
            self._connection.execute(webhook_messages.delete().where(webhook_messages.c.number.in_(numbers)))
        return len(numbers) == at_once

    def _beyond(self, webhook_id: int, which: Any, kept: int, at_once: int) -> list[int]:
        """The numbers of the oldest ones beyond the newest `kept`."""
        here = [webhook_messages.c.webhook_id == webhook_id]
        if which is not None:
            here.append(which)
        newest = select(webhook_messages.c.number).where(*here).order_by(webhook_messages.c.number.desc())
        last = self._connection.scalar(newest.offset(kept).limit(1))
        if last is None:
            return []
        oldest = select(webhook_messages.c.number).where(*here, webhook_messages.c.number <= last)
        return list(self._connection.scalars(oldest.order_by(webhook_messages.c.number).limit(at_once)))

    def _exists(self, webhook_id: int) -> bool:
        here = (webhooks.c.id == webhook_id, ~webhooks.c.removed)
        return self._connection.scalar(select(webhooks.c.id).where(*here)) is not None

    def _tell_webhooks(self, rows: Sequence[tuple[float, str, str, int, str | None, str]]) -> None:
        """Writes the messages of the events that were just inserted, in their transaction."""
        if self._wanted is None:
            self._wanted = tuple(WantedEvents(its.webhook_id, its.kinds, its.client) for its in self.webhooks())
        if not self._wanted or not rows:
            return
        # One writer, and ids that only rise: those of this transaction are the last ones, in their order.
        last = int(self._connection.scalar(select(func.max(events.c.id))) or 0)
        new: list[tuple[Any, ...]] = []
        for event_id, (at, kind, client, batch_id, document_id, data) in enumerate(rows, last - len(rows) + 1):
            body: str | None = None
            for its in self._wanted:
                if not its.wants(kind, client):
                    continue
                if body is None:
                    body = _body(event_id, at, kind, client, batch_id, document_id, data)
                name = f"msg_{secrets.token_hex(12)}"
                new.append((its.webhook_id, name, kind, body, at, WAITING, 0, at, at + KEEP_TRYING_S))
        self._fast_insert(webhook_messages, _MESSAGE, new)


def _body(event_id: int, at: float, kind: str, client: str, batch_id: int, document_id: str | None, data: str) -> str:
    """The event as Standard Webhooks has it: type, timestamp, data. Ids only: what they name is asked for."""
    told = {"event_id": event_id, "client": client, "batch_id": batch_id}
    if document_id is not None:
        told["document_id"] = document_id
    when = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    message = {"type": kind, "timestamp": when, "data": {**told, **json.loads(data)}}
    return json.dumps(message, separators=(",", ":"))


def _as_webhook(row: Row[Any]) -> Webhook:
    kinds = tuple(json.loads(row.kinds))
    return Webhook(row.id, row.url, kinds, row.client, row.secret, row.description, row.made_at)


def _as_message(row: Row[Any]) -> Message:
    return Message(
        row.number,
        row.webhook_id,
        row.message_id,
        row.kind,
        row.body,
        row.made_at,
        row.state,
        row.tries,
        row.due_at,
        row.ends_at,
        row.last_at,
        row.last_status,
        row.last_error,
    )
