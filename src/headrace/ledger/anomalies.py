"""What is unusual about receipts, as information with its reason: nothing here changes a verdict.

receipts in the order of the book -> Watch.see() -> Anomaly...        Watch.first_digits() -> Benford on all of them

An amount far from what the merchant usually takes, a weekend, a round sum, several receipts of one merchant on a day.
Each says nothing alone; an auditor looks where several meet. The order is the book's, so a rerun says the same.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter, OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

from headrace.documents.money import minor_units
from headrace.ledger.reading import field_value, letters

MERCHANTS_LIMIT: Final = 5_000
"""Merchants (by currency) whose usual amounts are known; those not seen for longest are forgotten."""
DAYS_LIMIT: Final = 5_000
"""Merchants and days on which receipts are added up; the oldest are forgotten."""
USUAL_FROM: Final = 8
"""So many earlier receipts make a habit."""
DEVIATIONS: Final = 3.0
LEAST_SPREAD: Final = 0.15
"""In logarithms of amounts: a merchant with one price is not far from it at 15 % more."""
DIGITS_FROM: Final = 300
NOT_CONFORMING: Final = 0.015
"""Mean absolute deviation of first digits above which they do not follow Benford (Nigrini, Benford's Law, 2012)."""
_WEEKEND = ("Saturday", "Sunday")  # not by the locale of the machine

Kind = Literal["far-from-usual", "round-sum", "same-day", "weekend"]


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing worth a look: which entry of the book, what kind, and why in words."""

    sequence: int
    kind: Kind
    reason: str


@dataclass(frozen=True, slots=True)
class FirstDigits:
    """How often each first digit from 1 to 9 leads a total, beside Benford's share.

    Attributes:
        count: totals looked at.
        shares: of the digits 1 to 9.
        deviation: mean absolute deviation from Benford's shares; None below `DIGITS_FROM` totals.
    """

    count: int
    shares: tuple[float, ...]
    deviation: float | None

    @property
    def conforms(self) -> bool | None:
        """None while there are too few totals to say."""
        return None if self.deviation is None else self.deviation <= NOT_CONFORMING


@dataclass(slots=True)
class _Habit:
    """Running mean and spread of the logarithms of a merchant's amounts (Welford)."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, x: float) -> None:
        self.count += 1
        off = x - self.mean
        self.mean += off / self.count
        self.squares += off * (x - self.mean)

    @property
    def spread(self) -> float:
        return max(LEAST_SPREAD, math.sqrt(self.squares / self.count))


class Watch:
    """Sees the receipts of one book, in order. Memory has a bound: `MERCHANTS_LIMIT` and `DAYS_LIMIT`."""

    def __init__(self) -> None:
        self._habits: OrderedDict[tuple[str, str], _Habit] = OrderedDict()
        self._days: OrderedDict[tuple[str, str, str], tuple[int, Decimal]] = OrderedDict()
        self._digits: Counter[int] = Counter()

    def see(self, sequence: int, receipt: Mapping[str, Any]) -> tuple[Anomaly, ...]:
        """What is unusual about the next receipt (as JSON types) of the book."""
        total, currency, date = _facts(receipt)
        merchant = letters(field_value(receipt.get("merchant"), "name") or "")
        found = list(alone(sequence, receipt))
        if total is None or total <= 0:
            return tuple(found)
        self._digits[int(str(total.normalize().as_tuple().digits[0]))] += 1
        if merchant:
            found += self._far(sequence, merchant, total, currency)
            if date is not None:
                found += self._same_day(sequence, merchant, total, currency, date)
        return tuple(found)

    def first_digits(self) -> FirstDigits:
        """Benford's law on all totals seen; it is meant for a book, not for one employee's week."""
        count = self._digits.total()
        shares = tuple(self._digits[d] / max(1, count) for d in range(1, 10))
        off = sum(abs(share - math.log10(1 + 1 / d)) for d, share in enumerate(shares, 1)) / 9
        return FirstDigits(count, shares, off if count >= DIGITS_FROM else None)

    def _far(self, sequence: int, merchant: str, total: Decimal, currency: str) -> list[Anomaly]:
        habit = self._habits.setdefault((merchant, currency), _Habit())
        self._habits.move_to_end((merchant, currency))
        if len(self._habits) > MERCHANTS_LIMIT:
            self._habits.popitem(last=False)
        x, before = math.log(float(total)), (habit.count, habit.mean, habit.spread if habit.count else 0.0)
        habit.add(x)
        count, mean, spread = before
        if count < USUAL_FROM or abs(x - mean) <= DEVIATIONS * spread:
            return []
        usual = f"about {math.exp(mean):.2f} in {count} earlier receipts"
        reason = (
            f"{total} {currency} is far {'above' if x > mean else 'below'} what this merchant usually takes: {usual}"
        )
        return [Anomaly(sequence, "far-from-usual", reason)]

    def _same_day(self, sequence: int, merchant: str, total: Decimal, currency: str, date: dt.date) -> list[Anomaly]:
        key = (merchant, currency, date.isoformat())
        count, amount = self._days.pop(key, (0, Decimal(0)))
        self._days[key] = (count + 1, amount + total)
        if len(self._days) > DAYS_LIMIT:
            self._days.popitem(last=False)
        if count == 0:
            return []
        told = (
            f"receipt {count + 1} of this merchant on {date.isoformat()}: together {amount + total} {currency}".rstrip()
        )
        return [Anomaly(sequence, "same-day", f"{told}; one purchase may have been split")]


def alone(sequence: int, receipt: Mapping[str, Any]) -> tuple[Anomaly, ...]:
    """What is unusual about a receipt without looking at others: a weekend, a round sum."""
    total, currency, date = _facts(receipt)
    found: list[Anomaly] = []
    if date is not None and date.weekday() >= 5:
        found.append(Anomaly(sequence, "weekend", f"{date.isoformat()} is a {_WEEKEND[date.weekday() - 5]}"))
    step = Decimal(50) if minor_units(currency or None) else Decimal(5000)
    if total is not None and total > 0 and total % step == 0:
        found.append(Anomaly(sequence, "round-sum", f"{total} {currency} is a round sum".replace("  ", " ")))
    return tuple(found)


def _facts(receipt: Mapping[str, Any]) -> tuple[Decimal | None, str, dt.date | None]:
    """Total, currency ("" where none was read) and date."""
    total, date = None, None
    with suppress(InvalidOperation):
        text = field_value(receipt, "payable_amount") or field_value(receipt, "tax_inclusive_amount")
        total = Decimal(text) if text else None
    with suppress(ValueError):
        date = dt.date.fromisoformat(field_value(receipt, "issue_date") or "")
    known = total is not None and total.is_finite()
    return total if known else None, field_value(receipt, "currency") or "", date
