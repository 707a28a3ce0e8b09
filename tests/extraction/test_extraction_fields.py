"""Merchant, currency, tax, items, payments, checks."""

from __future__ import annotations

from decimal import Decimal

import pytest
from paper import TODAY, read, values

from headrace.documents.text import Box, Line, PageText
from headrace.extraction import extract


def test_the_name_with_a_legal_form_wins_over_logo_heading_address_and_pencil() -> None:
    fields = read(
        "tan chay yee", "TAX INVOICE", "S.H.H. MOTOR (SUNGAI RENGIT) SDN. BHD. (801580-T)", "No. 343, Jalan Kurau,",
        "81620 Pengerang, Johor.", "Tel: 07-8263254", "GST ID: 000785416704", "www.shhmotor.com.my",
        "Invoice No: 22497", "TOTAL | 20.00",
    )  # fmt: skip
    merchant = fields.merchant
    assert merchant.name.value == "S.H.H. MOTOR (SUNGAI RENGIT) SDN. BHD."
    assert merchant.address.value == "No. 343, Jalan Kurau, 81620 Pengerang, Johor."
    assert merchant.phone.value == "07-8263254"
    assert merchant.tax_id.value == "000785416704"
    assert merchant.website.value == "shhmotor.com.my"
    assert fields.receipt_number.value == "22497"


def test_a_name_broken_over_rows_is_joined() -> None:
    fields = read(
        "AIK HUAT HARDWARE", "ENTERPRISE (SETIA", "ALAM) SDN BHD", "822737-X", "NO. 17-G, JALAN SETIA", "TOTAL | 5.00"
    )
    assert fields.merchant.name.value == "AIK HUAT HARDWARE ENTERPRISE (SETIA ALAM) SDN BHD"


def test_the_customer_below_the_heading_is_not_the_merchant() -> None:
    fields = read(
        "GARDENIA BAKERIES (KL) SDN BHD", "Lot 3, Jalan Pelabur 23/1,", "40300 Shah Alam, Selangor.", "TAX INVOICE",
        "Date: 21/07/2017", "MAKASSAR FRESH MARKET SDN BHD", "GROUND FLOOR, NO. 4 & 6,", "BREAD | 4.00", "TOTAL | 4.00",
    )  # fmt: skip
    assert fields.merchant.name.value == "GARDENIA BAKERIES (KL) SDN BHD"


def test_a_fragment_without_a_head_has_no_merchant_date_or_total() -> None:
    fields = read(
        "PIZZATEIG | 1,49 B",
        "BIOHEU FR.MILCH | 5,67 B",
        "3 Stk x | 1,89",
        "CHICKEN BITES | 2,79 B",
        "PFAND 0,15 EUR | 0,30 A",
    )
    assert fields.merchant.name.value is None
    assert fields.issue_date.value is None
    assert fields.payable_amount.value is None
    assert [i.amount for i in fields.line_items] == [Decimal(a) for a in ("1.49", "5.67", "2.79", "0.30")]


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        (("TOTAL | RM 8.50",), "MYR"),
        (("TOTAL | 8,50 EUR",), "EUR"),
        (("TOTAL | £8.50",), "GBP"),
        (("TOTAL | US$ 8.50",), "USD"),
        (("TOTAL | R$ 8,50",), "BRL"),
        (("TOTAL | C$ 8.50",), "CAD"),
        (("TOTAL | 8.50", "All amounts in CHF"), "CHF"),
        (("WESTPORT, CT 06880", "TOTAL | $8.50"), "USD"),
        (("WESTPORT.CT DSBNO", "(203) 227-6858", "BAL | 8.50"), "USD"),
        (("CYMA | 415,40", "3HMKKA | -44,20"), "UAH"),
        (("GST No 44-833-938 AUCKLAND", "TOTAL | $8.50"), "NZD"),
        (("MOMS 25%", "Org.nr 556677-8899", "TOTAL | kr 120"), "SEK"),
        (("TOTAL | 8.50",), None),
        (("TOTAL | $8.50",), None),
        (("TOTAL | kr 120",), None),
    ],
)
def test_the_currency_has_evidence_or_is_left_open(rows: tuple[str, ...], code: str | None) -> None:
    assert read("THE CORNER", *rows).currency.value == code


def test_a_symbol_that_many_currencies_share_keeps_them_as_alternatives() -> None:
    assert {"USD", "CAD"} <= values(read("THE CORNER", "TOTAL | $8.50"), "currency")


def test_a_malaysian_company_and_gst_are_evidence_that_says_so() -> None:
    currency = read("MEGA MART SDN BHD", "JALAN BESAR, SELANGOR", "GST 6% | 0.50", "TOTAL | 8.50").currency
    assert currency.value == "MYR"
    assert currency.rule_id == "currency.country"
    assert "SDN BHD" in (currency.label_text or "")


def test_the_currency_of_the_total_wins_over_conversion_and_advertising() -> None:
    fields = read(
        "HOTEL GMBH", "Win 1000 USD in our draw", "ROOM | 80,00 EUR", "TOTAL | EUR 80,00", "USD 93.10 at rate 1.1638"
    )
    assert fields.currency.value == "EUR"
    assert "USD" in values(fields, "currency")


def test_tax_by_rate_is_found_by_arithmetic_in_any_column_order() -> None:
    fields = read(
        "MARKT GMBH", "BROT | 10,70 B", "LAMPE | 11,90 A", "SUMME EUR | 22,60", "Steuer % | Netto | Steuer | Brutto",
        "A 19% | 10,00 | 1,90 | 11,90", "B 7% | 10,00 | 0,70 | 10,70",
    )  # fmt: skip
    assert [(str(t.rate), str(t.taxable_amount), str(t.tax_amount)) for t in fields.tax_breakdown] == [
        ("19", "10.00", "1.90"), ("7", "10.00", "0.70"),
    ]  # fmt: skip
    assert fields.tax_amount.value == Decimal("2.60")
    assert fields.prices_include_tax is True


def test_a_sum_of_tax_lines_that_nothing_confirms_is_not_ok() -> None:
    fields = read("MARKT GMBH", "SUMME EUR | 22,60", "A 19% | 10,00 | 1,90 | 11,90", "B 7% | 10,00 | 0,70 | 10,70")
    assert fields.tax_amount.source == "derived"
    assert fields.tax_amount.status != "ok"


def test_net_tax_and_gross_are_told_apart() -> None:
    fields = read(
        "CLACHAN PUB LTD",
        "PALE ALE | 10.20",
        "20% VAT Net | 8.50",
        "20% VAT | 1.70",
        "Total | £10.20",
        "Card Payment | £10.20",
    )
    assert fields.tax_amount.value == Decimal("1.70")
    assert fields.payable_amount.value == Decimal("10.20")


@pytest.mark.parametrize(
    "rows",
    [
        ("Salmon Teriyaki", "2 x | 25.90 | 51.80 SR", "Green Tea", "1 x | 1.00 | 1.00 SR"),
        ("2 x 25.90 | 51.80", "Salmon Teriyaki", "1 x 1.00 | 1.00", "Green Tea"),
        ("Salmon Teriyaki | 2 | 25.90 | 51.80", "Green Tea | 1 | 1.00 | 1.00"),
        ("Salmon Teriyaki | 51.80", "2 Stk x | 25.90", "Green Tea | 1.00"),
        ("Salmon", "Teriyaki", "2 x | 25.90 | 51.80", "Green Tea | 1 | 1.00 | 1.00"),
    ],
)
def test_items_over_several_rows_keep_name_quantity_price_and_amount(rows: tuple[str, ...]) -> None:
    fields = read("SUSHI SDN BHD", "Date: 13/04/2025", "Description | Qty | U.price | Total", *rows, "TOTAL | 52.80")
    salmon, tea = fields.line_items
    assert (salmon.description, salmon.amount) == ("Salmon Teriyaki", Decimal("51.80"))
    assert (salmon.quantity, salmon.unit_price) == (Decimal(2), Decimal("25.90"))
    assert (tea.description, tea.amount) == ("Green Tea", Decimal("1.00"))
    assert next(c for c in fields.checks if c.id == "items").passed


def test_four_hundred_items_are_all_kept_in_order() -> None:

    def row(n: int, name: str, amount: str) -> Line:
        top, bottom = n / 500, (n + 0.8) / 500
        left = Box(name, ((0.05, top), (0.3, top), (0.3, bottom), (0.05, bottom)), 0.99)
        right = Box(amount, ((0.8, top), (0.95, top), (0.95, bottom), (0.8, bottom)), 0.99)
        return Line((left, right))

    rows = [row(n, f"ARTICLE {chr(65 + n % 26)}{chr(65 + n // 26)}", f"{n + 1}.25") for n in range(400)]
    rows.append(row(401, "TOTAL", f"{sum(n + 1 for n in range(400)) + 100}.00"))
    fields = extract([PageText(1, 1000, 30000, tuple(rows))], today=TODAY)
    assert [i.amount for i in fields.line_items] == [Decimal(f"{n + 1}.25") for n in range(400)]
    assert [i.line for i in fields.line_items] == list(range(1, 401))


def test_a_document_with_items_and_no_summary_still_returns_items() -> None:
    assert len(read("CORNER CAFE", "SOUP | 4.50", "TEA | 2.00").line_items) == 2


def test_payments_name_the_card_by_its_last_four_digits() -> None:
    fields = read("CORNER CAFE LLC", "SOUP | 9.50", "TOTAL | 9.50", "VISA | 9.50", "Card ************7501")
    payment = fields.payments[0]
    assert (payment.method, payment.amount, payment.card_last4) == ("VISA", Decimal("9.50"), "7501")


def test_a_failed_check_reports_both_numbers_and_the_tolerance() -> None:
    fields = read("CORNER CAFE LLC", "SOUP | 9.50", "TEA | 3.00", "TOTAL | 12.50", "CASH | 20.00", "CHANGE | 5.00")
    check = next(c for c in fields.checks if c.id == "cash")
    assert not check.passed
    assert (check.expected, check.actual, check.tolerance) == ("15.00", "12.50", "0.01")
    assert "2.50" in check.message


def test_half_cents_and_cash_rounding_stay_inside_the_tolerance() -> None:
    fields = read(
        "CAFE SDN BHD",
        "SOUP | 9.52",
        "TOTAL | RM 9.52",
        "ROUNDING | -0.02",
        "TOTAL ROUNDED | RM 9.50",
        "CASH | RM 10.00",
        "CHANGE | RM 0.50",
    )
    assert all(c.passed for c in fields.checks if c.id in ("cash", "rounding", "items"))


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("Tankhof Nordring", ("Kastanienallee 12", "10437 Berlin", "Tel. 030 555 01 73", "Zapfsäule 5")),
        ("Macken Vid Bron", ("Asögatan 91", "116 46 Stockholm", "Org.nr 556999-0114", "Pump 2")),
        ("Clifton Road Garage", ("27 Welsh Back", "Bristol BS1 4ND", "VAT No. GB 999 9999 73", "Pump 3")),
        ("Estación de Servicio Levante", ("Calle de la Paz 31", "46001 Valencia", "NIF B98765432", "Surtidor 6")),
        ("Hôtel de la Saône", ("8 rue des Tanneurs, 69002 Lyon", "Client: A. Modele | Chambre 612")),
        ("Taxi Mälaren", ("Asögatan 91", "116 46 Stockholm", "Från: Centralen", "Till: Flygplatsen")),
    ],
)
def test_a_street_with_a_number_a_pump_and_a_client_are_no_merchant(name: str, head: tuple[str, ...]) -> None:
    assert read(name, *head, "Espresso | 2,50", "Torte | 7,50", "TOTAL | 10,00").merchant.name.value == name


def test_a_name_that_ends_in_a_number_is_no_street_when_it_says_its_trade() -> None:
    rows = ("tan chay yee", "Corner Mart 24", "81620 Pengerang, Johor", "BREAD | 4.00", "MILK | 4.00", "TOTAL | 8.00")
    assert read(*rows).merchant.name.value == "Corner Mart 24"


@pytest.mark.parametrize("evidence", ["Minato-ku, Tokyo 105-0004", "T1234567890123"])
def test_a_bare_yen_sign_is_japanese_with_an_address_or_an_invoice_number_and_its_tax_is_read(evidence: str) -> None:
    rows = ("Pen | 180", "3 x Hagaki | 270", "TOTAL | ¥2,250", "Cash | 3,000", "Change | 750", "incl. 10% Tax | 205")
    fields = read("Hoshi Bunguten", evidence, "Date: 2026/07/01", *rows)
    assert (fields.currency.value, fields.tax_amount.value) == ("JPY", Decimal(205))
    assert read("Hoshi Bunguten", *rows).currency.value is None, "it could be yuan"


def test_the_total_is_before_the_tip_and_payable_is_what_was_paid() -> None:
    rows = ("Burger | 74.14", "Tax | 6.58", "TOTAL | 80.72", "Tip | 14.53", "Amount paid | $95.25")
    fields = read("Harbor Grill", "12 Main Street", "Boston, MA 02110", *rows)
    assert (fields.tax_inclusive_amount.value, fields.payable_amount.value) == (Decimal("80.72"), Decimal("95.25"))
    assert next(c for c in fields.checks if c.id == "tip").passed
    french = read("Bistro", "TOTAL TTC | 73,51", "Pourboire | 6,00", "Montant réglé | 79,51 €", "dont 20% TVA | 12,25")
    assert (french.tax_inclusive_amount.value, french.payable_amount.value) == (Decimal("73.51"), Decimal("79.51"))
