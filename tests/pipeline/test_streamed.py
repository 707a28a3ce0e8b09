"""A streamed stage: one map of the caller's pool behind the same promises as any other stage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.execution import Failure, InlinePool, PoolClosed, WorkerPool
from headrace.flow.testing import assert_nothing_leaked, cancelled_at, run_virtual
from headrace.pipeline import Pipeline, Run, Stage
from pipeline import faults
from pipeline.support import AsyncNumbers, Numbers, assert_accounted, brief, outcomes_of, plus_one
from pipeline.test_threads_and_processes import run


async def odd_ones_fail(number: int) -> int:
    if number % 2:
        raise ValueError(number)
    return number


def streamed(pool: Any, **options: Any) -> Stage:
    return Stage(pool=pool, name="map", streamed=True, **options)


def held(outcomes: Run[Any, Any]) -> int:
    return outcomes.statistics().stages[0].held


async def until(condition: Any) -> None:
    while not condition():  # noqa: ASYNC110 - there is no event for what a snapshot shows
        await asyncio.sleep(0.01)


def test_what_crashes_hangs_or_cannot_be_sent_costs_one_failure_in_its_place() -> None:
    async def scenario() -> None:
        async with WorkerPool.of(faults.work, workers=2) as pool, assert_nothing_leaked():
            pipeline: Any = Pipeline([Stage(plus_one), streamed(pool, deadline_s=1.0), Stage(plus_one, name="again")])
            outcomes = await outcomes_of(pipeline, range(5, 15))
        codes = {10: "worker-lost", 11: "deadline", 12: "exception", 13: "unpicklable-result"}
        assert brief(outcomes) == [("map", codes[n + 1]) if n + 1 in codes else n + 2 for n in range(5, 15)]
        assert [outcome.item for outcome in outcomes] == list(range(5, 15))

    run(scenario())


def test_failures_of_earlier_stages_keep_their_place_and_are_not_sent_to_the_pool() -> None:
    sent: list[int] = []

    async def scenario() -> None:
        async with InlinePool.of(lambda number: sent.append(number) or number) as pool:
            pipeline: Any = Pipeline([Stage(odd_ones_fail, workers=3), streamed(pool, window=2)])
            outcomes = await outcomes_of(pipeline, range(9))
            assert brief(outcomes) == [("odd_ones_fail", "exception") if n % 2 else n for n in range(9)]
            assert brief(await outcomes_of(pipeline, [1, 3, 5])) == [("odd_ones_fail", "exception")] * 3
        assert sent == [0, 2, 4, 6, 8]

    run_virtual(scenario())


def test_the_same_object_may_come_again_and_again() -> None:
    async def scenario() -> None:
        item = ["the same"]
        async with InlinePool.of(len) as pool:
            assert brief(await outcomes_of(Pipeline([streamed(pool, window=3)]), [item] * 7)) == [1] * 7

    run_virtual(scenario())


def test_no_more_than_the_window_is_in_it_behind_a_slow_head_or_a_consumer_who_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with WorkerPool.of(faults.WaitsForFile(str(tmp_path / "open")), workers=2) as pool:
            source = Numbers()
            async with Pipeline[int, int]([streamed(pool, window=6, capacity=1)]).run(source) as outcomes:
                await until(lambda: held(outcomes) == 6)
                await asyncio.sleep(0.1)
                flight = outcomes.map_statistics("map")
                assert (held(outcomes), flight.window_used, flight.pulled) == (6, 6, 6)
                assert source.pulled == 8, "and one in the channel, one at its door"
                (tmp_path / "open").touch()
                await until(lambda: outcomes.statistics().ready)
                await asyncio.sleep(0.1)
                assert held(outcomes) == 6, "one is ready, nobody takes it"
                assert outcomes.statistics().stages[0].blocked_s is not None
                assert [(await anext(outcomes)).item for _ in range(20)] == list(range(20))
                assert_accounted(outcomes)

    run(scenario())


def test_the_byte_budget_holds_and_the_oldest_is_taken_in_whatever_it_weighs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with WorkerPool.of(faults.WaitsForFile(str(tmp_path / "open")), workers=2) as pool:
            stage = streamed(pool, window=20, byte_budget=10, weigh=lambda number: 25 if number == 0 else 4)
            async with Pipeline[int, int]([stage]).run(range(9)) as outcomes:
                await until(lambda: held(outcomes) == 2)
                await asyncio.sleep(0.1)
                assert outcomes.map_statistics("map").weight == 25, "it is alone; the next waits before the window"
                (tmp_path / "open").touch()
                seen = [outcomes.map_statistics("map").weight async for _ in outcomes]
            assert max(seen) <= 10
            assert len(seen) == 9

    run(scenario())


def test_what_cannot_be_weighed_fails_in_its_place() -> None:
    async def scenario() -> None:
        async with InlinePool.of(str) as pool:
            stage = streamed(pool, byte_budget=100, weigh=len)
            outcomes = await outcomes_of(Pipeline([stage]), ["one", 2, "three"])
        assert brief(outcomes) == ["one", ("map", "exception"), "three"]

    run_virtual(scenario())


def test_attempts_are_counted_from_before_and_a_charge_is_awaited_before_the_next(tmp_path: Path) -> None:
    charged: list[tuple[int, str, int]] = []

    async def on_charge(number: int, failure: Failure[int]) -> None:
        await asyncio.sleep(0.01)
        charged.append((number, failure.code, failure.attempt))

    async def scenario() -> None:
        async with WorkerPool.of(faults.CrashesOnce(str(tmp_path)), workers=1) as pool:
            stage = streamed(pool, attempts=3, attempts_of=lambda number: number, on_charge=on_charge)
            async with Pipeline[int, int]([stage]).run([0, 1, 2, 3]) as outcomes:
                came: list[Any] = [outcome async for outcome in outcomes]
            assert outcomes.statistics().stages[0].retried == 2
        assert brief(came) == [0, 1, ("map", "worker-lost"), ("map", "attempts-exhausted")]
        assert [outcome.attempt for outcome in came] == [2, 3, 3, 3]
        assert charged == [(0, "worker-lost", 1), (1, "worker-lost", 2)]

    run(scenario())


def test_what_on_charge_or_attempts_of_raises_ends_the_run(tmp_path: Path) -> None:
    async def on_charge(*_: Any) -> None:
        raise OSError("disk full")

    def attempts_of(_: int) -> int:
        raise OSError("disk full")

    async def scenario(**options: Any) -> None:
        async with WorkerPool.of(faults.CrashesOnce(str(tmp_path)), workers=1) as pool, assert_nothing_leaked():
            with pytest.raises(OSError, match="disk full"):
                await outcomes_of(Pipeline([streamed(pool, attempts=2, **options)]), Numbers())

    run(scenario(on_charge=on_charge))
    run(scenario(attempts_of=attempts_of))


def test_unordered_hands_on_what_is_done_before_a_slow_head(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with WorkerPool.of(faults.WaitsForFile(str(tmp_path / "open")), workers=2) as pool:
            stage = streamed(pool, ordered=False, window=4)
            async with Pipeline[int, int]([stage]).run(range(9)) as outcomes:
                first = [(await anext(outcomes)).item for _ in range(8)]
                (tmp_path / "open").touch()
                assert sorted(first) == list(range(1, 9))
                assert [outcome.item async for outcome in outcomes] == [0]

    run(scenario())


def test_a_drained_pool_hands_on_what_runs_and_leaves_the_rest(tmp_path: Path) -> None:
    async def scenario() -> None:
        got: list[int] = []
        async with WorkerPool.of(faults.WaitsForFile(str(tmp_path / "open")), workers=1, depth=1) as pool:
            source = Numbers()
            outcomes = Pipeline[int, int]([streamed(pool, window=8), Stage(plus_one)]).run(source)
            async with assert_nothing_leaked(), outcomes:
                await until(lambda: outcomes.statistics().stages[0].running == 1 and held(outcomes) == 2)
                draining = asyncio.ensure_future(pool.drain(30.0))
                await asyncio.sleep(0.05)
                assert not draining.done()
                (tmp_path / "open").touch()
                got = [outcome.item async for outcome in outcomes]
                report = await draining
            assert source.closed
            assert report.killed == 0
            assert got == [0]
            assert got + list(outcomes.left) == list(range(source.pulled))
            assert_accounted(outcomes)
            with pytest.raises(PoolClosed):
                await outcomes_of(Pipeline([streamed(pool)]), range(3))

    run(scenario())


def test_a_drain_of_the_pool_at_its_deadline_kills_and_the_run_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with WorkerPool.of(faults.WaitsForFile(str(tmp_path / "open")), workers=1) as pool:
            async with Pipeline[int, int]([streamed(pool, window=4)]).run(range(9)) as outcomes:
                await until(lambda: outcomes.statistics().stages[0].running == 1)
                report = await pool.drain(0.05)
                assert [outcome async for outcome in outcomes] == []
            assert report.killed == 1
            assert outcomes.left[:4] == (0, 1, 2, 3)

    run(scenario())


def test_it_is_paused_but_not_resized_and_its_map_can_be_seen() -> None:
    async def scenario() -> None:
        async with (
            InlinePool.of(abs) as pool,
            Pipeline[int, int]([streamed(pool), Stage(plus_one)]).run(Numbers()) as outcomes,
        ):
            await outcomes.resize("map", workers=1)
            with pytest.raises(ValueError, match="has 1 workers, not 2"):
                await outcomes.resize("map", workers=2)
            outcomes.pause("map")
            while held(outcomes) or outcomes.statistics().ready or outcomes.statistics().stages[1].held:
                async with asyncio.timeout(1):
                    await anext(outcomes)
            assert "map: 0 of 1 running, paused" in outcomes.explain()[0]
            outcomes.resume("map")
            assert isinstance((await anext(outcomes)).item, int)
            for name in ("plus_one", "nobody"):
                with pytest.raises(KeyError):
                    outcomes.map_statistics(name)

    run_virtual(scenario())


def test_cancelled_at_any_await_it_leaves_nothing_and_loses_nothing() -> None:
    async def consume(outcomes: Run[int, int], got: list[int]) -> None:
        async with outcomes:
            async for outcome in outcomes:
                got.append(outcome.item)

    async def scenario(suspension: int) -> bool:
        source, got = AsyncNumbers(8), list[int]()
        async with InlinePool.of(abs) as pool, assert_nothing_leaked(settle_s=5.0):
            outcomes = Pipeline[int, int]([streamed(pool, window=3), Stage(plus_one)]).run(source)
            reached = await cancelled_at(suspension, consume(outcomes, got))
        assert got + list(outcomes.left) == list(range(outcomes.statistics().accepted))
        assert_accounted(outcomes)
        return reached

    suspension = 0
    while run_virtual(scenario(suspension)):
        suspension += 1
    assert suspension > 5


# A sink that takes groups


def test_a_sink_is_given_groups_as_large_as_may_be_with_failures_among_them() -> None:
    groups: list[list[Any]] = []

    async def sink(group: list[Any]) -> None:
        await asyncio.sleep(0.1)
        groups.append(brief(group))

    def source() -> Iterator[int]:
        yield from range(0, 20, 2)
        yield 1

    async def scenario() -> None:
        pipeline: Any = Pipeline([Stage(odd_ones_fail)], ready=4)
        statistics = await pipeline.run_to(source(), sink, max_items=4, linger_s=1.0)
        assert (statistics.handed_on, statistics.failed, statistics.left) == (10, 1, 0)

    run_virtual(scenario())
    assert groups == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18, ("odd_ones_fail", "exception")]]


def test_a_group_goes_when_its_first_outcome_has_lingered() -> None:
    times: list[tuple[float, int]] = []

    async def slow(number: int) -> int:
        await asyncio.sleep(1.0)
        return number

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        pipeline: Any = Pipeline([Stage(slow)], ready=8)
        await pipeline.run_to(
            range(5), lambda group: times.append((round(loop.time() - began, 3), len(group))), max_items=8, linger_s=1.5
        )

    run_virtual(scenario())
    assert times == [(2.5, 2), (4.5, 2), (5.0, 1)]


def test_a_sink_that_raises_is_given_no_other_group() -> None:
    groups: list[list[Any]] = []

    async def sink(group: list[Any]) -> None:
        groups.append(brief(group))
        if len(groups) == 2:
            raise OSError("disk full")

    async def scenario() -> None:
        outcomes = Pipeline[int, int]([Stage(plus_one)], ready=2).run(Numbers())
        async with assert_nothing_leaked():
            with pytest.raises(OSError, match="disk full"):
                await outcomes.run_to(sink, max_items=2, linger_s=1.0)
        assert outcomes.left[0] == 4
        assert_accounted(outcomes)

    run_virtual(scenario())
    assert groups == [[1, 2], [3, 4]]


def test_with_stop_the_first_failure_is_the_last_of_the_last_group() -> None:
    groups: list[list[Any]] = []

    async def scenario() -> None:
        outcomes = Pipeline[int, int]([Stage(odd_ones_fail, workers=4)], ready=8, on_error="stop").run([0, 2, 1, 4, 6])

        def sink(group: list[Any]) -> None:
            groups.append(brief(group))
            assert_accounted(outcomes)

        await outcomes.run_to(sink, max_items=8, linger_s=1.0)
        assert_accounted(outcomes)
        assert outcomes.left == (4, 6)[: len(outcomes.left)]

    run_virtual(scenario())
    assert groups == [[0, 2, ("odd_ones_fail", "exception")]]


def test_waiting_for_many_may_be_timed_out_without_loss() -> None:
    async def slow(number: int) -> int:
        await asyncio.sleep(1.0)
        return number

    async def scenario() -> None:
        async with Pipeline[int, int]([Stage(slow)], ready=4).run(range(4)) as outcomes:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.9):
                        await outcomes.next_many(4, linger_s=10.0)
            assert [outcome.item for outcome in await outcomes.next_many(4, linger_s=10.0)] == [0, 1, 2, 3]
            with pytest.raises(StopAsyncIteration):
                await outcomes.next_many(4)

    run_virtual(scenario())
