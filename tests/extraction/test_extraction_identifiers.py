# ruff: noqa: E501 - the tables read better unbroken
"""Tax numbers and receipt numbers; the check digits are those of python-stdnum."""

from __future__ import annotations

import pytest
from paper import read

from headrace.extraction.identifiers import check_digits_fit

RIGHT = {
    "USt-IdNr. DE136695976": "DE136695976", "TVA FR40303265045": "FR40303265045", "CIF: A58818501": "A58818501",
    "P.IVA 00743110157": "00743110157", "NIF: 501964843": "501964843", "BTW nr NL004495445B01": "NL004495445B01",
    "NIP 526-104-08-28": "526-104-08-28", "VAT No. GB 980 7806 84": "GB 980 7806 84", "ABN 51 824 753 556": "51 824 753 556",
    "CNPJ 16.727.230/0001-97": "16.727.230/0001-97", "CVR 13585628": "13585628", "DIČ CZ27082440": "CZ27082440",
    "COD FISCAL RO18547290": "RO18547290", "ΑΦΜ 094259216": "094259216", "ИНН 7707083893": "7707083893",
}  # fmt: skip


@pytest.mark.parametrize(("printed", "number"), RIGHT.items())
def test_a_tax_number_is_found_behind_its_label_and_its_check_digits_are_looked_at(printed: str, number: str) -> None:
    fields = read("CORNER SHOP", printed, "TEA | 2,00", "TOTAL | 2,00")
    assert fields.merchant.tax_id.value == number
    assert [c.passed for c in fields.checks if c.id == "tax-id"] == [True]


@pytest.mark.parametrize("printed", ["USt-IdNr. DE136695977", "P.IVA 00743110158", "NIP 526-104-08-29"])
def test_a_digit_that_was_misread_shows_and_rejects_nothing(printed: str) -> None:
    fields = read("CORNER SHOP", printed, "TEA | 2,00", "TOTAL | 2,00")
    assert [(c.severity, c.passed) for c in fields.checks if c.id == "tax-id"] == [("info", False)]
    assert fields.payable_amount.status == "ok"


@pytest.mark.parametrize("printed", ["GST ID: 000885416704", "SIRET 732 829 320 00074", "DE12"])
def test_a_number_whose_form_or_country_is_not_known_is_not_judged(printed: str) -> None:
    number, label = printed.split(" ", 1)[-1], printed.split(" ", 1)[0]
    assert check_digits_fit(number, label) is None


def test_of_two_tax_numbers_the_one_whose_check_digits_fit_is_taken() -> None:
    fields = read("SHOP SRL", "P.IVA 00743110158", "P.IVA 00743110157", "TOTALE | 2,00")
    assert fields.merchant.tax_id.value == "00743110157"


@pytest.mark.parametrize(
    ("printed", "number"),
    [
        ("Invoice No: 22497", "22497"),
        ("Rechnungsnummer 2025-0042", "2025-0042"),
        ("Beleg-Nr. 4711", "4711"),
        ("Factura simplificada: 2041-016-123456", "2041-016-123456"),
        ("Ticket N° 000123", "000123"),
        ("DOCUMENTO N. 0812-0045", "0812-0045"),
        ("Fatura Simplificada FS 2025/1187", "2025/1187"),
        ("Bonnr: 88213", "88213"),
        ("nr wydr. 014523", "014523"),
        ("Kvitto 2211", "2211"),
    ],
)
def test_the_number_of_a_receipt_is_found_in_many_languages(printed: str, number: str) -> None:
    assert read("CORNER SHOP", printed, "TEA | 2,00", "TOTAL | 2,00").receipt_number.value == number
