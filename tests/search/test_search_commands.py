from __future__ import annotations

import json
from pathlib import Path

import pytest
from search_workspace import FOUR, TAXI, add_receipts, receipts_in

from headrace.cli.app import main


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("searched")
    add_receipts(folder, FOUR)
    return folder


def test_search_says_what_is_not_indexed_and_finds_it_once_it_is(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--workspace", str(workspace)]
    assert main(["search", "cab", *at]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "6 entries of the ledger are not indexed yet and cannot be found; headrace index update" in said.err

    assert main(["index", "update", *at, "--sessions", "1"]) == 0
    assert capsys.readouterr().out == "4 receipts taken in, 4 receipts embedded\n"
    assert main(["index", "update", *at, "--sessions", "1", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["taken_in"], again["embedded"], again["failed"]) == (0, 0, 0)

    assert main(["search", "cab", "in", "Lisbon", "--after", "2026-01-01", "--min-total", "50", *at]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.splitlines()[0].split() == f"main-000001 2026-02-03 61.40 EUR {TAXI[0]} scans/0.jpg".split()

    assert main(["search", "bread", "--json", "--limit", "1", *at]) == 0
    found = json.loads(capsys.readouterr().out)
    (hit,) = found["hits"]
    assert (hit["voucher"], hit["total"], hit["by"]) == ("main-000002", "7.85", ["words", "meaning"])
    assert hit["document_id"] == receipts_in(workspace)[1].document_id
    assert found["complete"] is True

    assert main(["index", "rebuild", *at]) == 0
    assert capsys.readouterr().out == "the index was made afresh\n"
    assert main(["index", "status", "--json", *at]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["receipts"], status["embedded"], status["in_index_file"]) == (4, 4, 4)
    assert (status["entries_behind"], status["beside_index_file"]) == (0, 0)
    assert main(["index", "status", *at]) == 0
    assert "4, 4 of them with a vector" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        ["--after", "yesterday"],
        ["--min-total", "much"],
        ["--min-total", "NaN"],
        ["--verdict", "duplicate"],
        ["--limit", "0"],
        ["--endpoint", "http://127.0.0.1:1/v1"],
        ["--endpoint", "file:///etc", "--model", "m"],
        ["--after", "2026-02-01", "--before", "2026-01-01"],
    ],
)
def test_an_option_that_makes_no_sense_is_a_usage_error(
    workspace: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", "bread", "--workspace", str(workspace), *options]) == 2
    assert "headrace: this is a bug" not in capsys.readouterr().err


def test_the_keys_of_other_services_in_the_environment_are_no_unknown_settings(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HEADRACE_EMBEDDINGS_KEY", "HEADRACE_API_KEY"):
        monkeypatch.setenv(name, "secret")
    assert main(["index", "status", "--workspace", str(workspace)]) == 0
    assert "secret" not in capsys.readouterr().out
