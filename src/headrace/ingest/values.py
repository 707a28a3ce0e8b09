"""Values as people write them: `512MB`, `1.5 GiB`, `90`, `500ms`, `2m`, `yes`. Standard library only.

Strict where a slip would be costly: no NaN, no infinity, no truth value where a number belongs, no zero where zero
could mean "at once" to one reader and "never" to another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path

from headrace.flow.sizing import readable_bytes
from headrace.ingest.options import Kind, Option

Value = str | int | float | bool | Path | None

MOST, MOST_S = 2**53, 366 * 86_400.0
"""No number may be larger: counts stay exact as floats and fit a database, timers do not overflow."""

AUTO = "auto"
"""The word for "derive it", so that an option can take back what the environment or the config file said."""

_SIZE_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_DURATION_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_NUMBER_AND_UNIT = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?[\d_]*|\.\d+)(?:e[+-]?\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TRUTH = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


def parse(option: Option, raw: object) -> Value:
    """The value of a setting, from what was written in whatever place.

    Args:
        option: which setting; decides what is allowed.
        raw: text from the command line or the environment, or a TOML value.

    Raises:
        ValueError: it makes no sense; the message says why and what would.
    """
    if raw is None or (isinstance(raw, str) and raw.strip().lower() == AUTO):
        if option.default is None:
            return None
        raise ValueError(f"there is nothing to derive it from: give a value or leave it out (default {option.default})")
    match option.kind:
        case Kind.FLAG:
            return _flag(raw)
        case Kind.NAME:
            return _name(raw)
        case Kind.FILE:
            return _file(raw)
        case _:
            return _number(option, raw)


def parse_size(text: str) -> float:
    """Bytes from `1048576`, `512MB` (10^6), `1GiB` or `1G` (2^30).

    Raises:
        ValueError: not a number, or no unit we know.
    """
    return _with_unit(text, _SIZE_UNITS, "a size like 512MB or 1GiB")


def parse_duration(text: str) -> float:
    """Seconds from `90`, `1.5s`, `500ms`, `2m`, `1h`.

    Raises:
        ValueError: not a number, or no unit we know.
    """
    return _with_unit(text, _DURATION_UNITS, "a duration like 90, 500ms or 2m")


def readable_number(option: Option, value: Value) -> str:
    """A value for people: sizes with their unit, counts with thousands marks, None as `auto` or `none`."""
    if value is None:
        return "none" if option.kind is Kind.FILE else AUTO
    if isinstance(value, bool):
        return "yes" if value else "no"
    if option.kind is Kind.SIZE and isinstance(value, int):
        return readable_bytes(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def suggestion(wrong: str, right: Iterable[str]) -> str:
    """`; did you mean x?` when something is close enough, else nothing."""
    from difflib import get_close_matches  # only ever needed on the way out

    close = get_close_matches(wrong, list(right), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _with_unit(text: str, units: dict[str, float] | dict[str, int], example: str) -> float:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {example}")
    number, unit = match.groups()
    if unit.lower() not in units and len(units) == 1:
        raise ValueError(f"{text!r} is not {example}: it takes no unit, so write it out")
    if unit.lower() not in units:
        raise ValueError(f"{text!r} has the unit {unit!r}, which is none of {', '.join(u for u in units if u)}")
    return float(number) * units[unit.lower()]


def _number(option: Option, raw: object) -> int | float:
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise ValueError(f"{raw!r} is not a number")
    if isinstance(raw, str):
        match option.kind:
            case Kind.SIZE:
                number: float = parse_size(raw)
            case Kind.DURATION:
                number = parse_duration(raw)
            case _:
                number = _with_unit(raw, {"": 1}, "a whole number")
    else:
        number = raw
    # An integer of any length compares well; only then may it become a float.
    if not -MOST <= number <= MOST or not math.isfinite(number):
        raise ValueError(f"{str(raw)[:24]!r} is not a number that makes sense")
    if option.kind is Kind.DURATION:
        if number > MOST_S:
            raise ValueError(f"{raw!r} is longer than a year: no timer runs that long")
        if number <= 0:
            raise ValueError(f"{raw!r} must be above 0 (0 would mean at once to some and never to others)")
        return float(number)
    if number != int(number):
        raise ValueError(f"{raw!r} is not a whole number of {option.unit}")
    if number < option.least:
        raise ValueError(
            f"{raw!r} is less than {readable_number(option, int(option.least))}, the least that makes sense"
        )
    return int(number)


def _flag(raw: object) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.strip().lower() in _TRUTH:
        return _TRUTH[raw.strip().lower()]
    raise ValueError(f"{raw!r} is neither true nor false")


def _name(raw: object) -> str:
    if isinstance(raw, str) and _NAME.fullmatch(raw):
        return raw
    raise ValueError(f"{raw!r} is not a name: letters, digits, dot, dash and underscore, 64 at most")


def _file(raw: object) -> Path:
    if isinstance(raw, str | Path) and str(raw).strip() and "\0" not in str(raw):
        return Path(raw).expanduser()
    raise ValueError(f"{raw!r} is not a path")
