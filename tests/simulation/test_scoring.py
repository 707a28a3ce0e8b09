"""The score says what differs from the truth, and nothing else."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from headrace.documents.status import EntryKind
from headrace.simulation.scoring import FIELDS, score
from headrace.simulation.truth import Truth

GOOD = Truth(
    "receipt-1.jpg",
    merchant="Bäckerei Łąka",
    issue_date=dt.date(2026, 3, 1),
    total=Decimal("12.50"),
    tax=Decimal("2.00"),
    currency="EUR",
    items=2,
    layout="slip",
)
BROKEN = Truth("receipt-2.jpg", EntryKind.FAILURE, ("empty-file",))
COPY = Truth("receipt-3.jpg", EntryKind.DUPLICATE, duplicate_of="receipt-1.jpg")
TRUTHS = [GOOD, BROKEN, COPY]


def receipt(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "receipt",
        "source": {"uri": "demo/receipts/receipt-1.jpg"},
        "merchant": {"name": {"value": "BACKEREI LAKA."}},
        "issue_date": {"value": "2026-03-01"},
        "payable_amount": {"value": "12.5"},
        "tax_amount": {"value": "2.00"},
        "currency": {"value": "EUR"},
        "line_items": [{}, {}],
        **changes,
    }


FAILED: dict[str, Any] = {
    "kind": "failure",
    "source": {"uri": "demo/receipts/receipt-2.jpg"},
    "failure": {"code": "empty-file"},
}
DUPLICATE: dict[str, Any] = {
    "kind": "duplicate",
    "source": {"uri": "demo/receipts/receipt-3.jpg"},
    "duplicate_of": {"uri": "demo/receipts/receipt-1.jpg"},
}


def test_a_run_that_ended_as_drawn_has_no_difference() -> None:
    found = score([receipt(), FAILED, DUPLICATE], TRUTHS)
    assert found.differences == []
    assert found.ended_as_drawn
    assert found.below_floor == ()
    assert all(found.fields[name].total == 1 for name in FIELDS)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"merchant": {"name": {"value": "Other"}}}, "merchant"),
        ({"issue_date": {"value": "2026-01-03"}}, "date"),
        ({"payable_amount": {"value": "12.51"}}, "total"),
        ({"payable_amount": {"value": None, "status": "missing"}}, "total"),
        ({"payable_amount": {"value": "12,50"}}, "total"),
        ({"tax_amount": {"value": "2.01"}}, "tax"),
        ({"currency": {"value": "USD"}}, "currency"),
        ({"line_items": [{}]}, "items"),
    ],
)
def test_a_field_that_was_misread_is_named_and_counted(change: Mapping[str, Any], field: str) -> None:
    found = score([receipt(**change), FAILED, DUPLICATE], TRUTHS)
    assert [(d.file, d.field) for d in found.differences] == [("receipt-1.jpg", field)]
    assert found.ended_as_drawn


def test_what_is_not_printed_is_not_scored() -> None:
    found = score([receipt(tax_amount={"value": "9.99"})], [Truth("receipt-1.jpg", total=Decimal("12.50"))])
    assert found.differences == []
    assert found.fields["tax"].total == 0


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([receipt(), FAILED], "receipt-3.jpg: outcome should be duplicate, is no line at all"),
        ([receipt(), FAILED | {"failure": {"code": "worker-lost"}}, DUPLICATE], "is failure worker-lost"),
        ([receipt(), receipt(), FAILED, DUPLICATE], "is a second line"),
        (
            [receipt(), FAILED, DUPLICATE, FAILED | {"source": {"uri": "stranger.jpg"}}],
            "stranger.jpg: outcome should be one line, is a line for a file that was not drawn",
        ),
        (
            [receipt(), FAILED, DUPLICATE | {"duplicate_of": {"uri": "x/receipt-2.jpg"}}],
            "should be duplicate of receipt-1.jpg, is duplicate of receipt-2.jpg",
        ),
        (
            [FAILED | {"source": {"uri": "receipt-1.jpg"}}, FAILED, DUPLICATE],
            "receipt-1.jpg: outcome should be receipt, is failure empty-file",
        ),
    ],
)
def test_an_outcome_that_is_not_as_drawn_is_a_difference(lines: list[dict[str, Any]], words: str) -> None:
    found = score(lines, TRUTHS)
    assert not found.ended_as_drawn
    assert any(words in str(difference) for difference in found.differences)


def test_lines_out_of_order_are_a_difference() -> None:
    found = score([FAILED, receipt(), DUPLICATE], TRUTHS)
    assert not found.in_order
    assert not found.ended_as_drawn
    assert [d.field for d in found.differences] == ["order"]


@pytest.mark.parametrize(("wrong", "below"), [(0, ()), (1, ()), (2, ()), (3, ("total",))])
def test_a_field_is_below_its_floor_when_more_are_wrong_than_it_allows(wrong: int, below: tuple[str, ...]) -> None:
    truths = [Truth(f"receipt-{n}.jpg", total=Decimal(n)) for n in range(1, 21)]  # a floor of 0.9 allows two
    lines = [
        receipt(source={"uri": truth.file}, payable_amount={"value": "0" if at < wrong else str(truth.total)})
        for at, truth in enumerate(truths)
    ]
    assert score(lines, truths).below_floor == below


@pytest.mark.parametrize(("total", "wrong"), [(52, 5), (52, 6), (3, 1), (3, 2), (1, 1)])
def test_a_share_below_the_floor_that_is_shown_is_below_the_floor(total: int, wrong: int) -> None:
    truths = [Truth(f"receipt-{n}.jpg", total=Decimal(n)) for n in range(1, total + 1)]
    lines = [
        receipt(source={"uri": truth.file}, payable_amount={"value": "0" if at < wrong else str(truth.total)})
        for at, truth in enumerate(truths)
    ]
    found = score(lines, truths)
    share, floor = next(row[3:] for row in found.rows() if row[0] == "total")
    assert (float(share[:-1]) < float(floor[:-1]) - 0.5) is bool(found.below_floor), "half a point is rounding"


def test_one_may_be_wrong_however_few_there_are() -> None:
    truths = [Truth("receipt-1.jpg", total=Decimal(1))]
    assert score([receipt()], truths).below_floor == ()


def test_the_table_has_a_row_for_every_field_and_the_floor_beside_it() -> None:
    table = score([receipt(), FAILED, DUPLICATE], TRUTHS).table()
    rows = table.splitlines()
    assert [row.split()[0] for row in rows[1:]] == ["outcome", *FIELDS, "order"]
    assert "100.0%" in rows[1]
    assert len({len(row) for row in rows}) == 1
