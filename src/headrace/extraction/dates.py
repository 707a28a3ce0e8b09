# ruff: noqa: E501 - the tables of patterns read better unbroken
"""Dates and times: ISO untouched, every other order by evidence, and both readings where there is none.

No time zone enters anywhere: a date is what is printed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.extraction.origin import MONTH_FIRST, YEAR_FIRST
from headrace.extraction.rows import Row, fold

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
_TIME_AHEAD = r"(?=\D|$|\d{1,2}[:.]\d\d)"
_NUMERIC = re.compile(
    rf"(?<![\d.,])(?<!\d[-/])({_D}{{1,2}})\s?([-/.,])\s?({_D}{{1,2}})\s?\2\s?({_YEAR}|\d\d){_TIME_AHEAD}"
)
# A number or a time runs into the date: "#19536001/06/2018", "18:1524/05/18".
_GLUED = re.compile(rf"(?<=\d)(\d\d)([-/])(\d\d)\2({_YEAR}|\d\d)(?!\d)")
_ISO = re.compile(rf"(?<!\d)({_YEAR})\s?([-/.年])\s?(\d{{1,2}})\s?[-/.月]\s?(\d{{1,2}})(?!\d(?!\d?:))日?")
_DAY_MONTH = re.compile(
    rf"(?<![\d])(\d{{1,2}})\s?(?:st|nd|rd|th)?[\s./,-]*(?:de |of )?({_MONTH})(?![a-z])\.?[\s./,-]*(?:de |of |del )?('?{_YEAR}|'?\d\d){_TIME_AHEAD}"
)
_MONTH_DAY = re.compile(
    rf"(?<![a-z])({_MONTH})(?![a-z])\.?[\s./-]*(\d{{1,2}})(?:st|nd|rd|th)?[\s.,/'-]+({_YEAR}|\d\d(?![\d:])){_TIME_AHEAD}"
)
_YEAR_MONTH_NAME = re.compile(rf"(?<!\d)({_YEAR})[\s./-]*({_MONTH})(?![a-z])[\s./-]*(\d{{1,2}})(?!\d)")
_COMPACT = re.compile(r"(?<!\d)(20\d\d)(0[1-9]|1[0-2])([0-3]\d)(?!\d)")
_COMPACT_DAY_FIRST = re.compile(r"(?<!\d)([0-3]\d)([01]\d)(20\d\d)(?=\s+\d\d[:;]\d\d)")
_COMPACT_SHORT = re.compile(r"(?<![\d.,:/-])(\d\d)(\d\d)(\d\d)(?=\s+\d\d:\d\d)")
_ERA = re.compile(
    r"(?<![A-Za-z])(令和|平成|昭和|[RHS])\s?(\d{1,2}|元)\s?[年./-]\s?(\d{1,2})\s?[月./-]\s?(\d{1,2})(?!\d)日?"
)
_ERA_START = {"令和": 2018, "R": 2018, "平成": 1988, "H": 1988, "昭和": 1925, "S": 1925}
_TIME = re.compile(
    r"(?<![\d.,])(?P<h>[01]?\d|2[0-4])\s?(?P<mark>[:.hH時])\s?(?P<m>[0-5]\d)(?:\s?[:.分]\s?(?P<s>[0-5]\d))?秒?\s?(?P<half>[AaPp]\.?\s?[Mm])?(?![\d])"
)
_OTHER_DATE = re.compile(
    r"exp\b|expir|valid|gultig|garant|warrant|due|falli|fallig|best before|until|till|bis zum|hasta|jusqu|scaden|birth|order ?dat|besteldat|"
    r"bestelldat|orderdat|deliver|liefer|leverd|ship|return by|before|promo|offer|geldig|wazn|vencim|op \d|since|from \d|check ?in|check ?out|next"
)
_DATE_LABEL = re.compile(
    r"\bdate|\bdat[eiu]|datum|fecha|\bdata\b|tarikh|tarih|tanggal|ngay|дата|日期|発行|\bdt\b|invoice date|factuurdatum|rechnungsdatum|issued"
)
_TIME_LABEL = re.compile(r"time|zeit|heure|hora|\bora\b|masa|saat|tijd|godz|час|время")
_WEEKDAYS = {
    name: day
    for day, names in enumerate(
        (
            "mon monday montag lundi lunes lunedi segunda maandag isnin pn",
            "tue tues tuesday dienstag mardi martes martedi terca dinsdag selasa wt",
            "wed wednesday mittwoch mercredi miercoles mercoledi quarta woensdag rabu sr",
            "thu thur thurs thursday donnerstag jeudi jueves giovedi quinta donderdag khamis czw",
            "fri friday freitag vendredi viernes venerdi sexta vrijdag jumaat pt",
            "sat saturday samstag samedi sabado sabato zaterdag sabtu",
            "sun sunday sonntag dimanche domingo domenica zondag ahad niedz",
        )
    )
    for name in names.split()
}
_JAPANESE_WEEKDAYS = {f"({c})": i for i, c in enumerate("月火水木金土日")}
OLDEST_YEARS = 25


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


@dataclass(frozen=True, slots=True)
class ChosenDate:
    """The issue date with its evidence; `value` is None where nothing on the document can be it."""

    value: dt.date | None
    found: FoundDate | None
    confidence: float
    ambiguous: bool
    reason: str
    others: tuple[tuple[dt.date, float, str], ...] = field(default=())


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
    for m in _COMPACT.finditer(text):
        yield _readings([(int(m[1]), int(m[2]), int(m[3]), "ymd")]), *m.span(), True, True
    for m in _GLUED.finditer(text):
        yield _numeric(m), *m.span(), False, False
    for m in _COMPACT_DAY_FIRST.finditer(text):
        yield _readings([(int(m[3]), int(m[2]), int(m[1]), "dmy")]), *m.span(), True, True
    for m in _COMPACT_SHORT.finditer(text):
        a, b, c = int(m[1]), int(m[2]), int(m[3])
        parts = [(2000 + c, b, a, "dmy"), (2000 + c, a, b, "mdy"), (2000 + a, b, c, "ymd")]
        yield _readings(parts), *m.span(), False, True


def _numeric(m: re.Match[str]) -> list[tuple[dt.date, str]]:
    first, second = (part.translate(_DIGITS) for part in (m[1], m[3]))
    if not any(c.isdigit() for c in m[1] + m[3]):
        return []
    a, b, year = int(first), int(second), m[4]
    parts = [(_year(year), b, a, "dmy"), (_year(year), a, b, "mdy")]
    if m[2] == "." and a <= 31:
        parts = parts[:1] if b <= 12 else parts
    if len(year) == 2 and len(m[1]) == 2:
        parts.append((2000 + a, b, int(year), "ymd"))
    return _readings(parts)


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


def choose_date(
    dates: Sequence[FoundDate],
    rows: Sequence[Row],
    countries: Mapping[str, tuple[float, str]],
    language: str | None,
    today: dt.date,
) -> ChosenDate:
    """The date of issue among all dates of the document.

    Days after `today` and more than 25 years before it are never chosen: they stay among the others with the reason.
    """
    order, why = _order(dates, rows, countries, language)
    scored: list[tuple[float, FoundDate]] = []
    rejected: list[tuple[dt.date, float, str]] = []
    for found in dates:
        possible = []
        for date, form in found.readings:
            if date > today:
                rejected.append((date, 0.05, "after today"))
            elif date.year < today.year - OLDEST_YEARS:
                rejected.append((date, 0.05, f"more than {OLDEST_YEARS} years ago"))
            else:
                possible.append((date, form))
        if possible:
            kept = replace(found, readings=tuple(possible))
            scored.append((_score(kept, rows, dates), kept))
    if not scored:
        return ChosenDate(None, None, 0.0, False, "no date on the document", _unique(rejected, None))
    best_score, best = max(scored, key=lambda item: (item[0], -item[1].row, -item[1].start))
    value, ambiguous, reason = _settle(best, order, why, rows)
    other = [(d, 0.35 if ambiguous else 0.1, f"the same digits read {form}") for d, form in best.readings if d != value]
    for score, found in sorted(scored, key=lambda item: -item[0]):
        if found is not best:
            date, _, _ = _settle(found, order, why, rows)
            other.append(
                (date, 0.2, "another date on the document" if score > 0 else "looks like a date of another kind")
            )
    confidence = 0.45 if ambiguous else min(0.97, 0.75 + 0.05 * best_score)
    if best.weak:
        confidence = min(confidence, 0.6)
    return ChosenDate(value, best, max(0.1, confidence), ambiguous, reason, _unique([*other, *rejected], value))


def _unique(
    found: Iterable[tuple[dt.date, float, str]], chosen: dt.date | None
) -> tuple[tuple[dt.date, float, str], ...]:
    seen: dict[dt.date, tuple[dt.date, float, str]] = {}
    for item in found:
        if item[0] != chosen:
            seen.setdefault(item[0], item)
    return tuple(seen.values())[:8]


def _score(found: FoundDate, rows: Sequence[Row], dates: Sequence[FoundDate]) -> float:
    """How likely this is the date of issue: its label, a time beside it, the same date again."""
    row = rows[found.row]
    before = fold(row.text[: found.start])[-24:]
    after = row.text[found.end : found.end + 14]
    context = before
    if not re.search(r"[a-z]{3}", before) and found.row > 0 and len(rows[found.row - 1].text) < 40:
        context = fold(rows[found.row - 1].text)
    score = 0.0
    if _OTHER_DATE.search(before) and not re.search(r"invoice ?date|rechnungsdatum|factuurdatum", before):
        score -= 4.0
    elif _DATE_LABEL.search(before):
        score += 2.0
    elif _DATE_LABEL.search(context):
        score += 1.0
    if re.search(r"\d\s?[:.h]\s?\d\d", after) or _TIME.search(row.text[: found.start]):
        score += 1.5
    if found.weak:
        score -= 2.0
    score += 0.5 * min(2, sum(1 for d in dates if d is not found and d.readings[0][0] == found.readings[0][0]))
    letters = sum(c.isalpha() for c in row.text)
    if letters > 45:
        score -= 1.0
    return score


def _order(
    dates: Sequence[FoundDate], rows: Sequence[Row], countries: Mapping[str, tuple[float, str]], language: str | None
) -> tuple[str | None, str]:
    """The order of day and month on this document, and why; None without evidence."""
    forced: dict[str, int] = {}
    for found in dates:
        plain = [form for _, form in found.readings if form != "ymd"]
        if not found.fixed and not found.weak and len(plain) == 1 and not _recent_if_turned(found):
            forced[plain[0]] = forced.get(plain[0], 0) + 1
    if forced:
        return max(sorted(forced), key=lambda o: forced[o]), "another date on the document can only be read so"
    for found in dates:
        if not found.fixed and len(found.readings) > 1 and (form := _weekday_order(found, rows)):
            return form, "the weekday beside it fits only this"
    stamps = {m[0] for row in rows for m in re.finditer(r"(?:19|20)\d{6}", row.text)}
    for found in dates:
        hits = [form for date, form in found.readings if f"{date:%Y%m%d}" in stamps]
        if not found.fixed and len(hits) == 1:
            return hits[0], "a number on the document holds the same day as year, month, day"
    best = next(iter(countries), None)
    if best is not None:
        strength, reason = countries[best]
        if strength >= 0.8:
            form = "mdy" if best in MONTH_FIRST else "ymd" if best in YEAR_FIRST else "dmy"
            return form, f"{reason}: dates there are written {form}"
    if language not in (None, "en"):
        return ("ymd" if language in ("ja", "ko", "zh") else "dmy"), f"the text is in '{language}'"
    return None, "nothing on the document tells the order of day and month"


def _recent_if_turned(found: FoundDate) -> bool:
    """True for `25/03/04`: read day first it is ten years older than read year first."""
    turned = [d for d, form in found.readings if form == "ymd"]
    plain = [d for d, form in found.readings if form != "ymd"]
    return bool(turned and plain) and (turned[0] - max(plain)).days > 3650


def _weekday_order(found: FoundDate, rows: Sequence[Row]) -> str | None:
    text = rows[found.row].text
    names = {_WEEKDAYS[w] for w in re.findall(r"[a-z]{2,}", fold(text)) if w in _WEEKDAYS and len(w) >= 3}
    names |= {day for mark, day in _JAPANESE_WEEKDAYS.items() if mark in text}
    if len(names) != 1:
        return None
    fits = [form for date, form in found.readings if date.weekday() in names]
    return fits[0] if len(fits) == 1 else None


def _settle(found: FoundDate, order: str | None, why: str, rows: Sequence[Row]) -> tuple[dt.date, bool, str]:
    """One reading of a date: its value, whether both orders stay open, and the reason."""
    readings = found.readings
    if found.fixed:
        return readings[0][0], False, "it can be read in one way only"
    if form := _weekday_order(found, rows):
        return next(d for d, f in readings if f == form), False, "the weekday beside it fits only this"
    match = [date for date, form in readings if form == order]
    if match:
        return match[0], False, why
    # Year, month, day with two digits for the year is rare: it is a reading, but not one to trust without evidence.
    plain = [r for r in readings if r[1] != "ymd"]
    if len(plain) == 1 and _recent_if_turned(found):
        return plain[0][0], True, "day first it is long ago, year first it is recent"
    if len(plain) == 1:
        return plain[0][0], False, "only one order is a day of the calendar that is not after today"
    return readings[0][0], True, why


def find_time(text: str) -> tuple[dt.time, str, int, int] | None:
    """The first time of day in a text, on the 24-hour clock, with its place; `13:14 PM` is taken at its word."""
    for found in find_dates(text):
        text = text[: found.start] + " " * (found.end - found.start) + text[found.end :]
    for m in _TIME.finditer(text):
        hour, minute, second = int(m["h"]), int(m["m"]), int(m["s"] or 0)
        half = (m["half"] or "").lower().replace(".", "").replace(" ", "")
        if m["mark"] == "." and not (m["s"] or half):
            continue  # 12.50 is an amount
        if half == "pm" and hour < 12:
            hour += 12
        elif half == "am" and hour == 12:
            hour = 0
        if hour < 24:
            return dt.time(hour, minute, second), m[0].strip(), m.start(), m.end()
    return None


def choose_time(rows: Sequence[Row], chosen: FoundDate | None) -> tuple[dt.time, Row, int, int, float] | None:
    """The time of issue: right behind the date, else labelled near it, else the first on the document."""
    if chosen is not None:
        row = rows[chosen.row]
        for offset, part in ((chosen.end, row.text[chosen.end :]), (0, row.text[: chosen.start])):
            if found := find_time(part):
                return found[0], row, offset + found[2], offset + found[3], 0.9
        for index in (chosen.row + 1, chosen.row - 1, chosen.row + 2, chosen.row - 2):
            if 0 <= index < len(rows) and (found := find_time(rows[index].text)):
                return found[0], rows[index], found[2], found[3], 0.75
    for row in rows:
        if _TIME_LABEL.search(fold(row.text)) and (found := find_time(row.text)):
            return found[0], row, found[2], found[3], 0.6
    return None
