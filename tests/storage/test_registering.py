"""Batches and positions: the conformance suite of every store, first part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_entries import commit_next, filled, names, numbered

from headrace.documents.document import document_id
from headrace.storage.errors import BatchNotDone, UnknownBatch
from headrace.storage.store import Positions, Registration, Sample, Store


def test_batches_are_numbered_and_found_by_their_latest_key(store: Store) -> None:
    first = store.open_batch("main", "scans", "2026-03-04", '{"engine":"null"}')
    store.open_batch("main", "others", "2026-03-04", "{}")
    third = store.open_batch("side", "scans", "2026-03-05", "{}")
    assert (first.batch_id, first.settings_json, first.state, first.listed) == (1, '{"engine":"null"}', "open", False)
    assert store.find_batch("scans") == third
    assert store.find_batch("none") is None
    assert [batch.batch_id for batch in store.batches()] == [1, 2, 3]
    assert store.batch(1) == first


def test_documents_get_contiguous_positions_and_stable_ids(store: Store) -> None:
    batch = store.open_batch("main", "k", "2026-03-04", "{}")
    assert store.register(batch.batch_id, numbered(3)) == Positions(1, 3)
    assert store.register(batch.batch_id, []).count == 0
    assert store.register(batch.batch_id, names("x")) == Positions(4, 4)
    documents = store.pending(batch.batch_id)
    assert [(d.position, d.uri) for d in documents] == [(1, "1.jpg"), (2, "2.jpg"), (3, "3.jpg"), (4, "x")]
    assert [d.document_id for d in documents] == [document_id("main", 1, n) for n in range(1, 5)]


def test_pending_is_paged_and_leaves_out_what_has_ended(store: Store) -> None:
    batch = filled(store, numbered(10))
    commit_next(store, batch, 4)
    assert [d.position for d in store.pending(batch.batch_id, 0, 3)] == [5, 6, 7]
    assert [d.position for d in store.pending(batch.batch_id, 7, 100)] == [8, 9, 10]
    assert store.pending(batch.batch_id, 10) == []


def test_a_path_keeps_every_byte(store: Store) -> None:
    path = bytes(range(1, 256))
    batch = filled(store, [Registration("odd", path, external_id="yours-1")])
    document = store.pending(batch.batch_id)[0]
    assert document.path == path
    record = store.document(document.document_id)
    assert record is not None
    assert record.external_id == "yours-1"


def test_staged_names_are_accepted_in_the_order_of_their_keys(store: Store) -> None:
    batch = store.open_batch("main", "k", "2026-03-04", "{}")
    rows = [(bytes([key]), *names(uri)) for key, uri in [(3, "c"), (1, "a"), (2, "b1"), (2, "b2"), (0, "first")]]
    assert store.stage_listing(batch.batch_id, 0, iter(rows)) == 5
    assert store.accounts(batch.batch_id).accepted == 0
    assert store.settle_listing(batch.batch_id, 0) == Positions(1, 5)
    assert [d.uri for d in store.pending(batch.batch_id)] == ["first", "a", "b1", "b2", "c"]
    assert store.accounts(batch.batch_id).accepted == 5


def test_settling_twice_changes_nothing(store: Store) -> None:
    batch = store.open_batch("main", "k", "2026-03-04", "{}")
    for _ in range(2):
        store.stage_listing(batch.batch_id, 0, [(b"a", *names("a")), (b"b", *names("b"))])
        assert store.settle_listing(batch.batch_id, 0) == Positions(1, 2)
    assert store.listed(batch.batch_id) == {0: Positions(1, 2)}
    assert store.accounts(batch.batch_id).accepted == 2


def test_staging_again_begins_anew(store: Store) -> None:
    batch = store.open_batch("main", "k", "2026-03-04", "{}")
    store.stage_listing(batch.batch_id, 0, [(b"a", *names("half"))])
    store.stage_listing(batch.batch_id, 0, [(b"a", *names("whole")), (b"b", *names("whole2"))])
    store.settle_listing(batch.batch_id, 0)
    assert [d.uri for d in store.pending(batch.batch_id)] == ["whole", "whole2"]


def test_a_source_that_breaks_off_while_it_is_listed_leaves_nothing(store: Store) -> None:
    def broken() -> object:
        yield b"a", *names("a")
        raise OSError("the disk went away")

    batch = store.open_batch("main", "k", "2026-03-04", "{}")
    with pytest.raises(OSError, match="went away"):
        store.stage_listing(batch.batch_id, 0, broken())  # type: ignore[arg-type]
    assert store.settle_listing(batch.batch_id, 0).count == 0
    assert store.accounts(batch.batch_id).accepted == 0


def test_sources_stand_behind_each_other_in_the_order_of_settling(store: Store) -> None:
    batch = store.open_batch("main", "k", "2026-03-04", "{}")
    for source in (0, 1):
        store.stage_listing(batch.batch_id, source, [(b"z", *names(f"{source}z")), (b"a", *names(f"{source}a"))])
    store.settle_listing(batch.batch_id, 0)
    store.register(batch.batch_id, names("between"))
    store.settle_listing(batch.batch_id, 1)
    assert [d.uri for d in store.pending(batch.batch_id)] == ["0a", "0z", "between", "1a", "1z"]
    assert store.listed(batch.batch_id) == {0: Positions(1, 2), 1: Positions(4, 5)}


def test_a_source_without_names_is_settled_too(store: Store) -> None:
    batch = store.open_batch("main", "k", "2026-03-04", "{}")
    store.stage_listing(batch.batch_id, 0, [])
    assert store.settle_listing(batch.batch_id, 0).count == 0
    assert list(store.listed(batch.batch_id)) == [0]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(st.binary(max_size=4), st.text(max_size=3)), max_size=30))
def test_any_names_come_out_as_a_stable_sort_of_their_keys(store: Store, rows: list[tuple[bytes, str]]) -> None:
    batch = store.open_batch("main", "k", "2026-03-04", "{}")
    store.stage_listing(batch.batch_id, 0, [(key, Registration(uri, b"p")) for key, uri in rows])
    store.settle_listing(batch.batch_id, 0)
    expected = [uri for _, uri in sorted(rows, key=lambda row: row[0])]
    assert [d.uri for d in store.pending(batch.batch_id)] == expected


def _run_again(store: Store, rows: list[Registration], key: str = "k") -> list[str]:
    batch = store.open_batch("main", key, "2026-03-05", "{}")
    store.stage_listing(batch.batch_id, 0, [(row.path, row) for row in rows])
    settled = store.settle_listing(batch.batch_id, 0, skip_done_of_key=key)
    store.finish_listing(batch.batch_id)
    waiting = [d.uri for d in store.pending(batch.batch_id)]
    assert settled.count == len(waiting)
    assert settled.skipped == len(rows) - len(waiting)
    return waiting


def test_a_second_run_skips_what_is_done_and_unchanged(store: Store) -> None:
    rows = names("a", "b", "c")
    commit_next(store, filled(store, rows))
    assert _run_again(store, [*rows, *names("new")]) == ["new"]
    assert _run_again(store, rows, key="other") == ["a", "b", "c"]


def test_a_second_run_takes_changed_files_again(store: Store) -> None:
    rows = names("a", "b", "c")
    commit_next(store, filled(store, rows))
    changed = [rows[0], replace(rows[1], size_bytes=11), replace(rows[2], mtime_ns=2)]
    assert _run_again(store, changed) == ["b", "c"]


def test_a_second_run_takes_files_whose_age_nobody_knows_again(store: Store) -> None:
    rows = names("a", mtime_ns=0)
    commit_next(store, filled(store, rows))
    assert _run_again(store, rows) == ["a"]


def test_a_second_run_takes_failures_again_only_when_that_can_help(store: Store) -> None:
    rows = names("a", "b")
    commit_next(store, filled(store, rows), failed=["a"], retriable=False)
    assert _run_again(store, rows) == []
    commit_next(store, filled(store, rows, key="k2"), failed=["a"], retriable=True)
    # The book has seen b, so it is a duplicate: done as well.
    assert _run_again(store, rows, key="k2") == ["a"]


def test_what_an_interrupted_batch_has_not_done_is_not_skipped(store: Store) -> None:
    rows = names("a", "b")
    commit_next(store, filled(store, rows), 1)
    assert _run_again(store, rows) == ["b"]


def test_a_listed_batch_takes_no_more_documents(store: Store) -> None:
    batch = filled(store, numbered(1))
    assert store.batch(batch.batch_id).listed
    with pytest.raises(ValueError, match="listed"):
        store.register(batch.batch_id, numbered(1))
    store.finish_listing(batch.batch_id)
    assert store.accounts(batch.batch_id).accepted == 1


def test_a_batch_is_finished_only_when_nothing_is_in_flight(store: Store) -> None:
    batch = store.open_batch("main", "k", "2026-03-04", "{}")
    store.register(batch.batch_id, numbered(2))
    commit_next(store, batch)
    with pytest.raises(BatchNotDone):
        store.finish_batch(batch.batch_id)
    other = filled(store, numbered(1), key="other")
    with pytest.raises(BatchNotDone):
        store.finish_batch(other.batch_id)
    store.finish_listing(batch.batch_id)
    store.finish_batch(batch.batch_id)
    finished = store.batch(batch.batch_id)
    assert (finished.state, finished.finished_at is not None) == ("finished", True)
    assert [b.key for b in store.batches(unfinished=True)] == ["other"]


def test_few_of_many_batches_are_found_by_key_and_by_age(store: Store) -> None:
    for key in ("a", "replay:1", "b", "replay:2", "a"):
        batch = filled(store, numbered(1), key=key)
        store.finish_listing(batch.batch_id)
    commit_next(store, store.batch(2))
    store.finish_batch(2)
    assert store.batch_count() == 5

    def found(**asked: Any) -> list[int]:
        return [batch.batch_id for batch in store.batches(**asked)]

    assert found() == [1, 2, 3, 4, 5]
    assert found(latest=2) == [4, 5]
    assert found(latest=9) == [1, 2, 3, 4, 5]
    assert found(key="a") == [1, 5]
    assert found(key="a", latest=1) == [5]
    assert found(key_starts="replay:") == [2, 4]
    assert found(key_starts="replay:", unfinished=True) == [4]
    assert found(key="replay") == found(key_starts="c") == found(latest=0) == []


def test_an_unknown_batch_is_named(store: Store) -> None:
    for ask in (store.batch, store.accounts, store.pending, store.finish_batch):
        with pytest.raises(UnknownBatch, match="77"):
            ask(77)


def test_a_file_is_the_same_however_its_folder_was_spelled(store: Store) -> None:
    rows = [Registration("scans/a.jpg", b"/home/me/scans/a.jpg", mtime_ns=1)]
    commit_next(store, filled(store, rows))
    assert _run_again(store, [replace(rows[0], uri="/home/me/scans/a.jpg")]) == []
    member = [Registration("a.zip!x.jpg", b"blob", "archive-member", mtime_ns=1)]
    commit_next(store, filled(store, member, key="k2"))
    other_member = replace(member[0], uri="a.zip!y.jpg")
    assert _run_again(store, [*member, other_member], key="k2") == ["a.zip!y.jpg"], "two names, one content"


def test_a_failure_that_the_same_command_runs_again_is_one_dead_letter_not_two(store: Store) -> None:
    rows = names("a", "b")
    commit_next(store, filled(store, rows), failed=["a", "b"], retriable=True)
    assert _run_again(store, rows[:1]) == ["a"]
    assert [(d.document.uri, d.replayed_in) for d in store.dead_letters(replayed=True)] == [("a", 2), ("b", None)]
    commit_next(store, store.batch(2), failed=["a"], retriable=True)
    assert [(d.document.uri, d.document.batch_id) for d in store.dead_letters()] == [("b", 1), ("a", 2)]
    assert _run_again(store, rows) == ["a", "b"], "run again in batch 2, it failed there: that is not done"
    commit_next(store, store.batch(3))
    assert store.dead_count() == 0
    assert _run_again(store, rows) == []


def test_a_batch_without_documents_is_dropped_and_the_next_one_gets_its_number(store: Store) -> None:
    kept = filled(store, numbered(1))
    with pytest.raises(BatchNotDone):
        store.drop_batch(kept.batch_id)
    empty = store.open_batch("main", "empty", "2026-03-04", "{}")
    store.stage_listing(empty.batch_id, 0, [])
    store.settle_listing(empty.batch_id, 0)
    store.finish_listing(empty.batch_id)
    store.add_sample(empty.batch_id, Sample(0.0, 1, 0, 0, 0, 0.0))
    store.drop_batch(empty.batch_id)
    assert [batch.batch_id for batch in store.batches()] == [1]
    assert store.find_batch("empty") is None
    again = store.open_batch("main", "more", "2026-03-04", "{}")
    assert (again.batch_id, store.listed(again.batch_id), store.samples(again.batch_id)) == (2, {}, [])
