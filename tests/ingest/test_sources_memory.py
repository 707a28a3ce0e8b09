"""A million names cost no more than a thousand: each kind of source at two sizes, with the memory it took at most."""

from __future__ import annotations

import io
import os
import tarfile
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import pytest

from headrace.ingest.sources import BrokenSource, parse_sources
from headrace.ingest.sources.zip_members import read_zip

GROWTH_BYTES = 2 << 20
"""What a pass may take at most, whatever the number of documents: buffers of 64 KiB and Python's own."""


def peak_of(argument: str, stdin: BinaryIO, *, wanted: int) -> int:
    """The most memory that a pass over the source took, in bytes; each document is dropped when the next is there."""
    (source,) = parse_sources([argument], stdin=stdin)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        documents = 0
        for found in source:
            documents += 1
            if found.content is not None:
                assert found.content.read() == b"1"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert documents == wanted
    return peak - before


def folder(number: int) -> str:
    os.mkdir("many")
    for i in range(number):
        os.close(os.open(f"many/{i}.jpg", os.O_CREAT | os.O_WRONLY))
    return "many"


def pattern(number: int) -> str:
    return folder(number) + "/**/*.jpg"


def csv_manifest(number: int) -> str:
    with open("list.csv", "w") as out:
        out.write("id,path\n")
        out.writelines(f"{i},/dev/null/{i}.jpg\n" for i in range(number))
    return "list.csv"


def json_manifest(number: int) -> str:
    with open("list.ndjson", "w") as out:
        out.writelines(f'{{"id":{i},"uri":"/dev/null/{i}.jpg"}}\n' for i in range(number))
    return "list.ndjson"


def zipped(number: int) -> str:
    with zipfile.ZipFile("many.zip", "w", zipfile.ZIP_DEFLATED) as out:
        for i in range(number):
            out.writestr(f"{i}.jpg", b"1")
    return "many.zip"


def tarred(name: str) -> Callable[[int], str]:
    def make(number: int) -> str:
        with tarfile.open(name, "w:gz" if name.endswith("gz") else "w") as out:
            for i in range(number):
                info = tarfile.TarInfo(f"{i}.jpg")
                info.size = 1
                out.addfile(info, io.BytesIO(b"1"))
                out.members = []  # type: ignore[attr-defined]
        return name

    return make


@pytest.mark.parametrize(
    ("make", "number"),
    [
        pytest.param(folder, 20_000, id="folder"),
        pytest.param(pattern, 5_000, id="pattern"),
        pytest.param(csv_manifest, 200_000, id="csv"),
        pytest.param(json_manifest, 50_000, id="ndjson"),
        pytest.param(zipped, 20_000, id="zip"),
        pytest.param(tarred("many.tar"), 20_000, id="tar"),
        pytest.param(tarred("many.tar.gz"), 5_000, id="tar.gz"),
    ],
)
def test_many_documents_take_no_more_memory_than_few(
    make: Callable[[int], str], number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    argument = make(number)
    assert peak_of(argument, io.BytesIO(), wanted=number) < GROWTH_BYTES


def test_many_names_on_stdin_take_no_more_memory_than_few() -> None:
    class Lines(io.RawIOBase):
        def __init__(self, number: int) -> None:
            self._left = number

        def read1(self, size: int = -1) -> bytes:
            lines = min(self._left, 1000)
            self._left -= lines
            return b"/dev/null/x.jpg\n" * lines

    assert peak_of("-", Lines(50_000), wanted=50_000) < GROWTH_BYTES  # type: ignore[arg-type]


def test_a_cut_zip_takes_no_more_memory_for_many_than_for_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = zipped(5_000)
    with open(name, "r+b") as stream:
        stream.truncate(os.path.getsize(name) - 30)
    with open(name, "rb") as stream:
        members = read_zip(stream, name=b"many.zip", limit_bytes=10, skipped=Counter())
        next(members)
        tracemalloc.start()
        try:
            documents = 1 + sum(1 for _ in islice(members, 4_999))
            with pytest.raises(BrokenSource, match="after 5000 documents"):
                next(members)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert documents == 5_000
    assert peak < GROWTH_BYTES


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_bomb_unpacks_piece_by_piece(method: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("a.zip", "w", method) as out:
        out.writestr("bomb.jpg", b"\0" * 60_000_000)
    assert_flat("a.zip", 60_000_000)


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz"])
def test_a_packed_tar_unpacks_piece_by_piece(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with tarfile.open(f"a.tar.{suffix}", f"w:{suffix}") as out:  # type: ignore[call-overload]
        info = tarfile.TarInfo("bomb.jpg")
        info.size = 60_000_000
        out.addfile(info, io.BytesIO(b"\0" * info.size))
    assert_flat(f"a.tar.{suffix}", 60_000_000)


def assert_flat(argument: str, size_bytes: int) -> None:
    """Reads the one member of an archive and sees that its pieces, and never the whole, were in memory."""
    (source,) = parse_sources([argument], stdin=io.BytesIO())
    members = iter(source)
    content = next(members).content
    assert content is not None
    tracemalloc.start()
    try:
        taken_bytes = sum(len(piece) for piece in iter(lambda: content.read(1 << 16), b""))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken_bytes == size_bytes
    assert peak < GROWTH_BYTES
    assert next(members, None) is None
