"""Dead letters run again, and what a command given again does: nothing more than there is to do."""

from __future__ import annotations

import datetime as dt
import os
import signal
from pathlib import Path

from run_support import Place, wait_for

from headrace.flow.machine import Machine
from headrace.ingest.bounds import derive
from headrace.ingest.engine_costs import ENGINE_COSTS
from headrace.ingest.runtime import worker_pool
from headrace.ingest.settings import RunSettings
from headrace.storage.sqlite import SqliteStore


def replay(place: Place, *documents: str) -> None:
    with SqliteStore.open(place.workspace) as store:
        store.replay(documents or None)


def batches(place: Place) -> list[int]:
    with SqliteStore.read(place.workspace) as store:
        return [batch.batch_id for batch in store.batches()]


def test_a_replay_looks_again_at_what_was_missing_when_it_was_listed(place: Place) -> None:
    place.numbered(1)
    (place.root / "list.csv").write_text("uri\nin/r1.jpg\nin/r2.jpg\n")
    place.run(sources=("list.csv",), code=3)
    missing = place.lines()[1]
    assert (missing["failure"]["code"], missing["source"]["kind"]) == ("unreadable-source", "file")
    assert "does not exist" in missing["failure"]["detail"]
    place.write("r2.jpg")
    replay(place)
    place.run("--replay", sources=())
    assert [line["kind"] for line in place.lines()] == ["receipt", "failure", "receipt"]


def test_a_line_that_names_no_path_says_the_same_when_it_is_replayed_and_has_a_real_kind(place: Place) -> None:
    (place.root / "list.csv").write_text("uri\nhttp://example.org/a.jpg\n")
    place.run(sources=("list.csv",), code=4)
    replay(place)
    place.run("--replay", sources=(), code=4)
    first, second = place.lines()
    assert first["failure"] == second["failure"]
    assert (first["source"]["kind"], first["failure"]["code"]) == ("file", "source-url-forbidden")


def test_one_replay_runs_all_that_waits_and_its_lines_may_follow_the_failures(place: Place) -> None:
    place.write("broken-1.jpg", "x1.jpg")
    place.write("broken-2.jpg", "x2.jpg", folder=place.root / "other")
    place.run(code=3)
    place.run(sources=("other",), output="other.jsonl", code=3)
    replay(place)
    process = place.run("--replay", sources=())
    assert "2 accepted = 2 receipts + 0 duplicates + 0 failed" in process.stderr
    assert (place.summary["first_voucher"], place.summary["last_voucher"]) == (5, 6)
    assert [line["ledger"]["sequence"] for line in place.lines()] == [1, 2, 5, 6]
    place.run("--replay", sources=(), code=2)
    place.run()
    place.run(sources=("other",), output="other.jsonl")
    assert [line["ledger"]["sequence"] for line in place.lines()] == [1, 2, 5, 6]


def test_an_output_that_lacks_lines_of_a_run_and_of_its_replay_gets_them_in_the_order_of_vouchers(place: Place) -> None:
    place.write("broken-1.jpg", "gate-a.jpg", "x1.jpg")
    process = place.start("--commit-batch", "1")
    assert wait_for(lambda: place.output.exists() and len(place.lines()) == 1)
    process.kill_tree()
    replay(place)
    place.run("--replay", sources=(), output="-")
    place.open_gate()
    place.run(output="-", code=3)
    assert [line["ledger"]["sequence"] for line in place.lines()] == [1]
    place.write("broken-9.jpg")
    place.run(code=3)
    assert [line["ledger"]["sequence"] for line in place.lines()] == [1, 3, 4, 5], "the replay went elsewhere"


def test_the_same_folder_spelled_differently_is_known(place: Place) -> None:
    place.numbered(2)
    place.run()
    for spelled in (f"{place.documents}", "in/", "in/.", "./in"):
        place.run(sources=(spelled,))
        assert (place.summary["accepted"], place.summary["known"]) == (0, 2), spelled


def test_a_command_with_nothing_to_do_starts_no_worker_and_leaves_no_batch(place: Place) -> None:
    place.numbered(2)
    place.run()
    place.run()
    assert place.summary["workers_cpu_s"] == 0
    assert batches(place) == [1]
    place.write("r3.jpg")
    place.run()
    assert batches(place) == [1, 2]
    (place.root / "empty").mkdir()
    place.run(sources=("empty",), output="empty.jsonl")
    assert batches(place) == [1, 2]


def test_a_signal_before_its_workers_are_ready_ends_a_run_and_the_same_command_goes_on(place: Place) -> None:
    place.numbered(3)
    process = place.start(fresh=True)
    assert wait_for(lambda: process.workers())
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait() in (0, 130)
    assert "Traceback" not in process.stderr
    place.run()
    assert [Path(name).name for name in place.names()] == ["r1.jpg", "r2.jpg", "r3.jpg"]


def test_fail_fast_at_the_last_document_leaves_nothing_and_says_nothing_of_it(place: Place) -> None:
    place.write("broken.jpg")
    process = place.run("--fail-fast", code=4)
    assert "Stopped" not in process.stderr
    assert place.summary["interrupted"] is False
    assert "headrace dead list" in process.stderr


def test_ctrl_c_when_all_is_done_but_the_ending_is_no_interruption(place: Place) -> None:
    place.write("gate-last.jpg")
    process = place.start("--drain-deadline", "30s")
    assert wait_for(lambda: place.begun())
    process.signal(signal.SIGINT)
    assert wait_for(lambda: "draining" in process.stderr)
    place.open_gate()
    assert process.wait() == 0
    assert place.summary["interrupted"] is False


def test_the_null_engine_says_that_it_reads_nothing(place: Place) -> None:
    place.numbered(1)
    said = [line for line in place.run().stderr.splitlines() if "reads nothing" in line]
    assert len(said) == 1


def test_warnings_of_libraries_are_quiet_in_the_workers_unless_asked_for() -> None:
    settings = RunSettings(engine="null", workers=1)
    bounds = derive(settings, Machine.read(), ENGINE_COSTS["null"])
    quiet, told = (
        worker_pool(settings, bounds, dt.date(2026, 3, 4), library_warnings=asked)._environment.get("PYTHONWARNINGS")
        for asked in (False, True)
    )
    assert (quiet, told) == ("ignore", None)
