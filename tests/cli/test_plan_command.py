"""`headrace plan` shows every bound with its sum, and refuses what could take too much memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.app import main
from headrace.cli.exit_codes import ExitCode
from headrace.cli.formats import readable_bytes, readable_rate
from headrace.cli.plan import TITLES
from headrace.flow.machine import Machine
from headrace.ingest.bounds import Bounds, derive
from headrace.ingest.engine_costs import ENGINE_COSTS
from headrace.ingest.options import OPTIONS, Kind
from headrace.ingest.settings import RunSettings


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One look at the machine for command and test: free memory changes by the second."""
    once = Machine.read()
    monkeypatch.setattr(Machine, "read", lambda root=None: once)
    return once


def bounds_of(machine: Machine, **given: Any) -> Bounds:
    settings = RunSettings.load(given)
    return derive(settings, machine, ENGINE_COSTS[settings.engine])


@pytest.mark.parametrize("engine", sorted(ENGINE_COSTS))
def test_the_plan_shows_each_bound_with_its_sum(
    engine: str, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--engine", engine]) == ExitCode.OK
    shown = capsys.readouterr().out
    for name, bound in bounds_of(machine, engine=engine).sums.items():
        assert TITLES[name] in shown
        assert bound.because in shown


def test_the_plan_shows_every_limit_that_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan"]) == ExitCode.OK
    shown = capsys.readouterr().out
    for option in OPTIONS.values():
        if option.kind in (Kind.COUNT, Kind.SIZE, Kind.DURATION) and option.default is not None:
            assert option.sentence in shown or option.name == "read_ahead"


def test_the_plan_promises_memory_speed_and_delay(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--engine", "tesseract", "--workers", "2"]) == ExitCode.OK
    shown = capsys.readouterr().out
    bounds = bounds_of(machine, engine="tesseract", workers="2")
    assert f"Memory   at most {readable_bytes(bounds.tree_ceiling_bytes)} of" in shown
    assert f"about {readable_rate(bounds.documents_per_s)} documents/s" in shown
    assert "never more than" in shown


def test_the_plan_as_json_has_the_numbers_and_nothing_else_on_standard_output(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--json", "--window", "11", "--workers", "1"]) == ExitCode.OK
    plan = json.loads(capsys.readouterr().out)
    bounds = bounds_of(machine, window="11", workers="1")
    assert {name: bound["value"] for name, bound in plan["bounds"].items()} == {
        name: bound.value for name, bound in bounds.sums.items()
    }
    assert plan["bounds"]["window"]["origin"] == "cli --window"
    assert plan["bounds"]["page_timeout_s"]["origin"] == "derived"
    assert plan["settings"]["attempts"] == {"value": 2, "unit": "attempts", "origin": "default"}


def test_a_plan_over_the_memory_limit_ends_with_9_and_the_sum(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--workers", "100", "--memory-limit", "4GiB"]) == ExitCode.UNSAFE_CONFIG
    said = capsys.readouterr()
    assert "100 x" in said.err
    assert "over the memory limit 4 GiB" in said.err
    assert said.out == ""


def test_the_options_of_a_run_and_its_sources_may_stand_after_plan(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("headrace.toml").write_text("window = 20\n")
    monkeypatch.setenv("HEADRACE_WORKERS", "1")
    assert main(["plan", "scans/", "more.zip", "--unordered", "--commit-batch", "5"]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert all(place in shown for place in ("file headrace.toml", "env HEADRACE_WORKERS", "cli --commit-batch"))
