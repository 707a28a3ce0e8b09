"""Finding documents, dead letters and samples: the conformance suite of every store, third part."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_entries import commit_next, decide, filled, names, numbered

from headrace.documents.document import document_id
from headrace.documents.status import DocumentState
from headrace.storage import memory, sql_replay
from headrace.storage.blobs import Blobs
from headrace.storage.errors import UnknownDocument
from headrace.storage.store import REPLAY_KEY, Accounts, Sample, Store, superfluous


def test_a_document_is_found_by_id_voucher_and_name(store: Store) -> None:
    batch = filled(store, numbered(3))
    entries = commit_next(store, batch, 2)
    wanted = entries[1]
    for reference in (wanted.document_id, "main-000002", "2.jpg", "2", "000002"):
        found = store.find(reference)
        assert [record.document.document_id for record in found] == [wanted.document_id]
        assert found[0].entry == wanted
    waiting = store.find("3.jpg")[0]
    assert (waiting.state, waiting.entry) == (DocumentState.QUEUED, None)
    for unknown in ("main-000099", "other-000001", "d" + "0" * 20, "4.jpg", "99", "0", ""):
        assert store.find(unknown) == []


def test_a_document_is_found_by_id_while_its_batch_is_still_being_listed(store: Store) -> None:
    batch = store.open_batch("main", "k", "2026-03-04", "{}")
    store.register(batch.batch_id, numbered(3))
    record = store.document(document_id("main", batch.batch_id, 3))
    assert record is not None
    assert record.document.uri == "3.jpg"
    assert store.document(document_id("main", batch.batch_id, 4)) is None


def test_the_last_part_of_a_path_finds_it_after_what_is_called_so(store: Store) -> None:
    filled(store, names("b.jpg", "deep/scans/b.jpg", "deep/scans/ab.jpg"))
    assert [record.document.uri for record in store.find("b.jpg")] == ["b.jpg", "deep/scans/b.jpg"]
    assert [record.document.uri for record in store.find("scans/b.jpg")] == ["deep/scans/b.jpg"]
    assert store.names(2) == ["deep/scans/ab.jpg", "deep/scans/b.jpg"]


def test_a_name_that_came_several_times_gives_the_latest_first(store: Store) -> None:
    for key in ("one", "two"):
        filled(store, names("same", "same"), key=key)
    found = store.find("same", limit=3)
    assert [(r.document.batch_id, r.document.position) for r in found] == [(2, 1), (2, 2), (1, 1)]


def test_failures_become_dead_letters_with_their_reason(store: Store) -> None:
    batch = filled(store, numbered(5))
    commit_next(store, batch, failed=["2.jpg", "4.jpg"])
    letters = store.dead_letters()
    assert [(letter.number, letter.document.uri) for letter in letters] == [(1, "2.jpg"), (2, "4.jpg")]
    assert letters[0].failure["code"] == "corrupt-document"
    assert (letters[0].blob_sha256, letters[0].replayed_in) == (None, None)
    assert [letter.document.uri for letter in store.dead_letters(after_number=1)] == ["4.jpg"]
    assert len(store.dead_letters(limit=1)) == 1
    assert store.dead_count() == 2


def test_a_replay_is_a_new_document_and_the_old_failure_stays(store: Store) -> None:
    batch = filled(store, numbered(3))
    old = commit_next(store, batch, failed=["1.jpg", "3.jpg"])
    store.finish_batch(batch.batch_id)
    (again,) = store.replay()
    assert (again.book, again.key, again.today, again.listed) == ("main", f"{REPLAY_KEY}1", "2026-03-04", True)
    assert [d.uri for d in store.pending(again.batch_id)] == ["1.jpg", "3.jpg"]
    assert store.dead_letters() == []
    assert [letter.replayed_in for letter in store.dead_letters(replayed=True)] == [again.batch_id] * 2
    new = commit_next(store, again)
    record = store.document(new[0].document_id)
    assert record is not None
    assert (record.replay_of, record.state) == (old[0].document_id, DocumentState.SUCCEEDED)
    assert store.document(old[0].document_id).state is DocumentState.FAILED  # type: ignore[union-attr]
    assert store.accounts(batch.batch_id) == Accounts(accepted=3, succeeded=1, failed=2)
    assert store.accounts(again.batch_id) == Accounts(accepted=2, succeeded=2)
    assert store.replay() == []


def test_a_replay_that_fails_again_is_a_dead_letter_again(store: Store) -> None:
    commit_next(store, filled(store, numbered(1)), failed=["1.jpg"])
    (again,) = store.replay()
    commit_next(store, again, failed=["1.jpg"])
    assert [letter.document.batch_id for letter in store.dead_letters()] == [again.batch_id]
    (third,) = store.replay()
    assert third.key == f"{REPLAY_KEY}{again.batch_id}"


def test_chosen_dead_letters_are_replayed_by_batch_and_in_order(store: Store) -> None:
    first, second = filled(store, numbered(3)), filled(store, names("x"), key="second", book="side")
    one = commit_next(store, first, failed=["1.jpg", "2.jpg", "3.jpg"])
    two = commit_next(store, second, failed=["x"])
    opened = store.replay([one[2].document_id, two[0].document_id, one[0].document_id])
    assert [(batch.book, [d.uri for d in store.pending(batch.batch_id)]) for batch in opened] == [
        ("main", ["1.jpg", "3.jpg"]),
        ("side", ["x"]),
    ]
    assert [letter.document.uri for letter in store.dead_letters()] == ["2.jpg"]


def test_a_replay_of_something_unknown_registers_nothing(store: Store) -> None:
    entries = commit_next(store, filled(store, numbered(2)), failed=["1.jpg"])
    for wrong in ("d" + "0" * 20, entries[1].document_id):
        with pytest.raises(UnknownDocument, match=wrong):
            store.replay([entries[0].document_id, wrong])
    assert (store.dead_count(), len(store.batches())) == (1, 1)
    store.replay([entries[0].document_id])
    with pytest.raises(UnknownDocument):
        store.replay([entries[0].document_id])


def test_kept_bytes_are_what_a_replay_reads(store: Store, tmp_path: Path) -> None:
    source = tmp_path / "1.jpg"
    source.write_bytes(b"the original")
    blobs = Blobs(tmp_path / "blobs")
    batch = filled(store, names(str(source)))
    entries = decide(store, "main", store.pending(batch.batch_id), failed=[str(source)])
    sha256, _ = blobs.put(source)
    store.commit(entries, kept={entries[0].document_id: sha256})
    assert store.dead_letters()[0].blob_sha256 == sha256
    source.unlink()
    (again,) = store.replay()
    document = store.pending(again.batch_id)[0]
    assert (document.kind, document.uri) == ("blob", str(source))
    assert document.path == sha256.encode()
    assert blobs.path(document.path.decode()).read_bytes() == b"the original"
    commit_next(store, again, failed=[str(source)])
    (third,) = store.replay()
    assert store.pending(third.batch_id)[0].path == sha256.encode()


def test_more_dead_letters_than_a_page_are_all_replayed(store: Store) -> None:
    rows = numbered(1100)
    commit_next(store, filled(store, rows), 2000, failed={row.uri for row in rows})
    (again,) = store.replay()
    assert store.accounts(again.batch_id) == Accounts(accepted=1100, in_flight=1100)
    assert [d.position for d in store.pending(again.batch_id, 0, 2000)] == list(range(1, 1101))
    assert store.dead_count() == 0


def _sample(at_s: float) -> Sample:
    return Sample(at_s, 100, 5, 1000, int(at_s), 10.5)


def test_samples_come_back_as_they_were(store: Store) -> None:
    batch = filled(store, [])
    told = [_sample(n / 2) for n in range(5)]
    for sample in told:
        store.add_sample(batch.batch_id, sample)
    assert store.samples(batch.batch_id) == told


def test_samples_are_bounded_and_the_first_and_last_stay(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SAMPLES_LIMIT", 12)
    monkeypatch.setattr(sql_replay, "SAMPLES_LIMIT", 12)
    batch = filled(store, [])
    for n in range(60):
        store.add_sample(batch.batch_id, _sample(float(n)))
        assert len(store.samples(batch.batch_id)) <= 12
    kept = [sample.at_s for sample in store.samples(batch.batch_id)]
    assert kept == sorted(kept)
    assert (kept[0], kept[-1]) == (0.0, 59.0)
    assert _widest_gap(kept) <= 2 * 59 / 12 + 1


@given(st.lists(st.floats(0.1, 10), min_size=50, max_size=400))
def test_a_full_series_stays_even_over_the_whole_time(steps_s: list[float]) -> None:
    times_s = [0.0]
    for step_s in steps_s:
        times_s.append(times_s[-1] + step_s)
        if len(times_s) > 20:
            del times_s[superfluous(times_s)]
    assert _widest_gap(times_s) <= max(2 * times_s[-1] / 19, 10)


def _widest_gap(times_s: list[float]) -> float:
    return max(after - before for before, after in pairwise(times_s))
