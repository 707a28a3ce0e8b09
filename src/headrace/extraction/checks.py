"""Arithmetic checks: what was expected, what was found, how far apart they may be, in plain words."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

from headrace.documents.money import CASH_ROUNDING, minor_units, round_money, tolerance
from headrace.documents.receipt import Check, ReceiptFields, TextField
from headrace.extraction.identifiers import check_digits_fit

ZERO = Decimal(0)


def check(fields: ReceiptFields, *, today: dt.date, service: Decimal = ZERO) -> tuple[Check, ...]:
    """All checks whose amounts are on the receipt; with nothing to compare only the one for required fields.

    Args:
        service: the service charge printed below the items, which has no field of its own.
    """
    currency = fields.currency.value
    payable, gross = fields.payable_amount.value, fields.tax_inclusive_amount.value
    net, tax = fields.tax_exclusive_amount.value, fields.tax_amount.value
    rounding = fields.rounding_amount.value
    unit = Decimal(1).scaleb(-minor_units(currency))
    out: list[Check] = [_required(fields)]

    def compare(
        name: str,
        severity: Literal["error", "warn", "info"],
        expected: Decimal,
        actual: Decimal,
        allowed: Decimal,
        of: Sequence[str],
        words: str,
    ) -> None:
        passed = abs(expected - actual) <= allowed
        verdict = "agree" if passed else f"differ by {abs(expected - actual):f}"
        out.append(
            Check(
                id=name,
                severity=severity,
                passed=passed,
                expected=f"{expected:f}",
                actual=f"{actual:f}",
                tolerance=f"{allowed:f}",
                fields=tuple(of),
                message=f"{words}: {expected:f} and {actual:f} {verdict}",
            )
        )

    if net is not None and tax is not None and gross is not None:
        compare(
            "net-plus-tax",
            "error",
            net + tax,
            gross,
            tolerance(2, currency),
            ("tax_exclusive_amount", "tax_amount", "tax_inclusive_amount"),
            "net plus tax, and the total",
        )
    tip = fields.tip_amount.value
    if payable is not None and gross is not None and tip is not None and payable == gross + tip:
        compare(
            "tip",
            "warn",
            gross + tip,
            payable,
            unit,
            ("tax_inclusive_amount", "tip_amount", "payable_amount"),
            "total plus tip, and what was paid",
        )
    elif payable is not None and gross is not None and rounding is not None:
        compare(
            "rounding",
            "warn",
            gross + rounding,
            payable,
            unit,
            ("tax_inclusive_amount", "rounding_amount", "payable_amount"),
            "total plus rounding, and what is to be paid",
        )
    tendered, change = fields.tendered_amount.value, fields.change_amount.value
    if payable is not None and tendered is not None and change is not None:
        compare(
            "cash",
            "error",
            tendered - change,
            payable,
            CASH_ROUNDING.get(currency or "", ZERO) or unit,
            ("tendered_amount", "change_amount", "payable_amount"),
            "money given less change, and what is to be paid",
        )
    amounts = [i.amount for i in fields.line_items if i.amount is not None]
    base = next((v for v in (gross, payable) if v is not None), None)
    if len(amounts) > 0 and base is not None:
        _items(compare, fields, sum(amounts, ZERO), base, len(amounts), currency, service)
    for n, line in enumerate(fields.tax_breakdown, 1):
        if line.rate is not None and line.taxable_amount is not None and line.tax_amount is not None:
            compare(
                f"tax-line-{n}",
                "warn",
                round_money(line.taxable_amount * line.rate / 100, currency),
                line.tax_amount,
                tolerance(2, currency),
                ("tax_breakdown",),
                f"{line.rate.normalize():f} % of {line.taxable_amount:f}, and the tax printed",
            )
    printed = [line.tax_amount for line in fields.tax_breakdown if line.tax_amount is not None]
    if tax is not None and len(printed) > 1 and fields.tax_amount.source != "derived":
        compare(
            "tax-sum",
            "warn",
            sum(printed, ZERO),
            tax,
            tolerance(len(printed), currency),
            ("tax_breakdown", "tax_amount"),
            "the taxes by rate added up, and the tax",
        )
    out.extend(_date_checks(fields, today))
    out.extend(_tax_id(fields.merchant.tax_id))
    return tuple(out)


def _tax_id(field: TextField) -> list[Check]:
    """A check digit that does not fit says that a digit was misread, or that the number is none: information only."""
    fit = check_digits_fit(field.value, field.label_text) if field.value else None
    if fit is None:
        return []
    message = (
        f"the check digits of the tax number {field.value} {'fit' if fit else 'do not fit: a digit may be misread'}"
    )
    return [
        Check(
            id="tax-id", severity="info", passed=fit, actual=field.value, fields=("merchant.tax_id",), message=message
        )
    ]


def _required(fields: ReceiptFields) -> Check:
    missing = [
        name
        for name, field in (
            ("merchant.name", fields.merchant.name),
            ("issue_date", fields.issue_date),
            ("payable_amount", fields.payable_amount),
        )
        if field.value is None
    ]
    message = "merchant, date and total were read" if not missing else f"not read: {', '.join(missing)}"
    return Check(id="required-fields", severity="error", passed=not missing, fields=tuple(missing), message=message)


def _items(  # type: ignore[no-untyped-def]
    compare, fields, total, base, terms, currency, service
) -> None:
    """The items may add up to the total, to the net, or to the total less what is added below them."""
    tax = fields.tax_amount.value or ZERO
    discount = abs(fields.discount_amount.value or ZERO)
    tip = fields.tip_amount.value or ZERO
    allowed = tolerance(terms, currency)
    added = {a + s - d for a in (ZERO, tax) for s in (ZERO, service, tip) for d in (ZERO, discount)}
    sums = {total + a for a in added}
    best = min(sums, key=lambda s: (abs(s - base), s))
    compare(
        "items",
        "warn",
        best,
        base,
        allowed,
        ("line_items", "tax_inclusive_amount"),
        "the items (with tax, service, discount and tip where they are added), and the total",
    )


def _date_checks(fields: ReceiptFields, today: dt.date) -> list[Check]:
    future = [a for a in fields.issue_date.alternatives if isinstance(a.value, dt.date) and a.value > today]
    if fields.issue_date.value is None and future:
        message = f"the only date on the receipt is after today ({today.isoformat()})"
        return [
            Check(
                id="date-not-future",
                severity="error",
                passed=False,
                actual=future[0].value.isoformat(),
                fields=("issue_date",),
                message=message,
            )
        ]
    if fields.issue_date.value is not None and fields.issue_date.status == "ambiguous":
        message = "day and month can be read in either order, and nothing on the receipt tells which"
        return [
            Check(
                id="date-order",
                severity="warn",
                passed=False,
                actual=fields.issue_date.value.isoformat(),
                fields=("issue_date",),
                message=message,
            )
        ]
    return []
