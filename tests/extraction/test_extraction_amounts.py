from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper import read as read_receipt

from headrace.extraction.amounts import Convention, find_numbers, read, read_amount, vote

PLAIN = {
    "1.234,56": "1234.56",
    "1,234.56": "1234.56",
    "1 234,56": "1234.56",
    "1\u00a0234,56": "1234.56",
    "1\u2009234,56": "1234.56",
    "1'234.56": "1234.56",
    "12,50": "12.50",
    "0,99": "0.99",
    "5,-": "5",
    ",99": "0.99",
    ".99": "0.99",
    "12 50": "12.50",
    "7 00": "7.00",
    "140. 00": "140.00",
    "EUR12,50": "12.50",
    "12,50EUR": "12.50",
    "$1.2O": "1.20",
    "S8.50": "8.50",
    "RMI11.90": "111.90",
    "40,00 $": "40.00",
    "kr 120": "120",
    "120,-": "120",
    "R$ 10,00": "10.00",
    "3 038,14 EUR": "3038.14",
    "-3.51": "-3.51",
    "2.00-": "-2.00",
    "-RM 0.02": "-0.02",
    "7.00ZR": "7.00",
    "35,27": "35.27",
    "1.234.567,89": "1234567.89",
}


@pytest.mark.parametrize(("printed", "value"), PLAIN.items())
def test_every_convention_is_read_exactly(printed: str, value: str) -> None:
    from headrace.extraction.rows import clean

    amount = read_amount(clean(printed))
    assert amount is not None
    assert amount.value == Decimal(value)


@pytest.mark.parametrize("printed", ["1,234", "1.234"])
def test_one_mark_and_three_digits_alone_is_ambiguous_and_carries_both_readings(printed: str) -> None:
    amount = read_amount(printed)
    assert amount is not None
    assert amount.ambiguous
    assert {amount.value, *(v for v, _ in amount.others)} == {Decimal(1234), Decimal("1.234")}


def test_the_document_votes_on_an_amount_that_is_ambiguous_alone() -> None:
    comma = [n for text in ("12,50", "3,99", "1.234") for n in find_numbers(text)]
    point = [n for text in ("12.50", "3.99", "1,234") for n in find_numbers(text)]
    for numbers in (comma, point):
        amount = read(numbers[-1], vote(numbers))
        assert (amount.value, amount.ambiguous) == (Decimal(1234), False)


def test_the_currency_decides_the_minor_digits() -> None:
    assert read_amount("12.345", "KWD").value == Decimal("12.345")  # type: ignore[union-attr]
    assert read_amount("22.000", "VND").value == Decimal(22000)  # type: ignore[union-attr]
    assert read_amount("1,162", "JPY").value == Decimal(1162)  # type: ignore[union-attr]


def test_many_groups_of_three_without_any_minor_unit_are_whole_amounts() -> None:
    numbers = [n for text in ("82,000", "61,000", "174,600") for n in find_numbers(text)]
    convention = vote(numbers)
    assert convention.minor == 0
    assert [read(n, convention).value for n in numbers] == [82000, 61000, 174600]


@pytest.mark.parametrize("text", ["SDN BHD", "1.2.3.4", "", "1OO%", "v", "S/B", "O.OO"])
def test_what_is_no_amount_is_not_money(text: str) -> None:
    assert all(not read(n, Convention()).marked or n.percent for n in find_numbers(text))


@given(
    cents=st.integers(min_value=0, max_value=99_999_999),
    style=st.sampled_from([(",", "."), (".", ","), ("'", "."), (" ", ","), ("", "."), ("", ",")]),
    sign=st.sampled_from(["", "-"]),
    symbol=st.sampled_from(["", "€ ", "$", "RM", "EUR ", "£"]),
)
def test_an_amount_written_in_any_convention_reads_back(
    cents: int, style: tuple[str, str], sign: str, symbol: str
) -> None:
    group, mark = style
    whole, minor = divmod(cents, 100)
    printed = f"{sign}{symbol}{f'{whole:,}'.replace(',', group)}{mark}{minor:02}"
    expected = Decimal(cents).scaleb(-2) * (-1 if sign else 1)
    amount = read_amount(printed)
    assert amount is not None
    assert expected in {amount.value, *(v for v, _ in amount.others)}
    if group != " ":
        assert amount.value == expected


@pytest.mark.parametrize(("text", "raw"), [("205,10\x1fPLN", "205,10 PLN"), ("EUR\x1f56, 15", "EUR 56, 15")])
def test_the_mark_between_cells_never_reaches_what_was_printed(text: str, raw: str) -> None:
    (number,) = find_numbers(text)
    assert number.raw == raw


@pytest.mark.parametrize(
    ("code", "printed", "value"),
    [("UGX", "12,500", "12500"), ("JOD", "1.250", "1.250"), ("XOF", "3.500", "3500"), ("GHS", "12.50", "12.50")],
)
def test_any_currency_of_the_standard_is_known_with_its_digits(code: str, printed: str, value: str) -> None:
    fields = read_receipt("CORNER SHOP", f"TOTAL | {code} {printed}")
    assert (fields.currency.value, fields.payable_amount.value) == (code, Decimal(value))


@pytest.mark.parametrize("words", ["ALL 12.50", "TOP 10 12.50", "CUP 12.50", "BOB 12.50"])
def test_a_word_that_is_also_a_code_is_no_currency(words: str) -> None:
    assert read_receipt("CORNER SHOP", f"{words} | 12.50", "TOTAL | 12.50").currency.value is None
