"""The file of confirmed merchants: JSON lines with names and addresses, or headrace's own output.

From the output count receipts with the verdict `accepted`, and what people wrote in corrections.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

MAX_MERCHANTS = 10_000  # different ones; about 12 MB in a worker
_MAX_LINE_BYTES = 4 << 20

Confirmed = tuple[str, str | None]
"""A merchant's name, and its address where that is known."""


class MerchantsFileError(ValueError):
    """The file of confirmed merchants makes no sense; the message names the line. Nothing was started."""

    exit_code: ClassVar[int] = 2


def confirmed_merchants(path: Path) -> tuple[tuple[Confirmed, int], ...]:
    """The merchants of the file with how often each was confirmed, the most often first.

    Raises:
        MerchantsFileError: it cannot be read, a line is no JSON object, or there are too many merchants.
    """
    counted: dict[Confirmed, int] = {}
    try:
        for number, line in _lines(path):
            merchant = _merchant(line)
            if merchant is None:
                continue
            counted[merchant] = counted.get(merchant, 0) + 1
            if len(counted) > MAX_MERCHANTS:
                raise MerchantsFileError(
                    f"{path}: line {number}: more than {MAX_MERCHANTS:,} merchants; leave out those that no longer come"
                )
    except (OSError, UnicodeDecodeError) as error:
        raise MerchantsFileError(f"{path}: {error}") from error
    return tuple(sorted(counted.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or "")))


def _lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES), ""), 1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
            except ValueError as error:
                raise MerchantsFileError(f"{path}: line {number}: {error}") from None
            if not isinstance(line, dict):
                raise MerchantsFileError(f'{path}: line {number}: a JSON object is needed, such as {{"name": ...}}')
            yield number, line


def _merchant(line: Mapping[str, Any]) -> Confirmed | None:
    kind = line.get("kind")
    if kind not in (None, "receipt", "correction") or (kind == "receipt" and line.get("verdict") != "accepted"):
        return None
    if kind == "correction":
        line = line.get("changes") or {}
    merchant = line.get("merchant") if kind else line
    if not isinstance(merchant, Mapping):
        return None
    name, address = _text(merchant.get("name")), _text(merchant.get("address"))
    return (name, address) if name else None


def _text(field: Any) -> str | None:
    value = field.get("value") if isinstance(field, Mapping) else field
    return value.strip() if isinstance(value, str) and value.strip() else None
