"""The doctor: each check really does the thing, and says what to do when it fails."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import checks
from headrace.cli.app import main
from headrace.cli.checks import Check, State
from headrace.cli.doctor import exit_code
from headrace.cli.exit_codes import ExitCode
from headrace.cli.scaling import Scaling, Work, compare, explain, measure
from headrace.flow.machine import available_cores
from headrace.ocr import registry
from headrace.ocr.registry import EngineStatus, thread_environment
from headrace.storage.sqlite import SqliteStore

CORES = available_cores().value


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_the_doctor_answers_as_json_and_with_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--json", "--no-scaling"])
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] == (code == ExitCode.OK)
    groups = {check["group"] for check in found["checks"]}
    assert groups == {"Machine", "Engines", "Formats", "Store"}
    names = {check["name"] for check in found["checks"]}
    assert {"Python", "cores", "memory", "rapidocr", "tesseract", "null", "HEIC", "PDF", "fsync", "WAL"} <= names


def test_the_doctor_for_people_says_what_comes_next(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor", "--no-scaling"])
    shown = capsys.readouterr().out
    assert ("All is well" in shown) == (code == ExitCode.OK)
    assert "fsync" in shown


def test_where_a_workspace_is_the_next_step_is_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, step in (("none", "headrace demo"), ("made", "headrace run")):
        if name == "made":
            with SqliteStore.open(tmp_path / name):
                pass
        main(["doctor", "--no-scaling", "--workspace", str(tmp_path / name)])
        assert f"Next: {step}" in capsys.readouterr().out


def test_a_missing_default_engine_ends_with_6_and_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = (EngineStatus("tesseract", False, "no module named tesserocr"),)
    monkeypatch.setattr(registry, "available_engines", lambda: gone)
    monkeypatch.setenv("HEADRACE_ENGINE", "tesseract")
    assert main(["doctor", "--no-scaling"]) == ExitCode.MISSING
    shown = capsys.readouterr().out
    assert "pip install 'headrace[tesseract]'" in shown
    assert "1 to repair" in shown


def test_an_engine_that_is_not_asked_for_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = (EngineStatus("tesseract", False, "no module named tesserocr"),)
    monkeypatch.setattr(registry, "available_engines", lambda: gone)
    (check,) = (found for found in checks.engine_checks("rapidocr") if found.name == "tesseract")
    assert check.state is State.OPTIONAL
    assert "headrace[tesseract]" in check.advice


def test_a_version_that_is_known_to_be_broken_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_version", lambda package: "2.10.0")
    broken = [check for check in checks.engine_checks("null") if check.state is State.BROKEN]
    assert [check.name for check in broken] == ["tesserocr"]


def test_every_format_of_this_installation_is_really_decoded() -> None:
    assert {
        check.name: check.state for check in checks.format_checks() if check.state is not State.OPTIONAL
    } == dict.fromkeys((*checks._READERS, *(["Parquet (export)"] if checks._version("pyarrow") else [])), State.OK)


def test_a_format_that_cannot_be_decoded_is_missing_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise ModuleNotFoundError("No module named 'pillow_heif'", name="pillow_heif")

    monkeypatch.setitem(checks._READERS, "HEIC", broken)
    (heic,) = (check for check in checks.format_checks() if check.name == "HEIC")
    assert (heic.state, heic.advice) == (State.MISSING, "pip install 'pillow_heif'")


def test_a_pillow_without_avif_stops_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise KeyError("AVIF")

    monkeypatch.setitem(checks._READERS, "AVIF", missing)
    (found,) = [check for check in checks.format_checks() if check.name == "AVIF"]
    assert found.state is State.OPTIONAL


def test_the_doctor_leaves_nothing_in_the_folder(tmp_path: Path) -> None:
    found = {check.name: check for check in checks.store_checks(tmp_path / "new" / "workspace")}
    assert found["workspace"].state in (State.OK, State.NOTE)
    assert "would be made" in found["workspace"].detail
    assert list(tmp_path.iterdir()) == []


def test_a_workspace_that_cannot_be_written_is_broken_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:  # root may write anywhere: take away the room instead of the right
        target = Path("/proc/self/fdinfo")
    else:
        target = tmp_path
        target.chmod(stat.S_IRUSR | stat.S_IXUSR)
    found = {check.name: check for check in checks.store_checks(target)}
    assert found["workspace"].state is State.BROKEN
    assert "--workspace" in found["workspace"].advice


def test_settings_that_make_no_sense_are_one_of_the_findings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADRACE_WORKERS", "0")
    assert main(["doctor", "--no-scaling"]) == ExitCode.BUG
    assert "HEADRACE_WORKERS: '0' is less than 1" in " ".join(capsys.readouterr().out.split())


CODES = [([State.OK, State.NOTE, State.OPTIONAL], ExitCode.OK), ([State.OK, State.BROKEN], ExitCode.BUG),
         ([State.BROKEN, State.MISSING], ExitCode.MISSING), ([], ExitCode.OK)]  # fmt: skip


@pytest.mark.parametrize(("states", "expected"), CODES)
def test_only_what_stops_a_run_ends_the_doctor_with_an_error(states: list[State], expected: ExitCode) -> None:
    assert exit_code(Check("g", "n", state, "d") for state in states) == expected


def scaling(**change: Any) -> Scaling:
    values: dict[str, Any] = {
        "workers": 4, "one_per_s": 100.0, "many_per_s": 380.0, "efficiency": 0.95, "core_share": 0.99, "threads": 1,
    }  # fmt: skip
    return Scaling(**(values | change))


EXPLAINED = [
    (scaling(), True, "4 workers do 3.80 times the work of one (95% of perfect)"),
    (scaling(threads=8), False, "oversubscription"),
    (scaling(efficiency=0.5, core_share=0.5), True, "other programs took the rest"),
    (scaling(efficiency=0.5, core_share=1.0), True, "share their caches"),
    (scaling(workers=1, efficiency=0.3), True, "1 workers do 0.30 times"),
]


@pytest.mark.parametrize(("found", "good", "said"), EXPLAINED)
def test_the_self_test_says_why_it_scaled_as_it_did(found: Scaling, good: bool, said: str) -> None:
    assert explain(found)[0] is good
    assert said in explain(found)[1]


def test_efficiency_is_what_many_do_over_what_as_many_alone_would() -> None:
    found = compare(Work(100, 1.0, 1.0, 1), [Work(90, 1.0, 0.9, 1), Work(90, 1.0, 0.9, 1)])
    assert (found.efficiency, found.core_share, found.oversubscribed) == (0.9, 0.9, False)


def test_a_test_that_did_nothing_says_nothing() -> None:
    with pytest.raises(ValueError, match="too busy"):
        compare(Work(0, 1.0, 0.0, 1), [Work(1, 1.0, 1.0, 1)])


def test_workers_with_the_thread_environment_run_one_thread_each() -> None:
    found = measure(2, 0.1, thread_environment())
    assert found.threads == 1
    assert found.many_per_s > 0


@pytest.mark.skipif(CORES < 2, reason="a library starts no second thread on one core")
def test_a_library_that_starts_its_own_threads_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in thread_environment():
        monkeypatch.delenv(name, raising=False)
    found = measure(1, 0.1, {})
    assert found.oversubscribed
    assert "oversubscription" in explain(found)[1]
