"""What people do to a receipt afterwards: entries behind its outcome, in the same chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.documents.entry import Entry, Head
from headrace.documents.status import EntryKind, Verdict
from headrace.ledger.entry import canonical_json, entry_hash


def amendment(head: Head, outcome: Entry, kind: EntryKind, told: Mapping[str, Any], verdict: Verdict | None) -> Entry:
    """A correction or a review of an outcome, as the next entry of its book.

    Args:
        head: of the book of the outcome.
        outcome: what it is about; it stays as it is.
        kind: CORRECTION or REVIEW.
        told: what was changed or decided, and by whom, as JSON types.
        verdict: what a review says.

    Raises:
        ValueError: NaN or an infinity in what was told.
    """
    sequence = head.sequence + 1
    content = canonical_json(
        {
            "amends": outcome.sequence,
            "batch_id": outcome.batch_id,
            "book": outcome.book,
            "document_id": outcome.document_id,
            "kind": kind,
            "position": outcome.position,
            "sequence": sequence,
            "sha256": outcome.sha256,
            "state": outcome.state,
            "told": dict(told),
            "uri": outcome.uri,
            "verdict": verdict,
        }
    )
    return Entry(
        outcome.book,
        sequence,
        outcome.batch_id,
        outcome.position,
        outcome.document_id,
        kind,
        outcome.state,
        outcome.uri,
        outcome.sha256,
        verdict,
        content,
        head.entry_hash,
        entry_hash(head.entry_hash, content),
    )


def merged(receipt: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A receipt with a JSON merge patch (RFC 7396) applied: null removes, objects are merged, all else replaces."""
    result = dict(receipt)
    for name, value in changes.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            inner = result.get(name)
            result[name] = merged(inner if isinstance(inner, Mapping) else {}, value)
        else:
            result[name] = value
    return result
