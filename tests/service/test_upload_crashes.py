"""Resumable uploads across crashes and restarts: they go on at what is on disk, and make one document, not two."""

from __future__ import annotations

import asyncio
import hashlib
import random
import socket
import time
from pathlib import Path

import httpx
import pytest
from http_service import png
from service_support import BATCH, DEADLINE_S, body_of, jpeg, serving
from test_resumable_uploads import OFFSET, PARTIAL, TUS, append, begin, patch_head
from test_serve_command import Served, headrace, serve  # noqa: F401  # a fixture

from headrace.service.errors import NotFound, PartMismatch
from headrace.service.upload_files import Phase
from headrace.service.upload_rules import Part
from headrace.service.views import ServiceLimits, Submission
from headrace.storage.errors import StorageFull

ROOM = ServiceLimits(min_free_bytes=0)


def broken_off(served: Served, request: bytes, content: bytes, after_s: float) -> None:
    """Sends a part, a bit at a time, until the service is killed in the middle of it."""
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as sock:
        sock.sendall(request)
        end = time.monotonic() + after_s
        try:
            for start in range(0, len(content), 20_000):
                sock.sendall(content[start : start + 20_000])
                if time.monotonic() > end:
                    break
        except OSError:
            pass
        served.kill()


@pytest.mark.parametrize("dialect", ["draft", "tus"])
def test_after_kill_9_in_the_middle_of_a_part_an_upload_goes_on_at_what_is_on_disk(serve, tmp_path, dialect):  # noqa: F811
    chance = random.Random(dialect)
    content = png(17, 12_000_000)
    served = serve()
    told = {} if dialect == "draft" else TUS
    with httpx.Client(base_url=served.url, timeout=30) as client:
        if dialect == "draft":
            upload = begin(client, len(content))
        else:
            answer = client.post("/v1/uploads", headers={**TUS, "Upload-Length": str(len(content))})
            upload = answer.headers["location"]
    name = upload.rpartition("/")[2]
    offset = 0
    for _ in range(2 if dialect == "tus" else 1):
        request = patch_head(upload, offset, len(content) - offset, True)
        if dialect == "tus":
            request = request.replace(PARTIAL.encode(), OFFSET["Content-Type"].encode() + b"\r\nTus-Resumable: 1.0.0")
        broken_off(served, request, content[offset:], chance.uniform(0.0, 0.02))
        served.end()
        on_disk = (tmp_path / "w" / "blobs" / "uploads" / name).stat().st_size
        served = serve()
        with httpx.Client(base_url=served.url, timeout=30) as client:
            offset = int(client.head(upload, headers=told).headers["upload-offset"])
        assert offset == on_disk < len(content)
    assert offset > 0
    with httpx.Client(base_url=served.url, timeout=30) as client:
        if dialect == "draft":
            location = append(client, upload, offset, content[offset:], True).headers["location"]
        else:
            last = client.patch(upload, content=content[offset:], headers={**OFFSET, "Upload-Offset": str(offset)})
            location = last.headers["content-location"]
        assert client.get(location).json()["sha256"] == hashlib.sha256(content).hexdigest()
    if dialect == "tus":
        return  # what follows is the same for both
    served.kill()
    served.end()
    again = serve()
    with httpx.Client(base_url=again.url, timeout=30) as client:
        assert client.head(upload, headers=told).headers["content-location"] == location
        again.until(lambda: len(client.get("/v1/ledger").json()["items"]) == 1)
    assert again.stop() == 0
    assert headrace(tmp_path, "verify", "--workspace", "w").returncode == 0


@pytest.mark.parametrize("in_batch", [False, True])
def test_a_crash_between_the_document_and_the_note_of_it_makes_no_second_document(tmp_path: Path, in_batch: bool):
    content = jpeg("crash", 50_000)

    async def first() -> tuple[str, str, int | None]:
        async with serving(tmp_path / "w", ROOM) as reception:
            batch = (await reception.open_batch("c", BATCH)).batch_id if in_batch else None
            uploads = reception.uploads
            upload = await uploads.create(Submission("c", BATCH, batch_id=batch), len(content))

            def full(_: object) -> None:
                raise StorageFull("no room for a note")

            uploads._files.end = full  # type: ignore[method-assign]
            accepted = await uploads.append(upload, Part(0, True, len(content)), body_of(content))
            assert accepted is not None
            assert (await uploads.find("c", upload.kept.upload_id)).kept.document_id == accepted.document_id
            return upload.kept.upload_id, accepted.document_id, batch

    async def second(upload_id: str) -> tuple[str, bytes]:
        async with serving(tmp_path / "w", ROOM) as reception:
            uploads = reception.uploads
            upload = await uploads.find("c", upload_id)
            assert (upload.kept.phase, upload.offset_bytes) == (Phase.OPEN, len(content))
            accepted = await uploads.append(upload, Part(len(content), True, 0), body_of(b""))
            assert accepted is not None
            assert accepted.replayed
            assert await reception.wait_for(accepted.document_id, DEADLINE_S)
            assert reception.capacity().bound("blobs").used == len(content)
            path = await reception.original("c", accepted.document_id)
            assert path is not None
            return accepted.document_id, path

    upload_id, document_id, _ = asyncio.run(first())
    again, path = asyncio.run(second(upload_id))
    assert again == document_id
    assert Path(path.decode()).read_bytes() == content


def test_half_of_a_part_with_a_digest_does_not_count_after_a_crash(tmp_path: Path):

    content = jpeg("half", 40_000)

    async def first() -> str:
        async with serving(tmp_path / "w", ROOM) as reception:
            uploads = reception.uploads
            upload = await uploads.create(Submission("c", BATCH), len(content))
            await uploads.append(upload, Part(0, False, 10_000), body_of(content[:10_000]))
            upload.kept.unchecked_from = 10_000  # as while the part comes in
            uploads._files.write(upload.kept)
            path = uploads._files.path(upload.kept.upload_id)
            path.write_bytes(path.read_bytes() + b"\0" * 5000)
            return upload.kept.upload_id

    async def second(upload_id: str) -> int:
        async with serving(tmp_path / "w", ROOM) as reception:
            upload = await reception.uploads.find("c", upload_id)
            await reception.uploads.append(upload, Part(10_000, True, 30_000), body_of(content[10_000:]))
            assert upload.kept.phase is Phase.COMPLETE
            return upload.offset_bytes

    assert asyncio.run(second(asyncio.run(first()))) == len(content)


def test_what_comes_behind_a_part_that_was_taken_back_counts_after_a_crash(tmp_path: Path):
    content = jpeg("behind", 40_000)

    async def first() -> str:
        async with serving(tmp_path / "w", ROOM) as reception:
            uploads = reception.uploads
            upload = await uploads.create(Submission("c", BATCH), len(content))
            wrong = ("sha256", hashlib.sha256(b"other bytes").digest())
            with pytest.raises(PartMismatch):
                await uploads.append(upload, Part(0, False, 10_000, digest=wrong), body_of(content[:10_000]))
            await uploads.append(upload, Part(0, False, 30_000), body_of(content[:30_000]))
            return upload.kept.upload_id

    async def second(upload_id: str) -> int:
        async with serving(tmp_path / "w", ROOM) as reception:
            return (await reception.uploads.find("c", upload_id)).offset_bytes

    assert asyncio.run(second(asyncio.run(first()))) == 30_000


def test_what_a_crash_left_half_made_is_removed_and_lost_bytes_end_their_upload(tmp_path: Path):

    async def first() -> list[str]:
        async with serving(tmp_path / "w", ROOM) as reception:
            uploads = reception.uploads
            made = [await uploads.create(Submission("c", BATCH), None) for _ in range(2)]
            await uploads.append(made[0], Part(0, False, 5000), body_of(jpeg("left", 5000)))
            folder = uploads._files.folder
            uploads._files.path(made[1].kept.upload_id).unlink()
            (folder / ("0" * 32)).write_bytes(b"nobody's")
            (folder / f"{'1' * 32}.half").write_bytes(b"{")
            (folder / f"{'2' * 32}.json").write_bytes(b"{")
            return [upload.kept.upload_id for upload in made]

    async def second(kept: str, lost: str) -> None:
        async with serving(tmp_path / "w", ROOM) as reception:
            assert (await reception.uploads.find("c", kept)).offset_bytes == 5000
            with pytest.raises(NotFound):
                await reception.uploads.find("c", lost)
            names = {path.name for path in reception.uploads._files.folder.iterdir()}
            assert names == {kept, f"{kept}.json"}
            assert reception.capacity().bound("blobs").used == 5000
            assert reception.capacity().bound("unfinished_uploads").used == 1

    asyncio.run(second(*asyncio.run(first())))
