"""The demo draws, runs, scores, verifies and shows; it replaces only what is its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.cli import app
from headrace.cli.demo import MARK, FolderInUse, _make_room
from headrace.cli.exit_codes import ExitCode
from headrace.simulation.truth import read_truths

COUNT = 14  # with an empty file and an encrypted one


def headrace(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "headrace", *arguments], capture_output=True, text=True, timeout=170, check=False
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("demo") / "shown"
    return headrace("demo", "--count", str(COUNT), "--dir", str(folder)), folder


def test_the_demo_ends_as_drawn_and_prints_the_path_of_its_report_last(
    done: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    ended, folder = done
    assert ended.returncode == ExitCode.OK, ended.stderr
    report = Path(ended.stdout.splitlines()[-1])
    assert report == folder / "report.html"
    html = report.read_text(encoding="utf-8")
    assert html.count('<article class="card"') == COUNT
    assert f"{COUNT} documents, every one accounted for" in html


def test_the_demo_says_each_step_on_standard_error_and_its_score_on_standard_output(
    done: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    ended, _ = done
    steps = [line for line in ended.stderr.splitlines() if line[1:3] == "/5"]
    assert [step[0] for step in steps] == ["1", "2", "3", "4", "5"]
    rows = {line.split()[0]: line.split() for line in ended.stdout.splitlines()[1:-1]}
    assert rows["outcome"][1:3] == [str(COUNT), str(COUNT)]
    assert rows["order"] == ["order", "yes", "yes"]


def test_every_drawn_file_has_one_line_in_the_order_of_the_files(
    done: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    _, folder = done
    lines = [json.loads(line) for line in (folder / "receipts.jsonl").read_text().splitlines()]
    files = [Path(line["source"]["uri"]).name for line in lines]
    truths = list(read_truths(folder / "truth.jsonl"))
    assert files == [truth.file for truth in truths]
    assert [line["kind"] for line in lines] == [str(truth.expected) for truth in truths]


def test_headrace_report_writes_the_same_cards_for_the_same_workspace(
    done: tuple[subprocess.CompletedProcess[str], Path], tmp_path: Path
) -> None:
    _, folder = done
    ended = headrace("report", "--workspace", str(folder / "workspace"), "-o", str(tmp_path / "r.html"))
    assert ended.returncode == ExitCode.OK, ended.stderr
    assert ended.stdout.strip() == str(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8").count('<article class="card"') == COUNT


def test_ctrl_c_is_handed_on_to_the_run_and_leaves_no_process(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-P", "-m", "headrace", "demo", "--count", "40", "--dir", str(tmp_path / "demo")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert demo.stderr is not None
    try:
        database = tmp_path / "demo" / "workspace" / "headrace.db"
        until = time.monotonic() + 120
        while not database.exists() and demo.poll() is None and time.monotonic() < until:
            time.sleep(0.05)  # the run is a process of its own: its files are what can be seen of it
        time.sleep(0.5)
        demo.send_signal(signal.SIGINT)
        _, told = demo.communicate(timeout=60)
    finally:
        if demo.poll() is None:
            demo.kill()
            demo.communicate()
    assert demo.returncode == ExitCode.SIGINT, told
    assert "nothing to score" in told
    assert _processes_with(str(tmp_path)) == []


def _processes_with(text: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command and int(process.name) != os.getpid():
            found.append(command)
    return found


def test_a_folder_that_is_not_the_demos_own_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "receipts").mkdir()
    (tmp_path / "receipts" / "mine.jpg").write_text("mine")
    assert app.main(["demo", "--dir", str(tmp_path)]) == ExitCode.OUTPUT
    assert "was not made by headrace demo" in capsys.readouterr().err
    assert (tmp_path / "receipts" / "mine.jpg").read_text() == "mine"


def test_an_earlier_demo_is_replaced_and_what_somebody_put_beside_it_stays(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    _make_room(folder)
    (folder / "receipts").mkdir()
    (folder / "receipts" / "receipt-1.jpg").write_text("old")
    (folder / "report.html").write_text("old")
    (folder / "notes.txt").write_text("mine")
    _make_room(folder)
    assert sorted(path.name for path in folder.iterdir()) == [MARK, "notes.txt"]


def test_a_link_in_place_of_a_folder_is_removed_and_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("keep")
    _make_room(tmp_path / "demo")
    (tmp_path / "demo" / "workspace").symlink_to(elsewhere)
    _make_room(tmp_path / "demo")
    assert (elsewhere / "precious").read_text() == "keep"


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("a file")
    with pytest.raises(FolderInUse):
        _make_room(tmp_path / "demo")


@pytest.mark.parametrize(
    "arguments",
    [["demo", "--engine", "null"], ["demo", "--count", "0"], ["demo", "--seed", "-1"], ["report", "--batch", "0"]],
)
def test_what_makes_no_sense_is_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(arguments) == ExitCode.USAGE
    assert "Usage:" in capsys.readouterr().err


def test_the_demo_takes_the_engine_that_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("headrace.toml").write_text('engine = "null"\n')
    assert app.main(["demo"]) == ExitCode.USAGE
    assert "the null engine reads nothing" in capsys.readouterr().err
    monkeypatch.setenv("HEADRACE_ENGINE", "nonsense")
    assert app.main(["demo"]) == ExitCode.USAGE
    assert "no engine is called 'nonsense'" in capsys.readouterr().err


def test_a_report_of_nothing_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = app.main(["report", "--workspace", str(tmp_path / "none"), "-o", str(tmp_path / "r.html")])
    assert code == ExitCode.USAGE
    assert "headrace run" in capsys.readouterr().err
