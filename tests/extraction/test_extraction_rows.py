"""Rows on paper that is slanted, curled or cut into words; the grouping itself is in documents, its purpose is here."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper import page

from headrace.documents.text import Box, group_lines
from headrace.extraction.rows import MAX_ROW_CHARACTERS, clean, rows_of

ROWS = [
    ("SOUP OF THE DAY", "12.50"),
    ("GREEN TEA LARGE", "3.00"),
    ("TOTAL AMOUNT DUE", "15.50"),
    ("CASH IN HAND", "20.00"),
]


def _box(text: str, left: float, right: float, y: float, tilt: float) -> Box:
    rise = math.tan(math.radians(tilt))
    return Box(
        text,
        (
            (left, y + rise * left),
            (right, y + rise * right),
            (right, y + rise * right + 0.03),
            (left, y + rise * left + 0.03),
        ),
        0.99,
    )


@pytest.mark.parametrize("tilt", [-25.0, -7.0, -2.0, 0.0, 2.0, 7.0, 25.0])
def test_label_and_amount_stay_in_one_row_however_the_paper_is_turned(tilt: float) -> None:
    boxes = []
    for n, (name, amount) in enumerate(ROWS):
        boxes += [_box(name, 0.1, 0.5, 0.4 + n * 0.04, tilt), _box(amount, 0.75, 0.9, 0.4 + n * 0.04, tilt)]
    assert [tuple(b.text for b in line.boxes) for line in group_lines(boxes)] == ROWS


def test_rows_of_curled_paper_follow_the_slope_of_their_neighbourhood() -> None:
    boxes = []
    for n in range(20):
        tilt = -5.0 - 0.6 * n  # from 5 degrees at the top to 16 at the bottom
        boxes += [
            _box(f"ARTICLE {n}", 0.1, 0.5, 0.3 + n * 0.045, tilt),
            _box(f"{n}.00", 0.7, 0.85, 0.3 + n * 0.045, tilt),
        ]
    rows = [tuple(b.text for b in line.boxes) for line in group_lines(boxes)]
    assert rows == [(f"ARTICLE {n}", f"{n}.00") for n in range(20)]


@given(order=st.permutations(range(8)))
def test_the_order_of_the_boxes_does_not_matter(order: list[int]) -> None:
    boxes = []
    for n, (name, amount) in enumerate(ROWS):
        boxes += [_box(name, 0.1, 0.5, 0.4 + n * 0.04, 3.0), _box(amount, 0.75, 0.9, 0.4 + n * 0.04, 3.0)]
    assert group_lines([boxes[i] for i in order]) == group_lines(boxes)


def test_words_that_stand_close_are_one_cell_and_columns_are_not() -> None:
    words = [("1", 0.70, 0.715), ("234,56", 0.722, 0.80), ("Summe", 0.10, 0.20)]
    boxes = [Box(t, ((a, 0.1), (b, 0.1), (b, 0.13), (a, 0.13)), 1.0) for t, a, b in words]
    from headrace.documents.text import PageText

    rows = rows_of([PageText(1, 1000, 1000, group_lines(boxes))])
    assert [c.text for c in rows[0].cells] == ["Summe", "1 234,56"]


def test_a_row_is_looked_at_up_to_its_bound() -> None:
    assert len(rows_of([page("x" * 5000)])[0].text) == MAX_ROW_CHARACTERS


def test_the_place_of_a_part_lies_inside_its_cell() -> None:
    row = rows_of([page("TOTAL | RM 12.50")])[0]
    start = row.text.index("12.50")
    (left, top), (right, _), (_, bottom), _ = row.polygon(start, start + 5)
    cell = row.cells[-1]
    assert cell.left < left < right <= cell.right + 1e-9
    assert (cell.top, cell.bottom) == (top, bottom)


@given(st.text(max_size=60))
def test_cleaning_leaves_only_what_can_be_printed(text: str) -> None:
    assert clean(text).isprintable()
