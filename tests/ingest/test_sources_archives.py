"""Zip and tar archives, whole, broken and hostile."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.documents.errors import DocumentError, PayloadTooLarge
from headrace.ingest.sources import BrokenSource, Found, Source, SourceError, compressed, parse_sources
from headrace.ingest.sources.compressed import can_open
from headrace.ingest.sources.tar_members import MAX_HEADER_BYTES

MEMBERS = [("2026/b.jpg", b"b" * 100_000), ("2026/a.jpg", os.urandom(70_000)), ("empty.png", b""), ("z.pdf", b"%PDF")]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def one(name: str, **options: int) -> Source:
    (source,) = parse_sources([name], stdin=io.BytesIO(), **options)  # type: ignore[arg-type]
    assert source.ordered
    return source


def read(found: Found) -> bytes:
    assert found.problem is None
    assert found.content is not None
    return b"".join(iter(lambda: found.content.read(1000), b""))  # type: ignore[union-attr]


def read_all(source: Source) -> tuple[list[tuple[str, bytes | str]], BrokenSource | None]:
    """Every document's uri with its bytes or the code of its failure; and what the source broke off with."""
    got: list[tuple[str, bytes | str]] = []
    try:
        for found in source:
            try:
                got.append((found.uri, read(found) if found.problem is None else found.problem.code))
            except DocumentError as error:
                got.append((found.uri, error.code))
    except BrokenSource as error:
        return got, error
    return got, None


def make_tar(name: str, members: list[tuple[str, bytes]] = MEMBERS, form: int = tarfile.PAX_FORMAT) -> bytes:
    mode = {".gz": "w:gz", "tgz": "w:gz", "bz2": "w:bz2", ".xz": "w:xz"}.get(name[-3:], "w")
    with tarfile.open(name, mode, format=form) as archive:  # type: ignore[call-overload]
        for member, content in members:
            info = tarfile.TarInfo(member)
            info.size, info.mtime = len(content), 1_700_000_000
            archive.addfile(info, io.BytesIO(content))
    return Path(name).read_bytes()


def make_zip(name: str, members: list[tuple[str, bytes]] = MEMBERS, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    with zipfile.ZipFile(name, "w", method) as archive:
        for member, content in members:
            archive.writestr(member, content)
    return Path(name).read_bytes()


class Forward(io.RawIOBase):
    """A file that cannot seek: zipfile then writes data descriptors, as a streaming writer does."""

    def __init__(self, stream: io.BytesIO) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        return self._stream.write(data)


def make_streamed_zip(name: str, method: int) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(Forward(out), "w", method) as archive:  # type: ignore[arg-type]
        for member, content in MEMBERS:
            with archive.open(member, "w") as stream:
                stream.write(content)
    Path(name).write_bytes(out.getvalue())


MAKERS: dict[str, Callable[[], object]] = {
    "m.tar": lambda: make_tar("m.tar"),
    "gnu.tar": lambda: make_tar("gnu.tar", form=tarfile.GNU_FORMAT),
    "ustar.tar": lambda: make_tar("ustar.tar", form=tarfile.USTAR_FORMAT),
    "m.tar.gz": lambda: make_tar("m.tar.gz"),
    "m.tgz": lambda: make_tar("m.tgz"),
    "m.tar.bz2": lambda: make_tar("m.tar.bz2"),
    "m.tar.xz": lambda: make_tar("m.tar.xz"),
    "m.zip": lambda: make_zip("m.zip"),
    "stored.zip": lambda: make_zip("stored.zip", method=zipfile.ZIP_STORED),
    "bzip2.zip": lambda: make_zip("bzip2.zip", method=zipfile.ZIP_BZIP2),
    "streamed.zip": lambda: make_streamed_zip("streamed.zip", zipfile.ZIP_DEFLATED),
    "stored-streamed.zip": lambda: make_streamed_zip("stored-streamed.zip", zipfile.ZIP_STORED),
    "M.ZIP": lambda: make_zip("M.ZIP"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_an_archive_gives_its_documents_in_its_own_order(name: str) -> None:
    MAKERS[name]()
    got, broke = read_all(one(name))
    assert broke is None
    assert got == [(f"{name}/{member}", content) for member, content in MEMBERS]
    first = next(iter(one(name)))
    assert (first.kind, first.path, first.size_bytes) == ("archive-member", None, 100_000)


@pytest.mark.parametrize("name", MAKERS)
def test_members_that_nobody_reads_are_passed_over(name: str) -> None:
    MAKERS[name]()
    assert [found.uri for found in one(name)] == [f"{name}/{member}" for member, _ in MEMBERS]
    half = []
    for found in one(name):
        assert found.content is not None
        half.append(found.content.read(10))
    assert half == [content[:10] for _, content in MEMBERS]


@pytest.mark.parametrize("name", ["m.zip", "m.tar"])
def test_content_is_gone_when_the_next_document_is_asked_for(name: str) -> None:
    MAKERS[name]()
    members = iter(one(name))
    first = next(members)
    next(members)
    assert first.content is not None
    with pytest.raises(ValueError, match="before the next document"):
        first.content.read(1)


@pytest.mark.parametrize("name", MAKERS)
def test_closing_an_archive_early_leaves_nothing_open(name: str) -> None:
    MAKERS[name]()
    source = one(name)
    before = len(os.listdir("/proc/self/fd"))
    members = iter(source)
    found = next(members)
    assert found.content is not None
    found.content.read(10)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    members.close()  # type: ignore[attr-defined]
    assert len(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ValueError, match="before the next document"):
        found.content.read(10)


def test_an_archive_is_known_by_its_bytes_and_not_by_its_name() -> None:
    make_zip("a.zip")
    os.rename("a.zip", "really-a-zip.tar.gz")
    make_tar("b.tar.xz")
    os.rename("b.tar.xz", "really-an-xz.tar")
    make_tar("c.tar")
    os.rename("c.tar", "really-a-tar.zip")
    for name in ("really-a-zip.tar.gz", "really-an-xz.tar", "really-a-tar.zip"):
        got, broke = read_all(one(name))
        assert broke is None
        assert [content for _, content in got] == [content for _, content in MEMBERS]


@pytest.mark.parametrize("content", [b"", b"x", b"not an archive at all\n" * 100, b"PK"])
@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_what_is_no_archive_is_refused_before_any_work(name: str, content: bytes) -> None:
    Path(name).write_bytes(content)
    with pytest.raises(SourceError, match=r"is empty|neither a zip nor a tar") as refused:
        one(name)
    assert refused.value.exit_code == 2


def test_a_zip_that_is_garbage_after_its_first_bytes_is_said_in_plain_words() -> None:
    Path("a.zip").write_bytes(b"PK\x03\x04" + b"garbage " * 8)
    got, broke = read_all(one("a.zip"))
    assert got == []
    assert "its header is broken" in str(broke)
    assert not any(word in str(broke) for word in ("Error", "("))


def test_empty_archives_give_nothing() -> None:
    assert len(make_zip("a.zip", [])) == 22
    make_tar("a.tar", [])
    make_tar("a.tar.gz", [])
    for name in ("a.zip", "a.tar", "a.tar.gz"):
        assert read_all(one(name)) == ([], None)


def test_what_is_no_document_in_an_archive_is_left_out_and_counted() -> None:
    names = ["README.txt", "a/.hidden.jpg", ".git/b.jpg", "__MACOSX/._c.jpg", "./d.jpg", "nested.zip", "/abs.jpg"]
    members = [(name, b"1") for name in names]
    make_zip("a.zip", [*members, ("folder/", b"")])
    make_tar("a.tar", members)
    with tarfile.open("a.tar", "a") as archive:
        for name, kind in (("l.jpg", tarfile.SYMTYPE), ("h.jpg", tarfile.LNKTYPE), ("p.jpg", tarfile.FIFOTYPE)):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, "d.jpg"
            archive.addfile(link)
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    zipped, tarred = one("a.zip"), one("a.tar")
    assert [f.uri for f in zipped] == ["a.zip/d.jpg", "a.zip/nested.zip", "a.zip/abs.jpg"]
    assert zipped.skipped == {".txt": 1, "hidden": 3}
    assert [f.uri for f in tarred] == ["a.tar/d.jpg", "a.tar/nested.zip", "a.tar/abs.jpg"]
    assert tarred.skipped == {".txt": 1, "hidden": 3, "link or device in an archive": 3}


def test_a_link_in_a_zip_is_left_out() -> None:
    with zipfile.ZipFile("a.zip", "w") as archive:
        link = zipfile.ZipInfo("l.jpg")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, "../../etc/passwd")
    source = one("a.zip")
    assert list(source) == []
    assert source.skipped == {"link or device in an archive": 1}


def test_names_in_archives_are_only_shown_and_never_used() -> None:
    names = ["../../up.jpg", "new\nline.jpg", "\u202egpj.jpg", "Mu\u0308ller.jpg", "CON", "dot.", "x" * 250 + ".jpg"]
    make_zip("a.zip", [(name, b"1") for name in names])
    make_tar("a.tar", [(name, b"1") for name in [*names, os.fsdecode(b"\x96.jpg")]])
    for archive in ("a.zip", "a.tar"):
        got, broke = read_all(one(archive))
        assert broke is None
        assert all(uri.isprintable() and uri.encode() and content == b"1" for uri, content in got)
    assert got[-1][0] == "a.tar/\\x96.jpg"
    assert sorted(os.listdir(".")) == ["a.tar", "a.zip"]


def test_slashes_of_windows_become_slashes() -> None:
    make_zip("a.zip", [("2026/a.jpg", b"1")])
    raw = Path("a.zip").read_bytes().replace(b"2026/a.jpg", b"2026\\a.jpg")
    at = raw.index(b"PK\x01\x02")
    Path("a.zip").write_bytes(raw[: at + 5] + b"\0" + raw[at + 6 :])
    assert read_all(one("a.zip")) == ([("a.zip/2026/a.jpg", b"1")], None)


def damage(name: str, member: bytes, at: int) -> None:
    raw = bytearray(Path(name).read_bytes())
    raw[raw.index(member) + len(member) + at] ^= 0xFF
    Path(name).write_bytes(raw)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_broken_member_of_a_zip_costs_only_itself(method: int) -> None:
    make_zip("a.zip", method=method)
    damage("a.zip", b"2026/a.jpg", 500)
    got, broke = read_all(one("a.zip"))
    assert broke is None
    assert got[1] == ("a.zip/2026/a.jpg", "corrupt-document")
    assert [got[0], *got[2:]] == [(f"a.zip/{n}", c) for n, c in [MEMBERS[0], *MEMBERS[2:]]]


def set_in_directory(name: str, member: bytes, offset: int, value: bytes) -> None:
    """Changes a field of a member's entry in the directory, where offset 46 is the name."""
    raw = bytearray(Path(name).read_bytes())
    at = raw.rindex(member) - 46 + offset
    raw[at : at + len(value)] = value
    Path(name).write_bytes(raw)


@pytest.mark.parametrize(
    ("offset", "value", "code"),
    [
        (8, b"\x01\x00", "encrypted-document"),
        (8, b"\x41\x00", "encrypted-document"),
        (10, b"\x63\x00", "unsupported-media-type"),
        (10, b"\x0e\x00", "unsupported-media-type"),
        (16, b"\0\0\0\0", "corrupt-document"),
        (20, b"\xff\xff\xff\xff", "corrupt-document"),
        (20, struct.pack("<L", 10), "corrupt-document"),
        (24, struct.pack("<L", 70_001), "corrupt-document"),
        (24, b"\xf0\xff\xff\xff", "payload-too-large"),
        (42, b"\x05\x00\x00\x00", "corrupt-document"),
        (42, b"\xf0\xff\xff\xff", "corrupt-document"),
    ],
)
def test_a_member_that_the_directory_says_wrong_things_of_costs_only_itself(
    offset: int, value: bytes, code: str
) -> None:
    make_zip("a.zip")
    set_in_directory("a.zip", b"2026/a.jpg", offset, value)
    got, broke = read_all(one("a.zip"))
    assert broke is None
    assert got[1] == ("a.zip/2026/a.jpg", code)
    assert [got[0], *got[2:]] == [(f"a.zip/{n}", c) for n, c in [MEMBERS[0], *MEMBERS[2:]]]


def test_an_archive_behind_a_self_extractor_or_with_a_comment_is_read() -> None:
    make_zip("a.zip")
    with zipfile.ZipFile("a.zip", "a") as archive:
        archive.comment = b"April"
    Path("a.zip").write_bytes(b"#!/bin/sh\n" * 100 + Path("a.zip").read_bytes())
    got, broke = read_all(one("a.zip"))
    assert (broke, [content for _, content in got]) == (None, [content for _, content in MEMBERS])


def test_a_zip_with_64_bit_records_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 2)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 50_000)
    raw = make_zip("a.zip")
    assert b"PK\x06\x06" in raw
    got, broke = read_all(one("a.zip"))
    assert (broke, [content for _, content in got]) == (None, [content for _, content in MEMBERS])


def test_a_part_of_a_split_zip_says_so() -> None:
    raw = bytearray(make_zip("a.zip"))
    raw[-18] = 3
    Path("a.zip").write_bytes(raw)
    got, broke = read_all(one("a.zip"))
    assert got == []
    assert "join the parts" in str(broke)


@pytest.mark.parametrize("make", [make_zip, make_tar], ids=["zip", "tar"])
def test_the_members_before_a_cut_are_good_and_then_the_source_breaks(
    make: Callable[[str], bytes], request: pytest.FixtureRequest
) -> None:
    suffix = request.node.callspec.id
    raw = make(f"whole.{suffix}")
    for cut in [*range(600, len(raw), 997), len(raw) - 10_240, len(raw) - 60]:
        Path(f"cut.{suffix}").write_bytes(raw[:cut])
        got, broke = read_all(one(f"cut.{suffix}"))
        if broke is None:  # only the padding after the end mark of a tar is missing
            assert suffix == "tar"
            assert raw[cut - 512 :].strip(b"\0") == b""
            assert len(got) == len(MEMBERS)
            continue
        assert broke.exit_code == 3
        assert f"cut.{suffix}" in str(broke)
        assert f"after {len(got)} documents" in str(broke)
        assert broke.items == len(got)
        assert got == [(f"cut.{suffix}/{n}", c) for n, c in MEMBERS[: len(got)]]


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tar.bz2", "a.tar.xz"])
def test_a_packed_tar_that_is_cut_off_breaks_after_its_good_members(name: str) -> None:
    raw = make_tar(name, [(f"{i}.jpg", os.urandom(3_000)) for i in range(100)])
    for cut in (20, len(raw) // 3, len(raw) - 30):
        Path(name).write_bytes(raw[:cut])
        got, broke = read_all(one(name))
        assert broke is not None
        assert broke.items == len(got) <= 100
        assert all(len(content) == 3_000 for _, content in got)


def test_a_tar_with_a_broken_header_in_its_middle_does_not_end_silently() -> None:
    make_tar("a.tar")
    damage("a.tar", b"empty.png", 10)
    got, broke = read_all(one("a.tar"))
    assert [uri for uri, _ in got] == ["a.tar/2026/b.jpg", "a.tar/2026/a.jpg"]
    assert "a header is broken" in str(broke)


def test_joined_tars_do_not_end_silently_after_the_first() -> None:
    raw = make_tar("a.tar")
    Path("a.tar").write_bytes(raw + raw)
    got, broke = read_all(one("a.tar"))
    assert len(got) == len(MEMBERS)
    assert "one by one" in str(broke)


def test_a_zip_that_is_cut_off_in_its_last_kilobyte_gives_all_its_members() -> None:
    raw = make_streamed_zip("a.zip", zipfile.ZIP_DEFLATED) or Path("a.zip").read_bytes()
    Path("a.zip").write_bytes(raw[:-30])
    got, broke = read_all(one("a.zip"))
    assert [content for _, content in got] == [content for _, content in MEMBERS]
    assert broke is not None
    assert broke.items == len(MEMBERS)


def test_members_of_a_cut_zip_that_are_given_up_half_read_do_not_harm_the_next() -> None:
    raw = make_zip("a.zip")
    Path("a.zip").write_bytes(raw[:-30])
    members = iter(one("a.zip"))
    uris = []
    for _ in MEMBERS:
        found = next(members)
        assert found.content is not None
        found.content.read(10)
        uris.append(found.uri)
        del found
    assert uris == [f"a.zip/{member}" for member, _ in MEMBERS]
    with pytest.raises(BrokenSource):
        next(members)


def test_a_zip_whose_directory_is_broken_in_its_middle_breaks_there() -> None:
    make_zip("a.zip")
    set_in_directory("a.zip", b"empty.png", 0, b"XX")
    got, broke = read_all(one("a.zip"))
    assert len(got) == 2
    assert "directory is broken" in str(broke)


def test_an_encrypted_zip_is_a_failure_of_each_member() -> None:
    make_zip("a.zip")
    for member, _ in MEMBERS:
        set_in_directory("a.zip", member.encode(), 8, b"\x01\x00")
    got, broke = read_all(one("a.zip"))
    assert broke is None
    assert got == [(f"a.zip/{member}", "encrypted-document") for member, _ in MEMBERS]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_bomb_in_a_zip_is_stopped_at_the_limit(method: int) -> None:
    make_zip("a.zip", [("bomb.jpg", b"\0" * 20_000_000), ("a.jpg", b"1")], method)
    got, broke = read_all(one("a.zip", max_member_bytes=1_000_000))
    assert (got, broke) == ([("a.zip/bomb.jpg", "payload-too-large"), ("a.zip/a.jpg", b"1")], None)
    # The same when the directory lies about the size.
    set_in_directory("a.zip", b"bomb.jpg", 24, struct.pack("<L", 1_000))
    (bomb, _) = one("a.zip", max_member_bytes=1_000_000)
    members = iter(one("a.zip", max_member_bytes=1_000_000))
    bomb = next(members)
    with pytest.raises(PayloadTooLarge):
        read(bomb)
    assert read(next(members)) == b"1"


def test_a_bomb_in_a_tar_is_a_failure_of_its_own() -> None:
    make_tar("a.tar.gz", [("bomb.jpg", b"\0" * 20_000_000), ("a.jpg", b"1")])
    got, broke = read_all(one("a.tar.gz", max_member_bytes=1_000_000))
    assert (got, broke) == ([("a.tar.gz/bomb.jpg", "payload-too-large"), ("a.tar.gz/a.jpg", b"1")], None)


def header(name: str, size: int, kind: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "block",
    [
        header("x", MAX_HEADER_BYTES + 1, tarfile.XHDTYPE),
        header("x", MAX_HEADER_BYTES + 1, tarfile.GNUTYPE_LONGNAME),
        header("x.jpg", 1 << 60, tarfile.REGTYPE),
        header("x.jpg", -512, tarfile.REGTYPE),
        header("x", 0, tarfile.XHDTYPE) * 3000,
    ],
    ids=["long pax", "long name", "huge", "negative", "nested pax"],
)
def test_a_hostile_tar_header_breaks_the_source_and_nothing_else(block: bytes) -> None:
    good = header("a.jpg", 1, tarfile.REGTYPE) + b"1".ljust(512, b"\0")
    Path("a.tar").write_bytes(good + block + good + b"\0" * 1024)
    got, broke = read_all(one("a.tar", max_member_bytes=10))
    assert got[0] == ("a.tar/a.jpg", b"1")
    assert broke is not None
    assert all(uri == "a.tar/x.jpg" and code == "payload-too-large" for uri, code in got[1:])


def test_an_xz_that_asks_for_too_much_memory_is_refused() -> None:
    make_tar("a.tar")
    packed = lzma.compress(
        Path("a.tar").read_bytes(), filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 << 20}]
    )
    Path("a.tar.xz").write_bytes(packed)
    got, broke = read_all(one("a.tar.xz"))
    assert got == []
    assert "emory" in str(broke)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_streams_packed_one_after_the_other_are_one_archive(pack: Callable[[bytes], bytes]) -> None:
    raw = make_tar("a.tar")
    Path("a.tar.gz").write_bytes(b"".join(pack(raw[i : i + 50_000]) for i in range(0, len(raw), 50_000)))
    got, broke = read_all(one("a.tar.gz"))
    assert (broke, [content for _, content in got]) == (None, [content for _, content in MEMBERS])


def test_zeros_between_and_after_xz_streams_are_padding() -> None:
    raw = make_tar("a.tar")
    Path("a.tar.xz").write_bytes(lzma.compress(raw[:99_999]) + b"\0" * 8 + lzma.compress(raw[99_999:]) + b"\0" * 4)
    got, broke = read_all(one("a.tar.xz"))
    assert (broke, len(got)) == (None, len(MEMBERS))


def test_zstandard_is_read_where_python_can_and_refused_with_advice_where_not() -> None:
    # One frame with one raw block: 13 bytes of header and content are enough to look at.
    Path("a.tar.zst").write_bytes(compressed.ZSTD + b"\x20\x01\x09\x00\x00x")
    if can_open(compressed.ZSTD):
        got, broke = read_all(one("a.tar.zst"))
        assert got == []
        assert broke is not None
    else:
        with pytest.raises(SourceError, match="zstd -d"):
            one("a.tar.zst")


def test_an_archive_that_goes_between_look_and_reading_breaks_the_source() -> None:
    make_zip("a.zip")
    source = one("a.zip")
    os.remove("a.zip")
    with pytest.raises(BrokenSource, match="cannot be opened"):
        list(source)
    Path("a.zip").write_bytes(b"something else now")
    with pytest.raises(BrokenSource, match="no archive any more"):
        list(source)


def test_a_long_sparse_file_in_a_tar_is_read() -> None:
    with open("sparse.jpg", "wb") as stream:
        stream.seek(300_000)
        stream.write(b"end")
    if os.system("tar --sparse -cf a.tar sparse.jpg") != 0:
        pytest.skip("no tar that knows sparse files")
    got, broke = read_all(one("a.tar"))
    assert broke is None
    assert got == [("a.tar/sparse.jpg", b"\0" * 300_000 + b"end")]


def test_reading_in_odd_sizes_gives_the_same_bytes() -> None:
    content = os.urandom(200_000)
    make_zip("a.zip", [("a.jpg", content)])
    for sizes in ([1, 3, 70_000], [-1], [0, 65_536]):
        digest = hashlib.sha256()
        members: Iterator[Found] = iter(one("a.zip"))
        reader = next(members).content
        assert reader is not None
        turn = 0
        while True:
            size = sizes[turn % len(sizes)]
            piece = reader.read(size)
            assert size < 0 or len(piece) <= size
            if not piece and size != 0:
                break
            digest.update(piece)
            turn += 1
        assert digest.digest() == hashlib.sha256(content).digest()


def test_keys_of_archives_do_not_change_with_their_content(tmp_path: Path) -> None:
    make_zip("a.zip")
    key = one("a.zip").key
    make_zip("a.zip", [])
    assert one("./a.zip").key == key == f"archive:{tmp_path}/a.zip"
