"""Workers that the system does not let live: said in words with what to do, never called a bug."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.exit_codes import ExitCode
from headrace.execution import WorkerStartFailed
from headrace.ingest.worker_starts import WorkersUnavailable


def test_too_few_open_files_for_the_workers_is_said_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    run = 'ulimit -n 64; exec "$0" -m headrace run a.txt --engine null --workspace w -o out.jsonl --workers 64'
    done = subprocess.run(
        ["sh", "-c", run, sys.executable], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert "raise ulimit -n or lower --workers" in done.stderr
    assert "bug" not in done.stderr
    assert done.returncode == ExitCode.UNSAFE_CONFIG


@pytest.mark.parametrize(
    ("number", "code", "advice"),
    [
        (errno.EMFILE, ExitCode.UNSAFE_CONFIG, "ulimit -n"),
        (errno.EAGAIN, ExitCode.UNSAFE_CONFIG, "ulimit -u"),
        (errno.ENOMEM, ExitCode.UNSAFE_CONFIG, "free memory"),
        (None, ExitCode.MISSING, "headrace doctor"),
    ],
)
def test_why_no_worker_starts_has_an_exit_code_and_advice(number: int | None, code: int, advice: str) -> None:
    told = WorkersUnavailable.because(WorkerStartFailed("the worker was killed by SIGKILL", errno=number))
    assert told.exit_code == code
    assert advice in str(told)
    assert "SIGKILL" in str(told)
