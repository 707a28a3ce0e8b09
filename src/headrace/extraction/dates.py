# ruff: noqa: E501 - the tables of patterns read better unbroken
"""The date and time of issue: the order of day and month by evidence, and both readings where there is none."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.extraction.date_forms import FoundDate, find_dates
from headrace.extraction.origin import MONTH_FIRST, YEAR_FIRST
from headrace.extraction.rows import Row, fold

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
# Currencies of countries that all write the day first; $ and ¥ tell nothing.
_DAY_FIRST_MONEY = re.compile(
    r"[€£₹₫₺₴₽]|\b(?:EUR|GBP|CHF|PLN|CZK|SEK|NOK|DKK|MYR|SGD|NZD|AUD|INR|IDR|VND|TRY|UAH|BRL|MXN)\b|R\$|zł"
)
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
class ChosenDate:
    """The issue date with its evidence; `value` is None where nothing on the document can be it."""

    value: dt.date | None
    found: FoundDate | None
    confidence: float
    ambiguous: bool
    reason: str
    others: tuple[tuple[dt.date, float, str], ...] = field(default=())


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
    printed = value
    value, doubt = _of_its_time(value, rows, countries)
    if best.weak and best_score < 0:
        ambiguous, reason = True, "digits without separators, and no other date on the document"
    if doubt:
        ambiguous, reason = True, doubt
    other = [(printed, 0.4, f"as printed; {doubt}")] if value != printed else []
    other += [
        (d, 0.35 if ambiguous else 0.1, f"the same digits read {form}") for d, form in best.readings if d != printed
    ]
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


# Taxes are named on receipts from the day they began: country, words, first day, last day that is usual, reason.
_TAX_PERIODS = (
    (
        "MY",
        r"\bGST\b",
        dt.date(2015, 4, 1),
        dt.date(2018, 12, 31),
        "GST was charged in Malaysia from April 2015 to 2018",
    ),
    (
        "IN",
        r"\b[CS]GST\b|\bGSTIN\b",
        dt.date(2017, 7, 1),
        dt.date(2100, 1, 1),
        "GST is charged in India since July 2017",
    ),
)
_LOOK_ALIKE = {"0": "68", "1": "7", "3": "8", "5": "6", "6": "580", "7": "1", "8": "360"}


def _of_its_time(
    date: dt.date, rows: Sequence[Row], countries: Mapping[str, tuple[float, str]]
) -> tuple[dt.date, str | None]:
    """The date, or the one look-alike of its year that is not older than the tax named on the receipt, and the doubt."""
    country = next(iter(countries), None)
    for home, words, first, last, reason in _TAX_PERIODS:
        if country != home or date >= first or not any(re.search(words, row.text) for row in rows):
            continue
        year = f"{date.year}"
        fits = []
        for digit in _LOOK_ALIKE.get(year[-1], ""):
            turned = int(year[:-1] + digit)
            if not (date.month == 2 and date.day == 29) and first <= date.replace(year=turned) <= last:
                fits.append(date.replace(year=turned))
        if len(fits) == 1:
            return fits[0], f"{reason}, and the last digit of the year is easily misread"
        return date, reason
    return date, None


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
    if any(_DAY_FIRST_MONEY.search(row.text) for row in rows):
        return "dmy", "where this currency is used dates are written dmy"
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
