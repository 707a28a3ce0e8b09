"""Originals go when their time is over, and never while somebody needs them; a full store recovers by itself."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from faulty_reading import faulty_pool
from http_service import HttpService, fresh, open_edge
from service_support import body_of, done, jpeg, send, serving
from sqlalchemy import update
from test_http_documents import problem

from headrace.flow import Admitted, ServiceClass
from headrace.service import house
from headrace.service.errors import NotReplayable
from headrace.service.reception import Reception
from headrace.service.views import ServiceLimits, Submission
from headrace.storage.tables import batches, submissions

DAY_S = 86_400
KEEPS = ServiceLimits(min_free_bytes=0, retention_days=30)


async def age(reception: Reception, days: float, *names: str) -> None:
    """Makes documents (all, or these) older than they are."""

    def step(store) -> None:
        older = update(submissions).values(accepted_at=submissions.c.accepted_at - days * DAY_S)
        for place in [store._locate(name) for name in names]:
            this = (submissions.c.batch_id == place[0], submissions.c.position == place[1])
            store._connection.execute(older.where(*this))
        if not names:
            store._connection.execute(older)

    await reception._do(step)


async def sweep(reception: Reception) -> int:
    before = reception.retention.removed
    while await reception.retention.sweep_page():
        pass
    return reception.retention.removed - before


def test_the_original_of_a_document_goes_after_its_days_and_the_document_stays():
    def limits(edge) -> None:
        edge.reception.change_limits(dataclasses.replace(edge.reception.limits, retention_days=30))

    with HttpService(open_edge) as service, service.client() as client:
        service.look(limits)
        old, young = (
            client.post("/v1/documents", content=fresh(size), headers={"Prefer": "wait=20"}).json()
            for size in (5000, 300_000)
        )
        service.ask(lambda edge: age(edge.reception, 31, old["document_id"]))
        service.ask(lambda edge: age(edge.reception, 29, young["document_id"]))
        assert service.ask(lambda edge: sweep(edge.reception)) == 1
        problem(client.get(f"/v1/documents/{old['document_id']}/file"), 410, "result-expired")
        assert client.get(f"/v1/documents/{old['document_id']}").json()["receipt"] == old["receipt"]
        assert client.get(f"/v1/documents/{young['document_id']}/file").status_code == 200
        assert client.get("/v1/capacity").json()["bounds"]["blobs"]["used"] == 300_000


def test_without_retention_nothing_is_removed(tmp_path: Path):
    async def main() -> None:
        async with serving(tmp_path / "w") as reception:
            await done(reception, await send(reception, jpeg(1)))
            await age(reception, 10_000)
            assert await sweep(reception) == 0

    asyncio.run(main())


def test_bytes_that_a_younger_document_or_an_arrival_needs_stay(tmp_path: Path):
    async def main() -> None:
        async with serving(tmp_path / "w", KEEPS) as reception:
            shared, arriving = jpeg("shared"), jpeg("arriving", 400_000)
            first = await done(reception, await send(reception, shared, "a"))
            await age(reception, 31)
            await done(reception, await send(reception, shared, "b"))
            assert await sweep(reception) == 0, "the younger one has the same bytes"
            assert await reception.original("a", first.document_id) is not None
            await done(reception, await send(reception, arriving, "a"))
            await age(reception, 31)
            submission = Submission("b", ServiceClass.INTERACTIVE)
            decision = reception.decide(submission)
            assert isinstance(decision, Admitted)
            sweeping = asyncio.create_task(sweep(reception))
            accepted = await reception.accept(submission, decision.permit, body_of(arriving))
            await sweeping
            await done(reception, accepted)
            path = await reception.original("b", accepted.document_id)
            assert path is not None
            assert await asyncio.to_thread(Path(path.decode()).read_bytes) == arriving

    asyncio.run(main())


def test_a_document_that_waits_or_failed_keeps_its_bytes_until_it_was_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(house, "worker_pool", faulty_pool)
    gate = tmp_path / "gate"

    async def main() -> None:
        async with serving(tmp_path / "w", KEEPS, attempts=1) as reception:
            failed = await done(reception, await send(reception, jpeg("die"), "a", filename="die"))
            waits = await send(reception, jpeg("waits"), "a", filename=f"wait-for {gate}")
            unwanted = await send(reception, jpeg("unwanted"), "a")
            await done(reception, await reception.cancel("a", unwanted.document_id))
            await age(reception, 31)
            assert await sweep(reception) == 1, "only of the one that nobody wants"
            with pytest.raises(NotReplayable, match="not kept any more"):
                await reception.replay("a", unwanted.document_id)
            again = await reception.replay("a", failed.document_id)
            gate.touch()
            await done(reception, waits)
            assert (await done(reception, again)).kind == "failure"  # type: ignore[arg-type]
            await age(reception, 31)
            assert await sweep(reception) == 1, "what failed again is kept again"
            assert await reception.original("a", failed.document_id) is not None

    asyncio.run(main())


def test_what_an_unfinished_run_may_need_is_not_touched(tmp_path: Path):
    async def main() -> None:
        async with serving(tmp_path / "w", KEEPS) as reception:
            assert not await reception._do(lambda store: store.has_unfinished_run())
            await done(reception, await send(reception, jpeg("other")))
            assert not await reception._do(lambda store: store.has_unfinished_run())

            def step(store) -> bool:
                run = store.open_batch(book="main", key="run", today="2026-11-30", settings_json="{}")
                store._connection.execute(update(batches).where(batches.c.id == run.batch_id).values(in_flight=1))
                return store.has_unfinished_run()

            assert await reception._do(step)
            await asyncio.wait_for(reception.retention.run(), 20)  # ends at once instead of looking on for ever

    asyncio.run(main())


def test_the_same_bytes_sent_again_after_their_time_are_the_same_document(tmp_path: Path):
    async def main() -> None:
        async with serving(tmp_path / "w", KEEPS) as reception:
            first = await done(reception, await send(reception, jpeg("again"), "a"))
            await age(reception, 31)
            assert await sweep(reception) == 1
            again = await send(reception, jpeg("again"), "a")
            assert (again.document_id, again.replayed) == (first.document_id, True)

    asyncio.run(main())


def test_when_blob_bytes_are_reached_it_is_503_and_retention_makes_room_again(tmp_path: Path):
    async def main() -> None:
        async with serving(tmp_path / "w", KEEPS, blob_bytes=1 << 20, max_document_bytes=1 << 19) as reception:
            for number in range(3):
                await done(reception, await send(reception, jpeg(number, 300_000)))
            with pytest.raises(OSError, match="bound"):
                await send(reception, jpeg(9, 300_000))
            assert not reception.health().ready
            await age(reception, 31)
            assert await sweep(reception) == 3
            async with asyncio.timeout(20):
                while not reception.health().ready:  # noqa: ASYNC110 - it looks by itself, once a second
                    await asyncio.sleep(0.02)
            await done(reception, await send(reception, jpeg(9, 300_000)))

    asyncio.run(main())


def test_a_full_disk_is_503_over_http_before_a_byte_is_read_and_it_recovers_by_itself():
    def set_free(min_free_bytes: int):
        return lambda edge: edge.reception.change_limits(
            dataclasses.replace(edge.reception.limits, min_free_bytes=min_free_bytes)
        )

    with HttpService(open_edge) as service, service.client() as client:
        content = fresh(2000)
        assert client.post("/v1/documents", content=fresh()).status_code == 202
        service.look(set_free(1 << 60))
        answer = client.post("/v1/documents", content=content)
        problem(answer, 503, "storage-full")
        assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/readyz").status_code == 503
        assert client.get("/livez").status_code == 200
        problem(client.post("/v1/documents", content=content), 503, "storage-full")
        assert 'refusal="nostorage"' in client.get("/metrics").text, "an outage, and not load"
        service.look(set_free(0))
        service.until(lambda edge: edge.reception.health().ready)
        assert client.post("/v1/documents", content=content).status_code == 202
        bounds = client.get("/v1/capacity").json()["bounds"]
        assert bounds["documents"]["used"] <= 2, "a refusal holds nothing"
