# ruff: noqa: E501 - the tables read better unbroken
"""What is worth a look: each with its reason, in the order of the book, in bounded memory, and never a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.ledger import anomalies as module
from headrace.ledger.anomalies import Anomaly, Watch, alone


def receipt(
    total: str | None, merchant: str = "Corner Shop", date: str | None = "2026-03-03", currency: str = "EUR"
) -> dict[str, Any]:
    def value(text: str | None) -> dict[str, Any]:
        return {"value": text}

    return {
        "merchant": {"name": value(merchant)},
        "payable_amount": value(total),
        "issue_date": value(date),
        "currency": value(currency),
    }


def days() -> Iterator[str]:
    """Tuesdays, one after another."""
    return (f"{2000 + n // 12}-{n % 12 + 1:02}-03" for n in range(10_000))


def seen(totals: list[str], **more: Any) -> list[Anomaly]:
    watch, dates = Watch(), days()
    return [a for n, total in enumerate(totals, 1) for a in watch.see(n, receipt(total, date=next(dates), **more))]


def of(kind: str, found: list[Anomaly]) -> list[tuple[int, str]]:
    return [(a.sequence, a.reason) for a in found if a.kind == kind]


def test_an_amount_far_from_what_the_merchant_usually_takes_says_how_far_and_from_how_many() -> None:
    found = of("far-from-usual", seen([*["20.11", "22.34", "19.57"] * 4, "260.43"]))
    assert found == [
        (13, "260.43 EUR is far above what this merchant usually takes: about 20.64 in 12 earlier receipts")
    ]
    assert of("far-from-usual", seen([*["20.11", "22.34", "19.57"] * 4, "26.43"])) == []


def test_seven_receipts_make_no_habit_and_another_merchant_or_currency_has_its_own() -> None:
    assert of("far-from-usual", seen([*["20.11"] * 7, "260.43"])) == []
    watch = Watch()
    for n in range(12):
        watch.see(n, receipt("20.11", date=None))
    assert watch.see(13, receipt("2600.43", "Other Shop", None)) == ()
    assert watch.see(14, receipt("2600.43", date=None, currency="SEK")) == ()


@pytest.mark.parametrize(("date", "name"), [("2026-03-07", "Saturday"), ("2026-03-08", "Sunday")])
def test_a_weekend_is_named(date: str, name: str) -> None:
    assert [a.reason for a in alone(1, receipt("12.40", date=date))] == [f"{date} is a {name}"]
    assert alone(1, receipt("12.40", date="2026-03-09")) == ()


@pytest.mark.parametrize(
    ("total", "currency", "is_round"),
    [("100.00", "EUR", True), ("250", "EUR", True), ("120.00", "EUR", False), ("99.99", "EUR", False), ("500", "JPY", False), ("10000", "JPY", True), ("0.00", "EUR", False)],
)  # fmt: skip
def test_a_round_sum_is_one_in_its_currency(total: str, currency: str, is_round: bool) -> None:
    assert bool(of("round-sum", list(alone(1, receipt(total, currency=currency))))) is is_round


def test_receipts_of_one_merchant_on_one_day_are_added_up() -> None:
    watch = Watch()
    found = [
        watch.see(n, receipt(total, merchant))
        for n, (total, merchant) in enumerate(
            [("90.10", "Corner Shop"), ("95.20", "CORNER-SHOP"), ("85.40", "Corner Shop"), ("9.10", "Kiosk")], 1
        )
    ]
    assert [[a.kind for a in row] for row in found] == [[], ["same-day"], ["same-day"], []]
    assert (
        found[2][0].reason
        == "receipt 3 of this merchant on 2026-03-03: together 270.70 EUR; one purchase may have been split"
    )


def test_first_digits_are_judged_on_many_totals_only() -> None:
    law, even = Watch(), Watch()
    for n in range(900):
        law.see(n, receipt(f"{10 ** (1 + n / 900):.2f}", f"m{n}", None))
        even.see(n, receipt(f"{n % 9 + 1}3.17", f"m{n}", None))
    assert law.first_digits().conforms is True
    assert even.first_digits().conforms is False
    assert math.isclose(sum(even.first_digits().shares), 1)
    few = Watch()
    few.see(1, receipt("12.00"))
    assert few.first_digits().conforms is None


def test_what_was_not_read_is_not_unusual() -> None:
    watch = Watch()
    for odd in (
        receipt(None, "", None),
        receipt("twelve"),
        receipt("NaN"),
        receipt("-5.00"),
        {},
        {"payable_amount": 5},
    ):
        assert watch.see(1, odd) == ()
    assert watch.first_digits().count == 0


def test_memory_has_a_bound_and_those_not_seen_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MERCHANTS_LIMIT", 3)
    monkeypatch.setattr(module, "DAYS_LIMIT", 3)
    watch = Watch()
    for n in range(50):
        watch.see(n, receipt("12.40", f"m{n}"))
    assert (len(watch._habits), len(watch._days)) == (3, 3)
    assert watch.see(51, receipt("12.40", "m0")) == ()
    assert [a.kind for a in watch.see(52, receipt("12.40", "m49"))] == ["same-day"]


def test_the_same_book_says_the_same_again() -> None:
    totals = [f"{n * 37 % 100 + 1}.50" for n in range(200)]
    assert seen(totals) == seen(totals)
