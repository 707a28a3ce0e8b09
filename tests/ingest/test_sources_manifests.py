"""Manifests and the standard input."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.ingest.sources import BrokenSource, Found, SourceError, parse_sources
from headrace.ingest.sources.csv_rows import read_csv
from headrace.ingest.sources.records import BOM, RECORD_BYTES, Records


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scans").mkdir()
    for name in ("a.jpg", "b.jpg", "c,d.jpg", "line\nbreak.jpg", "M\u00fcller.jpg"):
        (tmp_path / "scans" / name).write_bytes(b"12345")


def manifest(name: str, content: bytes | str) -> list[Found]:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    (source,) = parse_sources([name], stdin=io.BytesIO())
    assert source.ordered
    return list(source)


def stdin(content: bytes) -> list[Found]:
    (source,) = parse_sources(["-"], stdin=io.BytesIO(content))
    assert source.ordered
    return list(source)


def codes(found: list[Found]) -> list[str]:
    return [f.problem.code if f.problem else "" for f in found]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_csv_manifest_is_read_in_its_order(delimiter: str, newline: str, mark: str, tmp_path: Path) -> None:
    rows = [["ID", "Note", "Path"], ["7", "x", "scans/b.jpg"], ["8", '"a ""b"" c"', '"scans/c,d.jpg"'], ["", "", ""]]
    text = mark + "".join(delimiter.join(row) + newline for row in rows)
    found = manifest("list.csv", text)
    assert [(f.external_id, f.uri, f.size_bytes) for f in found] == [("7", "scans/b.jpg", 5), ("8", "scans/c,d.jpg", 5)]
    assert found[0].path == os.fsencode(tmp_path / "scans/b.jpg")
    assert codes(found) == ["", ""]


def test_a_csv_manifest_may_have_only_paths_and_no_last_newline() -> None:
    assert [(f.uri, f.external_id) for f in manifest("list.csv", "file\nscans/a.jpg\nscans/b.jpg")] == [
        ("scans/a.jpg", None),
        ("scans/b.jpg", None),
    ]


def test_a_quoted_name_may_span_lines() -> None:
    (found, after) = manifest("list.csv", 'path,id\n"scans/line\nbreak.jpg",1\nscans/a.jpg,2\n')
    assert found.problem is None
    assert found.uri == "scans/line\\x0abreak.jpg"
    assert after.external_id == "2"


def test_paths_are_relative_to_the_manifest(tmp_path: Path) -> None:
    Path("scans/list.csv").write_text("path\na.jpg\n")
    (source,) = parse_sources(["scans/list.csv"], stdin=io.BytesIO())
    assert [f.path for f in source] == [os.fsencode(tmp_path / "scans/a.jpg")]


def test_bytes_that_are_no_text_are_kept_as_the_name() -> None:
    name = b"scans/price \x96.jpg"
    Path(os.fsdecode(name)).write_bytes(b"1")
    for found in (
        manifest("list.csv", b"id,path\n1," + name),
        manifest("list.ndjson", b'{"id":"1","uri":"' + name + b'"}'),
        stdin(name),
    ):
        assert codes(found) == [""]
        assert found[0].uri == "scans/price \\x96.jpg"
        assert found[0].path is not None
        assert found[0].path.endswith(name)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ("7,", "bad-manifest-line"),
        ("7,scans/c,d.jpg", "bad-manifest-line"),
        ('7,"scans/a.jpg"x', "bad-manifest-line"),
        ("7,https://user:secret@example.org/a.jpg", "source-url-forbidden"),
        ("7,s3://bucket/a.jpg", "source-url-forbidden"),
        ("7,file://server/share/a.jpg", "source-url-forbidden"),
        ("7,scans", "unreadable-source"),
        ("7,scans/gone.jpg", "unreadable-source"),
        ("7,/dev/null", "unreadable-source"),
        ("7,a\0b", "bad-manifest-line"),
        ("7," + "x" * RECORD_BYTES, "bad-manifest-line"),
        ("7," + "x" * 5 * RECORD_BYTES, "bad-manifest-line"),
        ("7," + "x" * 300, "unreadable-source"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_bad_row_costs_only_itself(row: str, code: str) -> None:
    found = manifest("list.csv", f"id,path\n1,scans/a.jpg\n{row}\n2,scans/b.jpg\n")
    assert codes(found) == ["", code, ""]
    assert [found[0].external_id, found[2].external_id] == ["1", "2"]
    assert all(f.uri.isprintable() and "secret" not in f.uri + str(f.problem) for f in found)
    assert len(found[1].uri) < 400


def test_a_quote_that_is_never_closed_costs_one_line_and_not_the_rest() -> None:
    rows = "".join(f"{i},scans/a.jpg\n" for i in range(20_000))
    found = manifest("list.csv", f'id,path\nfirst,scans/a.jpg\nbad,"scans/b.jpg\n{rows}')
    assert codes(found[:3]) == ["", "bad-manifest-line", ""]
    assert "line 3" in str(found[1].problem)
    assert [f.external_id for f in found[2:]] == [str(i) for i in range(20_000)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"name,amount\nx,1\n", "no column uri, path or file"),
        (b"\n\npath\n", "no column uri, path or file"),
        ("path\na.jpg\n".encode("utf-16"), "UTF-16"),
        (b"x" * 100_000, "no column uri, path or file"),
    ],
)
def test_a_csv_without_a_usable_header_is_refused_before_any_work(content: bytes, says: str) -> None:
    Path("list.csv").write_bytes(content)
    with pytest.raises(SourceError, match=says):
        parse_sources(["list.csv"], stdin=io.BytesIO())


def test_an_empty_manifest_gives_nothing() -> None:
    assert manifest("list.csv", "") == manifest("list.ndjson", "") == manifest("other.csv", "path\n") == []


def test_a_manifest_that_goes_between_look_and_reading_breaks_the_source() -> None:
    Path("list.csv").write_text("path\nscans/a.jpg\n")
    (source,) = parse_sources(["list.csv"], stdin=io.BytesIO())
    os.remove("list.csv")
    with pytest.raises(BrokenSource, match="after 0 documents"):
        list(source)


def test_a_json_manifest_is_read_in_its_order() -> None:
    lines = [
        '{"id": "x1", "uri": "scans/b.jpg", "more": [1]}',
        '"scans/a.jpg"',
        "",
        '{"path": "scans/a.jpg", "id": 12}',
        '{"file": "scans/a.jpg", "id": null}',
        f'{{"uri": "file://{os.getcwd()}/scans/a.jpg"}}',
        '{"id": "\\ud800", "uri": "scans/M\\u00fcller.jpg"}',
    ]
    found = manifest("list.jsonl", "\r\n".join(lines))
    assert codes(found) == [""] * 6
    assert [f.external_id for f in found] == ["x1", None, "12", None, None, "\\ud800"]
    assert found[0].uri == "scans/b.jpg"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("{", "bad-manifest-line"),
        ("[" * 30_000, "bad-manifest-line"),
        ("[1]", "bad-manifest-line"),
        ("7", "bad-manifest-line"),
        ("{}", "bad-manifest-line"),
        ('{"uri": ""}', "bad-manifest-line"),
        ('{"uri": 7}', "bad-manifest-line"),
        ('{"uri": "a", "id": true}', "bad-manifest-line"),
        ('{"uri": "a", "id": 1.5}', "bad-manifest-line"),
        ('{"uri": "a", "id": ' + "1" * 5_000 + "}", "bad-manifest-line"),
        ('{"uri": "a\\u0000b"}', "bad-manifest-line"),
        ('{"uri": "\\ud800"}', "bad-manifest-line"),
        ('{"uri": "HTTP://example.org/a.jpg"}', "source-url-forbidden"),
        ('{"uri": "' + "x" * RECORD_BYTES + '"}', "bad-manifest-line"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_bad_json_line_costs_only_itself(line: str, code: str) -> None:
    found = manifest("list.ndjson", f'"scans/a.jpg"\n{line}\n"scans/b.jpg"\n')
    assert codes(found) == ["", code, ""]
    assert all(f.uri.isprintable() for f in found)


@pytest.mark.parametrize("content", ["path\nscans/a.jpg\n", '"scans/a.jpg"\n', '{"uri": "scans/a.jpg"}\n'])
def test_the_prefix_makes_a_manifest_of_any_file(content: str) -> None:
    Path("list.txt").write_text(content)
    (source,) = parse_sources(["manifest:list.txt"], stdin=io.BytesIO())
    assert [f.uri for f in source] == ["scans/a.jpg"]


def test_stdin_takes_paths_and_json_line_by_line(tmp_path: Path) -> None:
    found = stdin(b'\xef\xbb\xbfscans/a.jpg\r\n\n{"id": "7", "uri": "scans/b.jpg"}\n{bad\nscans/M\xc3\xbcller.jpg')
    assert codes(found) == ["", "", "bad-manifest-line", ""]
    assert [f.external_id for f in found] == [None, "7", None, None]
    assert found[0].path == os.fsencode(tmp_path / "scans/a.jpg")
    assert found[2].uri == "stdin:4"


def test_stdin_with_nul_takes_any_name_as_it_is() -> None:
    names = [b"scans/line\nbreak.jpg", b"{x}.jpg", b"scans/cr.jpg\r"]
    for name in names:
        Path(os.fsdecode(name)).write_bytes(b"1")
    found = stdin(b"\0".join(names) + b"\0")
    assert codes(found) == ["", "", ""]
    assert [f.path for f in found] == [os.path.join(os.getcwdb(), name) for name in names]


def test_a_byte_order_mark_is_taken_off_the_first_line_only() -> None:
    mark = b"\xef\xbb\xbf"
    assert list(Records(Pieces([mark[:1], mark[1:] + b"a\n", mark + b"b"]))) == [b"a", mark + b"b"]
    assert list(Records(Pieces([b"a\n", mark + b"b\n"]))) == [b"a", mark + b"b"]
    assert list(Records(Pieces([mark + b"a\0"]), end=None)) == [mark + b"a"]


def test_a_name_on_stdin_that_is_too_long_costs_only_itself() -> None:
    assert codes(stdin(b"scans/a.jpg\n" + b"x" * 1_000_000 + b"\nscans/b.jpg\n")) == ["", "bad-manifest-line", ""]


def test_stdin_can_be_named_once() -> None:
    with pytest.raises(SourceError, match="named twice"):
        parse_sources(["-", "-"], stdin=io.BytesIO())


class Endless(io.RawIOBase):
    """A stream of paths that never ends, and knows how many pieces were taken."""

    def __init__(self) -> None:
        self.pieces = 0

    def read1(self, size: int = -1) -> bytes:
        self.pieces += 1
        return b"scans/a.jpg\n"


def test_an_endless_stdin_is_read_no_further_than_asked() -> None:
    stream = Endless()
    (source,) = parse_sources(["-"], stdin=cast(BinaryIO, stream))
    rows: Iterator[Found] = iter(source)
    assert stream.pieces == 0
    for _ in range(5):
        next(rows)
    assert stream.pieces == 5


def test_a_line_is_handed_on_before_the_writer_goes_on() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as writer:
        (source,) = parse_sources(["-"], stdin=stream)
        rows = iter(source)
        got: list[Found] = []
        writer.write(b"scans/a.jpg\nscans/b")
        thread = threading.Thread(target=lambda: got.append(next(rows)))
        thread.start()
        thread.join(10)
        assert [f.uri for f in got] == ["scans/a.jpg"]
        writer.write(b".jpg\n")
        assert next(rows).uri == "scans/b.jpg"


def test_closing_a_manifest_early_leaves_nothing_open() -> None:
    Path("list.csv").write_text("path\n" + "scans/a.jpg\n" * 100)
    (source,) = parse_sources(["list.csv"], stdin=io.BytesIO())
    before = len(os.listdir("/proc/self/fd"))
    rows = iter(source)
    next(rows)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    rows.close()  # type: ignore[attr-defined]
    assert len(os.listdir("/proc/self/fd")) == before


def test_keys_of_manifests_do_not_change_with_their_content(tmp_path: Path) -> None:
    Path("list.csv").write_text("path\n")
    keys = set()
    for argument in ("list.csv", "./list.csv", f"manifest:{tmp_path}/list.csv"):
        (source,) = parse_sources([argument], stdin=io.BytesIO())
        keys.add(source.key)
    assert keys == {f"manifest:{tmp_path}/list.csv"}
    (source,) = parse_sources(["-"], stdin=io.BytesIO())
    assert source.key == "stdin"


class Pieces:
    """A stream that comes in the given pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = iter([piece for piece in pieces if piece])

    def read1(self, size: int = -1, /) -> bytes:
        return next(self._pieces, b"")


@given(st.lists(st.binary(max_size=4).map(lambda b: b.replace(b"\x0a", b"\x0b")), max_size=6), st.data())
def test_records_do_not_depend_on_where_pieces_end(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    expected = [line.removesuffix(b"\r") for line in lines]
    if expected:
        expected[0] = lines[0].removeprefix(BOM).removesuffix(b"\r")
    assert list(Records(Pieces(pieces))) == expected


@settings(max_examples=200)
@given(st.lists(st.sampled_from(['a,"b"\n', '"', "\n", "x", ",", '"a\nb",c\n', "1,2\n"]), max_size=30).map("".join))
def test_no_csv_is_too_broken_to_be_read_to_its_end(text: str) -> None:
    whole = f"id,path\n{text}\nlast,/dev/null\n"
    *_, last = read_csv(Records(io.BytesIO(whole.encode())), name="list.csv", folder=b"/")
    assert last.external_id == "last"
