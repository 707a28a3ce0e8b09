"""Numbers and names as the terminal shows them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.formats import columns, counted, cut, duration, quantity, share_bar, shorten

DURATIONS = [
    (None, "?"), (math.nan, "?"), (math.inf, "?"), (-1, "?"), (0, "0 s"), (0.25, "0.25 s"), (1, "1.0 s"),
    (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (61, "1 min 01 s"),
    (3599.6, "1 h 00 min"), (11220, "3 h 07 min"), (86400, "1 d 00 h"), (187200, "2 d 04 h"),
]  # fmt: skip


@pytest.mark.parametrize(("seconds", "expected"), DURATIONS)
def test_a_duration_has_two_units_at_most(seconds: float | None, expected: str) -> None:
    assert duration(seconds) == expected


QUANTITIES = [(1536, "bytes", "1.5 KiB"), (90.0, "s", "1 min 30 s"), (40000, "documents", "40,000 documents"),
              (1.18, "documents/s", "1.18 documents/s")]  # fmt: skip


@pytest.mark.parametrize(("value", "unit", "expected"), QUANTITIES)
def test_a_quantity_has_the_unit_a_person_expects(value: float, unit: str, expected: str) -> None:
    assert quantity(value, unit) == expected


NAMES = [
    ("a.jpg", 10, "a.jpg"),
    ("scans/2026/IMG_0001.jpg", 23, "scans/2026/IMG_0001.jpg"),
    ("scans/2026/IMG_0001.jpg", 13, "scan…0001.jpg"),
    ("scans/2026/IMG_0001.jpg", 1, "…"),
    ("scans/2026/IMG_0001.jpg", 0, ""),
    ("\x1b[2Jx.jpg", 40, "\\x1b[2Jx.jpg"),  # cannot clear the screen
    ("line\nbreak.jpg", 40, "line\\x0abreak.jpg"),
    ("a\u202egpj.exe", 40, "a\\u202egpj.exe"),  # cannot turn the reading direction
    ("caf\udce9.jpg", 40, "caf\\xe9.jpg"),  # bytes that are no text
    ("領収書.jpg", 10, "領収書.jpg"),
    ("領収書領収書.jpg", 10, "領…書.jpg"),  # wide letters take two columns
]


@pytest.mark.parametrize(("name", "width", "expected"), NAMES)
def test_a_name_is_safe_and_keeps_both_ends(name: str, width: int, expected: str) -> None:
    assert shorten(name, width) == expected


@given(st.text(max_size=80), st.integers(0, 60))
def test_no_name_is_ever_wider_than_asked(name: str, width: int) -> None:
    shown = shorten(name, width)
    assert columns(shown) <= width
    assert shown.isprintable()
    assert columns(cut(shown, width // 2)) <= width // 2


BARS = [
    (0, 10, "░░░░"),
    (5, 10, "██░░"),
    (10, 10, "████"),
    (99, 10, "████"),
    (1, 0, "░░░░"),
    (math.nan, 1, "░░░░"),
    (-1, 2, "░░░░"),
]


@pytest.mark.parametrize(("used", "limit", "expected"), BARS)
def test_a_bar_is_as_long_as_asked_whatever_the_numbers(used: float, limit: float, expected: str) -> None:
    assert share_bar(used, limit, 4) == expected


def test_one_of_a_thing_is_not_said_as_many() -> None:
    assert [counted(n, "page") for n in (0, 1, 2000)] == ["0 pages", "1 page", "2,000 pages"]
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]
