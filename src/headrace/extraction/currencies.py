# ruff: noqa: E501 - the tables of patterns read better unbroken
"""Currency by evidence only: codes and symbols beside amounts, then country evidence; never a default.

ISO 4217 codes. A symbol that several currencies share (`$`, `kr`, `¥`) is settled by the country, or left open with
all its readings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.documents import money

# Codes that are words or abbreviations on receipts ("ALL", "TOP 10"), and units of account that nobody pays in.
_NOT_PRINTED = """
ALL AMD ANG AOA ARS AWG BAM BBD BIF BMD BOB BOV BSD BTN CDF CHE CHW CLF COU CRC CUP CVE DOP ERN FKP GEL GIP GMD GTQ HNL
HTG KGS KMF LAK LBP LRD LSL MDL MGA MNT MOP MRU MUR MVR MWK MXV NAD NIO PAB PGK SBD SCR SHP SLE SOS SRD SSP STN SVC SZL
TOP TTD USN UYI UYW VED VES VUV WST ZMW
"""
CODES = sorted((money.CODES | {"BGN", "HRK"}) - set(_NOT_PRINTED.split()))  # lev and kuna: on older receipts

# Symbols as printed (folded to upper case, blanks out), with what they can mean; the first is the likeliest.
SYMBOLS: dict[str, tuple[str, ...]] = {
    "RM": ("MYR",), "US$": ("USD",), "R$": ("BRL",), "C$": ("CAD",), "CA$": ("CAD",), "A$": ("AUD",), "AU$": ("AUD",),
    "NZ$": ("NZD",), "HK$": ("HKD",), "S$": ("SGD",), "NT$": ("TWD",), "MX$": ("MXN",),
    "$": ("USD", "CAD", "AUD", "NZD", "SGD", "HKD", "MXN", "TWD", "CLP", "COP"),
    "€": ("EUR",), "EURO": ("EUR",), "EUROS": ("EUR",), "£": ("GBP",), "¥": ("JPY", "CNY"), "円": ("JPY",), "元": ("CNY",),
    "₩": ("KRW",), "원": ("KRW",), "₹": ("INR",), "RS": ("INR", "PKR", "LKR"), "RS.": ("INR", "PKR", "LKR"), "RP": ("IDR",),
    "RP.": ("IDR",), "₫": ("VND",), "Đ": ("VND",), "VNĐ": ("VND",), "ZŁ": ("PLN",), "ZL": ("PLN",),
    "KR": ("SEK", "NOK", "DKK", "ISK"), "KČ": ("CZK",), "KC": ("CZK",), "FT": ("HUF",), "LEI": ("RON",), "ЛВ": ("BGN",),
    "₴": ("UAH",), "ГРН": ("UAH",), "₽": ("RUB",), "РУБ": ("RUB",), "₺": ("TRY",), "TL": ("TRY",), "SFR": ("CHF",), "FR.": ("CHF",),
    "฿": ("THB",), "₱": ("PHP",), "₪": ("ILS",), "₦": ("NGN",), "KD": ("KWD",),
}  # fmt: skip

_CODE = "|".join(CODES)
_NOT_AFTER_LETTER = r"(?<![^\W\d_])"
PREFIX = (
    rf"{_NOT_AFTER_LETTER}(?:(?:US|R|CA|C|AU|A|NZ|HK|S|NT|MX)\$|{_CODE}|RMB|[Rr][Ss]\.?|[Rr][Pp]\.?|[Kk]r\.?|SFr|Fr\.|TL|KD|zł|EURO)|"
    r"RM(?=[-.:\s]*[\dIOl])|[$€£¥₩₹₫₺₽₴฿₱₪₦]"
)
SUFFIX = rf"{_CODE}|[$€£¥₩₹₫₺₽₴฿₱₪₦]|EUROS?|[Ee]uros?|zł|z[łl]|kr|Kč|Ft|[Ll]ei|лв|грн|руб|р(?=\.)|TL|円|元|원|đ|VNĐ|RM"
_MARKS = re.compile(
    rf"(?<![^\W\d_])(?:{_CODE}|EUROS?|RM|VNĐ|GRN)(?![^\W\d_])|(?:US|R|CA|C|AU|A|NZ|HK|S|NT|MX)\$|(?<![A-Za-z])\$|[€£¥₩₹₫₺₽₴฿₱₪₦]|(?<=\d)[円元원]|"
    r"(?<![^\W\d_])(?:zł|kr|Kč|Ft|грн|руб)(?![^\W\d_])"
)


@dataclass(frozen=True, slots=True)
class CurrencyEvidence:
    """What speaks for one currency."""

    code: str
    score: float
    raw: str
    reason: str
    row: int | None = None


def meanings(symbol: str | None) -> tuple[str, ...]:
    """The ISO codes that a printed code or symbol can stand for; empty where it is none."""
    if not symbol:
        return ()
    key = symbol.strip().upper()
    if key in CODES:
        return (key,)
    return SYMBOLS.get(key) or SYMBOLS.get(key.rstrip("."), ())


def marks_in(text: str) -> list[tuple[int, int, str]]:
    """Every currency code or symbol of a text: start, end, as printed."""
    return [(m.start(), m.end(), m[0]) for m in _MARKS.finditer(text)]


_EURO_AREA = "AT BE DE EE ES FI FR GR HR IE IT LT LU LV NL PT SI SK"
# The currency of the country in which most of these receipts are printed; the euro area is named country by country.
COUNTRY_CURRENCY: dict[str, str] = {
    **dict.fromkeys(_EURO_AREA.split(), "EUR"),
    "US": "USD", "GB": "GBP", "CH": "CHF", "PL": "PLN", "MY": "MYR", "SG": "SGD", "ID": "IDR", "VN": "VND", "TH": "THB",
    "JP": "JPY", "CN": "CNY", "TW": "TWD", "HK": "HKD", "KR": "KRW", "IN": "INR", "AU": "AUD", "NZ": "NZD", "CA": "CAD",
    "BR": "BRL", "MX": "MXN", "TR": "TRY", "UA": "UAH", "RU": "RUB", "CZ": "CZK", "HU": "HUF", "SE": "SEK", "NO": "NOK",
    "DK": "DKK", "RO": "RON", "ZA": "ZAR", "PH": "PHP",
}  # fmt: skip


def weigh(
    marks: Sequence[tuple[str, int, float]], countries: Mapping[str, tuple[float, str]]
) -> list[CurrencyEvidence]:
    """Every currency that something speaks for, the best first.

    Args:
        marks: printed codes and symbols: as printed, row, weight (a total's row weighs more than a footer).
        countries: evidence for countries: strength, and what it was, for the reason.
    """
    home = {
        COUNTRY_CURRENCY[c]: (s, why)
        for c, (s, why) in sorted(countries.items(), key=lambda i: i[1][0])
        if c in COUNTRY_CURRENCY
    }
    scores: dict[str, list[tuple[float, str, str, int | None]]] = {}
    for raw, row, weight in marks:
        codes = meanings(raw)
        if len(codes) == 1:
            scores.setdefault(codes[0], []).append((2 * weight, raw, f"printed '{raw}'", row))
        elif codes:
            local = [c for c in codes if c in home]
            if local:
                best = max(local, key=lambda c: home[c][0])
                scores.setdefault(best, []).append((1.5 * weight, raw, f"printed '{raw}' and {home[best][1]}", row))
            else:
                for rank, code in enumerate(codes):
                    scores.setdefault(code, []).append(
                        (0.2 * weight * (1 - 0.02 * rank), raw, f"'{raw}' can mean {code}", row)
                    )
    for code, (strength, why) in home.items():
        scores.setdefault(code, []).append((strength, why, f"no symbol printed; {why}", None))
    evidence = []
    for code, found in scores.items():
        strongest = max(found, key=lambda f: f[0])
        evidence.append(
            CurrencyEvidence(code, sum(min(f[0], 4.0) for f in found), strongest[1], strongest[2], strongest[3])
        )
    return sorted(evidence, key=lambda e: (-e.score, e.code))
