"""An entry of the ledger as data: what the ledger decides, the store keeps, and everybody reads."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from headrace.documents.document import document_id
from headrace.documents.status import DocumentState, EntryKind, Verdict

GENESIS = "0" * 64
"""What stands in `prev_hash` of a book's first entry."""

_FIRST: tuple[str, ...] = ("kind", "document_id", "source", "merchant", "issue_date")
_FIRST += ("payable_amount", "tax_inclusive_amount", "currency", "verdict")
"""The keys that a line of the output begins with; the rest follows in the order of the schema, `ledger` last."""

_VOUCHER = re.compile(r"(?P<book>.+)-(?P<sequence>[0-9]{6,18})")


def format_voucher(book: str, sequence: int) -> str:
    """A voucher number for people: `main-000017` is entry 17 of the book `main`."""
    return f"{book}-{sequence:06d}"


def parse_voucher(text: str) -> tuple[str, int] | None:
    """Book and sequence; None when the text is no voucher number. A book's name may hold dashes itself."""
    match = _VOUCHER.fullmatch(text)
    return (match["book"], int(match["sequence"])) if match else None


def is_voucher_number(text: str) -> bool:
    """Whether this is a voucher number without its book: `17`, `000017`, never 0."""
    return text.isascii() and text.isdigit() and len(text) <= 18 and int(text) > 0


@dataclass(frozen=True, slots=True)
class Head:
    """The last entry of a book; `sequence` 0 and `GENESIS` when the book is empty."""

    book: str
    sequence: int = 0
    entry_hash: str = GENESIS


@dataclass(frozen=True, slots=True)
class FirstSeen:
    """The first receipt of a book with certain bytes, or of a certain purchase; what a duplicate points to."""

    document_id: str
    sequence: int
    uri: str


@dataclass(frozen=True)
class Entry:
    """One line of a book. Immutable: a correction is a new entry, never a change.

    `content` is the canonical JSON that is hashed and kept as it is; `receipt`, `failure`, `duplicate_of` and
    `policy_checks` are read from it when asked for, so a million entries passing by cost no million dicts.

    Attributes:
        book: the ledger it belongs to.
        sequence: the voucher number, contiguous from 1 in its book.
        batch_id, position: which document of which batch; exactly one outcome for each.
        document_id: the document's opaque id.
        kind: receipt, duplicate or failure; or a correction or review, which comes behind one of those.
        state: how the document ended: succeeded, partial or failed; a duplicate has succeeded.
        uri: what the document is called; printable text.
        sha256: hex digest of its bytes; None when nobody could read them.
        verdict: what checks and policy say; None for a failure.
        content: canonical JSON (UTF-8) of all that is deterministic; no times, durations or hosts.
        prev_hash: `entry_hash` of the entry before it in the book, `GENESIS` for the first.
        entry_hash: hex SHA-256 over `prev_hash`, a line feed and `content`.
        known_by: on the way to the store, digests of its bytes, the purchase and the picture, where this is the first
            receipt with them; not kept here.
    """

    book: str
    sequence: int
    batch_id: int
    position: int
    document_id: str
    kind: EntryKind
    state: DocumentState
    uri: str
    sha256: str | None
    verdict: Verdict | None
    content: bytes
    prev_hash: str
    entry_hash: str
    known_by: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def stored(
        cls,
        *,
        book: str,
        sequence: int,
        batch_id: int,
        position: int,
        content: bytes,
        prev_hash: str,
        entry_hash: str,
    ) -> Entry:
        """An entry as a store gives it back.

        Damaged content does not raise here, since the chain check has to name it: `body` is empty then.
        """
        try:
            body = json.loads(content)
            told = (
                str(body["document_id"]),
                EntryKind(body["kind"]),
                DocumentState(body["state"]),
                str(body["uri"]),
                body["sha256"],
                Verdict(body["verdict"]) if body["verdict"] else None,
            )
        except (ValueError, TypeError, KeyError):
            body = {}
            name = document_id(book, batch_id, position)
            told = (name, EntryKind.FAILURE, DocumentState.FAILED, "", None, None)
        entry = cls(book, sequence, batch_id, position, *told, content, prev_hash, entry_hash)
        entry.__dict__["body"] = body  # what the cached property would work out again
        return entry

    @cached_property
    def body(self) -> dict[str, Any]:
        """`content` parsed."""
        body: dict[str, Any] = json.loads(self.content)
        return body

    @property
    def receipt(self) -> dict[str, Any] | None:
        """The receipt as JSON types; None for failures and duplicates."""
        return self.body.get("receipt")

    @property
    def failure(self) -> dict[str, Any] | None:
        """The failure (`DocumentFailure.as_dict()`); None for the others."""
        return self.body.get("failure")

    @property
    def duplicate_of(self) -> dict[str, Any] | None:
        """`document_id`, `sequence`, `uri`, `kind`, `score`, `evidence` of the first one; None for the others.

        On an entry of kind receipt it is a proposal (`same_content`): what seems to be the same purchase.
        """
        return self.body.get("duplicate_of")

    @property
    def policy_checks(self) -> list[dict[str, Any]]:
        """The policy checks that did not pass, as `documents.receipt.Check` in JSON."""
        return self.body.get("policy_checks") or []

    @property
    def review_reasons(self) -> tuple[str, ...]:
        """Why a person should look at it, or why it is refused, in plain words; nothing for what was accepted."""
        return tuple(str(check.get("message")) for check in self.policy_checks)

    @property
    def duplicate_of_voucher(self) -> str | None:
        """The voucher number of the first one; None for what is no duplicate and resembles none."""
        return format_voucher(self.book, int(self.duplicate_of["sequence"])) if self.duplicate_of else None

    @property
    def voucher(self) -> str:
        """The voucher number for people: `main-000017`."""
        return format_voucher(self.book, self.sequence)

    def record(self) -> dict[str, Any]:
        """The entry as it is handed out, the same by `run` and `export`: what people look for first stands first.

        A receipt's fields stand at the top level, with the failed checks of the policy behind its own. A duplicate has
        no fields but the link to the first one, so that adding up totals never counts the same paper twice.
        """
        body = self.body
        record: dict[str, Any] = {"kind": str(self.kind)}
        if receipt := self.receipt:
            record |= receipt
        else:
            source = {"kind": body.get("source_kind", "file"), "uri": self.uri}
            record |= {"document_id": self.document_id, "sha256": self.sha256, "source": source}
        if checks := self.policy_checks:
            record["checks"] = [*record.get("checks", ()), *checks]
        if failure := self.failure:
            record["failure"] = failure
        if duplicate_of := self.duplicate_of:
            record["duplicate_of"] = duplicate_of
        if "amends" in body:
            record |= {"amends": format_voucher(self.book, int(body["amends"])), **body["told"]}
        record["status"] = str(self.state)
        record["verdict"] = str(self.verdict) if self.verdict else None
        record["position"] = self.position
        record["ledger"] = {
            "book": self.book,
            "sequence": self.sequence,
            "voucher": self.voucher,
            "entry_hash": self.entry_hash,
            "prev_hash": self.prev_hash,
        }
        first = {name: record[name] for name in _FIRST if name in record}
        return first | {name: value for name, value in record.items() if name not in first}

    def json_line(self) -> bytes:
        """`record()` as one line of JSON in UTF-8, with its line feed; half a surrogate pair stays an escape."""
        text = json.dumps(self.record(), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace") + b"\n"
