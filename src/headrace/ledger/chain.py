"""The hash chain of a book: whoever changes, removes or moves an entry is found out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.documents.document import document_id
from headrace.documents.entry import Entry, Head, format_voucher
from headrace.ledger.entry import entry_hash


@dataclass(frozen=True, slots=True)
class Fault:
    """The first bad entry of a book and what is wrong with it."""

    sequence: int
    voucher: str
    document_id: str
    uri: str
    reason: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What a check of the chain found.

    Attributes:
        count: entries that are good, from the start.
        head: the last good one.
        fault: the first bad one; None when the chain holds.
    """

    count: int
    head: Head
    fault: Fault | None = None

    @property
    def holds(self) -> bool:
        """Whether every entry is as it was written, and none is missing."""
        return self.fault is None


def verify(entries: Iterable[Entry], head: Head) -> Verification:
    """Recomputes the chain from voucher 1 and compares its end with the recorded head. Memory: one entry.

    It proves that nobody edited the entries by hand. It cannot prove that nobody rewrote the whole book with all its
    hashes: for that, note the head hash somewhere else and compare.

    Args:
        entries: all of the book, in the order they are kept in.
        head: what the store says is the last one.
    """
    last = Head(head.book)
    for entry in entries:
        reason = _fault(entry, last)
        if reason:
            return Verification(last.sequence, last, _found(entry, reason))
        last = Head(head.book, entry.sequence, entry.entry_hash)
    if last == head:
        return Verification(last.sequence, last)
    missing = last.sequence + 1
    if last.sequence < head.sequence:
        lost = head.sequence - last.sequence
        reason = f"missing tail: the book should go on to {format_voucher(head.book, head.sequence)} ({lost} missing)"
    elif last.sequence > head.sequence:
        missing = head.sequence + 1
        reason = f"the book's recorded head is {format_voucher(head.book, head.sequence)}, but more entries follow"
    else:
        missing = last.sequence
        reason = f"the book's recorded head hash {head.entry_hash[:16]}... is not the hash of its last entry"
    return Verification(last.sequence, last, Fault(missing, format_voucher(head.book, missing), "", "", reason))


def _fault(entry: Entry, last: Head) -> str | None:
    """What is wrong with an entry that should come right after `last`; None when nothing is."""
    if entry.sequence > last.sequence + 1:
        missing = format_voucher(entry.book, last.sequence + 1)
        return f"gap in the vouchers: {missing} should come here and is missing"
    if entry.sequence <= last.sequence:
        return f"voucher used twice or out of order: it comes after {format_voucher(entry.book, last.sequence)}"
    if entry.prev_hash != last.entry_hash:
        return (
            f"link broken: it names {entry.prev_hash[:16]}... as the entry before it, "
            f"but that entry's hash is {last.entry_hash[:16]}..."
        )
    if entry_hash(entry.prev_hash, entry.content) != entry.entry_hash:
        return "content changed: its hash is not the hash it was sealed with"
    return _misfiled(entry)


def _misfiled(entry: Entry) -> str | None:
    """Whether the sealed content says another place than the one it was found in; a store keeps both."""
    try:
        body = json.loads(entry.content)
    except ValueError:
        return "content is no JSON, though its hash is right"
    told = (body.get("book"), body.get("sequence"), body.get("batch_id"), body.get("position"))
    found = (entry.book, entry.sequence, entry.batch_id, entry.position)
    if told != found:
        return f"misfiled: sealed as book, voucher, batch, position {told}, but kept as {found}"
    return None


def _found(entry: Entry, reason: str) -> Fault:
    name = entry.document_id or document_id(entry.book, entry.batch_id, entry.position)
    return Fault(entry.sequence, entry.voucher, name, entry.uri, reason)
