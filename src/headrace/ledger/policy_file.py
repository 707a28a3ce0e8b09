"""The policy file: TOML to checked values. Nonsense stops the start, with the place and what was probably meant."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, ClassVar, NoReturn

REQUIRABLE = ("total", "date", "merchant", "currency", "tax", "net", "receipt_number", "time")

EXAMPLE = """\
# A headrace policy. Everything here is optional; what is left out keeps its default.
# An action is "review" (a person looks at it), "reject" (refused), or "allow" (never mind).

# What must be read without doubt:
# total, date, merchant, currency, tax, net, receipt_number, time.
required = ["total", "date"]
required_action = "review"

# When the sums on the receipt do not add up, and when pages of it could not be read.
arithmetic = "review"
partial = "review"

# The least trust in each required field, 0 to 1. 0 switches this off.
[confidence]
min = 0.5
action = "review"

# The largest total in each currency; "*" is for all others.
[total]
max = { EUR = 250.00, USD = 300.00, JPY = 40000 }
action = "review"

# Currencies that are taken. A receipt whose currency is not known is not judged by this rule.
[currency]
allow = ["EUR", "USD", "JPY"]
action = "review"

# Ages are counted in days back from the date of the batch.
[date]
max_age_days = 90
age_action = "review"
future = "reject"
weekend = "review"

# Names are compared as whole words, whatever their case: "casino" finds "Grand Casino Ltd", not "Casinova".
# With an allow list, a merchant that is not on it gets allow_action; deny always wins.
[merchant]
allow = []
allow_action = "review"
deny = ["casino", "night club"]
deny_action = "reject"
"""


class PolicyError(ValueError):
    """The policy file makes no sense; the message names the place. Nothing was started."""

    exit_code: ClassVar[int] = 2


class Action(StrEnum):
    """What happens to a receipt that breaks a rule."""

    ALLOW = "allow"
    REVIEW = "review"
    REJECT = "reject"


@dataclass(slots=True)
class PolicyFile:
    """The values of a policy file, each checked, defaults filled in."""

    required: tuple[str, ...] = ("total", "date")
    required_action: Action = Action.REVIEW
    arithmetic: Action = Action.REVIEW
    partial: Action = Action.REVIEW
    min_confidence: float = 0.0
    confidence_action: Action = Action.REVIEW
    max_total: dict[str, Decimal] = field(default_factory=dict)
    total_action: Action = Action.REVIEW
    currencies: frozenset[str] = frozenset()
    currency_action: Action = Action.REVIEW
    max_age_days: int | None = None
    age_action: Action = Action.REVIEW
    future: Action = Action.ALLOW
    weekend: Action = Action.ALLOW
    merchants_allow: tuple[str, ...] = ()
    allow_action: Action = Action.REVIEW
    merchants_deny: tuple[str, ...] = ()
    deny_action: Action = Action.REJECT

    @property
    def has_date_rules(self) -> bool:
        """Whether any rule looks at the date itself."""
        return self.max_age_days is not None or {self.future, self.weekend} != {Action.ALLOW}


def parse(text: str) -> PolicyFile:
    """The checked values of this TOML text.

    Raises:
        PolicyError: with the name of the setting and what to write instead.
    """
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"not valid TOML: {error}") from error
    told = PolicyFile()
    _only_known(document, (*_TOP, *_TABLES), "")
    for name, read in _TOP.items():
        if name in document:
            setattr(told, *read(name, document[name]))
    for table, settings in _TABLES.items():
        values = document.get(table, {})
        if not isinstance(values, dict):
            raise PolicyError(f"{table} must be a table: [{table}]")
        _only_known(values, settings, f"{table}.")
        for name, (attribute, check) in settings.items():
            if name in values:
                setattr(told, attribute, check(f"{table}.{name}", values[name]))
    return told


def _only_known(given: Mapping[str, Any], known: Any, prefix: str) -> None:
    for name in given:
        if name not in known:
            _unknown(f"unknown setting {prefix}{name}", name, list(known))


def _unknown(what: str, name: str, known: list[str]) -> NoReturn:
    near = difflib.get_close_matches(name.lower(), [k.lower() for k in known], n=1, cutoff=0.5)
    spelt = next((k for k in known if near and k.lower() == near[0]), None)
    hint = f'did you mean "{spelt}"?' if spelt else f"known: {', '.join(known)}"
    raise PolicyError(f"{what}; {hint}")


def _action(name: str, value: Any) -> Action:
    if not isinstance(value, str) or value not in set(Action):
        _unknown(f'{name} must be "allow", "review" or "reject", not {value!r}', str(value), list(Action))
    return Action(value)


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() for v in value):
        raise PolicyError(f'{name} must be a list of names, like ["one", "two"], not {value!r}')
    return tuple(" ".join(v.split()) for v in value)


def _required(name: str, value: Any) -> tuple[str, ...]:
    fields = _texts(name, value)
    for text in fields:
        if text not in REQUIRABLE:
            _unknown(f"{name}: unknown field {text!r}", text, list(REQUIRABLE))
    return fields


def _currency(name: str, text: str) -> str:
    if not (len(text) == 3 and text.isascii() and text.isupper() and text.isalpha()):
        raise PolicyError(f"{name}: {text!r} is no ISO 4217 code like EUR")
    return text


def _currencies(name: str, value: Any) -> frozenset[str]:
    return frozenset(_currency(name, text) for text in _texts(name, value))


def _amounts(name: str, value: Any) -> dict[str, Decimal]:
    if not isinstance(value, dict):
        raise PolicyError(f"{name} must name a currency for each amount, like {{ EUR = 250 }}, not {value!r}")
    return {c if c == "*" else _currency(name, c): _amount(f"{name}.{c}", v) for c, v in value.items()}


def _amount(name: str, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not Decimal(value).is_finite() or value <= 0:
        raise PolicyError(f"{name} must be an amount above 0, not {value!r}")
    return Decimal(value)


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not Decimal(value).is_finite():
        raise PolicyError(f"{name} must be a number from 0 to 1, not {value!r}")
    if not 0 <= value <= 1:
        hint = f"; did you mean {Decimal(value) / 100}?" if 1 < value <= 100 else ""
        raise PolicyError(f"{name} must be from 0 to 1, not {value}{hint}")
    return float(value)


def _days(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 36_500:
        raise PolicyError(f"{name} must be a whole number of days from 0 to 36500, not {value!r}")
    return value


_TOP: dict[str, Any] = {
    "required": lambda n, v: ("required", _required(n, v)),
    "required_action": lambda n, v: ("required_action", _action(n, v)),
    "arithmetic": lambda n, v: ("arithmetic", _action(n, v)),
    "partial": lambda n, v: ("partial", _action(n, v)),
}
_TABLES: dict[str, dict[str, tuple[str, Any]]] = {
    "confidence": {"min": ("min_confidence", _share), "action": ("confidence_action", _action)},
    "total": {"max": ("max_total", _amounts), "action": ("total_action", _action)},
    "currency": {"allow": ("currencies", _currencies), "action": ("currency_action", _action)},
    "date": {
        "max_age_days": ("max_age_days", _days),
        "age_action": ("age_action", _action),
        "future": ("future", _action),
        "weekend": ("weekend", _action),
    },
    "merchant": {
        "allow": ("merchants_allow", _texts),
        "allow_action": ("allow_action", _action),
        "deny": ("merchants_deny", _texts),
        "deny_action": ("deny_action", _action),
    },
}
