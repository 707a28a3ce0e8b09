"""Members of archives on their way into the blob store."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

import pytest

from headrace.documents.errors import CorruptDocument, DocumentError, EncryptedDocument, PayloadTooLarge
from headrace.ingest.accept import spool
from headrace.ingest.sources import BrokenSource, Found, Source, parse_sources
from headrace.storage.blobs import Blobs


def archive(path: Path, members: dict[str, bytes], **options: int) -> Source:
    with zipfile.ZipFile(path, "w") as out:
        for name, content in members.items():
            out.writestr(name, content)
    (source,) = parse_sources([str(path)], stdin=io.BytesIO(), **options)  # type: ignore[arg-type]
    return source


def kept(blobs: Blobs) -> list[str]:
    return sorted(str(path) for path in blobs.folder.rglob("*") if path.is_file())


def test_each_member_is_kept_by_its_digest_and_found_at_its_path(tmp_path: Path) -> None:
    members = {"a.jpg": os.urandom(200_000), "b.jpg": b"same", "c.jpg": b"same", "empty.jpg": b""}
    blobs = Blobs(tmp_path / "blobs")
    spooled = [spool(found, blobs) for found in archive(tmp_path / "a.zip", members)]
    for (path, sha256, size_bytes), content in zip(spooled, members.values(), strict=True):
        assert os.path.isabs(path)
        assert Path(os.fsdecode(path)).read_bytes() == content
        assert (sha256, size_bytes) == (hashlib.sha256(content).hexdigest(), len(content))
    assert len(kept(blobs)) == 3


def test_a_member_that_fails_leaves_nothing_and_the_next_is_kept(tmp_path: Path) -> None:
    source = archive(tmp_path / "a.zip", {"a.jpg": b"broken" * 50_000, "b.jpg": b"good"})
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    raw[200_000] ^= 0xFF
    (tmp_path / "a.zip").write_bytes(raw)
    blobs = Blobs(tmp_path / "blobs")
    members = iter(source)
    with pytest.raises(CorruptDocument):
        spool(next(members), blobs)
    assert kept(blobs) == []
    assert spool(next(members), blobs).size_bytes == 4


@pytest.mark.parametrize(("problem"), [EncryptedDocument("x needs a password"), PayloadTooLarge("x is too large")])
def test_a_problem_is_raised_as_it_is(problem: DocumentError, tmp_path: Path) -> None:
    with pytest.raises(type(problem)) as raised:
        spool(Found("x", None, problem=problem), Blobs(tmp_path / "blobs"))
    assert raised.value is problem


def test_a_member_that_the_archive_breaks_off_in_leaves_nothing(tmp_path: Path) -> None:
    archive(tmp_path / "a.zip", {"a.jpg": b"1" * 1000, "b.jpg": b"2" * 1000})
    cut = (tmp_path / "a.zip").read_bytes()[:1500]
    (tmp_path / "a.zip").write_bytes(cut)
    (source,) = parse_sources([str(tmp_path / "a.zip")], stdin=io.BytesIO())
    blobs = Blobs(tmp_path / "blobs")
    members = iter(source)
    first = spool(next(members), blobs)
    with pytest.raises(BrokenSource, match="after 1 documents"):
        spool(next(members), blobs)
    assert kept(blobs) == [os.fsdecode(first.path)]
    with pytest.raises(BrokenSource, match="after 1 documents"):
        next(members)


def test_only_archive_members_are_spooled(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="read where it lies"):
        spool(Found("a.jpg", b"/a.jpg"), Blobs(tmp_path / "blobs"))
