"""The first recipe of docs/cookbook.md: bounded queue, semaphore, token bucket and watermark gate around OCR."""

from __future__ import annotations

import asyncio

import copied_ocr_door as copied
import headrace_ocr_door as ours
import pytest

from headrace.flow import Expired, Full, Rate, RateLimit
from headrace.flow.testing import Deadlock, assert_nothing_leaked, run_virtual, turns


def now() -> float:
    return asyncio.get_running_loop().time()


async def read(document: str) -> str:
    await asyncio.sleep(1.0)
    return document.upper()


async def stumble(document: str) -> str:
    raise ValueError(f"{document} cannot be read")


# ------------------------------------------------------------------------------------ the bucket sleeps under its lock


def test_the_recipe_lets_one_who_does_not_want_to_wait_wait_for_a_sleeper() -> None:
    async def scenario() -> float:
        bucket = copied.SleepingBucket(per_s=1 / 60, burst=1)
        await bucket.take()
        sleeper = asyncio.create_task(bucket.take())
        await turns(1)
        asked_at = now()
        assert await bucket.take_if_there() is False
        await sleeper
        return now() - asked_at

    assert run_virtual(scenario()) == pytest.approx(60)


def test_the_recipe_does_not_hear_of_a_new_rate_while_somebody_sleeps() -> None:
    async def scenario() -> float:
        bucket = copied.SleepingBucket(per_s=1 / 3600, burst=1)
        await bucket.take()
        sleeper = asyncio.create_task(bucket.take())
        await turns(1)
        await bucket.change_rate(1000.0)
        await sleeper
        return now()

    assert run_virtual(scenario()) == pytest.approx(3600)


def test_our_rate_answers_at_once_and_a_new_rate_wakes_those_who_wait() -> None:
    async def scenario() -> None:
        limit = RateLimit(Rate(per_s=1 / 3600, burst=1))
        limit.try_acquire()
        sleeper = asyncio.create_task(limit.acquire())
        await turns(1)
        with pytest.raises(Full) as refused:
            limit.try_acquire()
        assert now() == 0.0
        assert refused.value.retry_after_s == pytest.approx(7200)  # the one before also needs his
        limit.change_rate(Rate(per_s=1000.0))
        await sleeper
        assert now() == pytest.approx(0.001, abs=1e-6)

    run_virtual(scenario())


# --------------------------------------------------------------------------------- a permit leaks when a consumer dies


def test_the_recipe_shuts_itself_for_ever_when_as_many_documents_failed_as_it_has_permits() -> None:
    async def scenario() -> None:
        door = copied.OcrDoor(in_flight=2)
        for document in ("a", "b"):
            worker = asyncio.create_task(door.work(stumble))
            await door.submit(document)
            with pytest.raises(ValueError, match="cannot be read"):
                await worker
        healthy = asyncio.create_task(door.work(read))
        assert door.documents.empty()
        try:
            await door.submit("c")  # nothing is in flight, and it is never let in
        finally:
            healthy.cancel()

    with pytest.raises(Deadlock):
        run_virtual(scenario())


def test_the_recipe_loses_a_permit_with_every_cancelled_worker() -> None:
    async def scenario() -> bool:
        door = copied.OcrDoor(in_flight=1)
        worker = asyncio.create_task(door.work(read))
        await door.submit("a")
        await turns(3)
        worker.cancel()
        await asyncio.wait([worker])
        return door.permits.locked()

    assert run_virtual(scenario()) is True


def test_our_permit_comes_back_when_a_document_fails_and_when_a_worker_is_cancelled() -> None:
    async def scenario() -> None:
        door = ours.OcrDoor(in_flight=1)
        failures: list[str] = []
        async with assert_nothing_leaked(door.admission.permits, door.sender):
            worker = asyncio.create_task(door.work(stumble, lambda document, _: failures.append(document)))
            for document in ("a", "b"):
                await door.submit(document)  # the second waits until the permit of the first has come back
            await turns(5)
            worker.cancel()
            await asyncio.wait([worker])
            assert failures == ["a", "b"]

            worker = asyncio.create_task(door.work(read, lambda *_: None))
            await door.submit("c")
            await turns(5)
            assert door.admission.permits.held == 1
            worker.cancel()
            await asyncio.wait([worker])
            assert door.admission.permits.held == 0

            worker = asyncio.create_task(door.work(read, lambda *_: None))
            await door.submit("d", deadline_s=1.0)
            door.sender.close()
            await worker

    run_virtual(scenario())


def test_our_door_says_when_no_permit_will_be_free_in_time() -> None:
    async def scenario() -> None:
        door = ours.OcrDoor(in_flight=1)
        await door.submit("a")  # nobody works
        with pytest.raises(Expired) as refused:
            await door.submit("b", deadline_s=5.0)
        assert now() == pytest.approx(5.0)
        assert refused.value.retry_after_s is not None
        worker = asyncio.create_task(door.work(read, lambda *_: None))
        door.sender.close()
        await worker

    run_virtual(scenario())


def test_the_recipe_loses_a_token_with_every_caller_that_gives_up_while_he_waits_for_a_permit() -> None:
    async def scenario() -> float:
        door = copied.OcrDoor(in_flight=1, per_s=10.0)
        await door.submit("a")
        door.bucket.per_s = 1e-9  # no new tokens: what is missing in the end was lost
        for _ in range(5):
            caller = asyncio.create_task(door.submit("b"))
            await turns(3)
            caller.cancel()
            await asyncio.wait([caller])
        return door.bucket.tokens

    assert run_virtual(scenario()) == pytest.approx(4.0)


def test_our_callers_who_give_up_have_taken_no_token() -> None:
    async def scenario() -> float | None:
        door = ours.OcrDoor(in_flight=1, per_s=10.0)
        await door.submit("a")
        before = door.admission.statistics().tokens
        for _ in range(5):
            caller = asyncio.create_task(door.submit("b"))
            await turns(3)
            caller.cancel()
            await asyncio.wait([caller])
        assert door.admission.statistics().tokens == before
        door.receiver.close()
        _, permit = await door.receiver.recv()
        permit.done()
        return before

    assert run_virtual(scenario()) == pytest.approx(9.0)


# ---------------------------------------------------------------- a gate that also stops draining, and the three marks


def test_the_gate_of_the_recipe_never_opens_again_because_it_stops_the_workers_too() -> None:
    async def scenario() -> None:
        door = copied.OcrDoor()
        for number in range(48):
            await door.submit(f"{number}")
        assert not door.open.is_set()
        workers = [asyncio.create_task(door.work(read)) for _ in range(4)]
        try:
            await door.submit("one more")
        finally:
            assert door.documents.qsize() == 48, "not one was read"
            for worker in workers:
                worker.cancel()

    with pytest.raises(Deadlock):
        run_virtual(scenario())


def test_our_gate_closes_at_48_of_64_and_opens_again_at_16() -> None:
    async def scenario() -> list[tuple[str, int]]:
        door = ours.OcrDoor(capacity=64, in_flight=64)
        moves: list[tuple[str, int]] = []

        def watch(depth: float) -> None:
            if not moves or moves[-1][0] != door.gate.state.value:
                moves.append((door.gate.state.value, int(depth)))

        door.gate.gauge.watch(watch)
        for number in range(48):
            await door.submit(f"{number}")
        late = asyncio.create_task(door.submit("late"))
        await turns(3)
        assert door.gate.statistics().closings == 1
        assert door.sender.statistics().depth == 48, "closed means that not one more comes in"

        worker = asyncio.create_task(door.work(read, lambda *_: None))
        await late
        assert now() == pytest.approx(31.0), "the 32nd document was taken out"
        door.sender.close()
        await worker
        return moves

    assert run_virtual(scenario()) == [("open", 0), ("closed", 48), ("open", 16)]
