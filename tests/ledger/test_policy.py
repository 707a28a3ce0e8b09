"""What the policy says of receipts, and what it says of nonsense in its own file."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.documents.receipt import Check
from headrace.documents.status import Verdict
from headrace.ledger import Policy, PolicyError
from headrace.ledger.policy import FILE_BYTES

TODAY = dt.date(2026, 3, 4)  # a Wednesday
Make = Callable[..., dict[str, Any]]


def _judge(policy: Policy | str, receipt: dict[str, Any], **more: Any) -> tuple[Verdict, list[str]]:
    policy = Policy.from_toml(policy) if isinstance(policy, str) else policy
    verdict, checks = policy.judge(receipt, TODAY, **more)
    for check in checks:
        assert not Check.model_validate(check).passed
        assert len(check["message"]) > 10
    return verdict, [check["id"].removeprefix("policy.") for check in checks]


def test_a_plain_receipt_is_accepted_by_default(receipt: Make) -> None:
    assert _judge(Policy(), receipt()) == (Verdict.ACCEPTED, [])


@pytest.mark.parametrize("status", ["ambiguous", "conflict"])
def test_a_total_or_date_in_doubt_is_reviewed(receipt: Make, status: str) -> None:
    assert _judge(Policy(), receipt(total_more={"status": status})) == (Verdict.NEEDS_REVIEW, ["required"])
    assert _judge(Policy(), receipt(date_more={"status": status})) == (Verdict.NEEDS_REVIEW, ["required"])


def test_a_missing_total_and_date_are_two_findings(receipt: Make) -> None:
    assert _judge(Policy(), receipt(total=None, date=None)) == (Verdict.NEEDS_REVIEW, ["required", "required"])


def test_a_total_that_was_worked_out_is_never_sure(receipt: Make) -> None:
    assert _judge(Policy(), receipt(total_more={"source": "derived"}))[0] is Verdict.NEEDS_REVIEW


def test_what_is_payable_stands_in_for_a_total_that_is_not_printed(receipt: Make) -> None:
    payable = {"value": "9.00", "status": "ok", "confidence": 0.9}
    assert _judge(Policy(), receipt(total=None, payable_amount=payable))[0] is Verdict.ACCEPTED


def test_sums_that_do_not_add_up_are_reviewed(receipt: Make) -> None:
    def check(severity: str, passed: bool) -> Check:
        return Check(id="net_plus_tax", severity=severity, passed=passed, message="net + tax = total")

    assert _judge(Policy(), receipt(checks=(check("error", False),))) == (Verdict.NEEDS_REVIEW, ["arithmetic"])
    assert _judge(Policy(), receipt(checks=(check("warn", False), check("error", True))))[0] is Verdict.ACCEPTED


def test_fields_that_no_policy_asks_for_are_no_matter_of_arithmetic(receipt: Make) -> None:
    check = Check(id="required-fields", severity="error", passed=False, message="missing: merchant")
    assert _judge(Policy(), receipt(checks=(check,), merchant=None)) == (Verdict.ACCEPTED, [])
    asked = 'required = ["merchant"]'
    assert _judge(asked, receipt(checks=(check,), merchant=None)) == (Verdict.NEEDS_REVIEW, ["required"])


def test_a_policy_file_that_is_not_there_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"none\.toml: No such file or directory$"):
        Policy.load(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match="it is no UTF-8 text"):
        Policy.load(tmp_path / "binary.toml")


@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_what_is_no_regular_file_is_no_policy_and_is_never_waited_for(tmp_path: Path, kind: str) -> None:
    path = Path("/dev/urandom") if kind == "device" else tmp_path / "policy.toml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(PolicyError, match=r"cannot read the policy .*(regular file|directory)"):
        Policy.load(path)


def test_a_policy_file_has_a_mebibyte_at_most(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_bytes(b"#" * FILE_BYTES)
    assert Policy.load(path).rules
    path.write_bytes(b"#" * (FILE_BYTES + 1))
    with pytest.raises(PolicyError, match="larger than 1 MiB"):
        Policy.load(path)


def test_a_document_with_unreadable_pages_is_reviewed(receipt: Make) -> None:
    assert _judge(Policy(), receipt(), partial=True) == (Verdict.NEEDS_REVIEW, ["partial"])
    assert _judge('partial = "allow"', receipt(), partial=True) == (Verdict.ACCEPTED, [])


def test_limits_are_per_currency_and_exact(receipt: Make) -> None:
    policy = "[total]\nmax = { EUR = 12.50, JPY = 100 }"
    assert _judge(policy, receipt(total="12.50"))[0] is Verdict.ACCEPTED
    assert _judge(policy, receipt(total="12.51")) == (Verdict.NEEDS_REVIEW, ["max_total"])
    assert _judge(policy, receipt(total="5000", currency="USD"))[0] is Verdict.ACCEPTED
    assert _judge('[total]\nmax = { "*" = 10 }\naction = "reject"', receipt(currency=None))[0] is Verdict.REJECTED


@pytest.mark.parametrize(
    ("date", "found"),
    [
        ("2026-03-04", []),
        ("2025-12-04", []),
        ("2025-12-03", ["age"]),
        ("2026-03-05", ["future"]),
        ("2026-02-28", ["weekend"]),
        ("2026-03-01", ["weekend"]),
        ("2026-03-07", ["future", "weekend"]),
    ],
)
def test_dates(receipt: Make, date: str, found: list[str]) -> None:
    policy = '[date]\nmax_age_days = 90\nfuture = "reject"\nweekend = "review"'
    verdict, findings = _judge(policy, receipt(date=date))
    assert findings == found
    assert verdict is (Verdict.REJECTED if "future" in found else Verdict.NEEDS_REVIEW if found else Verdict.ACCEPTED)


def test_ages_are_counted_from_the_batch_and_not_from_the_clock(receipt: Make) -> None:
    policy = Policy.from_toml("[date]\nmax_age_days = 1")
    assert policy.judge(receipt(date="1999-01-01"), dt.date(1999, 1, 2))[0] is Verdict.ACCEPTED


def test_merchants_are_whole_words_whatever_the_case(receipt: Make) -> None:
    deny = '[merchant]\ndeny = ["Casino", "C&A"]'
    assert _judge(deny, receipt(merchant="GRAND  casino Ltd")) == (Verdict.REJECTED, ["merchant_denied"])
    assert _judge(deny, receipt(merchant="c&a Berlin"))[0] is Verdict.REJECTED
    assert _judge(deny, receipt(merchant="Casinova"))[0] is Verdict.ACCEPTED
    allow = '[merchant]\nallow = ["uber"]\ndeny = ["uber eats"]'
    assert _judge(allow, receipt(merchant="UBER B.V."))[0] is Verdict.ACCEPTED
    assert _judge(allow, receipt(merchant="Bolt")) == (Verdict.NEEDS_REVIEW, ["merchant_not_allowed"])
    assert _judge(allow, receipt(merchant="Uber Eats"))[0] is Verdict.REJECTED


def test_currencies_that_are_not_taken(receipt: Make) -> None:
    policy = '[currency]\nallow = ["EUR"]'
    assert _judge(policy, receipt(currency="USD")) == (Verdict.NEEDS_REVIEW, ["currency"])
    assert _judge(policy, receipt(currency=None))[0] is Verdict.ACCEPTED


def test_confidence_below_the_least(receipt: Make) -> None:
    policy = "[confidence]\nmin = 0.8"
    assert _judge(policy, receipt(total_more={"confidence": 0.79})) == (Verdict.NEEDS_REVIEW, ["confidence"])
    assert _judge(policy, receipt())[0] is Verdict.ACCEPTED


def test_required_fields_can_be_chosen(receipt: Make) -> None:
    assert _judge('required = ["merchant"]', receipt(total=None, date=None))[0] is Verdict.ACCEPTED
    policy = 'required = ["merchant"]\nrequired_action = "reject"'
    assert _judge(policy, receipt(merchant=None)) == (Verdict.REJECTED, ["required"])


def test_the_example_loads_as_it_is(receipt: Make, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(Policy.example_toml())
    assert _judge(Policy.load(path), receipt()) == (Verdict.ACCEPTED, [])
    assert _judge(Policy.load(path), receipt(total="250.01"))[0] is Verdict.NEEDS_REVIEW


def test_an_empty_file_is_the_default(receipt: Make) -> None:
    for made in (receipt(), receipt(total=None), receipt(date_more={"status": "ambiguous"})):
        assert _judge("", made) == _judge(Policy(), made)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("requird = []", 'did you mean "required"'),
        ("[totl]\nmax = 5", 'did you mean "total"'),
        ("[date]\nmax_age = 5", 'did you mean "max_age_days"'),
        ('required = ["totals"]', 'did you mean "total"'),
        ('[date]\nfuture = "rejct"', 'did you mean "reject"'),
        ("[date]\nfuture = true", "must be"),
        ("total = 5", "must be a table"),
        ("[total]\nmax = 250", "must name a currency"),
        ("[total]\nmax = { EUR = true }", "above 0"),
        ("[total]\nmax = { EUR = nan }", "above 0"),
        ("[total]\nmax = { EUR = inf }", "above 0"),
        ("[total]\nmax = { EUR = -1 }", "above 0"),
        ("[total]\nmax = { Euro = 5 }", "ISO 4217"),
        ("[confidence]\nmin = 80", "did you mean 0.8"),
        ("[confidence]\nmin = nan", "from 0 to 1"),
        ("[confidence]\nmin = true", "from 0 to 1"),
        ("[date]\nmax_age_days = -1", "whole number of days"),
        ("[date]\nmax_age_days = 1.5", "whole number of days"),
        ("[merchant]\ndeny = 'casino'", "must be a list"),
        ("[merchant]\ndeny = ['']", "must be a list"),
        ("required = [", "not valid TOML"),
    ],
)
def test_nonsense_stops_the_start_and_says_what_was_meant(text: str, told: str) -> None:
    with pytest.raises(PolicyError) as error:
        Policy.from_toml(text)
    assert told in str(error.value)


def test_a_policy_that_cannot_be_read_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"gone\.toml"):
        Policy.load(tmp_path / "gone.toml")
    (tmp_path / "bad.toml").write_text("requird = []")
    with pytest.raises(PolicyError, match=r"bad\.toml"):
        Policy.load(tmp_path / "bad.toml")
