"""Confidences are shares that were counted."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.documents.receipt import AmountField, Merchant, ReceiptFields, TextField
from headrace.extraction.calibration import FIELDS, HIGHEST, LOWEST, Curve, calibrated, shipped_curves

SEEN = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=300)


@given(SEEN, st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_whatever_was_seen_more_trust_stays_more_trust(seen: list[tuple[float, bool]], raw: list[float]) -> None:
    curve = Curve.fit(seen)
    shares = [curve.at(value) for value in sorted(raw)]
    assert shares == sorted(shares)
    assert all(0 <= share <= HIGHEST for share in shares)


def test_a_fitted_curve_says_how_many_are_right() -> None:
    rng = random.Random(5)
    truth = {0.6: 0.5, 0.8: 0.8, 0.95: 0.97}
    seen = [(raw, rng.random() < share) for raw, share in truth.items() for _ in range(800)]
    curve = Curve.fit(seen)
    for raw, share in truth.items():
        assert curve.at(raw) == pytest.approx(share, abs=0.05)


def test_twenty_out_of_twenty_are_no_certainty() -> None:
    assert Curve.fit([(0.9, True)] * 20).at(0.9) == pytest.approx(20.5 / 21, abs=1e-4)
    assert Curve.fit([(0.9, False)] * 20).at(0.9) >= LOWEST


def test_nothing_seen_is_no_curve() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Curve.fit([])


def test_a_score_below_all_that_was_seen_is_trusted_less_than_it() -> None:
    curve = Curve(((0.7, 0.8), (0.9, 0.96)), 100)
    assert curve.at(0.35) == pytest.approx(0.4)
    assert curve.at(0.8) == pytest.approx(0.88)
    assert curve.at(1.0) == 0.96


def test_a_value_in_doubt_gets_no_more_trust_than_its_rule_gave() -> None:
    curves = {"payable_amount": Curve(((0.4, 0.9),), 50)}
    sure = ReceiptFields(payable_amount=AmountField(value=5, confidence=0.4, status="ok"))  # type: ignore[arg-type]
    doubted = ReceiptFields(payable_amount=AmountField(value=5, confidence=0.4, status="ambiguous"))  # type: ignore[arg-type]
    assert calibrated(sure, curves).payable_amount.confidence == 0.9
    assert calibrated(doubted, curves).payable_amount.confidence == 0.4


def test_only_labelled_fields_change_and_missing_ones_stay_missing() -> None:
    before = ReceiptFields(
        merchant=Merchant(name=TextField(value="A SHOP", confidence=0.8, status="ok")),
        receipt_number=TextField(value="77", confidence=0.75, status="ok"),
    )
    after = calibrated(before, {"merchant.name": Curve(((0.8, 0.7),), 50), "issue_date": Curve(((0.8, 0.9),), 50)})
    assert after.merchant.name.confidence == 0.7
    assert after.receipt_number == before.receipt_number
    assert after.issue_date == before.issue_date
    assert calibrated(before, {}) == before


def test_the_curves_that_come_with_headrace_cover_the_labelled_fields() -> None:
    curves = shipped_curves()
    assert set(curves) == set(FIELDS)
    for curve in curves.values():
        raw, shares = zip(*curve.knots, strict=True)
        assert list(raw) == sorted(set(raw))
        assert list(shares) == sorted(shares)
        assert all(0 < share <= HIGHEST for share in shares)
        assert curve.count > 0
