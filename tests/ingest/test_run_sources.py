"""Where documents come from: order, names, manifests, archives and lists, resumed and run again."""

from __future__ import annotations

import csv
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from run_support import Place

from headrace.storage.sqlite import SqliteStore

ODD_NAMES = (
    b"caf\x96.jpg",
    b"two\nlines.jpg",
    "\U0001f9fe.jpg".encode(),
    b"-o.jpg",
    "u\u0308.jpg".encode(),
    b"'\".jpg",
)
SLOWLY = ("--read-ahead", "4")  # names are registered in groups of four
KILLED_IN_THE_LIST = ("storage.sqlite:SqliteStore.register", "after", "2")


def test_a_folder_is_read_in_natural_path_order(place: Place) -> None:
    place.numbered(12)
    place.write("x1.jpg", "x2.jpg", folder=place.documents / "r2")
    place.write("x1.jpg", folder=place.documents / "r10")
    place.run()
    uris = [line["source"]["uri"] for line in place.lines()]
    expected = ["r1.jpg", "r2/x1.jpg", "r2/x2.jpg", "r2.jpg", *(f"r{n}.jpg" for n in range(3, 10)), "r10/x1.jpg"]
    assert uris == [f"in/{name}" for name in [*expected, "r10.jpg", "r11.jpg", "r12.jpg"]]
    assert [line["position"] for line in place.lines()] == list(range(1, 16))


def test_names_that_are_no_text_survive_the_run_and_stay_on_one_line(place: Place) -> None:
    place.write(*ODD_NAMES)
    process = place.run()
    assert place.summary["succeeded"] == len(ODD_NAMES)
    names = place.names()
    assert {"caf\\x96.jpg", "two\\x0alines.jpg", "\U0001f9fe.jpg"} <= set(names)
    assert len(set(names)) == len(ODD_NAMES)
    assert "Traceback" not in process.stderr
    (place.root / "names").write_bytes(b"\0".join(b"in/" + name for name in ODD_NAMES))
    with (place.root / "names").open("rb") as stdin:
        place.run(sources=("-",), output="/dev/null", stdin=stdin)
    assert place.summary["duplicates"] == len(ODD_NAMES)


def test_the_same_command_again_adds_nothing_and_says_so(place: Place) -> None:
    place.numbered(6)
    place.run()
    before, hashes = place.output.read_bytes(), place.hashes()
    process = place.run()
    assert "6 left out: judged by an earlier run, and unchanged" in process.stderr
    assert (place.output.read_bytes(), place.hashes()) == (before, hashes)
    assert (place.summary["accepted"], place.summary["known"]) == (0, 6)


def test_a_bad_manifest_line_is_one_failure_however_often_the_command_is_given(place: Place) -> None:
    place.numbered(1)
    (place.root / "list.csv").write_text("uri\nin/r1.jpg\nhttp://example.org/a.jpg\n")
    place.run(sources=("list.csv",), code=3)
    place.run(sources=("list.csv",), code=3)
    assert (place.summary["accepted"], place.summary["known"]) == (0, 2)
    assert len(place.lines()) == 2


def test_a_new_or_changed_file_makes_a_second_batch_with_just_that_and_the_output_goes_on(place: Place) -> None:
    place.numbered(6)
    for _ in range(3):  # runs that find nothing new leave no trace in the numbers
        place.run()
    before = place.output.read_bytes()
    place.write("r3a.jpg")
    (place.documents / "r5.jpg").write_bytes(b"another receipt by the same name")
    place.run()
    assert place.output.read_bytes().startswith(before)
    assert place.names()[6:] == ["r3a.jpg", "r5.jpg"]
    assert (place.summary["batch_id"], place.summary["accepted"], place.summary["first_voucher"]) == (2, 2, 7)
    assert place.problem() == ""


def test_duplicates_are_linked_to_the_first_in_the_batch_and_in_later_batches(place: Place) -> None:
    first, *_ = place.numbered(3)
    (place.documents / "r4.jpg").write_bytes(first.read_bytes())
    place.run()
    (place.documents / "r9.jpg").write_bytes(first.read_bytes())
    place.run()
    linked = {Path(e.uri).name: e.duplicate_of for e in place.ledger() if e.duplicate_of}
    assert set(linked) == {"r4.jpg", "r9.jpg"}
    assert {link["uri"] for link in linked.values()} == {"in/r1.jpg"}
    assert {link["sequence"] for link in linked.values()} == {1}
    assert place.summary["duplicates"] == 1
    other = Place(place.root / "other")
    (other.documents / "x.jpg").write_bytes(first.read_bytes())
    place.run(sources=("other/in",), output="/dev/null")
    assert place.ledger()[-1].duplicate_of is not None, "of other sources, but in the same book"
    place.run("--book", "travel", output="/dev/null")
    assert place.ledger("travel")[0].duplicate_of is None, "another book knows nothing of it"


def manifest(place: Place, names: list[str]) -> Path:
    path = place.root / "list.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "uri"], *([f"id-{name}", f"in/{name}"] for name in names)])
    return path


def test_a_manifest_is_worked_on_in_its_order_and_resumes_after_a_kill(place: Place) -> None:
    names = [path.name for path in reversed(place.numbered(12))]
    manifest(place, names)
    assert place.start(*SLOWLY, sources=("list.csv",), crash=KILLED_IN_THE_LIST).wait() == -9
    assert place.accounts().accepted == 8
    place.run(*SLOWLY, sources=("list.csv",))
    assert place.names() == names
    assert place.problem() == ""
    with SqliteStore.read(place.workspace) as store:
        record = store.document(place.ledger()[0].document_id)
    assert record is not None
    assert record.external_id == "id-r12.jpg"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda names: [names[0], "r99.jpg", *names[2:]], "name 2 is now in/r99.jpg and was in/r2.jpg"),
        (lambda names: names[:5], "list.csv has fewer names than when batch 1 was started"),
    ],
    ids=["another name", "fewer names"],
)
def test_a_manifest_that_changed_before_it_was_read_to_its_end_is_refused(place: Place, change, said: str) -> None:  # type: ignore[no-untyped-def]
    names = [path.name for path in place.numbered(12)]
    manifest(place, names)
    assert place.start(*SLOWLY, sources=("list.csv",), crash=KILLED_IN_THE_LIST).wait() == -9
    manifest(place, change(names))
    process = place.run(*SLOWLY, sources=("list.csv",), code=2)
    assert said in process.stderr
    assert "--no-resume for a new batch" in process.stderr
    assert place.accounts().accepted == 8, "nothing is mixed in"
    assert place.problem() == ""
    manifest(place, names)
    place.run(*SLOWLY, sources=("list.csv",))
    assert place.names() == names


def test_a_list_on_stdin_resumes_and_one_that_changed_is_refused(place: Place) -> None:
    names = [path.name for path in place.numbered(12)]

    def run(listed: list[str], code: int = 0, **how: object) -> str:
        (place.root / "names").write_text("".join(f"in/{name}\n" for name in listed))
        with (place.root / "names").open("rb") as stdin:
            process = place.start(*SLOWLY, sources=("-",), stdin=stdin, **how)  # type: ignore[arg-type]
        assert process.wait() == code, process.stderr
        return process.stderr

    run(names, -9, crash=KILLED_IN_THE_LIST)
    assert "name 3 is now in/r99.jpg and was in/r3.jpg" in run([*names[:2], "r99.jpg", *names[3:]], 2)
    assert "stdin has fewer names" in run(names[:3], 2)
    run(names)
    assert place.names() == names
    assert place.problem() == ""
    assert "13 left out" in run([*names, "r1.jpg"])
    assert len(place.lines()) == 12


def pack(place: Place, kind: str) -> list[str]:
    """An archive of twelve members that are in no order; returns their names in its order."""
    members = [place.numbered(12)[index] for index in (3, 1, 11, 0, 2, 10, 4, 9, 5, 8, 6, 7)]
    if kind == "zip":
        with zipfile.ZipFile(place.root / "scans.zip", "w", zipfile.ZIP_DEFLATED) as scans:
            for member in members:
                scans.write(member, member.name)
    else:
        with tarfile.open(place.root / "scans.tar.gz", "w:gz") as packed:
            for member in members:
                packed.add(member, member.name)
    return [member.name for member in members]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_keeps_its_order_resumes_after_a_kill_and_outlives_its_file(place: Place, kind: str) -> None:
    names = pack(place, kind)
    source = f"scans.{kind}"
    assert place.start(*SLOWLY, sources=(source,), crash=KILLED_IN_THE_LIST).wait() == -9
    for path in place.documents.iterdir():
        path.unlink()
    place.run(*SLOWLY, sources=(source,))
    assert place.names() == names
    assert place.problem() == ""
    process = place.run(*SLOWLY, sources=(source,))
    assert "12 left out" in process.stderr
    assert len(place.lines()) == 12


def test_an_archive_that_is_cut_off_gives_what_comes_before_and_is_named(place: Place) -> None:
    contents = {f"r{number}.jpg": os.urandom(20_000) for number in range(8)}
    with tarfile.open(place.root / "scans.tar.gz", "w:gz") as packed:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    whole = (place.root / "scans.tar.gz").read_bytes()
    (place.root / "scans.tar.gz").write_bytes(whole[: len(whole) // 2])
    process = place.run(sources=("scans.tar.gz",), code=3)
    assert "headrace: scans.tar.gz breaks off after" in process.stderr
    came = place.summary["succeeded"]
    assert 2 <= came <= 4
    assert place.names() == list(contents)[:came]
    assert place.problem() == ""
    place.run(sources=("scans.tar.gz",), code=3)
    assert place.summary["accepted"] == came, "nothing twice"
    (place.root / "scans.tar.gz").write_bytes(whole)
    place.run(sources=("scans.tar.gz",))
    assert place.names() == list(contents)
    assert place.problem() == ""


def test_sources_follow_each_other_in_the_order_of_the_command_line(place: Place) -> None:
    place.write("r2.jpg", "r1.jpg")
    manifest(place, ["x2.jpg", "x1.jpg"])
    place.write("x1.jpg", "x2.jpg", "gone.jpg", folder=place.root / "in2")
    (place.root / "list.csv").write_text("uri\nin2/x2.jpg\nin2/missing.jpg\nin2/x1.jpg\n")
    place.run(sources=("list.csv", "in", "in2/gone.jpg"), code=3)
    assert place.names() == ["x2.jpg", "missing.jpg", "x1.jpg", "r1.jpg", "r2.jpg", "gone.jpg"]
    assert [line["kind"] for line in place.lines()] == ["receipt", "failure", *["receipt"] * 4]


def test_a_failure_that_is_left_out_still_counts_for_the_exit_code(place: Place) -> None:
    place.write("a.jpg", "b.jpg")
    (place.root / "in" / "empty.jpg").write_bytes(b"")
    place.run(code=3)
    place.run(code=3)
    assert (place.summary["accepted"], place.summary["known"], place.summary["known_failed"]) == (0, 3, 1)


def test_another_list_on_standard_input_has_an_output_of_its_own(place: Place) -> None:
    first, second = place.write("a.jpg", "b.jpg")
    for name, path in (("first.jsonl", first), ("second.jsonl", second)):
        (place.root / "names").write_text(f"{path}\n")
        with (place.root / "names").open("rb") as stdin:
            place.run(sources=("-",), stdin=stdin, output=str(place.root / name))
    assert [len((place.root / name).read_bytes().splitlines()) for name in ("first.jsonl", "second.jsonl")] == [1, 1]
