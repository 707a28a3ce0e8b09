"""Vouchers, duplicates and the chain, as the one writer of a book decides them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.documents.entry import FirstSeen, Head
from headrace.documents.status import DocumentState, EntryKind, Verdict
from headrace.ledger import BookWriter, Draft, Policy, verify
from headrace.ledger.vouchers import parse_voucher, voucher

TODAY = dt.date(2026, 3, 4)
Make = Callable[..., Draft]


def _writer(head: Head | None = None) -> BookWriter:
    return BookWriter("main", head or Head("main"), Policy(), TODAY)


def test_vouchers_are_contiguous_over_groups_and_the_chain_holds(draft: Make) -> None:
    writer = _writer()
    first = writer.decide([draft(1), draft(2)], {})
    writer.committed(first)
    second = writer.decide([draft(3)], {})
    writer.committed(second)
    assert [entry.sequence for entry in first + second] == [1, 2, 3]
    assert first[0].voucher == "main-000001"
    assert verify(first + second, writer.head).holds


def test_a_group_whose_commit_failed_gets_the_same_entries_again(draft: Make) -> None:
    writer = _writer()
    lost = writer.decide([draft(1), draft(2)], {})
    again = writer.decide([draft(1), draft(2)], {})
    assert lost == again
    assert writer.head == Head("main")


def test_another_run_gives_the_same_hashes(draft: Make) -> None:
    one = _writer().decide([draft(1), draft(2, failed=True), draft(3, b"bytes of 1")], {})
    other = _writer().decide([draft(1), draft(2, failed=True), draft(3, b"bytes of 1")], {})
    assert [entry.entry_hash for entry in one] == [entry.entry_hash for entry in other]


def test_groups_may_be_cut_anywhere(draft: Make) -> None:
    drafts = [draft(n, b"same" if n % 3 == 0 else None, failed=n % 4 == 0) for n in range(1, 13)]
    whole = _writer().decide(drafts, {})
    writer, seen, parts = _writer(), {}, []
    for item in drafts:
        entries = writer.decide([item], seen)
        writer.committed(entries)
        parts += entries
        if entries[0].kind is EntryKind.RECEIPT:
            seen[item.sha256] = FirstSeen(entries[0].document_id, entries[0].sequence, entries[0].uri)
    assert parts == whole


def test_the_first_seen_in_a_group_wins_and_is_named(draft: Make) -> None:
    first, second = _writer().decide([draft(1, b"same"), draft(2, b"same")], {})
    assert (first.kind, second.kind) == (EntryKind.RECEIPT, EntryKind.DUPLICATE)
    assert second.verdict is Verdict.DUPLICATE
    assert second.duplicate_of == {
        "document_id": first.document_id,
        "sequence": 1,
        "uri": "1.jpg",
        "kind": "exact",
        "score": 1,
        "evidence": [f"all 4 bytes are the same (SHA-256 {first.sha256})"],
    }
    assert second.receipt is None


def test_what_the_book_saw_before_wins_over_the_group(draft: Make) -> None:
    sha256 = draft(1, b"same").sha256
    entries = _writer().decide([draft(1, b"same"), draft(2, b"same")], {sha256: FirstSeen("d9", 7, "old.jpg")})
    assert [entry.duplicate_of["sequence"] for entry in entries if entry.duplicate_of] == [7, 7]


def test_two_empty_files_are_two_failures(draft: Make) -> None:
    entries = _writer().decide([draft(1, b"", failed=True), draft(2, b"", failed=True)], {})
    assert [entry.kind for entry in entries] == [EntryKind.FAILURE, EntryKind.FAILURE]
    assert [entry.verdict for entry in entries] == [None, None]


def test_a_receipt_after_a_failure_with_the_same_bytes_is_the_first_seen(draft: Make) -> None:
    kinds = [e.kind for e in _writer().decide([draft(1, b"x", failed=True), draft(2, b"x"), draft(3, b"x")], {})]
    assert kinds == [EntryKind.FAILURE, EntryKind.RECEIPT, EntryKind.DUPLICATE]


def test_a_copy_whose_worker_died_is_a_duplicate_all_the_same(draft: Make) -> None:
    entry = _writer().decide([draft(1, b"x"), draft(2, b"x", failed=True)], {})[1]
    assert (entry.kind, entry.state, entry.failure) == (EntryKind.DUPLICATE, DocumentState.SUCCEEDED, None)


def test_a_file_that_nobody_could_read_has_no_digest_and_is_no_duplicate(draft: Make) -> None:
    lost = [replace(draft(n, failed=True), sha256=None, size_bytes=0) for n in (1, 2)]
    assert [entry.kind for entry in _writer().decide(lost, {})] == [EntryKind.FAILURE] * 2


def test_entries_that_do_not_follow_the_head_cannot_be_confirmed(draft: Make) -> None:
    writer = _writer()
    entries = writer.decide([draft(1), draft(2)], {})
    with pytest.raises(ValueError, match="do not follow"):
        writer.committed(entries[1:])


def test_a_draft_is_a_receipt_or_a_failure(draft: Make) -> None:
    with pytest.raises(ValueError, match="either"):
        Draft(draft(1).document, "00", 1)
    with pytest.raises(ValueError, match="cannot end"):
        replace(draft(1), state=DocumentState.RUNNING)
    with pytest.raises(ValueError, match="SHA-256"):
        replace(draft(1), sha256=None)


def test_entries_given_out_hold_the_receipt_the_failed_checks_and_the_ledger(draft: Make) -> None:
    item = draft(1)
    unread = dict(item.receipt or {}, issue_date={"value": None, "status": "missing"})
    record = _writer().decide([replace(item, receipt=unread)], {})[0].record()
    assert record["kind"] == "receipt"
    assert record["tax_inclusive_amount"]["value"] == "12.50"
    assert [check["id"] for check in record["checks"]] == ["policy.required"]
    assert record["verdict"] == "needs_review"
    assert record["ledger"]["voucher"] == "main-000001"


@pytest.mark.parametrize("book", ["main", "berlin-2026", "a-000001"])
def test_a_voucher_names_its_book_and_number(book: str) -> None:
    assert parse_voucher(voucher(book, 17)) == (book, 17)
    assert parse_voucher(voucher(book, 12_345_678)) == (book, 12_345_678)
    assert parse_voucher("main-17") is None
