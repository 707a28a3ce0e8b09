"""Folders, patterns and single files."""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.documents.errors import UnreadableSource
from headrace.ingest.sources import Found, Source, SourceError, parse_sources
from headrace.ingest.sources.folders import MAX_DEPTH

ODD_NAMES = [
    b"new\nline.jpg",
    b"tab\t.jpg",
    "receipt \U0001f9fe.jpg".encode(),
    "\u202egpj.exe.jpg".encode(),
    b"-o",
    b"x" * 251 + b".jpg",
    b"price \x96 5.jpg",
    "Mu\u0308ller.jpg".encode(),
    "M\u00fcller.jpg".encode(),
    b"up..%2f..%2fetc%2fpasswd.jpg",
    b"CON",
    b"dot.",
    b" lead.jpg",
    b'quote".jpg',
    b"brackets[1].jpg",
    b"back\\slash.jpg",
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def one(argument: str, **options: object) -> Source:
    (source,) = parse_sources([argument], stdin=io.BytesIO(), **options)  # type: ignore[arg-type]
    return source


def put(*names: str | bytes) -> None:
    for name in names:
        path = os.fsencode(name)
        os.makedirs(os.path.dirname(path) or b".", exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(b"x" * 10)


def in_order(source: Source) -> list[Found]:
    found = list(source)
    return found if source.ordered else sorted(found, key=lambda f: f.sort_key or b"")


def uris(source: Source) -> list[str]:
    return [found.uri for found in in_order(source)]


def test_a_folder_gives_its_documents_in_natural_path_order() -> None:
    put("scans/a10.jpg", "scans/a2.jpg", "scans/b/1.pdf", "scans/a/9.png", "scans/noextension")
    source = one("scans/")
    assert not source.ordered
    assert uris(source) == ["scans/a/9.png", "scans/a2.jpg", "scans/a10.jpg", "scans/b/1.pdf", "scans/noextension"]
    first = in_order(source)[0]
    assert first.path == os.fsencode(os.path.abspath("scans/a/9.png"))
    assert (first.kind, first.size_bytes, first.problem, first.content) == ("file", 10, None, None)
    assert first.mtime_ns == os.stat("scans/a/9.png").st_mtime_ns


def test_uris_begin_as_the_folder_was_written(tmp_path: Path) -> None:
    put("scans/a.jpg")
    assert uris(one(".")) == ["scans/a.jpg"]
    assert uris(one("./scans")) == ["scans/a.jpg"]
    assert uris(one(str(tmp_path / "scans"))) == [f"{tmp_path}/scans/a.jpg"]


def test_what_is_never_a_receipt_is_left_out_and_counted() -> None:
    put("s/a.jpg", "s/README.md", "s/1.txt", "s/2.TXT", "s/march.zip", "s/april.tar.gz", "s/.hidden.jpg")
    put("s/.git/x.jpg", "s/Thumbs.db", "s/.headrace/b.jpg", "s/list.csv")
    source = one("s")
    assert uris(source) == ["s/a.jpg"]
    assert source.skipped == {
        ".md": 1, ".txt": 2, "archive (name it as a source to read it)": 2, "hidden": 3, ".db": 1, ".csv": 1,
    }  # fmt: skip
    uris(source)
    assert source.skipped[".txt"] == 2, "a second pass counts anew"


def test_a_file_that_is_named_is_always_taken() -> None:
    put("notes.txt", ".hidden.jpg")
    assert [f.problem for f in one("notes.txt")] == [None]
    assert uris(one(".hidden.jpg")) == [".hidden.jpg"]


def test_the_workspace_is_left_out_whatever_its_name() -> None:
    put("s/a.jpg", "s/state/blobs/b.jpg")
    source = one("s", workspace="s/state")
    assert uris(source) == ["s/a.jpg"]
    assert source.skipped == {"workspace": 1}


def test_linked_folders_are_not_entered_but_linked_files_are_read() -> None:
    put("s/a.jpg", "elsewhere/b.jpg")
    os.symlink(".", "s/loop")
    os.symlink("../elsewhere", "s/link")
    os.symlink("../elsewhere/b.jpg", "s/b.jpg")
    source = one("s")
    assert uris(source) == ["s/a.jpg", "s/b.jpg"]
    assert source.skipped == {"link to a folder": 2}


def test_what_is_no_regular_file_is_a_problem_of_its_own_and_the_others_go_on() -> None:
    put("s/a.jpg", "s/z.jpg")
    os.mkdir("s/a.pdf")
    put("s/a.pdf/inside.jpg")
    os.mkfifo("s/pipe.jpg")
    os.symlink("gone.jpg", "s/dangling.jpg")
    os.symlink("self.jpg", "s/self.jpg")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s/socket")
    found = {f.uri: f for f in one("s")}
    assert set(found) == {
        "s/a.jpg", "s/z.jpg", "s/a.pdf/inside.jpg", "s/pipe.jpg", "s/dangling.jpg", "s/self.jpg", "s/socket"
    }  # fmt: skip
    bad = {uri: f.problem for uri, f in found.items() if f.problem is not None}
    assert set(bad) == {"s/pipe.jpg", "s/dangling.jpg", "s/self.jpg", "s/socket"}
    assert all(isinstance(problem, UnreadableSource) for problem in bad.values())
    assert "named pipe" in str(bad["s/pipe.jpg"])
    assert "link to something that is gone" in str(bad["s/dangling.jpg"])


def test_names_that_are_not_text_survive_and_are_printable() -> None:
    put(*(b"s/" + name for name in ODD_NAMES))
    found = in_order(one("s"))
    assert {f.path for f in found} == {os.path.join(os.getcwdb(), b"s", name) for name in ODD_NAMES}
    assert len({f.uri for f in found}) == len(ODD_NAMES)
    for f in found:
        assert f.uri.isprintable()
        assert f.uri.encode()
        assert f.path is not None
        assert os.path.exists(f.path)
    assert "s/price \\x96 5.jpg" in {f.uri for f in found}


@pytest.mark.parametrize("name", [*ODD_NAMES, b"..%2fetc"], ids=ascii)
def test_a_file_with_an_odd_name_can_be_named(name: bytes) -> None:
    put(name)
    (found,) = one(os.fsdecode(name))
    assert found.problem is None
    assert found.path == os.path.join(os.getcwdb(), name)


def test_folders_that_are_too_deep_are_a_problem_and_not_silence() -> None:
    deep = "s" + "/d" * (MAX_DEPTH + 3)
    put("s/a.jpg", deep + "/lost.jpg")
    found = in_order(one("s"))
    assert [f.problem is None for f in found] == [True, False]
    assert "folders deep" in str(found[1].problem)


def test_an_empty_folder_gives_nothing() -> None:
    os.mkdir("empty")
    source = one("empty")
    assert list(source) == []
    assert source.skipped == {}


def test_a_folder_that_goes_between_look_and_walk_breaks_the_source() -> None:
    os.mkdir("s")
    source = one("s")
    os.rmdir("s")
    with pytest.raises(SourceError, match="cannot be listed"):
        list(source)


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("*.jpg", ["a1.jpg", "a2.jpg"]),
        ("**/*.jpg", ["a1.jpg", "a2.jpg", "x/a3.jpg", "x/y/a4.jpg"]),
        ("x/**", ["x/a3.jpg", "x/y/a4.jpg", "x/y/a5.png"]),
        ("x/**/*", ["x/a3.jpg", "x/y/a4.jpg", "x/y/a5.png"]),
        ("**/y/*.jpg", ["x/y/a4.jpg"]),
        ("**/**/a[45].*", ["x/y/a4.jpg", "x/y/a5.png"]),
        ("?1.jpg", ["a1.jpg"]),
        ("./x/*", ["x/a3.jpg"]),
        ("[!b]*/a3*", ["x/a3.jpg"]),
        (".h/*", [".h/b.jpg"]),
        (".h*/*", [".h/b.jpg"]),
        ("*/.z/*.jpg", ["x/.z/a6.jpg"]),
    ],
)
def test_a_pattern_takes_what_it_says(pattern: str, wanted: list[str]) -> None:
    put("a1.jpg", "a2.jpg", "x/a3.jpg", "x/y/a4.jpg", "x/y/a5.png", "x/.z/a6.jpg", ".h/b.jpg", "x/notes.txt")
    source = one(pattern)
    assert not source.ordered
    assert [uri.removeprefix("./") for uri in uris(source)] == wanted


def test_a_pattern_matches_whatever_the_unicode_form() -> None:
    put("Mu\u0308ller 1.jpg")
    assert len(list(one("M\u00fcller*.jpg"))) == 1


def test_an_absolute_pattern_works(tmp_path: Path) -> None:
    put("s/a.jpg")
    assert uris(one(f"{tmp_path}/s/*")) == [f"{tmp_path}/s/a.jpg"]


def test_an_existing_name_with_brackets_is_a_file_and_no_pattern() -> None:
    put("a[1].jpg", "a1.jpg")
    assert uris(one("a[1].jpg")) == ["a[1].jpg"]


def test_closing_a_walk_early_leaves_nothing_open() -> None:
    put(*(f"s/{i}/{j}.jpg" for i in range(5) for j in range(5)))
    before = len(os.listdir("/proc/self/fd"))
    walk: Iterator[Found] = iter(one("s"))
    next(walk)
    assert len(os.listdir("/proc/self/fd")) > before
    walk.close()  # type: ignore[attr-defined]
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("march.zup", "did you mean march.zip?"),
        ("scams", "did you mean scans?"),
        ("scans/recipt.jpg", "did you mean scans/receipt.jpg?"),
        ("nothing like it", "does not exist"),
        ("*.tiff", "matches no file"),
        ("scams/*.jpg", "no folder scams/; did you mean scans?"),
        ("", "no path"),
        ("a\0b", "no path"),
        ("https://example.org/a.jpg", "download it"),
        ("s3://bucket/key", "download it"),
        ("manifest:lost", "no manifest; did you mean list?"),
        ("file:///nowhere/a.jpg", "does not exist"),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused_with_advice(argument: str, says: str) -> None:
    put("scans/receipt.jpg", "march.zip", "list")
    with pytest.raises(SourceError) as refused:
        one(argument)
    assert says in str(refused.value)
    assert refused.value.exit_code == 2


def test_no_argument_at_all_is_refused() -> None:
    with pytest.raises(SourceError, match="no source"):
        parse_sources([], stdin=io.BytesIO())


def test_a_file_address_is_a_path(tmp_path: Path) -> None:
    put("a b.jpg")
    assert [f.path for f in one(f"file://{tmp_path}/a%20b.jpg")] == [os.fsencode(tmp_path / "a b.jpg")]


def test_the_key_says_what_and_where_and_does_not_change(tmp_path: Path) -> None:
    put("s/a.jpg", b"odd \x96/a.jpg")
    key = one("s").key
    assert key == f"folder:{tmp_path}/s"
    os.utime("s", (1, 1))
    put("s/new.jpg")
    assert {one(name).key for name in ("s/", "./s", "../" + tmp_path.name + "/s", str(tmp_path / "s"))} == {key}
    assert one("s/a.jpg").key == f"file:{tmp_path}/s/a.jpg"
    assert one("s/*.jpg").key != one("s/*").key != key
    odd = one(os.fsdecode(b"odd \x96"))
    assert odd.key.isascii()
    assert odd.key.isprintable()
