"""Money as exact decimals, rounded the way invoices are."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

# ISO 4217 minor units that are not 2. (Source: ISO 4217 list one; only currencies in circulation.)
_NO_MINOR_UNIT = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_THREE_DIGITS = "BHD IQD JOD KWD LYD OMR TND"
_MINOR_UNITS = {**dict.fromkeys(_NO_MINOR_UNIT.split(), 0), **dict.fromkeys(_THREE_DIGITS.split(), 3)}

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
