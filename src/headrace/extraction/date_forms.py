# ruff: noqa: E501 - the tables of patterns read better unbroken
"""Every way in which a date is printed: ISO untouched, months in letters, numbers in any order, eras, digits run together.

No time zone enters anywhere: a date is what is printed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.extraction.rows import fold

_MONTH_NAMES = (
    "jan january januar janvier janv enero ene gennaio gen janeiro januari stycznia styczen sty januari ocak",
    "feb february februar fevrier fevr febrero febbraio fevereiro fev februari lutego luty lut subat",
    "mar march marz maerz mrz mars marzo marco maart mrt marca marzec mac mart",
    "apr april avril avr abril abr aprile kwietnia kwiecien kwi nisan",
    "may mai mayo maggio mag maio mei maja maj mayis",
    "jun june juni juin junio giugno giu junho czerwca czerwiec cze haziran",
    "jul july juli juillet juil julio luglio lug julho lipca lipiec lip julai temmuz",
    "aug august aout agosto ago augustus sierpnia sierpien sie ogos agustus agu agustos",
    "sep sept september septembre septiembre settembre set setembro wrzesnia wrzesien wrz eylul",
    "oct october oktober okt octobre octubre ottobre ott outubro out pazdziernika paz ekim",
    "nov november novembre noviembre novembro listopada listopad lis kasim",
    "dec december dezember dez decembre diciembre dic dicembre dezembro grudnia grudzien gru dis disember desember aralik",
)
MONTHS = {name: number for number, names in enumerate(_MONTH_NAMES, 1) for name in names.split()}
_MONTH = "|".join(sorted(MONTHS, key=lambda n: (-len(n), n)))

_D = r"[0-9oOlI|]"  # a digit, or what engines read for 0 and 1
_YEAR = r"(?:(?:19|20|25)\d\d)"
_SLIPPED_YEAR = rf"(?:2[0oO]{_D}{_D})"
# A short year runs into the clock: "15/03/1815:41"; "15/03/2018:41" is the year 20 at 18:41.
_YEAR_BEFORE_CLOCK = r"(?:\d\d(?=(?:[01]\d|2[0-3]):[0-5]\d(?![\d:])))"
_TIME_AHEAD = r"(?=\D|$|\d{1,2}[:.]\d\d)"
_NUMERIC = re.compile(
    rf"(?<![\d.,])(?<!\d[-/])({_D}{{1,2}})\s?([-/.,])\s?({_D}{{1,2}})\s?\2\s?({_YEAR_BEFORE_CLOCK}|{_YEAR}|{_SLIPPED_YEAR}|\d\d){_TIME_AHEAD}"
)
# A number or a time runs into the date: "#19536001/06/2018", "18:1524/05/18".
_GLUED = re.compile(rf"(?<=\d)(\d\d)([-/])(\d\d)\2({_YEAR}|\d\d)(?!\d)")
_ISO = re.compile(rf"(?<!\d)({_YEAR})\s?([-/.年])\s?(\d{{1,2}})\s?[-/.月]\s?(\d{{1,2}})(?!\d(?!\d?:))日?")
_SLIPPED_MONTH = re.compile(rf"(?<![\d])(\d{{1,2}})\s?([-/.])\s?([a-z0-9]{{3}})\s?\2\s?({_YEAR}|\d\d){_TIME_AHEAD}")
_DAY_MONTH = re.compile(
    rf"(?<![\d])(\d{{1,2}})\s?(?:st|nd|rd|th)?[\s./,-]*(?:de |of )?({_MONTH})(?![a-z])\.?[\s./,-]*(?:de |of |del )?('?{_YEAR}|'?\d\d){_TIME_AHEAD}"
)
_MONTH_DAY = re.compile(
    rf"(?<![a-z])({_MONTH})(?![a-z])\.?[\s./-]*(\d{{1,2}})(?:st|nd|rd|th)?[\s.,/'-]+({_YEAR}|\d\d(?![\d:])){_TIME_AHEAD}"
)
_YEAR_MONTH_NAME = re.compile(rf"(?<!\d)({_YEAR})[\s./-]*({_MONTH})(?![a-z])[\s./-]*(\d{{1,2}})(?!\d)")
_COMPACT = re.compile(r"(?<!\d)(20\d\d)(0[1-9]|1[0-2])([0-3]\d)(?!\d)")
_COMPACT_DAY_FIRST = re.compile(r"(?<!\d)([0-3]\d)([01]\d)(20\d\d)(?=\s+\d\d[:;.]\d\d)")
# Eight digits that stand alone: a date only where the document has no other.
_COMPACT_ALONE = re.compile(r"(?:^|(?<=\s))([0-3]\d)([01]\d)(20\d\d)(?=\s|$)")
_COMPACT_SHORT = re.compile(r"(?<![\d.,:/-])(\d\d)(\d\d)(\d\d)(?=\s+\d\d:\d\d)")
_ERA = re.compile(
    r"(?<![A-Za-z])(令和|平成|昭和|[RHS])\s?(\d{1,2}|元)\s?[年./-]\s?(\d{1,2})\s?[月./-]\s?(\d{1,2})(?!\d)日?"
)
_ERA_START = {"令和": 2018, "R": 2018, "平成": 1988, "H": 1988, "昭和": 1925, "S": 1925}


@dataclass(frozen=True, slots=True)
class FoundDate:
    """A date on the document, with every order it can be read in.

    Attributes:
        readings: calendar dates with the order they come from (`ymd`, `dmy`, `mdy`), the likelier first.
        raw: as printed.
        row, start, end: where.
        fixed: the order is not in question (ISO, a month in letters, an era).
        weak: digits without separators: a number that may be no date.
    """

    readings: tuple[tuple[dt.date, str], ...]
    raw: str
    row: int
    start: int
    end: int
    fixed: bool = False
    weak: bool = False


def find_dates(text: str, row: int = 0) -> Iterator[FoundDate]:
    """Every date of a row; spans do not overlap, and the surest form of a span wins."""
    folded = fold(text)
    # Folding may change lengths (ligatures); then offsets would lie, and the text itself is searched without month names.
    words = folded if len(folded) == len(text) else text.lower()
    taken: list[tuple[int, int]] = []
    for readings, start, end, fixed, weak in _all_forms(text, words):
        if readings and not any(start < e and s < end for s, e in taken):
            taken.append((start, end))
            yield FoundDate(tuple(readings), text[start:end], row, start, end, fixed, weak)


_Form = tuple[list[tuple[dt.date, str]], int, int, bool, bool]


def _all_forms(text: str, words: str) -> Iterator[_Form]:
    for m in _ERA.finditer(text):
        year = 1 if m[2] == "元" else int(m[2])
        yield _readings([(_ERA_START[m[1]] + year, int(m[3]), int(m[4]), "ymd")]), *m.span(), True, False
    for m in _ISO.finditer(text):
        yield _readings([(int(m[1]), int(m[3]), int(m[4]), "ymd")]), *m.span(), True, False
    for m in _DAY_MONTH.finditer(words):
        yield _readings([(_year(m[3]), MONTHS[m[2]], int(m[1]), "dmy")]), *m.span(), True, False
    for m in _MONTH_DAY.finditer(words):
        yield _readings([(_year(m[3]), MONTHS[m[1]], int(m[2]), "mdy")]), *m.span(), True, False
    for m in _YEAR_MONTH_NAME.finditer(words):
        yield _readings([(int(m[1]), MONTHS[m[2]], int(m[3]), "ymd")]), *m.span(), True, False
    for m in _NUMERIC.finditer(text):
        yield _numeric(m), *m.span(), False, False
    for m in _SLIPPED_MONTH.finditer(words):
        if (month := _month_one_off(m[3])) is not None:
            yield _readings([(_year(m[4]), month, int(m[1]), "dmy")]), *m.span(), True, False
    for m in _COMPACT.finditer(text):
        yield _readings([(int(m[1]), int(m[2]), int(m[3]), "ymd")]), *m.span(), True, True
    for m in _GLUED.finditer(text):
        yield _numeric(m), *m.span(), False, False
    for m in _COMPACT_DAY_FIRST.finditer(text):
        yield _readings([(int(m[3]), int(m[2]), int(m[1]), "dmy")]), *m.span(), True, True
    for m in _COMPACT_ALONE.finditer(text):
        yield _readings([(int(m[3]), int(m[2]), int(m[1]), "dmy")]), *m.span(), True, True
    for m in _COMPACT_SHORT.finditer(text):
        a, b, c = int(m[1]), int(m[2]), int(m[3])
        parts = [(2000 + c, b, a, "dmy"), (2000 + c, a, b, "mdy"), (2000 + a, b, c, "ymd")]
        yield _readings(parts), *m.span(), False, True


def _numeric(m: re.Match[str]) -> list[tuple[dt.date, str]]:
    first, second = (part.translate(_DIGITS) for part in (m[1], m[3]))
    if not any(c.isdigit() for c in m[1] + m[3]):
        return []
    a, b, year = int(first), int(second), m[4].translate(_DIGITS)
    parts = [(_year(year), b, a, "dmy"), (_year(year), a, b, "mdy")]
    if m[2] == "." and a <= 31:
        parts = parts[:1] if b <= 12 else parts
    if len(year) == 2 and len(m[1]) == 2:
        parts.append((2000 + a, b, int(year), "ymd"))
    return _readings(parts)


def _month_one_off(word: str) -> int | None:
    """The month whose English short form differs from the word in one place, where only one does: `dun` is June."""
    if word.isdigit():
        return None
    near = {
        n for n, names in enumerate(_MONTH_NAMES, 1) if sum(a != b for a, b in zip(names[:3], word, strict=True)) == 1
    }
    return near.pop() if len(near) == 1 else None


_DIGITS = str.maketrans("oOlI|", "00111")


def _year(text: str) -> int:
    year = int(text.strip("'"))
    return year + (2000 if year < 80 else 1900) if year < 100 else year


def _readings(parts: Iterable[tuple[int, int, int, str]]) -> list[tuple[dt.date, str]]:
    """The parts that are days of the calendar; Thai years (2500 and more) become common years."""
    out: list[tuple[dt.date, str]] = []
    for year, month, day, order in parts:
        common = year - 543 if 2500 <= year < 2600 else year
        try:
            date = dt.date(common, month, day)
        except ValueError:
            continue
        if date not in (d for d, _ in out):
            out.append((date, order))
    return out
