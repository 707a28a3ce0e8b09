"""Ctrl-C and SIGTERM: once drains by the deadline, twice stops now; the same command goes on with what is left."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
import time
from pathlib import Path

import pytest
from run_support import Place, Process, wait_for

AT_ONCE_S = 15.0  # the machine may be busy; the deadlines below are far longer


def at_the_gate(place: Place, *options: str, **how: object) -> Process:
    """A run of r1, two documents that wait at a gate, and 20 more; both workers wait."""
    place.write("gate-a.jpg", "gate-b.jpg", "gA.jpg", *(f"x{number}.jpg" for number in range(20)))
    process = place.start("--workers", "2", *options, **how)  # type: ignore[arg-type]
    assert wait_for(lambda: {"gate-a.jpg", "gate-b.jpg"} <= set(place.begun()))
    return process


def resumed(place: Place, tmp_path: Path) -> None:
    """The same command goes on, and comes to the ledger of an undisturbed run."""
    place.open_gate()
    place.run()
    whole = Place(tmp_path / "whole")
    whole.open_gate()
    whole.write(*(os.fsencode(path.name) for path in place.documents.iterdir() if not path.name.startswith(".")))
    whole.run()
    assert place.problem(whole.hashes()) == ""
    assert place.summary["in_flight"] == 0


def test_ctrl_c_finishes_what_runs_says_what_is_left_and_resumes(place: Place, tmp_path: Path) -> None:
    process = at_the_gate(place, "--drain-deadline", "100s")
    process.signal(signal.SIGINT)
    assert wait_for(lambda: "draining" in process.stderr)
    assert process.poll() is None, "it waits for what runs"
    place.open_gate()
    assert process.wait(AT_ONCE_S) == 130
    summary = place.summary
    assert summary["interrupted"]
    assert summary["accepted"] == 23
    assert 0 < summary["left"] == summary["in_flight"] < 23
    assert f"{summary['left']} left, kept in the workspace" in process.stderr
    assert {"gate-a.jpg", "gate-b.jpg"} <= set(place.names()), "what was begun is in the output"
    assert place.problem() == ""
    assert process.workers() == []
    resumed(place, tmp_path)


def test_ctrl_c_gives_up_at_the_deadline_and_charges_nobody(place: Place, tmp_path: Path) -> None:
    process = at_the_gate(place, "--drain-deadline", "200ms")
    process.signal(signal.SIGINT)
    assert process.wait(AT_ONCE_S) == 130
    assert place.summary["left"] >= 22
    assert process.workers() == []
    resumed(place, tmp_path)
    assert place.begun().count("gate-a.jpg") == 2
    assert [line["kind"] for line in place.lines()] == ["receipt"] * 23


def test_ctrl_c_twice_stops_at_once_and_resumes(place: Place, tmp_path: Path) -> None:
    process = at_the_gate(place, "--drain-deadline", "1000s", fresh=True)
    process.signal(signal.SIGINT)
    assert wait_for(lambda: "draining" in process.stderr)
    process.signal(signal.SIGINT)
    assert process.wait(AT_ONCE_S) == 130
    assert "Traceback" not in process.stderr
    assert place.summary["left"] >= 22
    assert process.workers() == []
    resumed(place, tmp_path)


def test_sigterm_drains_too_and_ends_with_143(place: Place) -> None:
    process = at_the_gate(place, "--drain-deadline", "100s")
    process.signal(signal.SIGTERM)
    assert wait_for(lambda: "draining" in process.stderr)
    place.open_gate()
    assert process.wait(AT_ONCE_S) == 143
    assert place.summary["interrupted"]
    assert place.problem() == ""


@pytest.mark.parametrize("delay_s", [0.0, 0.2])
def test_ctrl_c_while_it_starts_ends_it_without_a_traceback(place: Place, delay_s: float) -> None:
    place.write("gate-a.jpg")
    process = place.start("--drain-deadline", "100ms", fresh=True)
    assert wait_for(lambda: (place.workspace / "headrace.db").exists())
    time.sleep(delay_s)  # any moment will do
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(AT_ONCE_S) == 130
    assert "Traceback" not in process.stderr
    assert wait_for(lambda: not process.workers(), within_s=5)


def test_an_endless_list_on_stdin_is_worked_on_before_its_end_and_ctrl_c_ends_it(place: Place) -> None:
    names = place.numbered(5)
    reads, writes = os.pipe()
    process = place.start(sources=("-",), stdin=reads, fresh=True)
    os.close(reads)
    with open(writes, "wb", buffering=0) as list_of_names:
        list_of_names.write(b"".join(b"in/%s\n" % os.fsencode(name.name) for name in names))
        assert wait_for(lambda: place.output.exists() and len(place.output.read_bytes().splitlines()) == 5)
        assert process.poll() is None
        process.signal(signal.SIGINT)
        assert process.wait(AT_ONCE_S) == 130
    assert "Traceback" not in process.stderr
    assert "Fatal" not in process.stderr
    assert place.names() == [name.name for name in names]
    assert place.summary["accepted"] == 5


def test_a_list_on_stdin_that_is_slow_the_second_time_can_be_stopped_too(place: Place) -> None:
    (place.root / "names").write_text("in/r1.jpg\n")
    place.numbered(1)
    with (place.root / "names").open("rb") as names:
        place.run(sources=("-",), stdin=names)
    reads, writes = os.pipe()
    process = place.start(sources=("-",), stdin=reads, fresh=True)
    os.close(reads)
    assert wait_for(lambda: "listing" in process.stderr)
    process.signal(signal.SIGINT)
    assert process.wait(AT_ONCE_S) == 130
    os.close(writes)
    assert "Traceback" not in process.stderr
    assert len(place.lines()) == 1


def waiting_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"), sys.byteorder)


def test_a_reader_that_stalls_does_not_make_it_deaf_to_ctrl_c(place: Place) -> None:
    place.numbered(300)  # several times what a pipe holds
    reads, writes = os.pipe()
    process = place.start(output="-", stdout=writes, fresh=True)
    os.close(writes)
    try:
        assert wait_for(lambda: waiting_bytes(reads) > 40_000), (
            "about as much as the pipe takes: its last page need not be full"
        )
        process.signal(signal.SIGINT)
        assert wait_for(lambda: "draining" in process.stderr)
        process.signal(signal.SIGINT)
        assert process.wait(AT_ONCE_S) == 130
    finally:
        os.close(reads)
    assert "Traceback" not in process.stderr
    place.run()
    assert len(place.lines()) == 300
