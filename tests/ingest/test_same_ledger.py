"""The ledger of a rerun is the same: nothing that was measured, counted or seen from outside is in a hash."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from run_support import Place, Process, run_together, wait_for

from headrace.storage.sqlite import SqliteStore

POISON = ("gate-poison-exit.jpg", "poison-bloat.jpg", "poison-hang.jpg", "poison-kill.jpg", "poison-raise.jpg")


def test_poison_has_the_same_hashes_when_a_worker_is_killed_from_outside_and_limits_differ(tmp_path: Path) -> None:
    alone, disturbed = Place(tmp_path / "alone"), Place(tmp_path / "disturbed")

    def case(place: Place, *limits: str, kills: bool) -> Iterator[Process]:
        place.write(*POISON, "r1.jpg")
        process = place.start(*limits)
        assert wait_for(lambda: len(place.begun()) == 1)
        for worker in process.workers() if kills else ():
            os.kill(worker, signal.SIGKILL)
        assert not kills or wait_for(lambda: len(place.begun()) == 2)
        place.open_gate()
        yield process

    run_together(
        case(alone, "--document-timeout", "3s", "--worker-memory-limit", "200MB", kills=False),
        case(disturbed, "--document-timeout", "4s", "--worker-memory-limit", "220MB", "--attempts", "3", kills=True),
    )
    assert disturbed.problem(alone.hashes()) == ""
    assert disturbed.summary["failed"] == len(POISON)


def test_what_was_seen_of_a_failure_stays_beside_its_entry(place: Place) -> None:
    place.write("poison-bloat.jpg", "poison-exit.jpg")
    place.run("--worker-memory-limit", "200MB", code=4)
    bloated, exited = place.ledger()
    with SqliteStore.read(place.workspace) as store:
        seen = [store.document(entry.document_id) for entry in (bloated, exited)]
    observed = ["; ".join(record.telemetry.observed) if record and record.telemetry else "" for record in seen]
    assert "200 MB" in observed[0] or "191 MB" in observed[0], "the limit in MiB"
    assert "attempt 2" in observed[1]
    assert "exit" in observed[1]
    assert seen[1]
    assert seen[1].last_failure
    assert seen[1].last_failure["attempt"] == 1
    assert not any(digit in str(entry.failure) for entry in (bloated, exited) for digit in "0123456789")
    assert [failure["observed"] for failure in place.summary["failures"]] != ["", ""]
