"""Pages as pictures: upright, drawn in a process of their own, bounded, and nobody else's business."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from http_service import HttpService, fresh, open_edge
from paged_paper import long_scan, page
from PIL import Image
from service_support import serving
from test_http_documents import problem

from headrace.ocr.limits import ReadLimits
from headrace.ocr.picture import write_picture
from headrace.service.auth import Keys, make_key
from headrace.service.edge import Edge
from headrace.service.errors import PageUnreadable
from headrace.service.limits import Limits
from headrace.service.picture_cache import FILES_AT_MOST, PictureCache
from headrace.service.views import ServiceLimits


@contextlib.asynccontextmanager
async def picture_edge(**limits: int) -> AsyncIterator[Edge]:
    told = Limits(service=ServiceLimits(min_free_bytes=0, **limits))
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder) / "w", told.service) as reception:
            yield Edge(reception, 64 << 20, limits=dataclasses.replace(told))


@pytest.fixture(scope="module")
def service() -> Iterator[HttpService]:
    with HttpService(picture_edge) as running:
        yield running


def sent(client: httpx.Client, content: bytes) -> str:
    answer = client.post("/v1/documents", content=content, headers={"Prefer": "wait=20"})
    assert answer.status_code == 200, answer.text
    return f"/v1/documents/{answer.json()['document_id']}"


def picture(answer: httpx.Response) -> Image.Image:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/jpeg"
    return Image.open(io.BytesIO(answer.content))


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def turned(orientation: int) -> bytes:
    """A page with a black corner at its top left, stored turned, with the EXIF tag that turns it back."""
    upright = Image.new("L", (300, 500), 255)
    upright.paste(0, (0, 0, 100, 100))
    back = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(upright.transpose(back[orientation]), "JPEG", exif=exif)


@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_a_page_is_shown_upright_and_carries_no_tag_that_turns_it_again(client: httpx.Client, orientation: int) -> None:
    shown = picture(client.get(f"{sent(client, turned(orientation))}/pages/1"))
    assert shown.size == (300, 500)
    assert shown.getpixel((50, 50)) < 50
    assert shown.getpixel((250, 450)) > 200
    assert not shown.getexif()


def test_a_page_that_was_turned_by_what_is_on_it_is_shown_as_it_was_recognised(tmp_path: Path) -> None:
    upright = Image.new("L", (300, 500), 255)
    upright.paste(0, (0, 0, 100, 100))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90; what is on it says by 180 more
    source = tmp_path / "page.jpg"
    source.write_bytes(encoded(upright.transpose(Image.Transpose.ROTATE_270), "JPEG", exif=exif))
    for rotation, corner in ((270, (50, 50)), (90, (250, 450)), (None, (250, 450))):
        target = tmp_path / f"{rotation}.jpg"
        assert write_picture(os.fsencode(source), 1, os.fsencode(target), ReadLimits(), rotation).page_count == 1
        with Image.open(target) as shown:
            assert shown.size == (300, 500)
            assert shown.getpixel(corner) < 50
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".jpg"] * 4


def test_every_page_of_a_pdf_and_of_a_tiff_is_shown_and_the_one_behind_the_last_is_404(client: httpx.Client) -> None:
    frames = [page(number) for number in (1, 2, 3)]
    tiff = encoded(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    for content in (long_scan(3), tiff):
        address = sent(client, content)
        pictures = [client.get(f"{address}/pages/{number}") for number in (1, 2, 3)]
        assert all(picture(shown).mode == "L" for shown in pictures)
        assert len({shown.content for shown in pictures}) == 3
        told = problem(client.get(f"{address}/pages/4"), 404, "not-found")
        assert "3 pages" in told["detail"]
        assert told["page"] == 4
        problem(client.get(f"{address}/pages/0"), 400, "malformed-request")
        assert client.get(address).json()["links"]["first_page"] == f"{address}/pages/1"


def test_a_page_has_a_tag_and_is_304_while_the_tag_is_known(client: httpx.Client) -> None:
    address = f"{sent(client, fresh())}/pages/1"
    first = client.get(address)
    again = client.get(address, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert client.get(address, headers={"If-None-Match": '"another"'}).content == first.content
    assert first.headers["cache-control"] == "private, no-cache"
    assert first.headers["x-content-type-options"] == "nosniff"
    problem(client.get(address, headers={"Accept": "application/json"}), 406, "not-acceptable")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\xff\xd8\xff\xe0 no picture at all" * 9, "corrupt-document"),
        (b"%PDF-1.4 and nothing more", "corrupt-document"),
        (encoded(Image.new("1", (30_000, 30_000), 1), "PNG"), "image-too-large"),
    ],
    ids=["jpeg", "pdf", "bomb"],
)
def test_a_page_that_cannot_be_decoded_is_a_typed_problem_and_the_next_one_is_shown(
    client: httpx.Client, content: bytes, code: str
) -> None:
    told = problem(client.get(f"{sent(client, content)}/pages/1"), 422, code)
    assert told["detail"]
    assert picture(client.get(f"{sent(client, fresh())}/pages/1")).size == (1, 1)


def test_when_the_worker_dies_on_a_page_that_page_is_422_and_the_next_is_drawn(
    service: HttpService, client: httpx.Client
) -> None:
    picture(client.get(f"{sent(client, fresh())}/pages/1"))
    address = f"{sent(client, encoded(page(7, (4000, 6000)), 'PNG', compress_level=1))}/pages/1"

    async def kill_while_it_draws(edge: Edge) -> tuple[type[BaseException], str | None]:
        pool = edge.reception.pages._pool
        assert pool is not None
        (worker,) = pool.live
        original = await edge.reception.original(None, address.split("/")[3])
        assert original is not None
        asked = asyncio.create_task(edge.reception.pages.show(original, "a" * 64, 1))
        async with asyncio.timeout(20):
            while worker.doing() is None:  # noqa: ASYNC110 - no signal says that it has begun
                await asyncio.sleep(0.001)
        os.kill(worker.pid, signal.SIGKILL)
        try:
            await asked
        except Exception as error:
            return type(error), getattr(error, "reason", None)
        raise AssertionError("it was drawn")

    assert service.ask(kill_while_it_draws) == (PageUnreadable, "worker-lost")
    assert picture(client.get(address)).size == (2000, 3000)


def test_when_the_original_is_gone_it_is_410_whatever_is_kept_of_it(service: HttpService, client: httpx.Client) -> None:
    address = sent(client, fresh())
    picture(client.get(f"{address}/pages/1"))

    async def remove(edge: Edge) -> None:
        path = await edge.reception.original(None, address.rpartition("/")[2])
        assert path is not None
        os.unlink(path)

    service.ask(remove)
    problem(client.get(f"{address}/pages/1"), 410, "result-expired")


def test_more_pages_at_once_than_the_bound_are_refused_and_those_who_got_in_are_served() -> None:
    with HttpService(lambda: picture_edge(page_requests=2)) as service, service.client() as client:
        addresses = [f"{sent(client, encoded(page(n), 'PNG'))}/pages/1" for n in range(6)]

        async def all_at_once(edge: Edge) -> list[int]:
            async with httpx.AsyncClient(base_url=service.url, timeout=30) as asking:
                answers = await asyncio.gather(*[asking.get(address) for address in addresses])
            for answer in answers:
                if answer.status_code == 429:
                    assert problem(answer, 429, "queue-full")["retry_after_seconds"] >= 1
                    assert int(answer.headers["retry-after"]) >= 1
            return [answer.status_code for answer in answers]

        assert sorted(service.ask(all_at_once)) == [200, 200, 429, 429, 429, 429]
        assert client.get(addresses[-1]).status_code == 200
        bounds = client.get("/v1/capacity").json()["bounds"]
        assert (bounds["page_requests"]["used"], bounds["page_requests"]["limit"]) == (0, 2)
        assert 0 < bounds["page_worker"]["used"] < bounds["page_worker"]["limit"]


def test_the_same_page_asked_for_by_many_is_drawn_once_and_then_comes_from_the_disk(
    service: HttpService, client: httpx.Client
) -> None:
    address = f"{sent(client, encoded(page(8), 'PNG'))}/pages/1"

    def drawn(edge: Edge) -> int:
        pool = edge.reception.pages._pool
        return 0 if pool is None else sum(worker.items_done for worker in pool.statistics().workers)

    picture(client.get(f"{sent(client, fresh())}/pages/1"))
    before = service.look(drawn)

    async def five_times(edge: Edge) -> set[bytes]:
        async with httpx.AsyncClient(base_url=service.url, timeout=30) as asking:
            answers = await asyncio.gather(*[asking.get(address) for _ in range(5)])
        return {answer.content for answer in answers}

    assert len(service.ask(five_times)) == 1
    client.get(address)
    assert service.look(drawn) == before + 1


def test_another_clients_page_is_404_and_without_the_role_it_is_403(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    secrets = [make_key(path, who) for who in ("acme:submit,read", "bolt:submit,read", "door:submit")]
    with HttpService(lambda: open_edge(Keys.load(path))) as service:
        acme, bolt, door = (service.client(headers={"Authorization": f"Bearer {secret}"}) for secret in secrets)
        with acme, bolt, door:
            address = f"{sent(acme, fresh())}/pages/1"
            picture(acme.get(address))
            problem(bolt.get(address), 404, "not-found")
            problem(door.get(address), 403, "forbidden")
            assert sent(bolt, fresh()) != address


def test_the_cache_stays_within_its_bytes_and_files_and_the_one_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = PictureCache(tmp_path / "pages", 1000)
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "left-by-a-crash.part").touch()
    cache.clear()
    assert not list(cache.folder.iterdir())
    for name in "abc":
        cache.path(name).write_bytes(b"x" * 400)
        if name == "c":
            assert cache.get("a") is not None
        cache.added(name, 400)
    assert sorted(path.name for path in cache.folder.iterdir()) == ["a", "c"]
    assert (cache.size_bytes, len(cache), cache.get("b")) == (800, 2, None)
    cache.path("large").write_bytes(b"x" * 5000)
    cache.added("large", 5000)
    assert [path.name for path in cache.folder.iterdir()] == ["large"]
    cache.path("large").unlink()
    assert cache.get("large") is None
    assert cache.size_bytes == 0
    for number in range(FILES_AT_MOST + 10):
        cache.added(str(number), 0)
    assert len(cache) == FILES_AT_MOST
