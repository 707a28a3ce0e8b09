"""What a client meets on a bad day. Time is virtual; the service is `ScriptedService`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import httpx
import pytest
from scripted_service import ScriptedService, busy, cut_after, cut_before, says, slowly, well

from headrace.client import (
    AsyncClient,
    Conflict,
    DeadlinePassed,
    NotAllowed,
    Rejected,
    ServerFailed,
    Unreachable,
    Upload,
    Verdict,
)
from headrace.flow import RetryBudget, RetryPolicy
from headrace.flow.testing import cancelled_at, run_virtual

T = TypeVar("T")


def play(
    service: ScriptedService, scene: Callable[[AsyncClient], Coroutine[Any, Any, T]], **options: Any
) -> tuple[T, float]:
    """Runs a scene in virtual time; gives what it returned, and how long it took."""

    async def whole() -> tuple[T, float]:
        async with AsyncClient("http://service", transport=service, rng=random.Random(1), **options) as client:
            began = asyncio.get_running_loop().time()
            try:
                told = await scene(client)
            finally:
                held = [lane.permits.statistics().held for lane in client._lanes or ()]
                assert held in ([], [0, 0]), "a permit was kept"
            return told, asyncio.get_running_loop().time() - began

    told = run_virtual(whole())
    assert service.open_streams == 0, "a stream was left open"
    return told


def uploads(count: int, *, start: int = 0) -> list[Upload]:
    return [Upload(b"document %d" % n, f"{n}.png") for n in range(start, start + count)]


def names(service: ScriptedService, batch_id: int = 1) -> list[str]:
    return [document["name"] for document in service.batches[batch_id].documents]


# One document


def test_a_document_that_is_refused_for_load_comes_in_when_the_service_said_so_and_not_earlier() -> None:
    service = ScriptedService()
    service.next(busy(7), busy(3))
    document, took_s = play(service, lambda client: client.submit(b"a receipt"))
    assert document.position == 1
    assert [round(at, 6) for at, _, path in service.asked if path == "/v1/documents"] == [0, 7, 10]
    assert took_s == pytest.approx(10)
    assert service.bodies == 1, "no byte is sent to a service that refuses"


def test_waiting_as_told_costs_no_retry_however_often_it_is() -> None:
    service = ScriptedService()
    service.next(*[busy(1)] * 100)

    async def scene(client: AsyncClient) -> int:
        await client.submit(b"a receipt")
        return client.later

    later, _ = play(service, scene, policy=RetryPolicy(attempts=1), budget=RetryBudget(ratio=0.0, reserve=1))
    assert later == 100


@pytest.mark.parametrize("retry_after", ["Wed, 21 Oct 2015 07:28:00 GMT", "0", "0.5"])
def test_a_retry_after_of_any_form_is_understood(retry_after: str) -> None:
    service = ScriptedService()
    service.next(says(503, "draining", retry_after))
    document, took_s = play(service, lambda client: client.submit(b"a receipt"))
    assert document.position == 1
    assert took_s < 1


def test_a_connection_that_is_cut_after_the_service_wrote_makes_no_second_document() -> None:
    service = ScriptedService()
    service.next(cut_after, cut_after)
    document, _ = play(service, lambda client: client.submit(b"a receipt"))
    assert document.replayed
    assert service.bodies == 3, "the whole body is sent again, not an empty one"
    assert len(service.keys) == 1


def test_a_key_that_is_still_being_received_is_waited_for() -> None:
    service = ScriptedService()
    service.next(says(409, "idempotency-key-in-use", "1"))
    document, took_s = play(service, lambda client: client.submit(b"a receipt", key="mine"))
    assert document.position == 1
    assert took_s == pytest.approx(1)


def test_the_deadline_holds_over_all_attempts_and_says_what_came_last() -> None:
    service = ScriptedService()
    service.next(*[busy(40)] * 9)
    with pytest.raises(DeadlinePassed, match="queue-full") as raised:
        play(service, lambda client: client.submit(b"a receipt", deadline_s=100))
    assert raised.value.problem is not None
    assert raised.value.problem.retry_after_s == 40
    assert [round(at) for at, *_ in service.asked] == [0, 40, 80], "nothing is begun that could not end in time"


def test_an_answer_that_never_comes_ends_by_the_deadline() -> None:
    service = ScriptedService()
    service.next(slowly(well, 10_000))
    with pytest.raises(DeadlinePassed):
        play(service, lambda client: client.submit(b"a receipt", deadline_s=50))
    assert service.now == 0


def test_a_service_that_is_not_there_is_tried_as_often_as_the_policy_says() -> None:
    service = ScriptedService()
    service.next(*[cut_before] * 99)
    with pytest.raises(Unreachable, match="4 attempts"):
        play(service, lambda client: client.submit(b"a receipt"), policy=RetryPolicy(attempts=4))
    assert len(service.asked) == 4


def test_a_service_that_starts_again_within_ten_seconds_is_waited_for() -> None:
    service = ScriptedService()

    async def away(service: ScriptedService, request: httpx.Request) -> httpx.Response:
        if asyncio.get_running_loop().time() < 10:
            service.next(away)
            raise httpx.ConnectError("connection refused")
        return await service.take(request)

    service.next(away)
    document, _ = play(service, lambda client: client.submit(b"a receipt"), policy=RetryPolicy(8, 0.25, jitter=0.0))
    assert document.position == 1


def test_the_retry_budget_bounds_what_a_broken_service_is_sent() -> None:
    service = ScriptedService()
    service.next(*[says(500, "internal-error")] * 1000)

    async def scene(client: AsyncClient) -> int:
        failed = 0
        for n in range(100):
            try:
                await client.submit(b"%d" % n)
            except ServerFailed:
                failed += 1
        return failed

    failed, _ = play(service, scene, budget=RetryBudget(ratio=0.1, reserve=10))
    assert failed == 100
    assert len(service.asked) <= 100 + 10 + 10, "a call each, the reserve, and a tenth more"


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [(415, "unsupported-media-type", Rejected), (401, "unauthorized", NotAllowed), (409, "batch-closed", Conflict)],
)
def test_what_is_final_is_asked_once_and_says_why(status: int, code: str, error: type[Exception]) -> None:
    service = ScriptedService()
    service.next(says(status, code))
    with pytest.raises(error, match=code):
        play(service, lambda client: client.submit(b"a receipt"))
    assert len(service.asked) == 1


def test_an_answer_of_something_in_between_is_an_error_with_its_status_not_a_crash() -> None:
    service = ScriptedService()

    async def proxy(service: ScriptedService, request: httpx.Request) -> httpx.Response:
        return httpx.Response(403, content=b"<html>no entry</html>")

    service.next(proxy)
    with pytest.raises(NotAllowed, match="http-403") as raised:
        play(service, lambda client: client.submit(b"a receipt"))
    assert raised.value.problem.detail == "<html>no entry</html>"


# Batches


def test_a_batch_has_its_documents_in_the_order_given_whatever_happens_to_each() -> None:
    service = ScriptedService()
    service.next(busy(2), slowly(well, 9), cut_after, slowly(well, 7), cut_before, slowly(well, 5))
    verdicts: list[Verdict] = []
    told, _ = play(service, lambda client: client.submit_many(uploads(20), key="b", on_verdict=verdicts.append))
    assert (told.given, told.sent, told.refused) == (20, 20, 0)
    assert names(service) == [f"{n}.png" for n in range(20)]
    assert [verdict.index for verdict in verdicts] == list(range(1, 21))
    assert [verdict.position for verdict in verdicts] == list(range(1, 21))
    assert told.batch.state in ("closed", "finished")


def test_out_of_order_no_more_go_at_once_than_in_flight_says_and_verdicts_still_come_in_order() -> None:
    service = ScriptedService()
    service.next(*[slowly(well, 1 + n % 3) for n in range(40)])
    verdicts: list[Verdict] = []

    async def scene(client: AsyncClient) -> None:
        await client.submit_many(uploads(40), in_order=False, on_verdict=verdicts.append)

    _, took_s = play(service, scene, in_flight=5)
    assert service.most_at_once == 5
    assert took_s < 40
    assert [verdict.index for verdict in verdicts] == list(range(1, 41))
    assert sorted(names(service)) == sorted(f"{n}.png" for n in range(40))


def test_when_the_service_says_later_fewer_go_at_once() -> None:
    service = ScriptedService()
    service.next(*[slowly(busy(5), 0.1)] * 8, *[slowly(well, 1)] * 8)

    async def scene(client: AsyncClient) -> int:
        await client.submit_many(uploads(8), in_order=False)
        return client.later

    later, _ = play(service, scene, in_flight=8)
    assert later == 8
    at = [moment for moment, method, path in service.asked if method == "POST" and path.endswith("documents")]
    assert all(moment >= 5.1 for moment in at[8:]), "all of them wait"
    assert sum(moment < 6.1 for moment in at[8:]) == 4, "half as many go next"


def test_a_document_that_is_not_taken_costs_only_itself() -> None:
    service = ScriptedService()
    given = [*uploads(3), Upload(b"", "empty.png"), Upload("/nowhere/at/all.png"), *uploads(3, start=3)]
    verdicts: list[Verdict] = []

    async def scene(client: AsyncClient) -> Any:
        return await client.submit_many(given, on_verdict=verdicts.append)

    async def whole() -> Any:  # a path is looked at in a thread, so this one runs in real time
        async with AsyncClient("http://service", transport=service) as client:
            return await scene(client)

    told = asyncio.run(whole())
    assert (told.given, told.sent, told.refused) == (8, 6, 2)
    codes = [verdict.problem.code for verdict in verdicts if verdict.problem]
    assert codes == ["empty-file", "unreadable-source"]
    assert names(service) == [f"{n}.png" for n in range(6)]


@pytest.mark.parametrize("in_order", [True, False])
def test_an_interrupted_batch_goes_on_and_sends_nothing_twice(in_order: bool) -> None:
    service = ScriptedService(done_after_s=3.0)
    service.next(*[slowly(well, 0.5)] * 400)

    async def first(client: AsyncClient) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10.2):
                await client.submit_many(uploads(100), key="b", in_order=in_order)

    play(service, first, in_flight=4)
    had = len(names(service))
    assert 0 < had < 100
    assert service.now == 0, "nothing is under way after it was cancelled"
    assert service.batches[1].state == "open"

    bodies = service.bodies
    told, _ = play(service, lambda client: client.submit_many(uploads(100), key="b", in_order=in_order), in_flight=4)
    assert (told.given, told.known, told.sent) == (100, had, 100 - had)
    assert service.bodies == bodies + 100 - had, "what the service has is not sent again"
    assert sorted(names(service)) == sorted(f"{n}.png" for n in range(100))
    assert told.batch.replayed


def test_a_batch_goes_on_after_files_came_and_went_and_in_any_order() -> None:
    service = ScriptedService()
    play(service, lambda client: client.submit_many(uploads(3000), key="b"))
    service.batches[1].state = "open"
    given = [*uploads(3, start=9000), *reversed(uploads(200, start=2500))]
    told, _ = play(service, lambda client: client.submit_many(given, key="b"))
    assert (told.known, told.sent) == (200, 3)


def test_two_documents_with_the_same_name_and_bytes_are_told_apart_by_their_ids() -> None:
    service = ScriptedService()
    twins = [Upload(b"same", "same.png", external_id=str(n)) for n in range(3)]
    play(service, lambda client: client.submit_many(twins[:2], key="b"))
    service.batches[1].state = "open"
    told, _ = play(service, lambda client: client.submit_many(twins, key="b"))
    assert (told.known, told.sent) == (2, 1)
    assert len(service.keys) == 3


def test_who_gets_his_turn_while_all_are_asked_to_wait_gives_it_back_and_waits() -> None:
    service = ScriptedService()
    # Half of them go after the first "later"; the first of those is told "later" while the others wait for their turn.
    service.next(*[slowly(busy(5), 0.1)] * 8, busy(30), *[slowly(well, 1)] * 3)

    async def scene(client: AsyncClient) -> None:
        await client.submit_many(uploads(8), in_order=False)

    play(service, scene, in_flight=8)
    at = [moment for moment, method, path in service.asked if method == "POST" and path.endswith("documents")]
    assert [moment for moment in at[12:] if moment < 35] == []


def test_a_service_that_goes_away_counts_once_for_all_that_was_under_way() -> None:
    service = ScriptedService()
    service.next(*[slowly(cut_before, 0.5)] * 8)

    async def scene(client: AsyncClient) -> int:
        return (await client.submit_many(uploads(8), in_order=False)).sent

    sent, _ = play(service, scene, in_flight=8, policy=RetryPolicy(attempts=3))
    assert sent == 8


def test_what_ends_a_batch_ends_what_is_under_way_at_once() -> None:
    service = ScriptedService()
    service.next(says(403, "forbidden"), *[slowly(well, 200)] * 7)
    began: list[float] = []

    async def scene(client: AsyncClient) -> None:
        with pytest.raises(NotAllowed):
            await client.submit_many(uploads(8), in_order=False)
        began.append(asyncio.get_running_loop().time())

    play(service, scene, in_flight=8)
    assert began[0] < 1
    assert service.now == 0
    assert service.batches[1].state == "open"


def test_the_same_batch_again_sends_nothing_and_a_new_document_for_a_closed_one_is_a_conflict() -> None:
    service = ScriptedService()
    play(service, lambda client: client.submit_many(uploads(5), key="b"))
    told, _ = play(service, lambda client: client.submit_many(uploads(5), key="b"))
    assert (told.known, told.sent) == (5, 0)
    with pytest.raises(Conflict, match="batch-closed"):
        play(service, lambda client: client.submit_many(uploads(6), key="b"))
    assert len(service.keys) == 5


def test_a_batch_of_ten_thousand_holds_only_a_window_of_them() -> None:
    service = ScriptedService()
    ahead = 0

    class Counted(list[Upload]):
        """A sequence that says how far it was read beyond what is decided."""

        def __iter__(self) -> Any:
            nonlocal ahead
            for n in range(10_000):
                ahead = max(ahead, n - len(service.keys))
                yield Upload(b"%d" % n, f"{n}.png")

    told, _ = play(service, lambda client: client.submit_many(Counted(), key="b", in_order=False), in_flight=4)
    assert told.sent == 10_000
    assert ahead <= 16


def test_cancelled_at_any_moment_nothing_is_open_and_the_batch_goes_on() -> None:
    for suspension in range(0, 60, 3):
        service = ScriptedService()
        service.next(busy(1), well, cut_after, well)

        async def interrupted(service: ScriptedService = service, suspension: int = suspension) -> bool:
            async with AsyncClient("http://service", transport=service, rng=random.Random(1)) as client:
                cancelled = await cancelled_at(suspension, client.submit_many(uploads(6), key="b", in_order=False))
                assert service.now == 0
                assert len(asyncio.all_tasks()) == 1, "a task was left behind"
                return cancelled

        run_virtual(interrupted())
        told, _ = play(service, lambda client: client.submit_many(uploads(6), key="b"))
        assert told.given == told.sent + told.known == 6
        assert sorted(names(service)) == [f"{n}.png" for n in range(6)]


# Results


async def positions(client: AsyncClient, **options: Any) -> list[int]:
    return [result.position async for result in client.results(1, **options)]


def test_results_come_once_and_in_order_over_streams_that_break_in_the_middle_of_a_line() -> None:
    service = ScriptedService()
    play(service, lambda client: client.submit_many(uploads(20), key="b"))
    service.next_streams(3, 0, 7, 0, "cleanly", 2, "again")
    told, _ = play(service, positions)
    assert told == list(range(1, 21))


def test_a_stream_that_ends_politely_before_the_batch_is_finished_is_not_its_end() -> None:
    service = ScriptedService(done_after_s=30)
    service.next_streams("cleanly", "cleanly")

    async def scene(client: AsyncClient) -> list[int]:
        await client.submit_many(uploads(5), key="b")
        return await positions(client)

    told, _ = play(service, scene)
    assert told == [1, 2, 3, 4, 5]


def test_results_can_be_gone_on_with_from_a_position_and_read_without_waiting() -> None:
    service = ScriptedService(done_after_s=30)

    async def scene(client: AsyncClient) -> tuple[list[int], list[int]]:
        await client.submit_many(uploads(5), key="b")
        now = await positions(client, follow=False)
        return now, await positions(client, after=3)

    (now, later), _ = play(service, scene)
    assert (now, later) == ([], [4, 5])


def test_a_stream_that_brings_nothing_ends_by_the_deadline() -> None:
    service = ScriptedService(done_after_s=10_000)

    async def scene(client: AsyncClient) -> list[int]:
        await client.submit_many(uploads(2), key="b")
        return await positions(client, deadline_s=60)

    with pytest.raises(DeadlinePassed):
        play(service, scene)


def test_whoever_leaves_the_results_early_leaves_no_stream_open() -> None:
    service = ScriptedService()

    async def scene(client: AsyncClient) -> int:
        await client.submit_many(uploads(5), key="b")
        results = client.results(1)
        async for result in results:
            await results.aclose()
            return result.position
        return 0

    told, _ = play(service, scene)
    assert told == 1
