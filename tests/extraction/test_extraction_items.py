"""Line items in the layouts of tills and invoices; each case is the text of a kind of receipt that was seen."""

from __future__ import annotations

from decimal import Decimal

import pytest
from paper import read

HEAD = ("CORNER SUPPLY SDN BHD", "12, JALAN BESAR, 50000 KUALA LUMPUR", "Date: 13/04/2025")


def amounts(*rows: str) -> list[str]:
    """The amounts of the items of a receipt with these rows below its head."""
    return [str(item.amount) for item in read(*HEAD, *rows).line_items]


def test_sums_between_groups_of_items_end_neither_the_list_nor_become_items() -> None:
    fields = read(
        *HEAD, "Description | U.P | Qty | Amt(RM)", "WHITE BREAD | 2.13 | 6 | 12.78", "WHOLEMEAL | 2.78 | 3 | 8.34",
        "Total 0% supplies: | 21.12", "BUN SARDINE | 0.84 | 20 | 16.80", "Total 6% supplies (excl. GST): | 16.80",
        "GST: | 1.01", "Total 6% supplies (Inc. GST): | 17.81", "Total Payable: | 38.93",
    )  # fmt: skip
    assert [str(i.amount) for i in fields.line_items] == ["12.78", "8.34", "16.80"]
    assert next(c for c in fields.checks if c.id == "items").passed


def test_a_discount_on_the_whole_bill_below_the_subtotal_is_no_item() -> None:
    fields = read(*HEAD, "RICE | 20.00", "OIL | 10.00", "SUBTOTAL | 30.00", "Discount 10% | -3.00", "TOTAL | 27.00")
    assert [str(i.amount) for i in fields.line_items] == ["20.00", "10.00"]
    assert fields.discount_amount.value == Decimal("-3.00")
    assert next(c for c in fields.checks if c.id == "items").passed


@pytest.mark.parametrize("price", ["@63.00", "63.00"])
def test_the_price_of_one_above_its_amount_is_no_item_of_its_own(price: str) -> None:
    fields = read(*HEAD, f"FRYING POT 6KG {price}", "10410055 | *4 | 252.00 ZR", "SOAP | 3.00", "TOTAL | 255.00")
    pot, soap = fields.line_items
    assert (pot.description, pot.amount, pot.unit_price) == ("FRYING POT 6KG", Decimal("252.00"), Decimal("63.00"))
    assert soap.amount == Decimal("3.00")


def test_an_item_whose_name_holds_no_word_keeps_its_amount() -> None:
    rows = ("Item | Qty | S/Price | Amount", "1812 | 2 | 16.96 | 33.92", "10'2X3", "1792 | 3 | 7.42 | 22.26", "10'1X2")
    assert amounts(*rows, "TOTAL | 56.18") == ["33.92", "22.26"]
    assert [i.description for i in read(*HEAD, *rows, "TOTAL | 56.18").line_items] == ["10'2X3", "10'1X2"]


def test_an_amount_whose_mark_was_not_seen_counts_among_amounts_that_have_one() -> None:
    rows = ("COFFEE | 1 | 2.30 | 2.30", "SOYA BEAN | 1 | 2 10 | 2 10", "TEA | 1 | 2.40 | 2 40")
    assert amounts("Item | Qty | Price | Amount", *rows, "TOTAL | 6.80") == ["2.30", "2.10", "2.40"]


def test_a_price_per_litre_is_no_item() -> None:
    assert amounts("UNLEADED 95 | 50.00", "2.205 RM / litre", "TOTAL | 50.00") == ["50.00"]


def test_a_service_charge_below_the_items_agrees_with_the_total() -> None:
    fields = read(*HEAD, "RAMEN | 25.60", "TEA | 3.00", "SUBTOTAL | 28.60", "Serv. Charge 10% | 2.86", "TOTAL | 31.46")
    assert next(c for c in fields.checks if c.id == "items").passed


@pytest.mark.parametrize("amount", ["6.25", "-6.25", "6.25-"])
def test_a_negative_count_is_a_return_whether_or_not_its_amount_says_so(amount: str) -> None:
    fields = read(
        *HEAD, "Item | U.P | Qty | Amt", "BREAD | 2.50 | 4 | 10.00", f"MUFFIN | 1.25 | -5 | {amount}", "TOTAL | 3.75"
    )
    back = fields.line_items[1]
    assert (back.quantity, back.unit_price, back.amount) == (Decimal(-5), Decimal("1.25"), Decimal("-6.25"))


def test_a_sum_that_slipped_in_goes_and_so_does_an_end_that_is_none_of_the_items() -> None:
    rows = ("RICE | 20.00", "OIL | 10.00", "SALT | 1.20")
    assert amounts(*rows, "Purchase in all | 31.20", "TOTAL | 31.20") == ["20.00", "10.00", "1.20"]
    assert amounts(*rows, "Bags of today | 4.00", "Bottles of today | 3.00", "TOTAL | 31.20") == [
        "20.00",
        "10.00",
        "1.20",
    ]
    assert amounts("Last visit | 4.00", "Before it | 3.00", *rows, "TOTAL | 31.20") == ["20.00", "10.00", "1.20"]
