"""The table of known failures names tests that exist, and the tests that name a case are in it."""

from __future__ import annotations

import re

from doc_pages import ROOT, page

TESTS = ROOT / "tests"
ALL_ROWS = re.findall(r"^\| ([A-Z]\d+) \|.*\| (`.*`) \|$", page("known-failures.md"), re.MULTILINE)
ROWS = [(case, cell) for case, cell in ALL_ROWS if case[0] == "K"]


def test_every_case_is_shown_by_tests_that_exist() -> None:
    assert [int(case[1:]) for case, _ in ROWS] == sorted({int(case[1:]) for case, _ in ROWS})
    assert len(ROWS) == 27
    missing = []
    for case, cell in ALL_ROWS:
        for named in re.findall(r"`([^`]+)`", cell):
            file, _, test = named.partition("::")
            text = (TESTS / file).read_text() if (TESTS / file).is_file() else ""
            if not re.search(rf"^def {test}\(", text, re.MULTILINE):
                missing.append(f"{case}: {named}")
    assert not missing


def test_every_case_that_a_test_is_named_after_is_in_the_table() -> None:
    named = {case for case, _ in ALL_ROWS}
    for file in TESTS.glob("*/test_*.py"):
        for letter, number in re.findall(r"^def test_([kes])(\d+)_", file.read_text(), re.MULTILINE):
            assert f"{letter.upper()}{number}" in named, file


def test_the_cases_of_the_service_are_all_there_in_order() -> None:
    cases = [int(case[1:]) for case, _ in ALL_ROWS if case[0] == "S"]
    assert cases == [18, 19, *range(22, 29), *range(30, 34), 43, 52, 53, 57, 58]
