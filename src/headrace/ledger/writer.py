"""The one writer of a book: gives each document, in order, its voucher, duplicate link, verdict and hash."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.documents.document import Document
from headrace.documents.entry import Entry, FirstSeen, Head
from headrace.documents.status import DocumentState, EntryKind, Verdict
from headrace.ledger.duplicates import (
    Likeness,
    exact_duplicate,
    likeness,
    picture_likeness,
    proposal,
    proposal_check,
)
from headrace.ledger.entry import canonical_json, entry_hash
from headrace.ledger.policy import Policy

_FAILED = (DocumentState.FAILED, DocumentState.CANCELLED)
_ENDS = (DocumentState.SUCCEEDED, DocumentState.PARTIAL, *_FAILED)


@dataclass(frozen=True)
class Draft:
    """A document's end before the ledger has decided: either a receipt or a failure.

    Attributes:
        document: whose end it is.
        sha256: hex digest of its bytes; None when they could not be read.
        size_bytes: how many bytes were read.
        receipt: `Receipt` as JSON types (`model_dump(mode="json")`); None for a failure.
        state: SUCCEEDED or PARTIAL with a receipt, FAILED or CANCELLED with a failure.
        failure: `DocumentFailure.as_dict()`; None with a receipt.
        owner: the client whose it is; "" where there are none. Only what one owner handed in is a duplicate of other
            things of his: he would learn from the link what others have, and get no receipt of his own.
    """

    document: Document
    sha256: str | None
    size_bytes: int
    receipt: Mapping[str, Any] | None = None
    state: DocumentState = DocumentState.SUCCEEDED
    failure: Mapping[str, Any] | None = None
    owner: str = ""

    def __post_init__(self) -> None:
        if (self.receipt is None) == (self.failure is None):
            raise ValueError("a draft has either a receipt or a failure")
        if self.receipt is not None and self.sha256 is None:
            raise ValueError("a receipt needs the SHA-256 of what it was read from")
        if (self.state in _FAILED) != (self.failure is not None) or self.state not in _ENDS:
            raise ValueError(f"a draft cannot end as {self.state} here")

    @cached_property
    def likeness(self) -> Likeness | None:
        """What names its purchase; None for a failure, and where too little was read."""
        return likeness(self.receipt) if self.receipt is not None else None

    @cached_property
    def picture(self) -> Likeness | None:
        """What its picture is found by; None for a failure, and where too little was read."""
        return picture_likeness(self.receipt) if self.receipt is not None else None

    @property
    def likenesses(self) -> tuple[Likeness, ...]:
        """By what it is compared with earlier receipts, the surest first."""
        return tuple(filter(None, (self.likeness, self.picture)))

    @property
    def digests(self) -> tuple[str, ...]:
        """What the book is asked for: the keys of its bytes, and those of its purchase and its picture."""
        alike = tuple(self.key(digest) for one in self.likenesses for digest in one.digests)
        return (self.key(self.sha256), *alike) if self.sha256 else alike

    def key(self, digest: str) -> str:
        """Under what the book knows a digest: itself, or the digest of it and the owner."""
        if not self.owner:
            return digest
        return hashlib.sha256(f"owner\n{self.owner}\n{digest}".encode()).hexdigest()


class BookWriter:
    """Decides the entries of one book, one group at a time.

    `decide` changes nothing: only `committed`, called after the store has the group on disk, moves the head. So a
    commit that fails (a full disk) is simply tried again, with the same vouchers. One writer per book, one thread.

    Args:
        head: where the book stands (`store.head(book)`).
        policy: gives the verdicts.
        today: the batch's calendar date, kept with the batch: ages are the same on every rerun.
    """

    def __init__(self, book: str, head: Head, policy: Policy, today: dt.date) -> None:
        if head.book != book:
            raise ValueError(f"the head is of book {head.book!r}, not {book!r}")
        self._book = book
        self._head = head
        self._policy = policy
        self._today = today

    @property
    def head(self) -> Head:
        """The last committed entry."""
        return self._head

    def decide(self, drafts: Sequence[Draft], first_seen: Mapping[str, FirstSeen]) -> list[Entry]:
        """The entries for these drafts, in their order, after the head.

        Args:
            drafts: in submission order.
            first_seen: for those of the drafts' `digests` that the book knows (`store.first_seen(book, digests)`);
                more does not harm, what is missing counts as new.
        """
        sequence, prev_hash = self._head.sequence, self._head.entry_hash
        in_group: dict[str, FirstSeen] = {}
        known = ChainMap(in_group, dict(first_seen))
        entries = []
        for draft in drafts:
            sequence += 1
            first = None
            if draft.sha256 is not None:
                first = known.get(draft.key(draft.sha256))
            entry = self._entry(draft, first, known, sequence, prev_hash)
            if entry.known_by:
                in_group |= dict.fromkeys(entry.known_by, FirstSeen(entry.document_id, sequence, entry.uri))
            prev_hash = entry.entry_hash
            entries.append(entry)
        return entries

    def committed(self, entries: Sequence[Entry]) -> None:
        """Moves the head behind these entries, which `decide` gave and the store now has on disk."""
        if not entries:
            return
        if entries[0].prev_hash != self._head.entry_hash or entries[0].sequence != self._head.sequence + 1:
            raise ValueError("these entries do not follow the head")
        self._head = Head(self._book, entries[-1].sequence, entries[-1].entry_hash)

    def _entry(
        self, draft: Draft, first: FirstSeen | None, known: Mapping[str, FirstSeen], sequence: int, prev_hash: str
    ) -> Entry:
        document, sha256, state = draft.document, draft.sha256, draft.state
        receipt, failure = draft.receipt, draft.failure
        duplicate_of: dict[str, Any] | None = None
        checks: list[dict[str, Any]] = []
        verdict: Verdict | None = None
        if first is not None and sha256 is not None and state is not DocumentState.CANCELLED:
            # Also when this reading failed: the same bytes have a receipt, so nothing is lost and a worker that
            # happened to die changes nothing in the ledger.
            kind, state, verdict = EntryKind.DUPLICATE, DocumentState.SUCCEEDED, Verdict.DUPLICATE
            duplicate_of = exact_duplicate(first, sha256, draft.size_bytes)
            receipt = failure = None
        elif receipt is not None:
            kind = EntryKind.RECEIPT
            verdict, checks = self._policy.judge(receipt, self._today, partial=state is DocumentState.PARTIAL)
            alike, before = _earlier(draft, known)
            if alike is not None and before is not None:
                duplicate_of = proposal(before, alike)
                checks = [*checks, proposal_check(before, alike)]
                verdict = Verdict.NEEDS_REVIEW if verdict is Verdict.ACCEPTED else verdict
        else:
            kind = EntryKind.FAILURE
        content = canonical_json(
            {
                "batch_id": document.batch_id,
                "book": self._book,
                "document_id": document.document_id,
                "duplicate_of": duplicate_of,
                "failure": failure,
                "kind": kind,
                "policy_checks": checks,
                "position": document.position,
                "receipt": receipt,
                "sequence": sequence,
                "sha256": sha256,
                "size_bytes": draft.size_bytes,
                "source_kind": document.kind,
                "state": state,
                "uri": document.uri,
                "verdict": verdict,
            }
        )
        return Entry(
            self._book,
            sequence,
            document.batch_id,
            document.position,
            document.document_id,
            kind,
            state,
            document.uri,
            sha256,
            verdict,
            content,
            prev_hash,
            entry_hash(prev_hash, content),
            _new_keys(draft, known) if kind is EntryKind.RECEIPT else (),
        )


def _earlier(draft: Draft, known: Mapping[str, FirstSeen]) -> tuple[Likeness | None, FirstSeen | None]:
    """The surest likeness that an earlier receipt has, too, and the first such receipt."""
    for one in draft.likenesses:
        if found := [known[key] for key in map(draft.key, one.digests) if key in known]:
            return one, min(found, key=lambda seen: seen.sequence)
    return None, None


def _new_keys(draft: Draft, known: Mapping[str, FirstSeen]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for key in draft.digests if key not in known))
