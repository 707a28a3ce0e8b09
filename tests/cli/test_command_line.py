"""The command line as a whole: help, usage errors, exit codes, and what is not loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest
import typer

from headrace import __version__
from headrace.cli import app as app_module
from headrace.cli.app import COMMANDS, Command, main
from headrace.cli.exit_codes import MEANING, ExitCode
from headrace.cli.options import run_options
from headrace.ingest.options import OPTIONS

HEAVY = ("numpy", "sqlalchemy", "pydantic", "rich", "PIL", "onnxruntime")
PRESENT = [
    name for name, command in COMMANDS.items() if (Path(app_module.__file__).parent / f"{command.module}.py").exists()
]


def headrace(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headrace", *args],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "COLUMNS": "100", **environment},
    )  # fmt: skip


def loaded_by(*args: str) -> set[str]:
    """The top-level modules that a command line loads."""
    code = (
        "import sys; from headrace.cli.app import main; sys.stdout = open('/dev/null', 'w'); "
        f"code = main({list(args)!r}); sys.__stdout__.write(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_help_lists_every_command_and_loads_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == ExitCode.OK
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown and command.sentence in shown for name, command in COMMANDS.items())


def test_help_loads_nothing_heavy() -> None:
    assert not loaded_by("--help") & set(HEAVY)


@pytest.mark.parametrize("name", PRESENT)
def test_help_of_a_command_loads_nothing_heavy_and_says_what_it_does(name: str) -> None:
    assert not loaded_by(name, "--help") & set(HEAVY)
    done = headrace(name, "--help")
    assert done.returncode == ExitCode.OK
    assert f"Usage: headrace {name}" in done.stdout
    assert done.stderr == ""


def test_no_help_line_is_wider_than_the_terminal() -> None:
    for args in (("--help",), ("plan", "--help")):
        shown = headrace(*args, COLUMNS="80").stdout
        assert max(map(len, shown.splitlines())) <= 80


def test_the_version_is_said() -> None:
    assert headrace("--version").stdout == f"headrace {__version__}\n"


def test_no_command_shows_the_help_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == ExitCode.USAGE
    shown = capsys.readouterr()
    assert "demo" in shown.out + shown.err


USAGE = [
    (["plna"], "Did you mean 'plan'?"),
    (["zzzzz"], "There are: run, demo"),
    (["plan", "--workrs", "3"], "--workers"),
    (["plan", "--workers"], "requires an argument"),
    (["plan", "--workers", "none"], "--workers: 'none' is not a whole number"),
    (["plan", "--document-timeout", "0"], "--document-timeout: '0' must be above 0"),
    (["plan", "--config", "gone.toml"], "gone.toml: there is no such config file"),
    (["config", "shwo"], "show"),
    (["--versoin"], "No such option: --versoin"),
]


@pytest.mark.parametrize(("args", "hint"), USAGE, ids=[" ".join(args) for args, _ in USAGE])
def test_a_usage_error_ends_with_2_and_names_what_was_meant(
    args: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(args) == ExitCode.USAGE
    shown = capsys.readouterr()
    assert hint in shown.err
    assert shown.out == ""


def test_every_setting_is_an_option_with_its_sentence() -> None:
    shown = " ".join(headrace("plan", "--help", COLUMNS="400").stdout.split())
    for option in OPTIONS.values():
        assert all(flag in shown for flag in option.flag.split("/"))
        assert option.sentence in shown


def test_only_what_was_typed_reaches_the_command() -> None:
    seen: dict[str, Any] = {}

    @run_options
    def command(given: dict[str, object], config: Path | None, own: int = 1) -> None:
        seen.update(given=given, config=config, own=own)

    application = typer.Typer()
    application.command()(command)
    line = ["--workers", "2", "--unordered", "--own", "3", "--byte-budget", "1GiB"]
    application(line, standalone_mode=False)
    assert seen == {
        "given": {"workers": "2", "ordered": False, "byte_budget_bytes": "1GiB"}, "config": None, "own": 3,
    }  # fmt: skip


class Broken(Exception):
    exit_code = 9


def _command(monkeypatch: pytest.MonkeyPatch, function: Any) -> list[str]:
    """Puts a command of the test's own into the table."""
    module = ModuleType("headrace.cli.probe")
    module.probe = function  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "probe", Command("probe", "probe", "Test", "A probe."))
    return ["probe"]


def test_an_error_that_carries_its_exit_code_ends_with_it_and_its_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def probe() -> NoReturn:
        raise Broken("one line\nand another")

    assert main(_command(monkeypatch, probe)) == 9
    assert capsys.readouterr().err == "headrace: one line\nheadrace: and another\n"


def test_a_bug_says_that_it_is_one_and_where_the_traceback_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def probe() -> NoReturn:
        raise KeyError("voucher")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(_command(monkeypatch, probe)) == ExitCode.BUG
    said = capsys.readouterr().err
    (trace,) = tmp_path.glob("headrace-bug-*.txt")
    assert said == f"headrace: this is a bug in headrace (KeyError: 'voucher'); the traceback is in {trace}\n"
    assert "raise KeyError" in trace.read_text()


def test_verbose_shows_the_traceback_of_a_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def probe(verbose: bool = typer.Option(False, "-v")) -> NoReturn:
        raise KeyError("voucher")

    assert main([*_command(monkeypatch, probe), "-v"]) == ExitCode.BUG
    assert "raise KeyError" in capsys.readouterr().err


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, typer.Abort])
def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch, interrupt: type[BaseException]) -> None:
    def probe() -> NoReturn:
        raise interrupt

    assert main(_command(monkeypatch, probe)) == ExitCode.SIGINT


@pytest.mark.parametrize("way", ["return", "raise"])
def test_the_exit_code_of_a_command_is_the_exit_code_of_the_process(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    def probe() -> int:
        if way == "raise":
            raise typer.Exit(3)
        return 3

    assert main(_command(monkeypatch, probe)) == ExitCode.SOME_FAILED


def test_a_command_that_is_not_installed_breaks_only_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(COMMANDS, "absent", Command("absent", "absent", "Test", "Not there."))
    assert main(["absent"]) == ExitCode.MISSING
    assert "not part of this installation" in capsys.readouterr().err
    assert main(["--help"]) == ExitCode.OK


def test_a_package_that_is_missing_is_named_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "headrace.cli.config", None)  # as if it could not be imported
    monkeypatch.setattr(app_module, "import_module", _raising(ModuleNotFoundError("no", name="pyarrow")))
    assert main(["export"]) == ExitCode.MISSING
    assert "needs pyarrow: pip install 'headrace[all]'" in capsys.readouterr().err


def _raising(error: Exception) -> Any:
    def raise_it(*_: object) -> NoReturn:
        raise error

    return raise_it


def test_a_reader_that_goes_away_is_no_drama() -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "config", "example"], stdout=write, stderr=subprocess.PIPE, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.returncode == ExitCode.OUTPUT
    assert done.stderr == ""


def test_a_name_that_is_no_text_can_be_printed() -> None:
    code = "from headrace.cli.app import main; main(['--version']); print(b'caf\\xe9'.decode(errors='surrogateescape'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert b"caf\\udce9" in done.stdout


def test_every_exit_code_has_a_meaning() -> None:
    assert set(MEANING) == set(ExitCode)


def test_an_output_without_a_name_is_a_usage_error(tmp_path: Path) -> None:
    done = headrace("run", str(tmp_path), "--engine", "null", "--workspace", str(tmp_path / "w"), "-o", "")
    assert done.returncode == ExitCode.USAGE
    assert "it names no file" in done.stderr
    assert not (tmp_path / "w").exists()
