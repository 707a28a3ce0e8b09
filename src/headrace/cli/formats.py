"""Numbers and names as the terminal shows them: pure functions, no colour, no input or output."""

from __future__ import annotations

import math
import unicodedata

from headrace.documents.document import printable
from headrace.flow.sizing import readable_bytes, readable_rate

__all__ = [
    "columns",
    "counted",
    "cut",
    "duration",
    "number",
    "quantity",
    "readable_bytes",
    "readable_rate",
    "share_bar",
    "shorten",
]


def number(count: int) -> str:
    """A count with thousands marks: `40,000`."""
    return f"{count:,}"


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun: `1 page`, `2,000 pages`, `1 entry`, `2 entries`; `many` where it is not `one` + s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(seconds: float | None) -> str:
    """A duration in two units at most: `0.25 s`, `3.2 s`, `59 s`, `12 min 05 s`, `3 h 07 min`, `2 d 04 h`; else `?`."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return "?"
    if seconds < 9.95:
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2f} s" if seconds else "0 s"
    whole = round(seconds)
    for unit_s, name, smaller_s, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            return f"{whole // unit_s} {name} {whole % unit_s // smaller_s:02d} {smaller}"
    return f"{whole} s"


def quantity(value: float, unit: str) -> str:
    """A number with its unit, the way a person reads it: `1.5 GiB`, `12 min 05 s`, `36 documents`."""
    if unit == "bytes":
        return readable_bytes(value)
    if unit == "s":
        return duration(value)
    return f"{readable_rate(value) if isinstance(value, float) else number(value)} {unit}".rstrip()


def columns(text: str) -> int:
    """How many columns of a terminal a text takes: wide letters take two, combining marks none."""
    return sum(_width(char) for char in text)


def shorten(name: str, width: int) -> str:
    """A file name made safe to print and at most `width` columns wide; the middle goes, both ends tell files apart.

    Control marks, invisible marks and bytes that are no text are escaped, so that a name can neither move the cursor
    nor look like another.
    """
    safe = printable(name)
    if columns(safe) <= width:
        return safe
    if width <= 1:
        return "…" * max(0, width)
    room = width - 1
    tail = _fitting(safe[::-1], room - room // 3)[::-1]
    head = _fitting(safe, room - columns(tail))
    return f"{head}…{tail}"


def cut(text: str, width: int) -> str:
    """A sentence of at most `width` columns: its end goes, where a name loses its middle."""
    if columns(text) <= width:
        return text
    return f"{_fitting(text, width - 1).rstrip()}…" if width > 0 else ""


def share_bar(used: float, limit: float, width: int) -> str:
    """How much of a limit is used, as a bar of `width` columns; over the limit it is full, never longer."""
    share = min(1.0, max(0.0, used / limit)) if limit > 0 and math.isfinite(used / limit) else 0.0
    filled = round(share * width)
    return "█" * filled + "░" * (width - filled)


def _fitting(text: str, width: int) -> str:
    taken = 0
    for index, char in enumerate(text):
        taken += _width(char)
        if taken > width:
            return text[:index]
    return text


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
