"""Documents that kill, hang or bloat their worker: each costs one typed failure, and nobody else anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from run_support import Place, Process, run_together

from headrace.storage.sqlite import SqliteStore

CODES = {
    "poison-bloat.jpg": "memory-limit",
    "poison-exit.jpg": "worker-lost",
    "poison-hang.jpg": "deadline",
    "poison-kill.jpg": "worker-lost",
    "poison-raise.jpg": "exception",
    "poison-unpicklable.jpg": "unpicklable-result",
    "broken.jpg": "corrupt-document",
}
LIMITS = ("--document-timeout", "3s", "--worker-memory-limit", "200MB", "--workers", "2")
CHARGED = ("storage.sqlite:SqliteStore.charge_attempt", "after", "1")


def attempts(place: Place) -> dict[str, int]:
    """Attempts that were charged for good, by name, where there were any."""
    with SqliteStore.read(place.workspace) as store:
        records = [store.document(entry.document_id) for entry in store.entries(limit=1000, batch_id=1)]
    return {Path(r.document.uri).name: r.document.attempts for r in records if r and r.document.attempts}


def test_a_poison_document_costs_one_typed_failure_in_its_place_and_its_neighbours_nothing(tmp_path: Path) -> None:
    places = [Place(tmp_path / str(number)) for number in range(2)]

    def case(place: Place) -> Iterator[Process]:
        place.write(*CODES, *(f"{name}-{number}.jpg" for name in ("a", "poison", "x") for number in range(5)))
        process = place.start(*LIMITS)
        yield process
        assert process.poll() == 3

    run_together(*(case(place) for place in places))
    for place in places:
        entries = place.ledger()
        failed = {Path(entry.uri).name: entry.failure for entry in entries if entry.failure}
        assert {name: failure["code"] for name, failure in failed.items()} == CODES
        assert [entry.position for entry in entries] == list(range(1, 23))
        begun = Counter(place.begun())
        assert (begun["poison-exit.jpg"], begun["poison-kill.jpg"]) == (2, 2), "worth another attempt, and no third"
        assert (begun["poison-hang.jpg"], begun["poison-bloat.jpg"]) == (1, 1), "not worth another attempt"
        assert attempts(place) == {"poison-exit.jpg": 1, "poison-kill.jpg": 1}, "neighbours are not charged"
        with SqliteStore.read(place.workspace) as store:
            letters = store.dead_letters()
        assert [letter.document.uri for letter in letters] == [entry.uri for entry in entries if entry.failure]
        assert all(letter.failure["detail"] and letter.blob_sha256 for letter in letters)
        assert place.summary["failed"] == len(CODES)
    assert places[1].problem(places[0].hashes()) == "", "the ledger is the same in another workspace"


def test_attempts_survive_a_restart_and_the_last_one_makes_a_dead_letter(tmp_path: Path) -> None:
    alone, disturbed = Place(tmp_path / "alone"), Place(tmp_path / "disturbed")

    def killed_after_each_charge() -> Iterator[Process]:
        for _ in range(2):
            yield disturbed.start("--attempts", "3", crash=CHARGED)
        yield disturbed.start("--attempts", "3", crash=CHARGED)

    def left_alone() -> Iterator[Process]:
        yield alone.start("--attempts", "3")

    for place in (alone, disturbed):
        place.write("poison-exit.jpg", "r1.jpg", "r2.jpg")
    run_together(left_alone(), killed_after_each_charge())
    assert [process.poll() for process in disturbed.started] == [-9, -9, 3], "the third attempt is the last"
    assert disturbed.begun() == ["poison-exit.jpg"] * 3
    assert [entry.failure["code"] for entry in disturbed.ledger() if entry.failure] == ["worker-lost"]
    assert disturbed.problem(alone.hashes()) == ""


def test_poison_at_the_head_does_not_keep_the_good_document_behind_it_waiting_for_ever(place: Place) -> None:
    place.write(*(f"poison-exit-{number}.jpg" for number in range(6)), "r1.jpg")
    place.run("--attempts", "1", code=3)
    assert place.begun() == [f"poison-exit-{number}.jpg" for number in range(6)]
    assert [line["kind"] for line in place.lines()] == ["failure"] * 6 + ["receipt"]


def test_a_library_that_prints_does_not_get_into_the_output(place: Place) -> None:
    place.write("noisy.jpg", "x.jpg")
    process = place.run(output="-")
    assert place.names(place.lines(process.stdout)) == ["noisy.jpg", "x.jpg"]
    assert "a native library says something" in process.stderr
