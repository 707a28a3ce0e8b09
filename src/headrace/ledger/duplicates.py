"""Exact duplicates: the same bytes were a receipt of this book before. The first seen wins."""

from __future__ import annotations

from typing import Any

from headrace.documents.entry import FirstSeen


def exact_duplicate(first: FirstSeen, sha256: str, size_bytes: int) -> dict[str, Any]:
    """The link from a duplicate to the first one, with the reason.

    Only receipts can be first: two empty files, or two copies of a broken one, are failures both, since there is no
    result the second could point to.
    """
    return {
        "document_id": first.document_id,
        "sequence": first.sequence,
        "uri": first.uri,
        "kind": "exact",
        "score": 1,
        "evidence": [f"all {size_bytes} bytes are the same (SHA-256 {sha256})"],
    }
