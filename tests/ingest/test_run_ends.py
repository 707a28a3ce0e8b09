"""How a run ends: exit codes, what is written, and what it says when it cannot go on."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_support import Place, Process, run_together, wait_for

from headrace.flow.machine import Machine
from headrace.ingest.bounds import derive
from headrace.ingest.engine_costs import ENGINE_COSTS
from headrace.ingest.runtime import Run, run_batch
from headrace.ingest.settings import RunSettings
from headrace.ingest.snapshot import Phase, Snapshot
from headrace.ingest.sources import parse_sources
from headrace.storage.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("names", "code"),
    [((), 0), (("r1.jpg", "broken.jpg"), 3), (("broken-1.jpg", "broken-2.jpg"), 4)],
    ids=["an empty folder", "some failed", "all failed"],
)
def test_the_exit_code_says_how_many_failed(place: Place, names: tuple[str, ...], code: int) -> None:
    place.write(*names)
    place.run(code=code)
    counted = [place.summary[name] for name in ("accepted", "failed", "in_flight")]
    assert counted == [len(names), sum("broken" in name for name in names), 0]


def test_fail_fast_stops_at_the_first_failure_ends_with_3_and_goes_on_from_there(place: Place) -> None:
    place.write("broken.jpg", *(f"slow{number}.jpg" for number in range(14)))
    process = place.run("--fail-fast", "--commit-batch", "1", "--window", "4", code=3)
    assert place.summary["left"] > 5
    assert "left, kept in the workspace" in process.stderr
    assert place.problem() == ""
    place.run(code=3)
    assert len(place.lines()) == 15
    assert place.problem() == ""


def test_strict_ends_with_7_when_a_receipt_is_not_accepted(place: Place) -> None:
    place.numbered(1)
    place.run("--strict", code=7)


def test_a_dry_run_counts_and_writes_nothing(place: Place) -> None:
    place.numbered(3)
    place.write("notes.txt")
    before = set(place.root.rglob("*"))
    process = place.run("--dry-run")
    assert b"3 documents" in process.stdout
    assert b"1 left out: .txt" in process.stdout
    after = {path for path in place.root.rglob("*") if not path.name.startswith(("stdout-", "stderr-"))}
    assert after == before


def test_unordered_releases_what_is_ready_before_a_slow_head(place: Place) -> None:
    place.write("a-gate.jpg", *(f"x{number}.jpg" for number in range(9)))
    process = place.start("--unordered", "--workers", "2")
    assert wait_for(lambda: place.output.exists() and len(place.output.read_bytes().splitlines()) == 9)
    place.open_gate()
    assert process.wait() == 0
    assert place.names()[-1] == "a-gate.jpg"
    assert sorted(place.names()) == ["a-gate.jpg", *(f"x{number}.jpg" for number in range(9))]
    assert place.summary["order_ok"] is None
    assert place.problem() == ""


def test_ordered_releases_nothing_before_a_slow_head_and_holds_no_more_than_the_window(place: Place) -> None:
    place.write("a-gate.jpg", *(f"g{number}.jpg" for number in range(40)))
    process = place.start("--workers", "2", "--window", "6")
    assert wait_for(lambda: len(place.begun()) == 6)
    wait_for(lambda: len(place.begun()) > 6, within_s=0.5)
    assert len(place.begun()) == 6, "submitted and not yet handed on"
    assert place.output.read_bytes() == b""
    place.open_gate()
    assert process.wait() == 0
    assert place.names()[0] == "a-gate.jpg"
    assert place.problem() == ""


def test_the_window_holds_at_every_look(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.numbered(400)
    monkeypatch.chdir(place.root)
    settings = RunSettings.load(
        {"engine": "null", "workers": 2, "window": 16, "workspace": str(place.workspace)},
        config=None,
    )
    bounds = derive(settings, Machine.read(), ENGINE_COSTS["null"])
    sources = parse_sources(["in"], stdin=io.BytesIO(), workspace=place.workspace)
    seen: list[Snapshot] = []
    ended = asyncio.run(run_batch(Run(settings, bounds, sources, output=str(place.output)), seen.append))
    summary = ended.summary
    assert ended.error is None
    assert (summary.accounted, summary.accepted, summary.succeeded) == (True, 400, 400)
    assert seen[0].phase in (Phase.LISTING, Phase.READING)
    assert all(look.window_used <= look.window_limit == 16 for look in seen)
    assert all(look.bytes_in_flight <= look.byte_budget for look in seen)
    assert all(look.documents_done <= (look.documents_total or 0) for look in seen)
    assert [line["position"] for line in place.lines()] == list(range(1, 401))


def test_peak_memory_stays_under_the_ceiling_that_was_said_before_the_start(place: Place) -> None:
    place.write(*(f"slow{number}.jpg" for number in range(12)), *(f"x{number}.jpg" for number in range(400)))
    process = place.run("--workers", "2", "--window", "64", fresh=True)
    summary = place.summary
    assert f"({summary['rss_ceiling_bytes']} bytes)" in process.stderr.splitlines()[0]
    assert 0 < summary["peak_rss_bytes"] <= summary["rss_ceiling_bytes"]


def test_two_workspaces_come_to_the_same_hashes(tmp_path: Path) -> None:
    places = [Place(tmp_path / name) for name in ("one", "another")]

    def case(place: Place, *options: str) -> Iterator[Process]:
        place.numbered(30)
        place.write("broken.jpg")
        yield place.start(*options)

    run_together(case(places[0]), case(places[1], "--workers", "2", "--window", "5", "--commit-batch", "1"))
    assert places[1].problem(places[0].hashes()) == ""


def test_a_second_run_at_once_is_told_who_has_the_workspace(place: Place) -> None:
    place.write("gate.jpg")
    first = place.start()
    assert wait_for(place.begun)
    second = place.run(code=2, output="/dev/null")
    assert f"is in use by process {first.pid}; wait for it, stop it, or use --workspace" in second.stderr
    place.open_gate()
    assert first.wait() == 0


@pytest.mark.parametrize("workspace", ["in/r1.jpg/workspace", "/proc/workspace", "in/r1.jpg"])
def test_a_workspace_that_cannot_be_written_is_said(place: Place, workspace: str) -> None:
    place.numbered(1)
    process = place.run("--workspace", workspace, code=5)
    assert f"headrace: the workspace {workspace} cannot be used: " in process.stderr


def test_an_engine_that_is_not_there_is_said_before_any_work(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.ingest import runtime
    from headrace.ocr.registry import EngineStatus

    place.numbered(1)
    missing = (EngineStatus("null", available=False, detail="pip install 'headrace[all]'"),)
    monkeypatch.setattr(runtime, "available_engines", lambda: missing)
    process = place.run(code=6)
    assert "the engine null is not available: pip install 'headrace[all]'" in process.stderr
    assert not place.workspace.exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", disk], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def fill(disk: Path, free_bytes: int) -> Path:
    """Leaves so much room on the disk; gives the file that takes the rest."""
    state = os.statvfs(disk)
    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * max(0, state.f_bavail * state.f_bsize - free_bytes))
    return ballast


def test_a_full_disk_is_said_leaves_no_half_entry_and_the_same_command_goes_on(place: Place, small_disk: Path) -> None:
    place.workspace = small_disk / "workspace"
    place.numbered(200)
    full_at = []
    for free_bytes in (0, 150_000, 600_000):  # the tables do not fit, the names do not fit, the entries do not fit
        ballast = fill(small_disk, free_bytes)
        process = place.run(code=5)
        said = process.stderr.splitlines()[-1]
        assert said.startswith("headrace: "), said
        assert any(word in said for word in ("full", "no room", "No space")), said
        assert "Errno" not in said
        ballast.unlink()
        with SqliteStore.open(place.workspace) as store:
            batches = store.batches()
        full_at.append(len(place.ledger()) if batches else 0)
        assert all(place.accounts(batch.batch_id).holds for batch in batches)
    assert 0 < full_at[-1] < 200, "it was full in the middle of the ledger"
    place.run()
    assert len(place.lines()) == 200
    assert place.problem() == ""


def test_a_store_that_fills_up_under_a_signal_ends_with_the_reason(place: Place, small_disk: Path) -> None:
    place.workspace = small_disk / "workspace"
    place.write("gate.jpg", *(f"x{number}.jpg" for number in range(50)))
    process = place.start("--drain-deadline", "100s")
    assert wait_for(place.begun)
    ballast = fill(small_disk, 0)
    process.signal(signal.SIGINT)
    place.open_gate()
    assert process.wait() in (5, 130)
    ballast.unlink()
    place.run()
    assert place.problem() == ""
    assert len(place.lines()) == 51
