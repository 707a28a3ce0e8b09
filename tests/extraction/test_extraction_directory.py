"""Confirmed merchants: what is nearly one of them becomes it, and says so."""

from __future__ import annotations

import pytest
from paper import TODAY, page

from headrace.documents.receipt import Merchant
from headrace.extraction import extract
from headrace.extraction.directory import Directory

NAME = "VERBENA CONFECTIONERY SDN BHD"
ADDRESS = "LOT 3, JALAN PELABUR 23/1, 40300 SHAH ALAM, SELANGOR."
KNOWN = Directory([((NAME, ADDRESS), 3), (("BLUE WHALE TRADING", None), 1)])
HEAD = (
    "{}",
    "{}",
    "40300 Shah Alam, Selangor.",
    "Tel: 03-5542 3228",
    "TAX INVOICE",
    "BREAD | RM 4.00",
    "TOTAL | RM 4.00",
)


def merchant_of(name: str, street: str, directory: Directory | None = KNOWN) -> Merchant:
    rows = [HEAD[0].format(name), HEAD[1].format(street), *HEAD[2:]]
    return extract([page(*rows)], today=TODAY, directory=directory).merchant


def test_a_misread_name_and_address_become_the_confirmed_ones_and_keep_what_was_read() -> None:
    merchant = merchant_of("VERDENA CONFECTIONERY SDN BHD", "Eot 3, Jalan Pelabur 23/1,")
    assert (merchant.name.value, merchant.name.rule_id) == (NAME, "directory")
    assert merchant.name.raw_text == "VERDENA CONFECTIONERY SDN BHD"
    assert merchant.name.alternatives[0].value == "VERDENA CONFECTIONERY SDN BHD"
    assert (merchant.address.value, merchant.address.rule_id) == (ADDRESS, "directory")
    assert (merchant.address.raw_text or "").startswith("Eot 3")
    assert merchant.address.polygon is not None


def test_without_a_directory_nothing_is_taken_from_one() -> None:
    merchant = merchant_of("VERDENA CONFECTIONERY SDN BHD", "Eot 3, Jalan Pelabur 23/1,", None)
    assert merchant.name.value == "VERDENA CONFECTIONERY SDN BHD"
    assert merchant.name.rule_id != "directory"


@pytest.mark.parametrize(
    "street", ["Lot 5, Jalan Pelabur 23/1,", "Lot 3, Jalan Pelabur 23/7,", "Lot 31, Jalan Pelabur 23/1,"]
)
def test_another_house_number_is_another_place(street: str) -> None:
    assert merchant_of(NAME, street).address.rule_id != "directory"


def test_a_letter_read_for_a_digit_is_the_same_place() -> None:
    assert merchant_of(NAME, "Lot 3, Jalan Pelabur 23/l,").address.value == ADDRESS


def test_another_merchant_is_left_alone() -> None:
    assert (
        merchant_of("MARINA CONFECTIONERY SDN BHD", "Lot 9, Jalan Angsa").name.value == "MARINA CONFECTIONERY SDN BHD"
    )


def test_between_two_confirmed_names_as_near_none_is_taken() -> None:
    both = Directory([(("KEDAI BUNGA RAYA SATU", None), 1), (("KEDAI BUNGA RAYA SETU", None), 1)])
    assert merchant_of("KEDAI BUNGA RAYA S8TU", "Lot 9, Jalan Angsa", both).name.rule_id != "directory"


def test_of_two_spellings_of_the_same_letters_the_more_usual_is_taken() -> None:
    two = Directory([(("Verbena Confectionery Sdn. Bhd.", None), 1), ((NAME, None), 4)])
    assert merchant_of("verbena confectionery SDN BHD", "Lot 9, Jalan Angsa", two).name.value == NAME
