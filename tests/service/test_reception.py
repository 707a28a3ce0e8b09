from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest
from service_support import BATCH, DEADLINE_S, INTERACTIVE, body_of, done, jpeg, send, serving, until

from headrace.documents.errors import CorruptDocument, EmptyFile, PayloadTooLarge, UnsupportedMediaType
from headrace.documents.status import DocumentState
from headrace.flow import Admitted, Closed, Full, Rate, Refusal, Shed
from headrace.ledger import verify
from headrace.service.intake import ROOM
from headrace.service.reception import (
    BatchClosed,
    DigestMismatch,
    IdempotencyInUse,
    IdempotencyMismatch,
    NotFound,
    Quota,
    RateLimited,
    Reception,
    ServiceLimits,
    Submission,
)
from headrace.storage.sqlite import SqliteStore


def left_in(reception: Reception) -> list[str]:
    blobs = reception._blobs.folder
    files = [path.name for folder in ("incoming", "arrived") for path in (blobs / folder).iterdir()]
    return files + ["a record"] * reception._blobs.arrivals.waiting


def held(reception: Reception) -> int:
    return int(reception.capacity().bound("documents").used)


async def nothing_stays(reception: Reception, blobs: int) -> None:
    def is_so() -> bool:
        kept = len(list(reception._blobs.folder.glob("??/*")))
        return not left_in(reception) and not held(reception) and kept == blobs

    await until(is_so)
    assert reception._spool.buffered_bytes == 0
    assert reception.capacity().bound("blobs").used == sum(
        path.stat().st_size for path in reception._blobs.folder.glob("??/*")
    )


def test_what_is_accepted_is_on_disk_with_its_row_and_ends_in_one_entry(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            content = jpeg(1, 100_000)
            accepted = await send(reception, content, "acme", filename="a\u202e.jpg")
            assert accepted.sha256 == hashlib.sha256(content).hexdigest()
            with SqliteStore.read(tmp_path / "ws") as store:
                seen = store.look(accepted.document_id)
            assert seen is not None
            assert seen.owner is not None
            assert seen.owner.client == "acme"
            path = await reception.original("acme", accepted.document_id)
            assert path is not None
            assert Path(path.decode()).read_bytes() == content  # noqa: ASYNC240
            view = await done(reception, accepted)
            assert view.state is DocumentState.SUCCEEDED
            assert view.kind == "receipt"
            assert view.filename == "a\\u202e.jpg"
            entries = await reception.ledger()
            assert [entry.document_id for entry in entries] == [accepted.document_id]
            assert held(reception) == 0

    asyncio.run(main())


def test_a_thousand_accepts_at_once_share_transactions_and_each_gets_one_entry(tmp_path: Path) -> None:
    count = 1000

    async def main() -> None:
        limits = ServiceLimits(documents=count, min_free_bytes=0)
        async with serving(tmp_path / "ws", limits) as reception:
            accepted = await asyncio.gather(*[send(reception, jpeg(n)) for n in range(count)])
            assert len({one.document_id for one in accepted}) == count
            assert reception._commits.groups < count
            for one in accepted:
                assert await reception.wait_for(one.document_id, DEADLINE_S)
            capacity = reception.capacity()
            assert (capacity.accepted, capacity.done, capacity.in_flight) == (count, count, 0)

    asyncio.run(main())
    with SqliteStore.read(tmp_path / "ws") as store:
        entries = store.entries(book="main", limit=2 * count)
        assert len({entry.document_id for entry in entries}) == len(entries) == count
        assert verify(entries, store.books()[0]).holds
        assert all(store.accounts(batch.batch_id).holds for batch in store.batches())
        assert not store.batches(unfinished=True)


@pytest.mark.parametrize(
    ("content", "told", "error"),
    [
        (b"", {}, EmptyFile),
        (b"GIF" + b"x" * 5000, {}, UnsupportedMediaType),
        (jpeg(1, 2_000_000), {}, PayloadTooLarge),
        (jpeg(1), {"declared_bytes": 3_000_000}, PayloadTooLarge),
        (jpeg(1), {"declared_bytes": 2001}, CorruptDocument),
        (jpeg(1), {"declared_bytes": 1999}, CorruptDocument),
        (jpeg(1), {"sha256": "0" * 64}, DigestMismatch),
        (jpeg(1, 900_000), {"sha256": "0" * 64}, DigestMismatch),
        (jpeg(1), {"batch_id": 77}, NotFound),
    ],
)
def test_of_what_is_refused_after_its_bytes_nothing_stays(
    tmp_path: Path, content: bytes, told: dict[str, object], error: type[Exception]
) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws", max_document_bytes=1_000_000) as reception:
            with pytest.raises(error):
                await send(reception, content, **told)
            await nothing_stays(reception, blobs=0)
            assert await reception.events(0) == []

    asyncio.run(main())


def test_a_body_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:

            async def breaks_off():  # type: ignore[no-untyped-def]
                yield jpeg(1, 600_000)
                raise ConnectionResetError

            decision = reception.decide(Submission("", INTERACTIVE))
            assert isinstance(decision, Admitted)
            with pytest.raises(ConnectionResetError):
                await reception.accept(Submission("", INTERACTIVE), decision.permit, breaks_off())
            await nothing_stays(reception, blobs=0)

    asyncio.run(main())


@pytest.mark.parametrize("size_bytes", [2000, 700_000])
def test_an_accept_that_is_cancelled_at_any_await_leaves_nothing_or_one_document(
    tmp_path: Path, size_bytes: int
) -> None:
    """Cancelled later and later: either there is no trace, or a document that gets its entry."""

    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            finished = 0
            for steps in range(1, 600):
                submission = Submission("", INTERACTIVE, idempotency_key=f"key-{steps}")
                decision = reception.decide(submission)
                assert isinstance(decision, Admitted)
                body = body_of(jpeg(f"{size_bytes}/{steps}", size_bytes), 100_000)
                task = asyncio.create_task(reception.accept(submission, decision.permit, body))
                for _ in range(min(steps, 20)):  # the first awaits, one by one
                    await asyncio.sleep(0)
                await asyncio.wait({task}, timeout=max(0, steps - 20) * 0.0003)  # and those that wait for threads
                task.cancel()
                await asyncio.wait({task})
                finished += not task.cancelled()
                if finished > 5:
                    break
            assert finished > 5, "it was always cancelled"
            await until(lambda: not (held(reception) or left_in(reception) or reception.capacity().in_flight))
            entries = await reception.ledger(limit=1000)
            accepted = [event for event in await reception.events(0, 5000) if event.kind == "document.accepted"]
            assert len(entries) == len(accepted) >= finished
            assert {e.document_id for e in entries} == {e.document_id for e in accepted}
            await nothing_stays(reception, blobs=len(entries))
            assert not reception._intake._keys  # type: ignore[union-attr]

    asyncio.run(main())


def test_a_repeated_request_gets_the_first_answer_and_one_entry(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            first = await send(reception, jpeg(1), "acme", idempotency_key="k")
            again = await send(reception, jpeg(1), "acme", idempotency_key="k")
            assert again.replayed
            assert not first.replayed
            assert again.document_id == first.document_id
            with pytest.raises(IdempotencyMismatch):
                await send(reception, jpeg(2), "acme", idempotency_key="k")
            other = await send(reception, jpeg(1), "other", idempotency_key="k")
            assert not other.replayed
            await done(reception, other)
            assert len(await reception.ledger()) == 2
            await nothing_stays(reception, blobs=1)

    asyncio.run(main())


def test_two_requests_with_one_key_at_the_same_time_make_one_document(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            both = await asyncio.gather(
                *[send(reception, jpeg(1), idempotency_key="k") for _ in range(2)], return_exceptions=True
            )
            assert sorted(type(one).__name__ for one in both) == ["Accepted", "IdempotencyInUse"]
            assert any(isinstance(one, IdempotencyInUse) for one in both)
            assert held(reception) <= 1

    asyncio.run(main())


def test_the_same_bytes_without_a_key_are_the_same_document_of_their_client(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            answers = await asyncio.gather(*[send(reception, jpeg(1), "acme") for _ in range(20)])
            assert len({one.document_id for one in answers}) == 1
            assert sum(not one.replayed for one in answers) == 1
            other = await send(reception, jpeg(1), "other")
            assert other.document_id != answers[0].document_id
            view = await done(reception, other)
            assert (view.kind, view.duplicate_of) == ("receipt", None)  # nobody learns what another client has
            assert await reception.document("acme", other.document_id) is None

    asyncio.run(main())


def test_a_batch_takes_documents_in_order_until_it_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws", workers=2) as reception:
            batch = await reception.open_batch("acme", BATCH, key="march")
            again = await reception.open_batch("acme", BATCH, key="march")
            assert again.replayed
            assert again.batch_id == batch.batch_id
            sent = [await send(reception, jpeg(n % 25), "acme", batch_id=batch.batch_id) for n in range(40)]
            assert [one.position for one in sent] == list(range(1, 41))
            assert await reception.more_results(batch.batch_id, 0, DEADLINE_S)
            closed = await reception.close_batch("acme", batch.batch_id)
            assert closed.state in ("closed", "finished")
            with pytest.raises(BatchClosed):
                await send(reception, jpeg(99), "acme", batch_id=batch.batch_id)
            with pytest.raises(NotFound):
                await send(reception, jpeg(99), "other", batch_id=batch.batch_id)
            with pytest.raises(NotFound):
                await reception.results("other", batch.batch_id)
            assert await reception.batch("other", batch.batch_id) is None
            found = []
            while await reception.more_results(batch.batch_id, len(found), DEADLINE_S):
                found += await reception.results("acme", batch.batch_id, len(found), 7)
            assert [entry.position for entry in found] == list(range(1, 41))
            assert [entry.document_id for entry in found] == [one.document_id for one in sent]
            view = await reception.batch("acme", batch.batch_id)
            assert view is not None
            assert view.state == "finished"
            assert (view.accounts.done, view.accounts.duplicates) == (40, 15)
            kinds = [event.kind for event in await reception.events(0, 1000) if event.kind.startswith("batch.")]
            assert kinds == ["batch.opened", "batch.closed", "batch.finished"]

    asyncio.run(main())


def test_events_rise_and_say_what_happened_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            accepted = await send(reception, jpeg(1), "acme")
            await done(reception, accepted)
            events = await reception.events(0)
            assert [event.kind for event in events] == [
                "document.accepted",
                "document.running",
                "document.succeeded",
            ]
            assert events[-1].data["voucher"] == "main-000001"
            last = events[-1].event_id
            assert reception.last_event_id == last
            assert not await reception.more_events(last, 0.0)
            waiting = asyncio.create_task(reception.more_events(last, DEADLINE_S))
            await send(reception, jpeg(2), "other")
            assert await waiting
            assert {event.client for event in await reception.events(last, client="other")} == {"other"}
            assert await reception.events(0, client="nobody") == []

    asyncio.run(main())


def test_a_client_over_its_quota_is_refused_and_others_are_served(tmp_path: Path) -> None:
    async def main() -> None:
        limits = ServiceLimits(min_free_bytes=0, quotas={"greedy": Quota(Rate(0.001, burst=2))})
        async with serving(tmp_path / "ws", limits) as reception:
            for n in range(2):
                await send(reception, jpeg(n), "greedy")
            refusal = reception.decide(Submission("greedy", INTERACTIVE))
            assert isinstance(refusal, RateLimited)
            assert refusal.retry_after_s is not None
            assert refusal.retry_after_s >= 1
            assert refusal.http_status == 429
            await send(reception, jpeg(9), "modest")
            assert reception.capacity().refused["RateLimited"] == 1
            reception.change_limits(ServiceLimits(min_free_bytes=0))
            await send(reception, jpeg(10), "greedy")

    asyncio.run(main())


def test_lower_classes_are_refused_first_and_refusals_take_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws", ServiceLimits(documents=100, min_free_bytes=0)) as reception:
            permits = []
            seen: dict[str, type[Refusal] | None] = {}
            for n in range(100):
                decision = reception.decide(Submission("", INTERACTIVE))
                if not isinstance(decision, Admitted):
                    break
                permits.append(decision.permit)
                if n in (40, 60, 80):
                    for class_ in (BATCH, INTERACTIVE.BACKGROUND):
                        other = reception.decide(Submission("", class_))
                        if isinstance(other, Admitted):
                            other.permit.ignore()
                        seen[f"{class_.name} {n}"] = type(other)  # type: ignore[assignment]
            assert seen["BACKGROUND 40"] is seen["BATCH 40"] is seen["BATCH 60"] is Admitted
            assert seen["BACKGROUND 60"] is seen["BACKGROUND 80"] is seen["BATCH 80"] is Shed
            assert isinstance(reception.decide(Submission("", INTERACTIVE)), Full)
            assert held(reception) == len(permits) == 95
            for permit in permits:
                permit.ignore()
            decision = reception.decide(Submission("", BATCH))
            assert isinstance(decision, Admitted)
            decision.permit.ignore()

    asyncio.run(main())


def test_before_it_opens_and_after_it_stops_everything_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            assert reception.health().ready
            stopping = asyncio.create_task(reception.stop(DEADLINE_S))
            await asyncio.sleep(0)
            assert not reception.health().ready
            assert reception.health().state == "draining"
            assert isinstance(reception.decide(Submission("", INTERACTIVE)), Closed)
            assert isinstance(await reception.admit(Submission("", INTERACTIVE)), Closed)
            report = await stopping
            assert report.in_time
        assert reception.health().state == "stopped"

    asyncio.run(main())


def test_the_drain_rate_is_known_before_the_room_is_used_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        limits = ServiceLimits(min_free_bytes=0, documents=2000)
        async with serving(tmp_path, limits, window=8) as reception:
            assert reception.capacity().drain_rate_per_s is None
            accepted = await asyncio.gather(*(send(reception, jpeg(number)) for number in range(300)))
            for one in accepted:
                await done(reception, one)
            rate = reception.capacity().drain_rate_per_s
            assert rate is not None
            assert rate > 1

    asyncio.run(scenario())


def test_a_batch_that_waits_for_room_goes_on_with_the_first_entry_that_makes_some(tmp_path: Path) -> None:
    async def scenario() -> None:
        limits = ServiceLimits(min_free_bytes=0, documents=16)
        async with serving(tmp_path, limits) as reception:
            permits = []
            while isinstance(decision := reception.decide(Submission("", BATCH)), Admitted):
                permits.append(decision.permit)
            assert isinstance(decision, Shed)
            waits = asyncio.create_task(reception.admit(Submission("", BATCH), DEADLINE_S))
            await asyncio.sleep(0)
            for permit in permits:
                permit.ignore()
            await asyncio.sleep(0)
            assert not waits.done()
            reception._bell.ring(ROOM)
            for _ in range(5):
                await asyncio.sleep(0)
            assert waits.done()  # at once, not when the next look was due
            admitted = await waits
            assert isinstance(admitted, Admitted)
            admitted.permit.ignore()

    asyncio.run(scenario())
