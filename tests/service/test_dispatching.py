from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from faulty_reading import faulty_pool
from service_support import (
    BACKGROUND,
    BATCH,
    DEADLINE_S,
    INTERACTIVE,
    bounds_for,
    done,
    jpeg,
    send,
    serving,
    settings_for,
    until,
)

from headrace.documents.status import DocumentState
from headrace.ledger import verify
from headrace.service import house
from headrace.service.reception import (
    NoStorage,
    NotCancellable,
    NotFound,
    NotReplayable,
    Reception,
    ServiceLimits,
    Submission,
)
from headrace.storage.errors import LeaseLost, StorageFull
from headrace.storage.sqlite import SqliteStore


@pytest.fixture(autouse=True)
def _faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "worker_pool", faulty_pool)


def uris(entries: list[Any]) -> list[str]:
    return [entry.uri for entry in entries]


def test_a_slow_head_holds_back_its_batch_and_nobody_else(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    async def main() -> None:
        async with serving(tmp_path / "ws", workers=2) as reception:
            batch = await reception.open_batch("acme", BATCH)
            names = [f"wait-for {gate}", *[f"{n}.jpg" for n in range(2, 60)]]
            for n, name in enumerate(names):
                await send(reception, jpeg(n), "acme", batch_id=batch.batch_id, filename=name, service_class=BATCH)
            alone = [await send(reception, jpeg(f"x{n}"), "other", filename=f"alone {n}") for n in range(20)]
            for one in alone:
                assert (await done(reception, one)).state is DocumentState.SUCCEEDED
            assert await reception.results("acme", batch.batch_id) == []
            assert reception._line.settled_behind() <= reception._line.share
            gate.touch()
            await reception.close_batch("acme", batch.batch_id)
            found: list[Any] = []
            while await reception.more_results(batch.batch_id, len(found), DEADLINE_S):
                found += await reception.results("acme", batch.batch_id, len(found))
            assert uris(found) == names

    asyncio.run(main())


def test_documents_that_die_or_hang_cost_themselves_and_nobody_else(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws", workers=2, document_timeout_s=1.0, page_timeout_s=1.0) as reception:
            bad = [await send(reception, jpeg(f"bad {n}"), filename=name) for n, name in enumerate(["die", "hang"])]
            good = [await send(reception, jpeg(n), filename="good") for n in range(30)]
            for one in good:
                assert (await done(reception, one)).state is DocumentState.SUCCEEDED
            died, hung = [await done(reception, one) for one in bad]
            assert died.failure["code"] == "worker-lost"
            assert hung.failure["code"] == "deadline"
            assert died.attempt == 2
            letters = await reception.dead_letters()
            assert {letter.document.document_id for letter in letters} == {one.document_id for one in bad}
            assert await reception.dead_letters(client="nobody") == []

    asyncio.run(main())


def test_higher_classes_go_first_and_clients_take_turns(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    async def main() -> None:
        async with serving(tmp_path / "ws", ServiceLimits(documents=1000, min_free_bytes=0)) as reception:
            await send(reception, jpeg("gate"), filename=f"wait-for {gate}")
            await until(lambda: bool(reception._pool.statistics().workers[0].state == "busy"))
            # What the pool and the dispatcher have taken in by then has its place already.
            for n in range(100):
                await send(reception, jpeg(f"fill {n}"), "filler", filename="fill", service_class=BACKGROUND)
            ahead = 100 - reception._line.waiting
            for n in range(10):
                await send(reception, jpeg(f"greedy {n}"), "greedy", filename="greedy", service_class=BATCH)
            for n in range(3):
                await send(reception, jpeg(f"modest {n}"), "modest", filename="modest", service_class=BATCH)
            last = await send(reception, jpeg("now"), filename="now")
            gate.touch()
            await done(reception, last)
            order = uris(await reception.ledger(limit=1000))[1:]
            assert ahead < 100
            assert order.index("now") <= ahead
            rest = await done(reception, await send(reception, jpeg("end"), service_class=BACKGROUND))
            assert rest.state is DocumentState.SUCCEEDED
            order = [name for name in uris(await reception.ledger(limit=1000)) if name in ("greedy", "modest")]
            assert order[:6] in (["greedy", "modest"] * 3, ["modest", "greedy"] * 3)

    asyncio.run(main())


def test_a_cancelled_document_is_ended_wherever_it_is_and_its_worker_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            runs = await send(reception, jpeg("runs"), "acme", filename="hang")
            await until(lambda: bool(reception._pool.statistics().workers[0].state == "busy"))
            waits = await send(reception, jpeg("waits"), "acme", filename="waits")
            with pytest.raises(NotFound):
                await reception.cancel("other", runs.document_id)
            assert (await reception.cancel("acme", waits.document_id)).state is DocumentState.CANCELLED
            assert (await reception.cancel("acme", runs.document_id)).state is DocumentState.CANCELLED
            for one in (runs, waits):
                view = await done(reception, one)
                assert view.state is DocumentState.CANCELLED
                assert view.failure["code"] == "cancelled"
            with pytest.raises(NotCancellable):
                await reception.cancel("acme", runs.document_id)
            after = await done(reception, await send(reception, jpeg("after"), "acme"))
            assert after.state is DocumentState.SUCCEEDED
            assert await reception.dead_letters() == []
            # The same bytes again are a new document: the first one was not read.
            again = await send(reception, jpeg("waits"), "acme", filename="again")
            assert not again.replayed
            assert (await done(reception, again)).kind == "receipt"

    asyncio.run(main())


def test_a_cancelled_document_keeps_its_place_in_its_batch(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            batch = await reception.open_batch("", BATCH)
            names = [f"wait-for {gate}", *"abcdefghij"]
            sent = [await send(reception, jpeg(name), batch_id=batch.batch_id, filename=name) for name in names]
            for one in sent[5:7]:
                await reception.cancel("", one.document_id)
            gate.touch()
            await reception.close_batch("", batch.batch_id)
            assert await reception.wait_for(sent[-1].document_id, DEADLINE_S)
            found = await reception.results("", batch.batch_id)
            assert uris(found) == names
            states = [str(entry.state) for entry in found]
            assert [n for n, state in enumerate(states) if state == "cancelled"] == [5, 6]

    asyncio.run(main())


def test_a_failed_document_is_run_again_as_a_new_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws", attempts=1) as reception:
            failed = await send(reception, jpeg("die"), "acme", filename="die")
            await done(reception, failed)
            fine = await send(reception, jpeg("fine"), "acme")
            await done(reception, fine)
            with pytest.raises(NotReplayable):
                await reception.replay("acme", fine.document_id)
            again = await reception.replay("acme", failed.document_id)
            assert again.replay_of == failed.document_id
            with pytest.raises(NotReplayable):
                await reception.replay("acme", failed.document_id)
            assert await reception.wait_for(again.document_id, DEADLINE_S)
            old = await reception.document("acme", failed.document_id)
            assert old is not None
            assert old.replayed_as == again.document_id
            assert [letter.document.document_id for letter in await reception.dead_letters()] == [again.document_id]

    asyncio.run(main())


def test_a_stop_finishes_what_runs_and_hands_back_the_rest(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    async def first() -> None:
        async with serving(tmp_path / "ws") as reception:
            await send(reception, jpeg("gate"), filename=f"wait-for {gate}")
            await until(lambda: bool(reception._pool.statistics().workers[0].state == "busy"))
            for n in range(50):
                await send(reception, jpeg(n), filename=f"{n}")
            stopping = asyncio.create_task(reception.stop(DEADLINE_S))
            await asyncio.sleep(0)
            assert not stopping.done()
            gate.touch()
            report = await stopping
            assert report.in_time
            assert report.abandoned == 0
            assert report.finished >= 1
            assert report.finished + report.handed_back == 51

    async def second() -> None:
        async with serving(tmp_path / "ws") as reception:
            report = await reception.last_drain()
            assert report is not None
            assert report["finished"] + report["handed_back"] == 51
            await until(lambda: reception.capacity().in_flight == 0)
            entries = await reception.ledger(limit=100)
            assert sorted(uris(entries)) == sorted([f"wait-for {gate}", *map(str, range(50))])

    asyncio.run(first())
    with SqliteStore.read(tmp_path / "ws") as store:
        assert store.waits()[0].restarts == 0
    asyncio.run(second())


def test_what_still_runs_at_the_deadline_of_a_stop_is_killed_and_run_again_at_the_next_start(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    async def first() -> None:
        async with serving(tmp_path / "ws") as reception:
            await send(reception, jpeg("gate"), filename=f"wait-for {gate}")
            await until(lambda: bool(reception._pool.statistics().workers[0].state == "busy"))
            report = await reception.stop(0.2)
            assert (report.finished, report.handed_back, report.abandoned) == (0, 0, 1)
            assert not report.in_time

    async def second() -> None:
        async with serving(tmp_path / "ws") as reception:
            gate.touch()
            await until(lambda: reception.capacity().in_flight == 0)
            assert [str(entry.state) for entry in await reception.ledger()] == ["succeeded"]

    asyncio.run(first())
    asyncio.run(second())


def test_a_full_disk_refuses_and_recovers_by_itself(tmp_path: Path) -> None:
    async def room() -> None:
        limits = ServiceLimits(min_free_bytes=1 << 60)
        async with serving(tmp_path / "room", limits) as reception:
            with pytest.raises(StorageFull):
                await send(reception, jpeg(1))
            refusal = reception.decide(Submission("", INTERACTIVE))
            assert isinstance(refusal, NoStorage)
            assert refusal.http_status == 503
            assert not reception.health().ready
            assert "storage is full" in reception.health().problems[0]
            reception.change_limits(ServiceLimits(min_free_bytes=0))
            await until(lambda: reception.health().ready)
            await done(reception, await send(reception, jpeg(1)))

    asyncio.run(room())


def test_the_bound_of_the_blobs_is_a_full_disk_and_leaves_no_piece(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws", blob_bytes=2_000_000, max_document_bytes=1_500_000) as reception:
            await done(reception, await send(reception, jpeg(0, 900_000)))
            with pytest.raises(StorageFull):
                await send(reception, jpeg(1, 1_400_000))
            blobs = reception._blobs
            await until(lambda: not list((blobs.folder / "incoming").iterdir()))
            assert blobs.total_bytes == 900_000
            assert blobs.limit_bytes == 2_000_000
            await until(lambda: reception.health().ready)
            await done(reception, await send(reception, jpeg(2, 1_000_000)))

    asyncio.run(main())


def test_who_comes_with_an_older_fence_writes_nothing(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            mine = await send(reception, jpeg("gate"), filename=f"wait-for {gate}")
            await until(lambda: bool(reception._pool.statistics().workers[0].state == "busy"))
            held = reception._line.get(mine.document_id)
            assert held is not None
            # Somebody else takes it over, as after a stall that outlasted the lease.
            await reception._do(lambda store: store.lease([(held.document, held.fence, "")]))
            gate.touch()
            await until(lambda: reception._line.get(mine.document_id) is None)
            assert await reception.ledger() == []
            assert reception.capacity().bound("documents").used == 0
            with pytest.raises(LeaseLost):
                await reception._do(lambda store: store.lease([(held.document, held.fence, "")]))
            await done(reception, await send(reception, jpeg("other")))

    asyncio.run(main())
    with SqliteStore.read(tmp_path / "ws") as store:
        assert verify(store.entries(book="main"), store.books()[0]).holds


def test_a_document_that_somebody_else_has_holds_up_nobody_behind_it(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            await send(reception, jpeg("gate"), filename=f"wait-for {gate}")
            await until(lambda: bool(reception._pool.statistics().workers[0].state == "busy"))
            batch = await reception.open_batch("", BATCH)
            sent = [await send(reception, jpeg(n), batch_id=batch.batch_id, filename=f"{n}") for n in range(40)]
            lost = reception._line.get(sent[-10].document_id)
            assert lost is not None
            assert lost.fence == 0, "it was leased already"
            await reception._do(lambda store: store.lease([(lost.document, 0, "")]))
            gate.touch()
            assert await reception.wait_for(sent[-1].document_id, DEADLINE_S)
            assert uris(await reception.results("", batch.batch_id)) == [f"{n}" for n in range(40) if n != 30]
            assert reception.capacity().in_flight == 0

    asyncio.run(main())


def test_a_stop_that_comes_while_it_opens_ends_it_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        settings = settings_for(tmp_path / "ws")
        reception = Reception(settings, bounds_for(settings))
        task = asyncio.create_task(reception.run())
        await asyncio.sleep(0)
        report = await reception.stop(DEADLINE_S)
        await task
        assert (report.finished, report.handed_back, report.in_time) == (0, 0, True)
        assert reception.health().state == "stopped"

    asyncio.run(main())
