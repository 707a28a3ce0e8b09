"""docs/client.md: its programs run, and its words are those of the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from drawn_paper import png
from service_process import ServiceProcess

from headrace import client
from headrace.client.attempts import PATIENCE

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_of_the_page_runs(service: ServiceProcess, tmp_path: Path, number: int) -> None:
    (tmp_path / "slip.png").write_bytes(png(f"{tmp_path} a slip"))
    (tmp_path / "scans").mkdir()
    for name in ("a", "b"):
        (tmp_path / "scans" / f"{name}.png").write_bytes(png(f"{tmp_path} {name}"))
    program = f"URL = {service.url!r}\n{PROGRAMS[number]}"
    if "from pathlib" not in program:
        program = f"from pathlib import Path\n{program}"
    (tmp_path / "program.py").write_text(program)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    ran = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout


def test_there_are_programs_for_one_for_many_and_for_asyncio() -> None:
    assert len(PROGRAMS) == 3


def test_every_error_is_on_the_page() -> None:
    errors = {
        name
        for name in client.__all__
        if isinstance(getattr(client, name), type) and issubclass(getattr(client, name), client.ClientError)
    }
    told = set(re.findall(r"`([A-Za-z]+)`", PAGE))
    assert errors - told <= {"ProblemError", "UnexpectedAnswer"}


def test_the_retries_bridge_what_the_page_says() -> None:
    waits = [min(PATIENCE.longest_delay_s, PATIENCE.first_delay_s * PATIENCE.factor**n) for n in range(7)]
    assert 10 < sum(waits) / 2 < 20, "about 15 s on average, as jitter is drawn from 0 up"
