"""Every kind of tampering is found, and the first bad entry is named."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.documents.entry import Entry, Head
from headrace.ledger import BookWriter, Draft, Policy, verify
from headrace.ledger.entry import entry_hash

Book = tuple[list[Entry], Head]


@pytest.fixture
def book(draft: Callable[..., Draft]) -> Book:
    writer = BookWriter("main", Head("main"), Policy(), dt.date(2026, 3, 4))
    entries = writer.decide([draft(n, failed=n == 3) for n in range(1, 7)], {})
    writer.committed(entries)
    return entries, writer.head


def test_an_untouched_book_holds(book: Book) -> None:
    entries, head = book
    found = verify(iter(entries), head)
    assert (found.holds, found.count, found.head) == (True, 6, head)


def test_an_empty_book_holds() -> None:
    assert verify([], Head("main")).holds


@pytest.mark.parametrize("bad", [0, 2, 5])
def test_a_changed_amount_is_found(book: Book, bad: int) -> None:
    entries, head = book
    content = entries[bad].content.replace(b"12.50", b"92.50").replace(b"broken", b"brokem")
    entries[bad] = replace(entries[bad], content=content)
    fault = verify(entries, head).fault
    assert fault is not None
    assert (fault.sequence, fault.uri) == (bad + 1, f"{bad + 1}.jpg")
    assert "content changed" in fault.reason


def test_a_change_with_its_own_hash_recomputed_breaks_the_link_of_the_next(book: Book) -> None:
    entries, head = book
    content = entries[1].content.replace(b"12.50", b"92.50")
    entries[1] = replace(entries[1], content=content, entry_hash=entry_hash(entries[1].prev_hash, content))
    fault = verify(entries, head).fault
    assert fault is not None
    assert fault.sequence == 3
    assert "link broken" in fault.reason


def test_a_change_of_the_last_entry_with_its_hash_does_not_match_the_head(book: Book) -> None:
    entries, head = book
    content = entries[-1].content.replace(b"12.50", b"92.50")
    entries[-1] = replace(entries[-1], content=content, entry_hash=entry_hash(entries[-1].prev_hash, content))
    fault = verify(entries, head).fault
    assert fault is not None
    assert "recorded head hash" in fault.reason


def test_a_missing_entry_is_a_gap(book: Book) -> None:
    entries, head = book
    del entries[2]
    fault = verify(entries, head).fault
    assert fault is not None
    assert fault.voucher == "main-000004"
    assert "main-000003" in fault.reason


def test_a_cut_tail_is_missed(book: Book) -> None:
    entries, head = book
    found = verify(entries[:4], head)
    assert found.count == 4
    assert found.fault is not None
    assert found.fault.voucher == "main-000005"
    assert "missing tail" in found.fault.reason
    assert "2 missing" in found.fault.reason


def test_a_missing_first_entry_is_a_gap(book: Book) -> None:
    entries, head = book
    fault = verify(entries[1:], head).fault
    assert fault is not None
    assert "main-000001" in fault.reason


def test_two_swapped_entries_are_found(book: Book) -> None:
    entries, head = book
    two, three = entries[1], entries[2]
    entries[1], entries[2] = replace(three, sequence=2), replace(two, sequence=3)
    fault = verify(entries, head).fault
    assert fault is not None
    assert fault.sequence == 2


def test_an_entry_filed_under_another_document_is_found(book: Book) -> None:
    entries, head = book
    entries[3] = replace(entries[3], position=9)
    fault = verify(entries, head).fault
    assert fault is not None
    assert "misfiled" in fault.reason


def test_more_entries_than_the_head_knows_are_found(book: Book) -> None:
    entries, _ = book
    fault = verify(entries, Head("main", 4, entries[3].entry_hash)).fault
    assert fault is not None
    assert "more entries follow" in fault.reason


def test_content_that_is_no_json_any_more_is_named_and_not_raised(book: Book) -> None:
    entries, head = book
    old = entries[1]
    entries[1] = Entry.stored(
        book="main",
        sequence=2,
        batch_id=1,
        position=2,
        content=b"\xff{",
        prev_hash=old.prev_hash,
        entry_hash=old.entry_hash,
    )
    fault = verify(entries, head).fault
    assert fault is not None
    assert fault.document_id == old.document_id
    assert "content changed" in fault.reason


def test_a_stored_entry_reads_the_same(book: Book) -> None:
    for entry in book[0]:
        stored = Entry.stored(
            book=entry.book,
            sequence=entry.sequence,
            batch_id=entry.batch_id,
            position=entry.position,
            content=entry.content,
            prev_hash=entry.prev_hash,
            entry_hash=entry.entry_hash,
        )
        assert stored == entry
        assert json.loads(stored.json_line()) == entry.record()
