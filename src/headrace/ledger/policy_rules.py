"""The rules of a policy: each looks at one receipt and says what is wrong with it in plain words."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cached_property, lru_cache
from typing import Any

from headrace.documents.receipt import Check
from headrace.ledger.policy_file import Action

Finding = tuple[Action, dict[str, Any]]
"""What to do, and the failed check as JSON types."""
Rule = Callable[["Receipt"], Iterable[Finding]]

# The names people use in a policy, and where the receipt has them.
_PLACES = {
    "total": ("tax_inclusive_amount", "payable_amount"),
    "date": ("issue_date",),
    "merchant": ("merchant.name",),
    "currency": ("currency",),
    "tax": ("tax_amount",),
    "net": ("tax_exclusive_amount",),
    "receipt_number": ("receipt_number",),
    "time": ("issue_time",),
}
_REQUIRED_FIELDS = "required-fields"  # the extraction's own check, of fields that no policy named
_READINGS_TOLD = 3
_SURE = frozenset({"ok", "corrected"})
_DOUBT = {
    "ambiguous": "can be read in more than one way",
    "conflict": "disagrees with other figures on the receipt",
    "derived": "was worked out, not read",
}


class Receipt:
    """A receipt in JSON types, seen by the rules: fields by the names of the policy."""

    def __init__(self, receipt: Mapping[str, Any], today: dt.date) -> None:
        self.receipt = receipt
        self.today = today

    def field(self, name: str) -> Mapping[str, Any]:
        """The field object; for `total`, what is payable when no total is printed."""
        nodes: list[Mapping[str, Any]] = []
        for place in _PLACES[name]:
            node: Any = self.receipt
            for key in place.split("."):
                node = node.get(key) or {}
            if node.get("value") is not None:
                return node  # type: ignore[no-any-return]
            nodes.append(node)
        return nodes[0]

    @cached_property
    def total(self) -> Decimal | None:
        """The gross total; None when there is none."""
        try:
            value = Decimal(self.field("total")["value"])
        except (KeyError, InvalidOperation, TypeError):
            return None
        return value if value.is_finite() else None

    @cached_property
    def date(self) -> dt.date | None:
        """The date of issue; None when there is none."""
        try:
            return dt.date.fromisoformat(self.field("date")["value"])
        except (KeyError, ValueError, TypeError):
            return None

    @property
    def currency(self) -> str | None:
        """ISO 4217; None when it is not known."""
        return self.field("currency").get("value")

    @property
    def merchant(self) -> str | None:
        """The merchant's name; None when it is not known."""
        return self.field("merchant").get("value")


def _failed(
    rule: str,
    action: Action,
    message: str,
    fields: Sequence[str],
    *,
    expected: str | None = None,
    actual: str | None = None,
) -> Finding:
    check = Check(
        id=f"policy.{rule}",
        severity="error" if action is Action.REJECT else "warn",
        passed=False,
        expected=expected,
        actual=actual,
        fields=tuple(place for name in fields for place in _PLACES[name][:1]),
        message=message,
    )
    return action, check.model_dump(mode="json")


@lru_cache(maxsize=256)
def _not_found(name: str, action: Action) -> Finding:
    # A million receipts that nobody could read break the same few rules: the check is built once.
    return _failed("required", action, f"the {name.replace('_', ' ')} was not found", (name,))


def _in_doubt(name: str, status: str, found: Mapping[str, Any], action: Action) -> Finding:
    if found.get("value") is None:
        return _not_found(name, action)
    readings = [found["value"], *(other.get("value") for other in found.get("alternatives") or ())]
    told = " or ".join(list(dict.fromkeys(str(value) for value in readings if value is not None))[:_READINGS_TOLD])
    message = f"the {name.replace('_', ' ')} {_DOUBT.get(status, 'is in doubt')}: {told}"
    return _failed("required", action, message, (name,))


def required(names: Sequence[str], action: Action) -> Rule:
    """Each of these fields is there and its reading is not in doubt; a derived value is never sure on its own."""

    def rule(reading: Receipt) -> Iterable[Finding]:
        if action is Action.ALLOW:
            return
        for name in names:
            found = reading.field(name)
            status = "derived" if found.get("source") == "derived" else found.get("status", "missing")
            if status not in _SURE:
                yield _in_doubt(name, status, found, action)

    return rule


def arithmetic(action: Action) -> Rule:
    """No check of the figures with severity `error` failed. Which fields must be there is for `required` to say."""

    def rule(reading: Receipt) -> Iterable[Finding]:
        checks = reading.receipt.get("checks") or ()
        bad = [c for c in checks if not c["passed"] and c["severity"] == "error" and c["id"] != _REQUIRED_FIELDS]
        if bad:
            told = "; ".join(f"{c['id']} ({c['message']})" for c in bad[:5])
            yield _failed("arithmetic", action, f"the figures do not agree: {told}", ())

    return rule


@lru_cache(maxsize=4)
def partial_reading(action: Action) -> Finding:
    """The finding for a document of which pages could not be read."""
    return _failed("partial", action, "pages of this document could not be read", ())


def confidence(names: Sequence[str], least: float, action: Action) -> Rule:
    """Each of these fields that is there is trusted at least so much."""

    def rule(reading: Receipt) -> Iterable[Finding]:
        for name in names:
            found = reading.field(name)
            trust = found.get("confidence", 0.0)
            if found.get("value") is not None and trust < least:
                message = f"the {name.replace('_', ' ')} was read with confidence {trust:.2f}, below {least:g}"
                yield _failed("confidence", action, message, (name,), expected=f">= {least:g}", actual=f"{trust:.2f}")

    return rule


def largest_total(limits: Mapping[str, Decimal], action: Action) -> Rule:
    """The total, in its own currency, is not above the limit; `*` is for currencies that have none, or no name."""

    def rule(reading: Receipt) -> Iterable[Finding]:
        total, currency = reading.total, reading.currency
        limit = limits.get(currency or "*", limits.get("*"))
        if total is not None and limit is not None and total > limit:
            unit = f" {currency}" if currency else ""
            message = f"the total {total:f}{unit} is above the limit of {limit:f}{unit}"
            yield _failed("max_total", action, message, ("total",), expected=f"<= {limit:f}", actual=f"{total:f}")

    return rule


def allowed_currencies(allowed: frozenset[str], action: Action) -> Rule:
    """The currency, where it is known, is one of these."""
    names = ", ".join(sorted(allowed))

    def rule(reading: Receipt) -> Iterable[Finding]:
        currency = reading.currency
        if currency is not None and currency not in allowed:
            message = f"the currency {currency} is not one of {names}"
            yield _failed("currency", action, message, ("currency",), expected=names, actual=currency)

    return rule


def date_limits(max_age_days: int | None, old: Action, future: Action, weekend: Action) -> Rule:
    """The date is not too old, not in the future, and on a working day, as far as each is asked for."""

    def rule(reading: Receipt) -> Iterable[Finding]:
        date = reading.date
        if date is None:
            return
        age_days = (reading.today - date).days
        if max_age_days is not None and age_days > max_age_days and old is not Action.ALLOW:
            message = f"the receipt is {age_days} days old, more than {max_age_days}"
            yield _failed("age", old, message, ("date",), expected=f"<= {max_age_days} days", actual=f"{age_days} days")
        if age_days < 0 and future is not Action.ALLOW:
            message = f"the date {date} is after {reading.today}"
            yield _failed("future", future, message, ("date",), expected=f"<= {reading.today}", actual=str(date))
        if date.weekday() >= 5 and weekend is not Action.ALLOW:
            day = ("Saturday", "Sunday")[date.weekday() - 5]
            message = f"the date {date} is a {day}"
            yield _failed("weekend", weekend, message, ("date",), expected="a working day", actual=day)

    return rule


def merchants(allow: Sequence[str], not_allowed: Action, deny: Sequence[str], denied: Action) -> Rule:
    """The merchant is none of the denied and, where there is an allow list, on it."""
    good, bad = _names(allow), _names(deny)

    def rule(reading: Receipt) -> Iterable[Finding]:
        merchant = reading.merchant
        if merchant is None:
            return
        name = " ".join(merchant.casefold().split())
        if bad and denied is not Action.ALLOW and (found := bad.search(name)):
            message = f'the merchant "{merchant}" is on the deny list ("{found.group()}")'
            yield _failed("merchant_denied", denied, message, ("merchant",), actual=merchant)
        elif good and not_allowed is not Action.ALLOW and not good.search(name):
            message = f'the merchant "{merchant}" is not on the allow list'
            yield _failed("merchant_not_allowed", not_allowed, message, ("merchant",), actual=merchant)

    return rule


def _names(names: Sequence[str]) -> re.Pattern[str] | None:
    """Finds any of these names as whole words."""
    if not names:
        return None
    return re.compile(r"(?<!\w)(?:" + "|".join(re.escape(n.casefold()) for n in names) + r")(?!\w)")
