"""A purchase: what was bought, and the arithmetic of tax, tip and rounding on it. Every sum is true to the cent."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from random import Random

from headrace.documents.money import round_money
from headrace.simulation.countries import Country
from headrace.simulation.words import DISHES, GROCERIES, SMALL_GOODS, WORDS, Goods

_ZERO = Decimal(0)
# A till does not know which of a month's days its receipt will be read on, so the days are the same on every machine.
_FIRST_DAY = dt.date(2026, 1, 12)
_DAYS = 280


@dataclass(frozen=True, slots=True)
class Item:
    """One line: quantity x unit price = amount, rounded to the currency's minor unit; `rate` is its tax in percent."""

    description: str
    quantity: Decimal
    unit_price: Decimal
    amount: Decimal
    rate: Decimal


@dataclass(frozen=True, slots=True)
class TaxRow:
    """The part of the purchase under one rate: net + tax = gross."""

    rate: Decimal
    net: Decimal
    tax: Decimal
    gross: Decimal


@dataclass(frozen=True, slots=True)
class Purchase:
    """One sale, complete.

    Attributes:
        subtotal: the sum of the items.
        tax_rows: the tax by rate, highest first.
        gross: what the goods cost with tax.
        tip: given on top of it. rounding: to the cash step of the country.
        total: gross + tip + rounding: what was paid.
        tendered: cash handed over; None when paid by card.
    """

    country: Country
    merchant: str
    date: dt.date
    time: dt.time
    number: int
    items: tuple[Item, ...]
    tax_rows: tuple[TaxRow, ...]
    tip: Decimal = _ZERO
    rounding: Decimal = _ZERO
    tendered: Decimal | None = None
    words: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def subtotal(self) -> Decimal:
        """The sum of the items."""
        return sum((item.amount for item in self.items), _ZERO)

    @property
    def tax(self) -> Decimal:
        """All tax."""
        return sum((row.tax for row in self.tax_rows), _ZERO)

    @property
    def gross(self) -> Decimal:
        """What the goods cost with tax."""
        return sum((row.gross for row in self.tax_rows), _ZERO)

    @property
    def total(self) -> Decimal:
        """What was paid."""
        return self.gross + self.tip + self.rounding


def buy(layout: str, country: Country, number: int, dice: Random) -> Purchase:
    """One purchase in the house that this country has for this layout."""
    items = _ITEMS[layout](country, dice)
    rows = _tax_rows(country, items)
    gross = sum((row.gross for row in rows), _ZERO)
    tip = _tip(country, gross, dice) if layout == "restaurant" and country.tips else _ZERO
    cash = layout in ("slip", "supermarket") and dice.random() < 0.6
    rounding = _to_step(gross, country.cash_step) - gross if cash and country.cash_step else _ZERO
    return Purchase(
        country=country,
        merchant=country.houses[layout],
        date=_FIRST_DAY + dt.timedelta(days=dice.randrange(_DAYS)),
        time=dt.time(dice.randrange(7, 22), dice.randrange(60)),
        number=number,
        items=items,
        tax_rows=rows,
        tip=tip,
        rounding=rounding,
        tendered=_tender(country, gross + rounding) if cash else None,
        words=WORDS[country.language],
    )


def _price(country: Country, base: Decimal) -> Decimal:
    return round_money(base * country.price_factor, country.currency)


def _item(country: Country, name: str, base: Decimal, quantity: Decimal, rate: Decimal) -> Item:
    price = _price(country, base)
    return Item(name, quantity, price, round_money(price * quantity, country.currency), rate)


def _choose(country: Country, goods: Goods, lines: int, rate: Decimal, dice: Random) -> tuple[Item, ...]:
    chosen = dice.sample(goods, min(lines, len(goods)))
    return tuple(_item(country, name, base, Decimal(dice.choice((1, 1, 1, 2, 3))), rate) for name, base in chosen)


def _slip(country: Country, dice: Random) -> tuple[Item, ...]:
    return _choose(country, SMALL_GOODS[country.language], dice.randint(1, 4), country.standard_rate, dice)


def _restaurant(country: Country, dice: Random) -> tuple[Item, ...]:
    return _choose(country, DISHES[country.language], dice.randint(3, 6), country.standard_rate, dice)


def _supermarket(country: Country, dice: Random) -> tuple[Item, ...]:
    food = _choose(country, GROCERIES[country.language], dice.randint(11, 18), country.reduced_rate, dice)
    other = _choose(country, SMALL_GOODS[country.language], 2, country.standard_rate, dice)
    return food + other


def _hotel(country: Country, dice: Random) -> tuple[Item, ...]:
    words, nights = WORDS[country.language], Decimal(dice.randint(1, 4))
    return (
        _item(country, words["nights"], Decimal(dice.randrange(82, 168)), nights, _service_rate(country)),
        _item(country, words["breakfast"], Decimal("14.50"), nights, country.standard_rate),
        _item(country, words["parking"], Decimal("11.00"), nights, country.standard_rate),
    )


def _service_rate(country: Country) -> Decimal:
    return country.reduced_rate or country.standard_rate  # what is free of tax in the food hall is not on the road


def _taxi(country: Country, dice: Random) -> tuple[Item, ...]:
    words, fare = WORDS[country.language], Decimal(dice.randrange(1400, 5200)) / 100
    return (
        _item(country, words["fare"], fare, Decimal(1), _service_rate(country)),
        _item(country, words["extras"], Decimal("2.00"), Decimal(1), _service_rate(country)),
    )


def _fuel(country: Country, dice: Random) -> tuple[Item, ...]:
    litres = Decimal(dice.randrange(1800, 5900)) / 100
    base = Decimal("2.899") if country.code == "US" else Decimal("1.659")  # a gallon, a litre
    digits = Decimal("0.1") if country.currency == "JPY" else Decimal("0.001")
    price = (base * country.price_factor).quantize(digits, ROUND_HALF_UP)
    amount = round_money(litres * price, country.currency)
    return (Item(WORDS[country.language]["fuel"], litres, price, amount, country.standard_rate),)


_ITEMS = {
    "slip": _slip,
    "restaurant": _restaurant,
    "supermarket": _supermarket,
    "hotel": _hotel,
    "taxi": _taxi,
    "fuel": _fuel,
}
LAYOUTS = tuple(_ITEMS)


def _tax_rows(country: Country, items: Sequence[Item]) -> tuple[TaxRow, ...]:
    rows = []
    for rate in sorted({item.rate for item in items}, reverse=True):
        amount = sum((item.amount for item in items if item.rate == rate), _ZERO)
        if country.tax_included:
            tax = round_money(amount * rate / (100 + rate), country.currency)
            rows.append(TaxRow(rate, amount - tax, tax, amount))
        else:
            tax = round_money(amount * rate / 100, country.currency)
            rows.append(TaxRow(rate, amount, tax, amount + tax))
    return tuple(rows)


def _tip(country: Country, gross: Decimal, dice: Random) -> Decimal:
    tip = gross * Decimal(dice.choice((8, 10, 15, 18))) / 100
    return round_money(tip, country.currency) if country.code == "US" else _to_step(tip, Decimal("0.5"))


def _to_step(amount: Decimal, step: Decimal) -> Decimal:
    return ((amount / step).quantize(Decimal(1), ROUND_HALF_UP) * step).quantize(Decimal("0.01"))


def _tender(country: Country, amount: Decimal) -> Decimal:
    """The next round sum of notes."""
    note = Decimal(1000) if country.currency == "JPY" else Decimal(10)
    return round_money((amount // note + 1) * note, country.currency)
