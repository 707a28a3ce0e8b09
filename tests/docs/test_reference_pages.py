from __future__ import annotations

from collections.abc import Iterator

import pytest
from doc_pages import blocks, code_words, first_cells, page
from generate_reference import GENERATED, every_command, rewritten
from pydantic import BaseModel

from headrace.cli.exit_codes import ExitCode
from headrace.documents import errors, receipt
from headrace.documents.entry import Entry, FirstSeen
from headrace.documents.errors import DocumentError, DocumentFailure
from headrace.documents.status import DocumentState, EntryKind, Verdict
from headrace.execution import outcome
from headrace.ingest.options import OPTIONS, variable
from headrace.ledger import Policy, policy_file
from headrace.ledger.duplicates import exact_duplicate


@pytest.mark.parametrize(("name", "part"), [(name, part) for name, parts in GENERATED.items() for part in parts])
def test_a_generated_part_is_what_the_code_says_today(name: str, part: str) -> None:
    text = page(name)
    assert rewritten(text, part, GENERATED[name][part]()) == text, "run script/docs"


def test_every_command_and_every_option_is_in_the_reference() -> None:
    told, settings = page("reference-commands.md"), code_words(page("reference-settings.md"))
    for name, command in every_command():
        section = code_words(told.split(f"\n## {name}\n")[1].split("\n## ")[0])
        options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        options = {option for option in options if option.startswith("-")} - {"--help"}
        if "](reference-settings.md)" in told.split(f"\n## {name}\n")[1].split("\n## ")[0]:
            section |= settings
        missing = options - section
        assert missing == set(), f"headrace {name}"


def test_every_setting_is_there_in_all_its_spellings() -> None:
    words = code_words(page("reference-settings.md"))
    for option in OPTIONS.values():
        assert {option.name, variable(option.name), *option.flag.split("/")} <= words
        assert option.sentence in page("reference-settings.md")


def test_the_settings_that_limits_explains_exist() -> None:
    limits = page("limits.md")
    told = {cell.split("`")[0] for cell in first_cells(limits)}
    bounds = {option.name for option in OPTIONS.values() if option.section == "Bounds"}
    assert bounds <= set(code_words(limits)), "every bound is explained"
    assert {cell for cell in told if "_" in cell} <= set(OPTIONS)


def failure_codes() -> set[str]:
    codes = {*_subclass_codes(DocumentError), *_constants(errors), *_constants(outcome)}
    return codes - {outcome.ATTEMPTS_EXHAUSTED}  # the ledger says what used them up


def _subclass_codes(kind: type[DocumentError]) -> Iterator[str]:
    yield kind.code
    for child in kind.__subclasses__():
        if not child.__module__.startswith("headrace.service"):  # said at the door, and never in a ledger
            yield from _subclass_codes(child)


def _constants(module: object) -> set[str]:
    return {value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)}


def test_every_failure_code_has_its_row_and_no_row_is_invented() -> None:
    rows = [cell for cell in first_cells(page("reference-failures.md").split("## Exit codes")[0]) if cell != "code"]
    assert len(rows) == len(set(rows))
    assert set(rows) == failure_codes()


def test_every_exit_code_has_its_row_and_no_row_is_invented() -> None:
    table = page("reference-failures.md").split("## Exit codes")[1].split("\n## ")[0]
    rows = [cell for cell in first_cells(table) if cell != "code"]
    assert rows == [str(int(code)) for code in ExitCode]


def _names(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields)


def test_every_field_of_a_line_is_in_the_reference_of_the_output() -> None:
    models = (
        receipt.Receipt,
        receipt.Merchant,
        receipt.Extracted,
        receipt.Alternative,
        receipt.TaxLine,
        receipt.Payment,
        receipt.LineItem,
        receipt.Check,
        receipt.Source,
        receipt.Processing,
        receipt.PageFailure,
    )
    wanted = set().union(*(_names(model) for model in models))
    wanted |= set(DocumentFailure("c", "s", "d").as_dict())
    first = FirstSeen("d1", 1, "a.jpg")
    wanted |= set(exact_duplicate(first, "0" * 64, 3))
    line = Entry(
        "main", 1, 1, 1, "d1", EntryKind.FAILURE, DocumentState.FAILED, "a.jpg", None, None, b"{}", "0", "1"
    ).record()
    wanted |= set(line) | set(line["ledger"])
    assert wanted - code_words(page("reference-output.md")) == set()


def test_every_word_a_field_may_hold_is_explained() -> None:
    words = code_words(page("reference-output.md"))
    ends = {DocumentState.SUCCEEDED, DocumentState.PARTIAL, DocumentState.FAILED}
    for allowed in (receipt.FieldStatus, receipt.FieldSource):
        assert set(allowed.__args__) <= words
    assert {*EntryKind, *Verdict, *ends} <= words


def test_the_policy_on_the_page_is_the_example_that_the_code_has_and_it_loads() -> None:
    (shown,) = [block.text for block in blocks(page("policy.md")) if block.language == "toml"]
    assert shown == policy_file.EXAMPLE
    Policy.from_toml(shown)


def test_every_setting_of_a_policy_is_explained() -> None:
    words = code_words(page("policy.md"))
    for table, settings in policy_file._TABLES.items():
        assert f"[{table}]" in words
        assert set(settings) <= words
    assert set(policy_file._TOP) <= words
