"""Corrections and reviews: decided and written in the database thread, so that nobody comes between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from headrace.documents.receipt import Receipt
from headrace.documents.status import EntryKind, Verdict
from headrace.ledger.amendments import amendment, merged
from headrace.service.errors import EditConflict, InvalidCorrection, NotFound, NotReviewable, ReceptionError
from headrace.service.looking import APPROVED, as_document, may_see
from headrace.storage.sqlite import SqliteStore

FIXED = frozenset({"schema_version", "document_id", "sha256", "source", "pages", "processing"})
"""Parts of a receipt that say where it is from; nobody corrects those."""


@dataclass(frozen=True, slots=True)
class Amend:
    """What is asked for: `changes` for a correction, else a `decision`."""

    client: str | None
    document_id: str
    who: str
    if_match: int | None
    changes: Mapping[str, Any] | None = None
    decision: str | None = None
    note: str = ""


class Amending:
    """Writes amendments.

    Args:
        store: used in the database thread only.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def amend_all(self, asked: Sequence[Amend]) -> list[Exception | None]:
        """Writes each of these, in order, or says why not."""
        answers: list[Exception | None] = []
        for one in asked:
            try:
                self._amend(one)
                answers.append(None)
            except ReceptionError as error:
                answers.append(error)
        return answers

    def _amend(self, asked: Amend) -> None:
        seen = self._store.look(asked.document_id)
        if seen is None or not may_see(asked.client, seen.owner.client if seen.owner else None):
            raise NotFound(f"there is no document {asked.document_id}")
        outcome = seen.record.entry
        if outcome is None or outcome.kind is not EntryKind.RECEIPT:
            raise NotReviewable(f"{asked.document_id} has no receipt of its own")
        if asked.if_match is not None and asked.if_match != seen.version:
            raise EditConflict(f"it was changed meanwhile: it is version {seen.version} now", seen.version)
        client = seen.owner.client if seen.owner else ""
        head = self._store.head(outcome.book)
        if asked.changes is not None:
            receipt = as_document(seen).receipt
            assert receipt is not None
            _check(receipt, asked.changes)
            told: dict[str, Any] = {"changes": dict(asked.changes), "who": asked.who}
            try:
                entry = amendment(head, outcome, EntryKind.CORRECTION, told, None)
            except (ValueError, TypeError) as error:
                raise InvalidCorrection([("", str(error))]) from error
            self._store.amend(entry, None, client, "document.corrected")
            return
        told = {"decision": asked.decision, "note": asked.note, "who": asked.who}
        verdict = Verdict.ACCEPTED if asked.decision == APPROVED else Verdict.REJECTED
        entry = amendment(head, outcome, EntryKind.REVIEW, told, verdict)
        self._store.amend(entry, asked.decision, client, f"document.{asked.decision}")


def _check(receipt: Mapping[str, Any], changes: Mapping[str, Any]) -> None:
    if not changes:
        raise InvalidCorrection([("", "nothing is changed")])
    if fixed := sorted(FIXED & set(changes)):
        raise InvalidCorrection([(f"/{name}", "this says where it is from, and stays") for name in fixed])
    try:
        Receipt.model_validate(merged(receipt, changes))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise InvalidCorrection([("/" + "/".join(map(str, one["loc"])), one["msg"]) for one in found]) from error
