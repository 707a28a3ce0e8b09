"""The output: each entry once and in order, whatever happened to the file; nothing that is not ours is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_support import Place, wait_for

from headrace.storage.errors import WorkspaceMissing
from headrace.storage.sqlite import SqliteStore

NOT_OURS = (
    b"my notes\n",
    b"my notes, without a last line feed",
    b'{"kind":"other"}\n',
    b'{"ledger":{"book":"main","sequence":"x","entry_hash":1}}\n',
    b"\n",
    b"\xff\xfe\x00",
    b"[1]",
)


def test_a_file_that_is_not_ours_is_refused_and_left_as_it_was(place: Place) -> None:
    place.numbered(2)
    for content in NOT_OURS:
        place.output.write_bytes(content)
        process = place.run(code=5)
        assert "was not written by headrace" in process.stderr
        assert place.output.read_bytes() == content
    with SqliteStore.read(place.workspace) as store:
        assert store.batches() == [], "nothing was begun"


def test_the_output_of_another_ledger_or_of_other_sources_is_refused_and_left_as_it_was(place: Place) -> None:
    place.numbered(2)
    place.run()
    before = place.output.read_bytes()
    other = Place(place.root / "other")
    other.write("x1.jpg")
    other.run(code=5, output=str(place.output))
    place.write("x1.jpg", folder=place.root / "elsewhere")
    place.run(code=5, sources=("elsewhere",))
    assert place.output.read_bytes() == before
    with SqliteStore.read(place.workspace) as store:
        assert len(store.batches()) == 1


def test_a_torn_lost_or_empty_output_is_made_whole_by_the_same_command(place: Place) -> None:
    place.numbered(9)
    place.run()
    whole = place.output.read_bytes()
    for left in (whole[:-1], whole[:-3000], whole[:20], b'{"ki', None):
        if left is None:
            place.output.unlink()
        else:
            place.output.write_bytes(left)
        place.run()
        assert place.output.read_bytes() == whole


def test_overwrite_starts_the_file_afresh_but_not_before_the_workspace_is_ours(place: Place) -> None:
    place.write("gate-a.jpg")
    place.output.write_bytes(b"my notes\n")
    first = place.start("--overwrite")
    assert wait_for(place.begun)
    other = Place(place.root / "other")
    notes = other.root / "notes"
    notes.write_bytes(b"my notes\n")
    busy = other.start("--workspace", str(place.workspace), "--overwrite", output=str(notes))
    assert busy.wait() == 2
    assert f"in use by process {first.pid}" in busy.stderr
    assert notes.read_bytes() == b"my notes\n"
    place.open_gate()
    assert first.wait() == 0
    assert place.problem() == ""


def test_dev_null_takes_it_all_and_a_full_device_is_said(place: Place) -> None:
    place.numbered(5)
    process = place.run(code=5, output="/dev/full")
    assert "headrace: cannot write /dev/full: No space left on device" in process.stderr
    assert "bug" not in process.stderr
    place.run(output="/dev/null")
    assert place.summary["succeeded"] == 5


@pytest.mark.parametrize("target", ["in", "in/r1.jpg/out.jsonl", "/proc/out.jsonl"])
def test_an_output_that_cannot_be_written_is_said_before_any_work(place: Place, target: str) -> None:
    place.numbered(1)
    process = place.run(code=5, output=target)
    assert f"headrace: cannot write {target}" in process.stderr
    with pytest.raises(WorkspaceMissing):
        SqliteStore.read(place.workspace)


def test_a_named_pipe_gets_every_line(place: Place) -> None:
    place.numbered(7)
    os.mkfifo(place.output)
    with subprocess.Popen(["cat", place.output], stdout=subprocess.PIPE) as reader:
        place.run()
        received, _ = reader.communicate(timeout=30)
    assert place.names(place.lines(received)) == [f"r{number}.jpg" for number in range(1, 8)]


def test_standard_output_gets_the_whole_batch_and_nothing_else(place: Place) -> None:
    place.numbered(3)
    place.write("poison-exit.jpg")
    crashed = place.start(output="-", crash=("storage.sqlite:SqliteStore.commit", "after", "1"))
    assert crashed.wait() == -9
    process = place.run(output="-", code=3, fresh=True)
    lines = place.lines(process.stdout)
    assert place.names(lines) == ["poison-exit.jpg", "r1.jpg", "r2.jpg", "r3.jpg"]
    assert [line["ledger"]["entry_hash"] for line in lines] == place.hashes()


def test_a_reader_that_has_had_enough_ends_the_run_quietly_and_a_later_run_completes(place: Place) -> None:
    place.write("a.jpg", "gate-b.jpg", "x1.jpg", "x2.jpg")
    reads, writes = os.pipe()
    process = place.start("--no-progress", "--commit-batch", "1", output="-", stdout=writes, fresh=True)
    os.close(writes)
    with open(reads, "rb") as reader:
        assert reader.readline().startswith(b'{"kind":"receipt"')
    place.open_gate()
    assert process.wait() == 5
    said = process.stderr.splitlines()
    assert all("RSS ceiling" in line or "null engine" in line for line in said), f"only how it began: {said}"
    place.run()
    assert place.names() == ["a.jpg", "gate-b.jpg", "x1.jpg", "x2.jpg"]
    assert place.problem() == ""


def test_a_closed_standard_output_is_said(place: Place) -> None:
    place.numbered(1)
    command = [sys.executable, "-m", "headrace", *place.arguments(output="-")]
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command], cwd=place.root, stderr=subprocess.PIPE, timeout=60
    )
    assert closed.returncode == 5
    assert b"headrace: cannot write standard output" in closed.stderr


def test_a_summary_that_cannot_be_written_is_said_and_the_ledger_is_whole(place: Place) -> None:
    place.numbered(1)
    process = place.run("--summary-json", str(Path("in", "r1.jpg", "summary")), code=5)
    assert "headrace: cannot write in/r1.jpg/summary" in process.stderr
    assert place.problem() == ""


def test_a_foreign_file_without_a_line_end_is_refused_however_much_it_looks_like_ours(place: Place) -> None:
    place.write("a.jpg")
    for precious in (b'{"kind":"dog","precious":true}', b"{", b'{"kind":"receipt","document_id":"d0"'):
        place.output.write_bytes(precious)
        place.run(code=5)
        assert place.output.read_bytes() == precious


def test_two_runs_cannot_write_one_output(place: Place) -> None:
    place.write("a.jpg", "gate-b.jpg")
    first = place.start()
    assert wait_for(lambda: place.begun())
    second = place.start("--workspace", str(place.root / "another"))
    assert second.wait() == 5
    assert "is being written by another run" in second.stderr
    place.open_gate()
    assert first.wait() == 0
    assert len(place.lines()) == 2


def test_bytes_of_a_failed_document_are_kept_only_up_to_the_limit_and_only_of_a_regular_file(place: Place) -> None:
    place.write("a.jpg", "gate-b.jpg", "c.jpg")
    large, pipe = place.root / "in" / "large.jpg", place.root / "in" / "pipe.jpg"
    for path in (large, pipe):
        path.write_bytes(b"x")
    with large.open("r+b") as file:
        file.truncate(2 << 30)
    run = place.start("--max-document-bytes", "1MiB", "--workers", "1")
    assert wait_for(lambda: place.begun())
    pipe.unlink()
    os.mkfifo(pipe)
    place.open_gate()
    assert run.wait() == 3
    failures = {line["source"]["uri"]: line["failure"]["code"] for line in place.lines() if line["kind"] == "failure"}
    assert failures == {"in/large.jpg": "payload-too-large", "in/pipe.jpg": "unreadable-source"}
    kept = [path for path in (place.root / "workspace" / "blobs").rglob("*") if path.is_file()]
    assert not kept
