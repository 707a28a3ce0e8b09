from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import blocks, page

ENDS_WITH = re.compile(r"# ends with (\d+)")
FAST = "tesseract"  # reads the drawn receipts in a second; which engine reads is not what the pages are about


def commands(name: str, language: str = "sh") -> list[tuple[str, int]]:
    """Each command of a page's blocks in this language, and the exit code that the page says it ends with."""
    lines = [line for block in blocks(page(name)) if block.language == language for line in block.text.splitlines()]
    return [(line.split(" #")[0].strip(), _code(line)) for line in lines if line.strip()]


def _code(line: str) -> int:
    told = ENDS_WITH.search(line)
    return int(told[1]) if told else 0


def run(command: str, folder: Path, engine: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of a page as a reader would, in a shell."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment |= {"PATH": path, "HEADRACE_ENGINE": engine, "CI": "1"}
    return subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, int, int, str]]]:
    """The folder after all commands of getting-started, and how each ended: command, told, actual, what it said."""
    folder = tmp_path_factory.mktemp("started")
    ended = []
    for command, code in commands("getting-started.md"):
        # The demo takes the default engine unless told; what it scores depends on the engine, that it works does not.
        typed = f"{command} --engine {FAST}" if command.startswith("headrace demo") else command
        ran = run(typed, folder, FAST)
        told = ran.returncode if command.startswith("headrace demo") and ran.returncode in (0, 3) else code
        ended.append((command, told, ran.returncode, ran.stdout + ran.stderr))
    return folder, ended


def test_every_command_of_getting_started_ends_as_the_page_says(
    started: tuple[Path, list[tuple[str, int, int, str]]],
) -> None:
    _, ended = started
    assert len(ended) >= 10
    for command, told, actual, said in ended:
        assert actual == told, f"{command}\n{said}"


def test_getting_started_leaves_what_it_speaks_of(started: tuple[Path, list[tuple[str, int, int, str]]]) -> None:
    folder, ended = started
    said = {command: text for command, _, _, text in reversed(ended)}  # of one that is run twice, the first time
    assert (folder / "headrace-demo" / "report.html").stat().st_size > 10_000
    assert (folder / "receipts.jsonl").read_text().count("\n") == 8
    assert (folder / "receipts.csv").read_text().count("\n") >= 9
    first_run = said["headrace run scans/ -o receipts.jsonl"]
    assert "8 accepted = 7 receipts + 0 duplicates + 1 failed + 0 in flight" in first_run
    assert "8 left out" in ended[-1][3]
    assert "empty-file" in said["headrace dead list"]
    assert "main: the chain holds, 8 entries" in said["headrace verify"]


def test_the_install_commands_name_extras_that_exist() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    pages_with_extras = "".join(page(name) for name in ("getting-started.md", "limits.md", "ledger.md"))
    extras = re.findall(r"pip install '\.\[(\w+)\]'", pages_with_extras)
    assert {"all", "tesseract", "parquet"} <= set(extras) <= set(project["optional-dependencies"])


@pytest.fixture
def folder_of_the_exit_codes(tmp_path: Path) -> Path:
    """What run.md says is there. The null engine reads them, so content need not be an image."""
    for name, contents in {"scans": (b"1", b"2"), "mixed": (b"3", b""), "broken": (b"", b""), "more": (b"4",)}.items():
        (tmp_path / name).mkdir()
        for number, content in enumerate(contents, 1):
            (tmp_path / name / f"{number}.jpg").write_bytes(content)
    (tmp_path / "notes.txt").write_text("mine\n")
    return tmp_path


def test_the_exit_codes_that_run_shows_by_example_are_true(folder_of_the_exit_codes: Path) -> None:
    examples = commands("run.md")
    assert {code for _, code in examples} == {0, 2, 3, 4, 5, 7, 9}
    for command, code in examples:
        ran = run(command, folder_of_the_exit_codes, "null")
        assert ran.returncode == code, f"{command}\n{ran.stdout}{ran.stderr}"
    assert (folder_of_the_exit_codes / "notes.txt").read_text() == "mine\n"


def test_the_readme_names_scripts_that_exist_and_can_be_run() -> None:
    root = Path(__file__).parents[2]
    for name in ("demo", "test"):
        assert f"script/{name}" in (root / "README.md").read_text()
        assert os.access(root / "script" / name, os.X_OK)
    assert shutil.which("bash")
