"""The policy: a small TOML file that says which receipts a person should look at and which are refused.

rules of the file  ->  Policy (checked when it is loaded)  ->  judge(receipt)  ->  verdict, failed checks
"""

from __future__ import annotations

import datetime as dt
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.documents.status import Verdict
from headrace.ledger import policy_file
from headrace.ledger.policy_file import Action, PolicyError
from headrace.ledger.policy_rules import (
    Finding,
    Receipt,
    Rule,
    allowed_currencies,
    arithmetic,
    confidence,
    date_limits,
    largest_total,
    merchants,
    partial_reading,
    required,
)

__all__ = ["Action", "Policy", "PolicyError"]


FILE_BYTES = 1 << 20
"""The largest policy file that is read."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules for receipts, ready to judge; immutable and without memory: the same receipt, the same verdict.

    `Policy()` is the default: a person looks when the total or the date is missing or in doubt, when an arithmetic
    check failed, and when pages could not be read.
    """

    rules: tuple[Rule, ...] = (required(("total", "date"), Action.REVIEW), arithmetic(Action.REVIEW))
    partial: Action = Action.REVIEW

    @classmethod
    def from_toml(cls, text: str) -> Policy:
        """The policy in this text; what it does not mention stays as in `Policy()`.

        Raises:
            PolicyError: no TOML, an unknown name (with "did you mean"), or a value that makes no sense.
        """
        told = policy_file.parse(text)
        rules = [required(told.required, told.required_action)]
        if told.arithmetic is not Action.ALLOW:
            rules.append(arithmetic(told.arithmetic))
        if told.min_confidence > 0:
            rules.append(confidence(told.required, told.min_confidence, told.confidence_action))
        if told.max_total:
            rules.append(largest_total(told.max_total, told.total_action))
        if told.currencies:
            rules.append(allowed_currencies(told.currencies, told.currency_action))
        if told.has_date_rules:
            rules.append(date_limits(told.max_age_days, told.age_action, told.future, told.weekend))
        if told.merchants_allow or told.merchants_deny:
            rules.append(merchants(told.merchants_allow, told.allow_action, told.merchants_deny, told.deny_action))
        return cls(tuple(rules), told.partial)

    @classmethod
    def load(cls, path: Path) -> Policy:
        """The policy in this file, of `FILE_BYTES` at most. Raises `PolicyError`, also when it cannot be read."""
        try:
            text = _read(path)
        except (OSError, UnicodeDecodeError) as error:
            why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is no UTF-8 text"
            raise PolicyError(f"cannot read the policy {path}: {why}") from error
        try:
            return cls.from_toml(text)
        except PolicyError as error:
            raise PolicyError(f"{path}: {error}") from error

    @staticmethod
    def example_toml() -> str:
        """A policy file with every rule, explained; it loads as it is."""
        return policy_file.EXAMPLE

    def judge(
        self, receipt: Mapping[str, Any], today: dt.date, *, partial: bool = False
    ) -> tuple[Verdict, list[dict[str, Any]]]:
        """The verdict on a receipt (as JSON types), and the policy checks that did not pass.

        Args:
            receipt: `Receipt.model_dump(mode="json")`.
            today: the batch's date; ages are counted from it.
            partial: pages of it could not be read.
        """
        reading = Receipt(receipt, today)
        findings: list[Finding] = []
        if partial and self.partial is not Action.ALLOW:
            findings.append(partial_reading(self.partial))
        for rule in self.rules:
            findings += rule(reading)
        if not findings:
            return Verdict.ACCEPTED, []
        rejected = any(action is Action.REJECT for action, _ in findings)
        return Verdict.REJECTED if rejected else Verdict.NEEDS_REVIEW, [check for _, check in findings]


def _read(path: Path) -> str:
    """The text of a regular file; a device or a pipe might never end, or never begin."""
    # Not to wait for the other end of a named pipe, which is refused anyway.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise PolicyError(f"cannot read the policy {path}: it is no regular file")
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise PolicyError(f"cannot read the policy {path}: it is larger than {FILE_BYTES >> 20} MiB")
    return data.decode("utf-8")
