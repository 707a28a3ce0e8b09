"""Seeded schedules of the ordered map: replies, deaths, slow items, cancellation, early ends and drains in any order.

After every callback each item that was pulled is in exactly one place, and nobody sleeps in vain. A failure names its
seed; HEADRACE_TEST_SEED=<seed> runs that one alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import pytest

from headrace.execution.options import MapOptions
from headrace.execution.ordered import MapResults
from headrace.execution.outcome import WORKER_LOST, Failure, Success
from headrace.execution.window import Chunk
from headrace.flow.testing import Schedule, assert_nothing_leaked, run_schedules

from .scripted import FATES, Script, ScriptedPool


def weigh(item: int) -> int:
    return 1 + item % 7


def _positions(chunks: Iterable[Chunk[int, Any]]) -> Iterator[int]:
    for chunk in chunks:
        yield from range(chunk.position, chunk.end + 1)


def assert_sound(results: MapResults[Any, Any], pool: ScriptedPool, pulled: list[int]) -> None:
    """The bounds and the accounting identity hold, and nobody waits for what is there."""
    window, intake, attempts = results._window, results._intake, results._attempts
    s = results.statistics()
    assert s.pulled == len(pulled), s
    assert s.pulled == s.released + s.window_used, s
    assert s.window_used - len(results._held) <= s.window_limit, s
    assert s.byte_budget is None or s.weight <= s.byte_budget or window.used == 1, s
    assert s.weight == sum(sum(chunk.weights or ()) for chunk in window), s
    if intake is None or results.closing or results._stopped:
        return
    places = Counter(_positions(intake.pending))
    places.update(_positions(chunk for _, chunk in attempts._again))
    places.update(_positions(chunk for worker in pool.live for chunk in worker.in_flight))
    unsettled = set(_positions(chunk for chunk in window if chunk.outcomes is None))
    assert max(places.values(), default=1) == 1, "an item is in two places"
    assert set(places) <= unsettled, "something settled is to be run"
    charging = sum(not task.done() for task in attempts._charging)
    assert len(unsettled) == len(places) + charging, "an item is nowhere"
    assert attempts.finished == window.admitted - len(unsettled)
    waiter = results._waiter
    assert waiter is None or waiter.done() or not window.ready, "the consumer sleeps while an outcome is there"
    if results._filling is None and (attempts.waiting or intake.pending):
        idle = [w for w in pool.live if w.usable and not w.in_flight and (w.quota is None or w.quota > 0)]
        assert not idle, "a worker sleeps while there is work"


def assert_as_scripted(outcomes: list[Any], script: Script, attempts: int) -> None:
    """Each outcome is what the script made of its item, and was charged what the script charged."""
    for outcome in outcomes:
        fate, charged = FATES[script.fates.get(outcome.item, "ok")], script.charged[outcome.item]
        if isinstance(outcome, Success):
            assert fate is None
            assert (outcome.value, outcome.attempt) == (-outcome.item, charged + 1)
            assert charged < attempts
        else:
            assert outcome.code == fate or (outcome.code == WORKER_LOST and outcome.item in script.lost)
            assert outcome.attempt == attempts or outcome.code != WORKER_LOST


async def _map_scenario(schedule: Schedule) -> None:
    r = schedule.random
    count = r.choice([0, 3, 25, 60])
    script = Script(r, count)
    breaks_at = r.choice([None, None, r.randint(0, count)])
    workers, window_limit = r.randint(1, 3), r.randint(1, 20)
    lossy = r.random() < 0.4
    quota = r.choice([None, None, 7])
    pool = ScriptedPool(script, workers, r.choice([None, 1, 3]), quota, lossy=lossy or quota is not None)
    pulled: list[int] = []
    attempts = r.choice([1, 1, 2])

    async def charge(item: int, failure: Failure[int]) -> None:
        await asyncio.sleep(r.choice([0, 0.2]))

    options = MapOptions(
        window=window_limit,
        byte_budget=(budget := r.choice([None, None, 5, 20])),
        weigh=None if budget is None else weigh,
        chunk=r.choice([1, "auto", min(window_limit, 4)]),
        ordered=r.random() < 0.8,
        attempts=attempts,
        on_charge=r.choice([None, charge]),
    )

    def source() -> Iterator[int]:
        for item in range(count):
            if item == breaks_at:
                raise ValueError("the source's own")
            pulled.append(item)
            yield item

    async def async_source() -> AsyncIterator[int]:
        for item in source():
            yield item
            if r.random() < 0.3:
                await asyncio.sleep(0.01)

    is_async = r.random() < 0.3
    results: MapResults[int, int] = MapResults(pool, async_source() if is_async else source(), options)  # type: ignore[arg-type]
    outcomes: list[Any] = []
    leave_at = r.choice([None, None, r.randint(0, count)])
    pause = r.choice([0.0, 0.0, 0.05])

    async def consume() -> None:
        async with contextlib.aclosing(aiter(results)) as stream:  # type: ignore[type-var]
            async for outcome in stream:
                outcomes.append(outcome)
                if len(outcomes) == leave_at:
                    return
                if pause and r.random() < 0.3:
                    await asyncio.sleep(pause)

    async def strike() -> None:
        while lossy:
            await asyncio.sleep(r.choice([0.0, 0.001, 0.2, 2.0]))
            if pool.live:
                r.choice(pool.live).kill()

    async def interfere(way: str) -> Any:
        await asyncio.sleep(r.choice([0.0, 0.01, 0.5]))
        if way == "stop":
            return results.stop()
        return await (results.drain(r.choice([0.001, 5.0])) if way == "drain" else results.aclose())

    if not is_async:  # a task pulls an async source: between its pulling and its taking there is a callback
        schedule.watch = lambda: assert_sound(results, pool, pulled)
    ways = r.choice([[], [], [], ["drain"], ["aclose"], ["stop", "drain"], ["stop"]])
    async with assert_nothing_leaked():
        striking = asyncio.create_task(strike())
        consuming = schedule.victim(consume())
        reports = await asyncio.gather(*(interfere(way) for way in ways))
        ended = await _ended(consuming)
        await results.aclose()
        schedule.watch = None
        striking.cancel()
        await asyncio.wait([striking])
        await pool.close()
    if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError | ValueError | RuntimeError):
        raise ended
    items = [outcome.item for outcome in outcomes]
    assert len(set(items)) == len(items), "doubled"
    if options.ordered:
        assert [*items, *results.left] == pulled
    else:
        assert sorted([*items, *results.left]) == pulled
    assert_as_scripted(outcomes, script, attempts)
    whole = not ways and ended is None and leave_at is None
    if isinstance(ended, ValueError) or whole:
        expected = list(range(count if breaks_at is None else breaks_at))
        assert (items if options.ordered else sorted(items)) == expected
    if isinstance(ended, RuntimeError):
        assert "before" in str(ended)  # closed before it was iterated
        assert ways
    for report in reports:
        if report is not None:
            assert set(report.left).isdisjoint(items[: len(items) - report.finished] if options.ordered else [])


async def _ended(task: asyncio.Task[None]) -> BaseException | None:
    """How it ended, its cancellation being one way."""
    await asyncio.wait([task])
    return asyncio.CancelledError() if task.cancelled() else task.exception()


@pytest.mark.schedules
def test_nothing_is_lost_or_doubled_in_any_schedule_of_replies_deaths_and_ends() -> None:
    run_schedules(_map_scenario, 1500)
