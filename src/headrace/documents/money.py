"""Money as exact decimals, rounded the way invoices are."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from iso4217 import Currency

_MINOR_UNITS = {c.code: c.exponent for c in Currency if c.exponent is not None}
CODES = frozenset(_MINOR_UNITS)
"""The currencies of ISO 4217 that have minor units: money, not metals, bonds or test codes."""

# Cash totals are rounded to 0.05 where the one and two cent coins are gone; the allowance joins the tolerance of sums.
CASH_ROUNDING = {c: Decimal("0.05") for c in ("MYR", "CHF", "AUD", "NZD", "CAD", "SGD", "ILS", "ZAR")}


def minor_units(currency: str | None) -> int:
    """How many digits follow the decimal mark in this currency (ISO 4217); 2 where the currency is not known."""
    return _MINOR_UNITS.get(currency or "", 2)


def round_money(amount: Decimal, currency: str | None = None) -> Decimal:
    """The amount rounded half up to the currency's minor units (EN 16931; banker's rounding gives false alarms)."""
    return amount.quantize(Decimal(1).scaleb(-minor_units(currency)), rounding=ROUND_HALF_UP)


def tolerance(rounded_terms: int, currency: str | None = None) -> Decimal:
    """How far a sum may be off: one minor unit for each rounded term, and the cash rounding where the country has it.

    The rule of the Factur-X extended profile, BR-FXEXT: 0.01 times the number of rounded terms.
    """
    unit = Decimal(1).scaleb(-minor_units(currency))
    return unit * max(1, rounded_terms) + CASH_ROUNDING.get(currency or "", Decimal(0))
