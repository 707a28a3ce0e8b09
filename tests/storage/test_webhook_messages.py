from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.storage.errors import UnknownWebhook
from headrace.storage.sql_webhooks import DELIVERED, WAITING, Tried
from headrace.storage.sqlite import SqliteStore


def add(store: SqliteStore, *kinds: str, client: str | None = None) -> int:
    return store.add_webhook("https://a.example/", kinds or ("*",), client, b"s" * 32, "", 32).webhook_id


def tell(store: SqliteStore, *kinds: str, client: str = "c") -> None:
    with store.together():
        store.tell([(1000.0 + n, kind, client, 1, "d1", '{"voucher": "v"}') for n, kind in enumerate(kinds)])


class Undone(Exception):
    pass


def undone(store: SqliteStore, *steps: Callable[[], object]) -> None:
    """One transaction, all of which is taken back."""
    with store.together():
        for step in steps:
            step()
        raise Undone


def test_a_message_is_there_when_and_only_when_its_event_is(sqlite: SqliteStore) -> None:
    hook = add(sqlite)
    tell(sqlite, "document.accepted")
    with pytest.raises(Undone):
        undone(sqlite, lambda: sqlite.tell([(1.0, "document.failed", "c", 1, None, "{}")]))
    found = sqlite.messages(hook, 0, 10)
    assert found is not None
    assert [one.kind for one in found] == ["document.accepted"]
    events = sqlite.happened(0)
    assert f'"event_id":{events[-1].id}' in found[0].body
    assert '"voucher":"v"' in found[0].body


def test_a_webhook_whose_transaction_failed_is_told_of_nothing(sqlite: SqliteStore) -> None:
    with pytest.raises(Undone):
        undone(sqlite, lambda: add(sqlite), lambda: tell(sqlite, "document.failed"))
    tell(sqlite, "document.accepted")  # would break a foreign key if it was still known
    assert sqlite.webhooks() == []


def test_only_what_was_asked_for_is_told(sqlite: SqliteStore) -> None:
    one, other = add(sqlite, "document.*", client="c"), add(sqlite, "batch.finished")
    tell(sqlite, "document.accepted", "batch.opened", "batch.finished", "document.failed")
    tell(sqlite, "document.accepted", client="d")
    kinds = {hook: [its.kind for its in sqlite.messages(hook, 0, 10) or ()] for hook in (one, other)}
    assert kinds == {one: ["document.accepted", "document.failed"], other: ["batch.finished"]}
    bodies = [its.body for its in sqlite.messages(one, 0, 10) or ()]
    assert '"event_id":1' in bodies[0]
    assert '"event_id":4' in bodies[1]


def test_what_waits_comes_by_when_it_is_due(sqlite: SqliteStore) -> None:
    hook = add(sqlite)
    tell(sqlite, "document.accepted", "document.running", "document.succeeded")
    first, second, third = sqlite.next_messages([(hook, 10)])
    sqlite.note_try(Tried(first.number, WAITING, 5.0, 500, "it answered 500", 9000.0))
    sqlite.note_try(Tried(second.number, DELIVERED, 5.0, 200, None, 5.0))
    found = sqlite.next_messages([(hook, 10)])
    assert [(one.number, one.tries) for one in found] == [(third.number, 0), (first.number, 1)]
    again = sqlite.send_again(hook, second.number)
    assert (again.state, again.tries, again.message_id) == (WAITING, 0, second.message_id)
    with pytest.raises(UnknownWebhook):
        sqlite.send_again(hook + 1, second.number)


def test_the_tables_stay_within_their_bounds(sqlite: SqliteStore) -> None:
    hook, gone = add(sqlite), add(sqlite)
    for _ in range(5):
        tell(sqlite, *["document.accepted"] * 10)
    for message in sqlite.next_messages([(hook, 30)]):
        sqlite.note_try(Tried(message.number, DELIVERED, 5.0, 200, None, 5.0))
    sqlite.remove_webhook(gone)
    given_up = 0
    while True:
        some, more = sqlite.tidy_webhooks(ended_kept=10, waiting_most=15, at_once=7)
        given_up += some
        if not more:
            break
    assert given_up == 5
    sqlite.tidy_webhooks(ended_kept=10, waiting_most=15)
    left = sqlite.messages(hook, 0, 1000) or []
    assert [one.state for one in left].count(WAITING) == 15
    assert len(left) == 25, "those that were given up are older than what is kept"
    assert [one.number for one in left if one.state == WAITING][-1] == 99, "the newest ones stay"
    assert sqlite.messages(gone, 0, 10) is None
    with sqlite._transaction() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM webhook_messages").scalar_one() == 25
        assert connection.exec_driver_sql("SELECT count(*) FROM webhooks").scalar_one() == 1
