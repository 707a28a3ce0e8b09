"""Standard error that is closed or full: the run does not care."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.exit_codes import ExitCode


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize("options", ["", "--json-logs"])
def test_a_run_whose_standard_error_is_closed_or_full_ends_as_any_other(
    tmp_path: Path, where: str, options: str
) -> None:
    (tmp_path / "a.txt").write_text("x")
    run = f'exec "$0" -m headrace run a.txt --engine null --workspace w -o out.jsonl {options} {where}'
    done = subprocess.run(
        ["sh", "-c", run, sys.executable], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert (len(lines), done.stdout) == (1, "")
    assert done.returncode in (ExitCode.OK, ExitCode.ALL_FAILED)


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_a_usage_error_that_nobody_can_be_told_keeps_its_exit_code(where: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m headrace run --nonsense {where}', sys.executable], timeout=60, check=False
    )
    assert done.returncode == ExitCode.USAGE
