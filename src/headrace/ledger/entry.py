"""How an entry is written down and hashed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from headrace.documents.entry import GENESIS, Entry, Head

__all__ = ["GENESIS", "Entry", "Head", "canonical_json", "entry_hash"]

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


def canonical_json(value: Mapping[str, Any]) -> bytes:
    """One spelling for one value: keys sorted by code point, no blanks, UTF-8, floats in their shortest exact form.

    Money is text before it comes here; confidences and polygons are floats, and `repr` of a float is the same on
    every platform that has IEEE doubles. Half a surrogate pair, which UTF-8 cannot say, is written as a JSON escape.

    Raises:
        ValueError: NaN or an infinity, which JSON does not have.
        TypeError: something that is no JSON type (a Decimal, a date).
    """
    return _encode(value).encode("utf-8", "backslashreplace")


def entry_hash(prev_hash: str, content: bytes) -> str:
    """Hex SHA-256 over the previous entry's hash, a line feed, and the content; two shell commands can check it."""
    return hashlib.sha256(prev_hash.encode() + b"\n" + content).hexdigest()
