"""Attempts, commits and what they leave: the conformance suite of every store, second part."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from made_entries import commit_next, decide, filled, names, numbered

from headrace.documents.entry import Head
from headrace.documents.status import DocumentState, EntryKind
from headrace.ledger import verify
from headrace.storage.errors import HeadMoved, UnknownDocument
from headrace.storage.store import Accounts, Registration, Store, Telemetry


def test_an_empty_book_has_its_head_at_zero(store: Store) -> None:
    assert store.head("main") == Head("main")
    store.open_batch("main", "k", "2026-03-04", "{}")
    assert store.head("main") == Head("main")
    assert store.books() == [Head("main")]


def test_a_commit_moves_the_head_states_and_counters_together(store: Store) -> None:
    batch = filled(store, [*numbered(4), Registration("copy.jpg", b"1.jpg")])
    entries = commit_next(store, batch, failed=["2.jpg"], partial=["3.jpg"])
    assert store.head("main") == Head("main", 5, entries[-1].entry_hash)
    assert store.accounts(batch.batch_id) == Accounts(
        accepted=5, succeeded=2, partial=1, duplicates=1, failed=1, in_flight=0, needs_review=1
    )
    states = [store.document(entry.document_id).state for entry in entries]  # type: ignore[union-attr]
    assert states == ["succeeded", "failed", "partial", "succeeded", "succeeded"]
    assert store.entries(book="main") == entries
    assert verify(store.entries(book="main"), store.head("main")).holds


def test_the_accounting_identity_holds_between_any_two_commits(store: Store) -> None:
    batch = filled(store, numbered(7))
    for done in range(8):
        accounts = store.accounts(batch.batch_id)
        assert (accounts.done, accounts.in_flight, accounts.holds) == (done, 7 - done, True)
        commit_next(store, batch, 1, failed=["4.jpg"])


def test_entries_that_do_not_follow_the_head_change_nothing(store: Store) -> None:
    batch = filled(store, numbered(3))
    entries = decide(store, "main", store.pending(batch.batch_id))
    with pytest.raises(HeadMoved):
        store.commit(entries[1:])
    with pytest.raises(HeadMoved):
        store.commit([entries[0], entries[2]])
    assert (store.head("main"), store.accounts(batch.batch_id).in_flight) == (Head("main"), 3)
    store.commit(entries)
    with pytest.raises(HeadMoved):
        store.commit(entries)
    assert store.accounts(batch.batch_id) == Accounts(accepted=3, succeeded=3)


def test_a_document_gets_one_entry_and_never_a_second(store: Store) -> None:
    batch = filled(store, numbered(2))
    documents = store.pending(batch.batch_id)
    commit_next(store, batch, 1)
    again = decide(store, "main", documents)
    with pytest.raises(HeadMoved):
        store.commit(again)
    assert store.head("main").sequence == 1
    assert [d.position for d in store.pending(batch.batch_id)] == [2]


def test_a_document_that_does_not_exist_gets_no_entry(store: Store) -> None:
    batch = filled(store, numbered(1))
    document = store.pending(batch.batch_id)[0]
    with pytest.raises(HeadMoved):
        store.commit(decide(store, "main", [document, replace(document, position=9)]))
    assert store.head("main").sequence == 0


def test_only_receipts_are_first_seen_and_the_first_stays(store: Store) -> None:
    batch = filled(store, [*numbered(2), Registration("copy.jpg", b"1.jpg")])
    entries = commit_next(store, batch, failed=["2.jpg"])
    digests = [hashlib.sha256(f"{n}.jpg".encode()).hexdigest() for n in (1, 2, 3)]
    seen = store.first_seen("main", digests)
    assert list(seen) == digests[:1]
    assert (seen[digests[0]].document_id, seen[digests[0]].sequence) == (entries[0].document_id, 1)
    assert seen[digests[0]].uri == "1.jpg"
    assert store.first_seen("side", digests) == {}
    assert store.first_seen("main", []) == {}


def test_a_duplicate_in_a_later_batch_points_to_the_first(store: Store) -> None:
    commit_next(store, filled(store, numbered(2)))
    later = commit_next(store, filled(store, numbered(2), key="again"))
    assert [entry.kind for entry in later] == [EntryKind.DUPLICATE] * 2
    assert [entry.duplicate_of["sequence"] for entry in later if entry.duplicate_of] == [1, 2]


def test_the_first_receipt_of_a_purchase_is_found_by_what_names_it(store: Store) -> None:
    batch = filled(store, numbered(2))
    first, second = decide(store, "main", store.pending(batch.batch_id))
    purchase = hashlib.sha256(b"a purchase").hexdigest()
    store.commit([replace(first, known_by=(*first.known_by, purchase)), second])
    assert store.first_seen("main", [purchase])[purchase].document_id == first.document_id
    assert store.first_seen("side", [purchase]) == {}


def test_many_digests_are_looked_up_at_once(store: Store) -> None:
    batch = filled(store, numbered(1200))
    entries = commit_next(store, batch, 1200)
    assert len(store.first_seen("main", [entry.sha256 or "" for entry in entries])) == 1200


def test_books_have_their_own_vouchers_and_batches_their_own_pages(store: Store) -> None:
    one, two = filled(store, numbered(2)), filled(store, names("x", "y", "z"), key="two")
    side = filled(store, numbered(2), key="side", book="side")
    for batch in (one, two, side, one, two, side, two):
        commit_next(store, batch, 1)
    assert [entry.sequence for entry in store.entries(book="main")] == [1, 2, 3, 4, 5]
    assert [entry.sequence for entry in store.entries(book="side")] == [1, 2]
    assert [entry.uri for entry in store.entries(batch_id=two.batch_id)] == ["x", "y", "z"]
    assert [entry.sequence for entry in store.entries(batch_id=two.batch_id, after_sequence=2, limit=1)] == [4]
    assert [entry.sequence for entry in store.entries(book="main", after_sequence=3, limit=10)] == [4, 5]
    assert store.entries(book="main", after_sequence=5) == []
    assert store.entries(book="none") == []
    assert [head.book for head in store.books()] == ["main", "side"]


def test_measurements_are_kept_beside_the_entry(store: Store) -> None:
    batch = filled(store, numbered(3))
    entries = decide(store, "main", store.pending(batch.batch_id))
    told = [Telemetry(n / 10, n, {"recognise": n / 20}) for n in (2, 3, 1)]
    store.commit(entries, told)
    slowest = store.slowest(batch.batch_id, 2)
    assert [record.document.position for record in slowest] == [2, 1]
    assert slowest[0].telemetry == told[1]
    with pytest.raises(ValueError, match="measurements"):
        store.commit(entries, told[:1])


def test_attempts_are_counted_and_the_document_stays_pending(store: Store) -> None:
    batch = filled(store, numbered(2))
    document = store.pending(batch.batch_id)[0]
    failure = {"code": "worker-lost", "detail": "the worker died"}
    assert store.charge_attempt(document, failure) == 1
    assert store.charge_attempt(document, failure) == 2
    assert [d.attempts for d in store.pending(batch.batch_id)] == [2, 0]
    record = store.document(document.document_id)
    assert record is not None
    assert (record.last_failure, record.state) == (failure, DocumentState.QUEUED)
    with pytest.raises(UnknownDocument):
        store.charge_attempt(replace(document, position=99), failure)


def test_an_empty_commit_is_nothing(store: Store) -> None:
    store.commit([])
    assert store.books() == []
