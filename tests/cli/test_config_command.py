"""`headrace config` shows settings with their origin, and writes a config file that works."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path

import pytest

from headrace.cli.app import main
from headrace.cli.config import example_file
from headrace.cli.exit_codes import ExitCode
from headrace.ingest.options import OPTIONS
from headrace.ingest.settings import RunSettings


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def test_show_names_every_setting_and_where_it_came_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADRACE_WINDOW", "7")
    Path("headrace.toml").write_text("attempts = 3\n")
    assert main(["config", "show", "--origin", "--workers", "2"]) == ExitCode.OK
    rows = {row.split()[0]: row for row in capsys.readouterr().out.splitlines() if row.strip()}
    assert set(OPTIONS) <= set(rows)
    assert "cli --workers" in rows["workers"]
    assert "env HEADRACE_WINDOW" in rows["window"]
    assert "file headrace.toml" in rows["attempts"]
    assert "derived" in rows["byte_budget_bytes"]


def test_show_as_json_is_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "--json", "--byte-budget", "2MiB"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == RunSettings(byte_budget_bytes=2**21).model_dump(mode="json")
    assert main(["config", "show", "--json", "--origin"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["engine"] == {"value": "rapidocr", "origin": "default"}


def test_the_example_changes_nothing_as_it_stands() -> None:
    Path("headrace.toml").write_text(example_file())
    assert RunSettings.load() == RunSettings()


def test_the_example_with_every_line_taken_in_is_the_defaults() -> None:
    taken_in = re.sub(r"^#(\w+ = )", r"\1", example_file(), flags=re.MULTILINE)
    assert list(tomllib.loads(taken_in)) == list(OPTIONS)
    without_files = taken_in.replace('policy = "policy.toml"', "").replace('merchants = "merchants.jsonl"', "")
    Path("headrace.toml").write_text(without_files)
    settings = RunSettings.load()
    assert settings.model_dump() == RunSettings().model_dump()
    assert str(settings.origin("workers")) == "derived"


def test_the_example_is_printed_for_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "example"]) == ExitCode.OK
    assert capsys.readouterr().out == example_file()
