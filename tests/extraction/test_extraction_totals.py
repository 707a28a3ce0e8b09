from __future__ import annotations

from decimal import Decimal

import pytest
from paper import TODAY, page, read, values

from headrace.extraction import extract

HEAD = ("MEGA MART SDN BHD", "12, JALAN BESAR, 50000 KUALA LUMPUR", "Date: 13/04/2025")


def test_the_total_is_found_among_everything_that_calls_itself_total() -> None:
    fields = read(
        *HEAD,
        "RICE 10KG | 20.00",
        "OIL 2L | 10.00",
        "SUBTOTAL | 30.00",
        "TOTAL SAVINGS | 4.20",
        "TOTAL ITEMS | 12",
        "TOTAL TAX | 1.75",
        "TOTAL | 31.75",
        "CASH | 50.00",
        "CHANGE | 18.25",
        "POINTS TOTAL | 1,204",
        "YOU SAVED | 4.20",
        "Suggested tip 15% | 4.76",
        "Suggested tip 20% | 6.35",
    )
    total = fields.payable_amount
    assert (total.value, total.status) == (Decimal("31.75"), "ok")
    assert total.confidence > 0.85
    losers = {str(a.value): a.reason for a in total.alternatives}
    assert {"50.00", "30.00", "4.20", "18.25", "1.75"} <= losers.keys()
    assert "savings" in losers["4.20"]
    assert "change" in losers["18.25"]
    assert all(a.reason for a in total.alternatives)
    assert fields.tendered_amount.value == Decimal("50.00")
    assert fields.change_amount.value == Decimal("18.25")
    assert fields.tax_amount.value == Decimal("1.75")


@pytest.mark.parametrize("word", ["T0TAL", "Tota1", "TOTEL", "TOTAI", "IUIAL", "Payak le", "GRANDTOTAL", "TotalSales"])
def test_words_that_the_engine_misread_still_announce_the_total(word: str) -> None:
    assert read(*HEAD, "RICE | 20.00", "OIL | 11.75", f"{word} | 31.75").payable_amount.value == Decimal("31.75")


@pytest.mark.parametrize(
    ("subtotal", "total", "cash", "change"),
    [
        ("Subtotal", "Total", "Cash", "Change"),
        ("Zwischensumme", "Summe", "Bar", "Rückgeld"),
        ("Zwischensumme", "Zu zahlen", "Gegeben", "Wechselgeld"),
        ("Sous-total", "Net à payer", "Espèces", "Rendu"),
        ("Subtotal", "Total a pagar", "Efectivo", "Cambio"),
        ("Subtotale", "Totale complessivo", "Contanti", "Resto"),
        ("Subtotal", "Valor a pagar", "Dinheiro", "Troco"),
        ("Subtotaal", "Te betalen", "Contant", "Wisselgeld"),
        ("Suma częściowa", "Do zapłaty", "Gotówka", "Reszta"),
        ("Subjumlah", "Jumlah", "Tunai", "Baki"),
    ],
)
def test_totals_are_read_in_many_languages(subtotal: str, total: str, cash: str, change: str) -> None:
    fields = read(
        *HEAD, "AAA BBB | 20,00", f"{subtotal} | 20,00", f"{total} | 21,50", f"{cash} | 50,00", f"{change} | 28,50"
    )
    assert fields.payable_amount.value == Decimal("21.50")
    assert fields.tendered_amount.value == Decimal("50.00")
    assert fields.change_amount.value == Decimal("28.50")


def test_the_amount_may_stand_below_its_label() -> None:
    assert read(*HEAD, "RICE | 20.00", "TOTAL", "| 20.00").payable_amount.value == Decimal("20.00")


def test_label_and_amount_at_the_two_edges_of_a_slanted_page_belong_together() -> None:
    rows = (*HEAD, "RICE | 20.00", "OIL | 11.75", "SUBTOTAL | 31.75", "TAX | 1.25", "TOTAL | 33.00", "CASH | 40.00")
    for slope in (-0.035, 0.0, 0.035):  # two degrees
        fields = read(*rows, "CHANGE | 7.00", slope=slope)
        assert fields.payable_amount.value == Decimal("33.00")
        assert fields.change_amount.value == Decimal("7.00")


def test_a_receipt_cut_off_above_its_total_has_none() -> None:
    fields = read(*HEAD, "RICE | 20.00", "OIL | 10.00", "SALT | 1.20")
    total = fields.payable_amount
    assert (total.value, total.status) == (None, "missing")
    assert {str(a.value): a.reason for a in total.alternatives}["31.20"].startswith("derived")


def test_a_total_under_a_thumb_is_not_invented_from_cash_and_change() -> None:
    fields = read(*HEAD, "RICE | 20.00", "OIL | 10.00", "CASH | 50.00", "CHANGE | 18.25")
    assert fields.payable_amount.value is None
    assert {str(a.value): a.reason for a in fields.payable_amount.alternatives}["31.75"].startswith("derived")
    assert any(c.id == "required-fields" and not c.passed for c in fields.checks)


def test_the_sum_of_a_page_never_beats_the_total_of_the_last_page() -> None:
    first = page("MEGA MART SDN BHD", "INVOICE 0001", "CHAIR | 45.00", "Total page | 45.00", number=1)
    last = page("TABLE | 164.95", "Total | 209.95", number=2)
    assert extract([first, last], today=TODAY).payable_amount.value == Decimal("209.95")
    first = page("MEGA MART SDN BHD", "INVOICE 0001", "CHAIR | 45.00", "Total | 45.00", number=1)
    fields = extract([first, last], today=TODAY)
    assert fields.payable_amount.value == Decimal("209.95")
    assert "45.00" in values(fields, "payable_amount")


def test_rounding_parts_the_total_from_what_is_to_be_paid() -> None:
    fields = read(
        *HEAD, "RICE | 33.92", "TOTAL | RM 33.92", "ROUNDING ADJUSTMENT | -RM 0.02", "TOTAL ROUNDED | RM 33.90",
        "CASH | RM 50.00", "CHANGE | RM 16.10",
    )  # fmt: skip
    assert fields.payable_amount.value == Decimal("33.90")
    assert fields.tax_inclusive_amount.value == Decimal("33.92")
    assert fields.rounding_amount.value == Decimal("-0.02")


def test_the_words_rounding_and_a_large_amount_are_the_rounded_total() -> None:
    fields = read(*HEAD, "RICE | 177.22", "TOTAL | 177.22", "RoundingAdjustment | -.02", "Rounding | 177.20")
    assert fields.payable_amount.value == Decimal("177.20")


def test_a_currency_symbol_read_as_a_digit_is_found_by_arithmetic() -> None:
    fields = read("CORNER CAFE LLC", "SOUP | $5.00", "TEA | $3.50", "SUBTOTAL | $8.50", "TOTAL | 58.50")
    assert fields.payable_amount.value == Decimal("8.50")
    fields = read("CORNER CAFE LLC", "SOUP | $5.00", "TEA | $3.50", "SUBTOTAL | $8.50", "TOTAL | S8.50")
    assert fields.payable_amount.value == Decimal("8.50")


def test_a_total_in_the_table_of_taxes_is_not_the_total() -> None:
    fields = read(
        *HEAD, "RICE | 174.90", "Total Sales (Inclusive of GST) : | 174.90", "CASH : | 200.00", "Change : | 25.10",
        "GST SUMMARY", "Tax Code | % | Amt (RM) | Tax (RM)", "SR | 6 | 165.00 | 9.90", "Total : | 165.00 | 9.90",
    )  # fmt: skip
    assert fields.payable_amount.value == Decimal("174.90")
    assert fields.tax_amount.value == Decimal("9.90")
    line = fields.tax_breakdown[0]
    assert (line.rate, line.taxable_amount, line.tax_amount) == (Decimal(6), Decimal("165.00"), Decimal("9.90"))


def test_a_total_that_cash_and_change_contradict_is_a_conflict() -> None:
    total = read(*HEAD, "TOTAL | 31.75", "CASH | 50.00", "CHANGE | 10.25").payable_amount
    assert (total.value, total.status) == (Decimal("31.75"), "conflict")
    assert total.confidence <= 0.4


def test_an_ambiguous_total_says_so_and_keeps_the_other_reading() -> None:
    fields = read("CORNER CAFE LLC", "TOTAL | 1.234")
    assert fields.payable_amount.status == "ambiguous"
    assert {"1.234", "1234"} == {str(fields.payable_amount.value)} | values(fields, "payable_amount")


def test_a_total_with_tax_added_below_it_is_not_the_last_word() -> None:
    fields = read(
        *HEAD, "SOUP | 100.00", "STEAK | 55.50", "Total Amount : | 155.50", "GST 6% | 9.31", "Rounding Adj : | -0.01",
        "Total Amount: | 164.80", "TOTAL: | RM 164.80",
    )  # fmt: skip
    assert fields.payable_amount.value == Decimal("164.80")


def test_a_tip_and_a_discount_have_their_own_fields() -> None:
    fields = read(
        "CORNER CAFE LLC", "SOUP | $20.00", "DISCOUNT | $-2.00", "TOTAL | $18.00", "TIP | $3.00", "GRAND TOTAL | $21.00"
    )
    assert fields.payable_amount.value == Decimal("21.00")
    assert fields.tip_amount.value == Decimal("3.00")
    assert fields.discount_amount.value == Decimal("-2.00")


def test_every_field_shows_where_it_was_read() -> None:
    fields = read(*HEAD, "RICE | 20.00", "TOTAL | RM 20.00", "CASH | 20.00", "CHANGE | 0.00")
    for field in (fields.payable_amount, fields.issue_date, fields.merchant.name, fields.tendered_amount):
        assert field.value is not None
        assert field.raw_text
        assert field.page == 1
        assert field.polygon is not None
        assert field.rule_id
        assert 0 < field.confidence < 1
        assert field.source == "ocr"
    assert fields.payable_amount.label_text == "TOTAL"


def test_a_total_whose_label_the_edge_cut_off_is_still_the_total() -> None:
    fields = read(
        "BREAD | 300.00", "MILK | 335.00", "SubTotal | 035.00", "lal Inclusive GST: | 635.00", "GST 6% | 35.94"
    )
    assert fields.payable_amount.value == Decimal("635.00")


def test_a_total_that_lost_its_label_is_found_below_the_subtotal_and_tax_that_add_up_to_it() -> None:
    rows = ("BREAD | 50.00", "MILK | 42.50", "SUB-TOTAL | 92.50", "GST | 1.50", "L | 94.00", "GASH | 84.00")
    fields = extract([page(*rows)], today=TODAY, curves={})  # the rule's own score, as it is before it is calibrated
    assert fields.payable_amount.value == Decimal("94.00")
    assert fields.payable_amount.confidence <= 0.8


def test_a_total_of_points_below_half_of_the_goods_is_not_the_total() -> None:
    fields = read("BATHROOM CLEANER | 26.70", "HYDRATING MASK | 51.60", "AMT PAID : | RM78.30", "Total eV: | 2.10")
    assert fields.payable_amount.value == Decimal("78.30")
    assert "2.10" in values(fields, "payable_amount")


def test_a_plain_total_is_believed_though_the_goods_read_come_to_more() -> None:
    fields = read("Night | 16.05 | 32.10", "Night | 16.05 | 32.10", "Breakfast | 32.10", "TOTAL | 39.75")
    assert fields.payable_amount.value == Decimal("39.75")
