# ruff: noqa: E501 - the tables of patterns read better unbroken
"""Amounts of money in text: every printed convention, decided by a vote of the whole document, as exact decimals.

A *number* is what stands on the paper: groups of digits and the marks between them. What it is worth depends on the
document: `1.234` is one thousand and more where the comma is the decimal mark, and one and a bit where it is not. So
reading has three steps: `find_numbers` (shape only), `vote` (the convention of the document), `read` (values). Where
the vote does not decide, the amount carries both readings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from headrace.documents.money import minor_units
from headrace.extraction.currencies import PREFIX, SUFFIX

# Glyphs that engines read for digits. Only used inside a number that has a decimal mark and a true digit.
_GLYPHS = str.maketrans(
    {
        "O": "0",
        "o": "0",
        "Q": "0",
        "D": "0",
        "l": "1",
        "I": "1",
        "|": "1",
        "!": "1",
        "S": "5",
        "s": "5",
        "B": "8",
        "Z": "2",
    }
)
# Prices have no minor units in these, though ISO 4217 gives them two.
_SPENT_WHOLE = frozenset({"TWD", "HUF", "IDR", "COP", "CRC", "KZT", "AMD", "IRR", "LAK", "MMK", "UZS"})
_G = r"[0-9OoQDlI|SsBZ]"

_NUMBER = re.compile(
    rf"""
    (?P<before>[-+]\s?)?
    (?P<prefix>(?:{PREFIX})[.:]?\s?)?
    (?P<after>[-+]\s?)?
    (?P<body>
        (?<!\d)(?<!\d[.,:/])\d{{1,3}}(?:[ '.,]\d{{3}})+(?:\s?[.,]\s?\d{{1,2}})?(?!\d)(?![.,:/]\d)    # grouped
      | (?<!\d)(?<!\d[.,:/])(?:(?<![^\W\d_])|(?<=RM)|(?<=EUR)){_G}{{1,7}}\s?[.,]\s?{_G}{{2}}(?![0-9])(?![.,:/]\d)(?!(?:[a-z]{{2}}))  # 1.2O  140. 00
      | (?<!\d)(?<!\d[.,:/])\d{{1,7}}[.,]\d{{1,3}}(?!\d)(?![.,:/]\d)                                # 12.5  1.234 after letters
      | (?<![\w.,])[.,]\d{{2}}(?!\d)(?![.,:/]\d)                                                   # .99
      | (?<![\w.,:/])\d{{1,6}}[.,]-{{1,2}}(?!\w)                                                    # 5,-
      | (?<![\w.,:/])\d{{1,4}}[ ]\d{{2}}(?=\s*(?:$|[^\w\s.,:/%]|(?:{SUFFIX})\b))                     # 12 50
      | (?<![\w.,:/#])\d{{1,9}}(?![\w.,:/]*\d)                                                      # whole
      | (?<=[xX@*=])\d{{1,9}}(?![\w.,:/]*\d)
    )
    (?P<trail>-(?![\w-]))?
    (?P<suffix>\s?(?:{SUFFIX})(?![^\W\d_]))?
    (?P<percent>\s?%)?
    """,
    re.VERBOSE,
)
_DOLLAR_AS_LETTER = re.compile(r"(?<![\w.,])[Ss](?=\d{1,6}[.,]\d{2}(?!\d))")
_UNIT = re.compile(
    r"\s?/?\s?(?:kgs?|k9|g|gr|gm|ml|mi|cl|l|ltr|lb|lbs|oz|cm|mm|m|pcs?|szt|stk|st|un|gab|km|hrs?|min|days?|x)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Number:
    """The shape of one printed number.

    Attributes:
        raw: as printed, with sign and currency.
        start, end: where in the text.
        groups: the digits between the marks, look-alikes replaced.
        marks: what stands between the groups, one shorter than `groups`: `.`, `,`, `'`, a space.
        negative: a minus before or after it.
        currency: the code or symbol glued to it, as printed.
        repaired: a glyph was replaced, or a blank beside the mark taken out.
        percent: a percent sign follows.
        measured: a unit follows (kg, ml, x): a quantity, not money.
        dash: the minor units are a dash, as in `5,-`.
    """

    raw: str
    start: int
    end: int
    groups: tuple[str, ...]
    marks: tuple[str, ...]
    negative: bool = False
    currency: str | None = None
    repaired: bool = False
    percent: bool = False
    measured: bool = False
    dash: bool = False


@dataclass(frozen=True, slots=True)
class Convention:
    """How the document writes amounts.

    Attributes:
        decimal_mark: `.` or `,`, or None while nothing on the document decides.
        minor: how many digits follow it: from the currency where it is known, else what most amounts show.
        certain: the mark was seen as a decimal mark, not guessed.
    """

    decimal_mark: str | None = None
    minor: int = 2
    certain: bool = False


@dataclass(frozen=True, slots=True)
class Amount:
    """A number with its value.

    Attributes:
        value: the preferred reading.
        number: what was printed.
        marked: printed with minor units or a currency, so it is money and not a count.
        others: further readings, each with the reason why it is possible.
        ambiguous: nothing on the document prefers `value` over the first of `others`.
    """

    value: Decimal
    number: Number
    marked: bool
    others: tuple[tuple[Decimal, str], ...] = ()
    ambiguous: bool = False


def find_numbers(text: str) -> Iterator[Number]:
    """Every number of the text, left to right; dates and times should have been masked out before."""
    text = _DOLLAR_AS_LETTER.sub("$", text)
    for found in _NUMBER.finditer(text):
        body = found["body"]
        repaired = False
        if not body.isascii():
            continue
        plain = body.translate(_GLYPHS)
        if plain != body:
            digits = sum(c.isdigit() for c in body)
            if digits == 0 or (digits == 1 and len(body) > 4 and not body[0].isdigit()):
                continue
            repaired = True
        dash = plain.endswith("-")
        plain = plain.rstrip("-")
        spaced = re.sub(r"\s?([.,])\s?", r"\1", plain)
        repaired = repaired or spaced != plain
        pieces = re.split(r"([ '.,])", spaced)
        groups, marks = tuple(pieces[0::2]), tuple(pieces[1::2])
        if dash:
            groups, marks = groups[:1], ()
        sign = (found["before"] or "") + (found["after"] or "")
        prefix = (found["prefix"] or "").strip(" .:")
        # A hyphen between two words or numbers ("A-12.50", "1-2") is no minus.
        glued = found.start() > 0 and (text[found.start() - 1].isalnum())
        tail = text[found.end() :]
        yield Number(
            raw=" ".join(found[0].split()),  # the mark between two cells is no part of what is printed
            start=found.start(),
            end=found.end(),
            groups=groups,
            marks=marks,
            negative=("-" in sign and not (glued and found["before"])) or bool(found["trail"]),
            currency=prefix or (found["suffix"] or "").strip() or None,
            repaired=repaired,
            percent=bool(found["percent"]),
            measured=not (prefix or found["suffix"]) and bool(_UNIT.match(tail)),
            dash=dash,
        )


def vote(numbers: Iterable[Number], currency: str | None = None) -> Convention:
    """The convention of a document from the numbers on it.

    Two different marks decide most (the last is the decimal mark), then two digits after the only mark; three digits
    after the only mark say a little for grouping, unless the currency has three minor digits.
    """
    decimal = {".": 0.0, ",": 0.0}
    grouped = {".": 0.0, ",": 0.0}
    minor = minor_units(currency)
    for n in numbers:
        if n.percent or n.measured or not n.marks:
            continue
        last, final = n.marks[-1], len(n.groups[-1])
        if last not in decimal:
            continue
        if len(set(n.marks)) > 1:
            decimal[last] += 3.0 if final != 3 or minor == 3 else 0.5
        elif len(n.marks) > 1:
            grouped[last] += 2.0
        elif final == 2:
            decimal[last] += 1.0 if n.repaired else 2.0
        elif final == 3 and n.groups[0] != "0":
            if minor == 3:
                decimal[last] += 2.0
            else:
                grouped[last] += 1.0
        elif final == 3:
            decimal[last] += 0.5  # 0.127: a weight
    point, comma = decimal["."] + grouped[","] * 0.5, decimal[","] + grouped["."] * 0.5
    seen = max(decimal.values()) > 0
    if not seen and (currency in _SPENT_WHOLE or (currency is None and max(grouped.values()) >= 2)):
        minor = 0
    if point == comma:
        return Convention(None, minor, False)
    mark = "." if point > comma else ","
    return Convention(mark, minor, seen or max(grouped.values()) >= 2 or minor == 0)


def read(number: Number, convention: Convention) -> Amount:
    """The value of a number under the document's convention, with the other readings it allows."""
    sign = -1 if number.negative else 1
    groups, marks = number.groups, number.marks
    whole = Decimal("".join(groups)) * sign
    if not marks:
        money = number.dash or number.currency is not None
        return Amount(whole, number, money)
    final = len(groups[-1])
    fraction = Decimal("".join(groups[:-1] or ("0",)) + "." + groups[-1]) * sign if final else whole
    if marks == (" ",) and final == 2:  # 12 50
        return Amount(fraction, number, number.currency is not None, ((whole, "the blank joins digits"),))
    if marks[0] == " " and len(marks) > 1 and marks[-1] in ".,":
        # 1 234,56: one grouped number, or a count and an amount
        alone = Decimal("".join(groups[1:-1]) + "." + groups[-1]) * sign
        if final == 3 and convention.minor != 3:
            return Amount(whole, number, True)
        if convention.decimal_mark == "," or convention.decimal_mark is None or number.currency is not None:
            return Amount(fraction, number, True, ((alone, "the blank parts two numbers"),))
        return Amount(alone, number, True, ((fraction, "the blank groups thousands"),))
    if len(set(marks)) > 1 or (len(marks) > 1 and final != 3):
        return Amount(fraction, number, True)
    if len(marks) > 1 or marks[0] in " '":
        return Amount(whole, number, marks[0] != " " or number.currency is not None)
    if final != 3:
        return Amount(fraction, number, final == 2 or number.currency is not None)
    # One mark, three digits behind it.
    if convention.minor == 3:
        return Amount(fraction, number, True, ((whole, f"'{marks[0]}' groups thousands"),))
    if groups[0] in ("", "0"):
        return Amount(fraction, number, False)
    if convention.minor == 0:
        return Amount(whole, number, True, ((fraction, f"'{marks[0]}' is the decimal mark"),))
    if convention.decimal_mark == marks[0] and convention.certain:
        # The document's decimal mark with a digit too many: a weight or a price per litre.
        return Amount(fraction, number, number.currency is not None, ((whole, f"'{marks[0]}' groups thousands"),))
    certain = convention.certain and convention.decimal_mark is not None
    return Amount(whole, number, True, ((fraction, f"'{marks[0]}' is the decimal mark"),), ambiguous=not certain)


@lru_cache(maxsize=256)
def read_amount(text: str, currency: str | None = None) -> Amount | None:
    """The first amount of a text that stands alone, with no document around it to ask; None where there is none."""
    numbers = tuple(find_numbers(text))
    if not numbers:
        return None
    convention = vote(numbers, currency)
    amounts = [read(n, convention) for n in numbers]
    return next((a for a in amounts if a.marked), amounts[0])
