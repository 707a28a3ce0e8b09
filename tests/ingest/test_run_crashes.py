"""kill -9 at each step and at random moments: the ledger is that of an undisturbed run, the output has it once.

`bench/crash_run.py` does the same at length, with real documents; this is the quick version.
"""

from __future__ import annotations

import os
import random
import signal
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from run_support import Place, Process, run_together, wait_for

STORE, OUTPUT, WRITER = "storage.sqlite:SqliteStore", "ingest.output:JsonLines", "ledger.writer:BookWriter"

OF_A_FOLDER = (
    (f"{STORE}.open_batch", "after", "1"),
    (f"{STORE}.stage_listing", "after", "1"),
    (f"{STORE}.settle_listing", "before", "1"),
    (f"{STORE}.settle_listing", "after", "1"),
    (f"{STORE}.finish_listing", "before", "1"),
    (f"{STORE}.finish_listing", "after", "1"),
    (f"{STORE}.pending", "after", "1"),
    (f"{WRITER}.decide", "after", "1"),
    (f"{STORE}.commit", "before", "1"),
    (f"{STORE}.commit", "after", "1"),
    (f"{WRITER}.committed", "after", "1"),
    (f"{OUTPUT}.write", "before", "2"),
    (f"{OUTPUT}.write", "halfway", "2"),
    (f"{OUTPUT}.write", "after", "2"),
    (f"{OUTPUT}.write", "halfway", "1"),  # what was missing is being written again
    (f"{STORE}.finish_batch", "before", "1"),
    (f"{STORE}.finish_batch", "after", "1"),
)
OF_AN_ARCHIVE = (
    ("storage.blobs:Blobs.put", "after", "3"),
    (f"{STORE}.register", "before", "2"),
    (f"{STORE}.register", "after", "2"),
    (f"{STORE}.settle_listing", "before", "1"),
    (f"{STORE}.commit", "before", "1"),
    (f"{OUTPUT}.write", "halfway", "1"),
)


def folder(place: Place) -> str:
    place.numbered(36)
    place.write("broken-a.jpg", "broken-r10.jpg")
    (place.documents / "r7-again.jpg").write_bytes((place.documents / "r7.jpg").read_bytes())
    return "in"


def at_a_fixed_time(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = 1
    return member


def archive(place: Place) -> str:
    members = place.numbered(38)
    with tarfile.open(place.root / "scans.tar.gz", "w:gz") as scans:
        for member in reversed(members):
            scans.add(member, member.name, filter=at_a_fixed_time)
    return "scans.tar.gz"


def undisturbed(root: Path, made: Callable[[Place], str]) -> tuple[Place, Iterator[Process]]:
    place = Place(root)
    source = made(place)

    def case() -> Iterator[Process]:
        yield place.start("--read-ahead", "8", sources=(source,))

    return place, case()


def test_a_run_that_is_killed_at_each_step_ends_with_the_same_ledger_and_the_output_once(tmp_path: Path) -> None:
    chains = ((folder, OF_A_FOLDER), (archive, OF_AN_ARCHIVE))
    wholes = [undisturbed(tmp_path / f"whole-{made.__name__}", made) for made, _ in chains]
    places = [Place(tmp_path / made.__name__) for made, _ in chains]
    not_reached: list[str] = []

    def killed_at(place: Place, source: str, steps: tuple[tuple[str, str, str], ...]) -> Iterator[Process]:
        """Each run goes on where the last one was killed, and is killed at the next step."""
        for step in steps:
            process = place.start("--read-ahead", "8", "--commit-linger", "0.01", sources=(source,), crash=step)
            yield process
            if process.poll() != -signal.SIGKILL:
                not_reached.append(f"{step}: {process.poll()} {process.stderr}")
        yield place.start(sources=(source,))

    disturbed = [killed_at(place, made(place), steps) for place, (made, steps) in zip(places, chains, strict=True)]
    run_together(*(case for _, case in wholes), *disturbed)
    assert not_reached == []
    for (whole, _), place in zip(wholes, places, strict=True):
        assert len(whole.hashes()) == 39 if whole.root.name == "whole-folder" else 38
        assert whole.problem() == ""
        assert place.problem(whole.hashes()) == ""
        assert place.accounts().holds
        assert place.accounts().in_flight == 0


def test_a_run_that_is_killed_at_random_moments_ends_with_the_same_ledger_and_the_output_once(tmp_path: Path) -> None:
    whole, undisturbed_case = undisturbed(tmp_path / "whole", folder)
    places = [Place(tmp_path / str(number)) for number in range(2)]
    kills = []

    def killed(place: Place, rng: random.Random) -> Iterator[Process]:
        source = folder(place)
        for _ in range(5):
            process = place.start(sources=(source,))
            time.sleep(rng.uniform(0.02, 0.7))  # any moment will do
            if process.poll() is None:
                process.kill_tree()
                kills.append(process)
        yield place.start(sources=(source,))

    run_together(undisturbed_case, *(killed(place, random.Random(seed)) for seed, place in enumerate(places)))
    assert kills
    for place in places:
        assert place.problem(whole.hashes()) == ""


def test_a_parent_that_is_killed_leaves_no_worker_alive(place: Place) -> None:
    place.write("gate-a.jpg", "poison-hang.jpg")
    process = place.start("--workers", "2")
    assert wait_for(lambda: len(place.begun()) == 2)
    assert len(process.workers()) == 2
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert wait_for(lambda: not process.workers(), within_s=5)


def test_workers_that_are_killed_from_outside_change_nothing_in_the_ledger(tmp_path: Path) -> None:
    places = [Place(tmp_path / name) for name in ("left-alone", "disturbed")]
    for place in places:
        place.numbered(6)
        place.write("gate-a.jpg", "gate-broken.jpg")

    def case(place: Place, *, kills: bool) -> Iterator[Process]:
        process = place.start("--workers", "2")
        assert wait_for(lambda: len(place.begun()) == 2)
        for worker in process.workers() if kills else ():
            os.kill(worker, signal.SIGKILL)
        assert not kills or wait_for(lambda: len(place.begun()) == 4)
        place.open_gate()
        yield process

    run_together(case(places[0], kills=False), case(places[1], kills=True))
    alone, disturbed = places
    assert disturbed.problem(alone.hashes()) == ""
    assert (disturbed.summary["succeeded"], disturbed.summary["failed"]) == (7, 1)
    assert [entry.failure["code"] for entry in disturbed.ledger() if entry.failure] == ["corrupt-document"]


def test_a_charged_attempt_of_luck_is_in_no_hash_even_when_the_tree_is_killed_after_it(tmp_path: Path) -> None:
    alone, disturbed = Place(tmp_path / "alone"), Place(tmp_path / "disturbed")
    for place in (alone, disturbed):
        place.write("gate-broken.jpg")
    charged = disturbed.start()
    assert wait_for(lambda: len(disturbed.begun()) == 1)
    for worker in charged.workers():
        os.kill(worker, signal.SIGKILL)
    assert wait_for(lambda: len(disturbed.begun()) == 2)
    charged.kill_tree()
    for place in (alone, disturbed):
        place.open_gate()
        place.run(code=4)
    assert disturbed.hashes() == alone.hashes()
