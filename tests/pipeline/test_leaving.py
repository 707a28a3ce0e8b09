"""Leaving early, dying consumers, draining: whatever happens, everything is closed and what is left is known."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from headrace.flow import Permits
from headrace.flow.testing import assert_nothing_leaked, cancelled_at, run_virtual
from headrace.pipeline import Batching, Pipeline, PipelineBroken, Run, Stage
from pipeline.support import AsyncNumbers, Numbers, assert_accounted, plus_one, same, taking


def three_stages(permits: Permits | None = None) -> Pipeline[int, int]:
    middle = Stage(taking(lambda n: 0.5), name="middle", workers=3, permits=permits)
    batched = Stage(same, name="last", batching=Batching(max_items=4, linger_s=1.0))
    return Pipeline([Stage(plus_one, workers=2), middle, batched])


@pytest.mark.parametrize("numbers", [Numbers, AsyncNumbers])
def test_three_of_a_thousand_then_break_leaves_nothing_behind(numbers: Any) -> None:
    async def scenario() -> None:
        permits, source, taken = Permits(2), numbers(1000), 0
        async with assert_nothing_leaked(permits), three_stages(permits).run(source) as run:
            async for _ in run:
                taken += 1
                if taken == 3:
                    break
        assert source.closed
        assert permits.held == 0
        assert run.left == tuple(range(3, run.statistics().accepted))
        assert_accounted(run)

    run_virtual(scenario())


def test_a_loop_without_a_block_closes_the_run_when_it_is_left() -> None:
    async def scenario() -> None:
        source = Numbers(1000)
        async with assert_nothing_leaked(settle_s=1.0):
            async for outcome in three_stages().run(source):
                if outcome.item == 2:
                    break
            gc.collect()
        assert source.closed

    run_virtual(scenario())


def test_a_consumer_that_raises_gets_its_own_error_and_everything_is_closed() -> None:
    async def scenario(error: BaseException) -> None:
        source = Numbers()

        async def sink(outcome: Any) -> None:
            await asyncio.sleep(0.1)
            if outcome.item == 2:
                raise error

        async with assert_nothing_leaked():
            with pytest.raises(type(error)):
                await three_stages().run(source).run_to(sink)
        assert source.closed

    run_virtual(scenario(OSError("disk full")))
    run_virtual(scenario(asyncio.CancelledError()))


def test_a_run_to_a_sink_gives_every_outcome_in_order_and_reports() -> None:
    got: list[int] = []

    async def scenario() -> None:
        statistics = await Pipeline[int, int]([Stage(plus_one)]).run_to(range(5), lambda o: got.append(o.value))
        assert (statistics.accepted, statistics.handed_on, statistics.failed, statistics.left) == (5, 5, 0, 0)

    run_virtual(scenario())
    assert got == [1, 2, 3, 4, 5]


def test_a_consumer_cancelled_at_any_await_leaves_nothing_behind() -> None:
    async def consume(run: Run[int, int], got: list[int]) -> None:
        async with run:
            async for outcome in run:
                got.append(outcome.item)

    async def scenario(suspension: int) -> bool:
        permits, source, got = Permits(2), AsyncNumbers(12), list[int]()
        run = three_stages(permits).run(source)
        async with assert_nothing_leaked(permits, settle_s=5.0):
            reached = await cancelled_at(suspension, consume(run, got))
        assert got + list(run.left) == list(range(run.statistics().accepted))
        assert source.closed or not source.pulled
        return reached

    suspension = 0
    while run_virtual(scenario(suspension)):
        suspension += 1
    assert suspension > 5


def test_a_timeout_on_the_next_outcome_loses_none() -> None:
    async def scenario() -> None:
        got: list[int] = []
        async with three_stages().run(range(40)) as run:
            while True:
                try:
                    async with asyncio.timeout(0.07):
                        got.append((await anext(run)).item)
                except TimeoutError:
                    assert_accounted(run)
                except StopAsyncIteration:
                    break
        assert got == list(range(40))

    run_virtual(scenario())


def test_two_consumers_share_the_outcomes_without_doubling_any() -> None:
    async def scenario() -> None:
        got: list[int] = []

        async def take(run: Run[int, int]) -> None:
            async for outcome in run:
                got.append(outcome.item)
                await asyncio.sleep(0.1)

        async with three_stages().run(range(30)) as run:
            await asyncio.gather(take(run), take(run))
        assert got == list(range(30))

    run_virtual(scenario())


async def take_all(run: Run[int, int]) -> None:
    async for _ in run:
        pass


def test_a_part_that_is_cancelled_from_outside_ends_the_run_with_an_error_instead_of_hanging_it() -> None:
    async def scenario(name: str) -> None:
        async with assert_nothing_leaked():
            run = three_stages().run(AsyncNumbers())
            async with run:
                await anext(run)
                next(task for task in asyncio.all_tasks() if task.get_name() == name).cancel()
                with pytest.raises(PipelineBroken, match=name):
                    await take_all(run)
                with pytest.raises(StopAsyncIteration):
                    await anext(run)

    for name in ("source", "middle in", "middle out", "middle worker 2"):
        run_virtual(scenario(name))


def test_a_run_is_used_once() -> None:
    async def scenario() -> None:
        run = three_stages().run(range(3))
        async with run:
            pass
        with pytest.raises(RuntimeError, match="used once"):
            await run.__aenter__()

    run_virtual(scenario())


def test_what_a_factory_raises_is_raised_before_anything_is_pulled_and_nothing_is_left() -> None:
    def broken() -> Any:
        raise OSError("the model is not there")

    async def scenario() -> None:
        source = Numbers()
        async with assert_nothing_leaked():
            pipeline: Pipeline[int, int] = Pipeline(
                [Stage(same, workers=3), Stage(factory=broken, name="model", kind="inline")]
            )
            with pytest.raises(OSError, match="not there"):
                await pipeline.run(source).__aenter__()
        assert source.pulled == 0

    run_virtual(scenario())


def test_a_call_that_cannot_be_ended_is_left_behind_after_close_s_and_named() -> None:
    async def scenario() -> None:
        async def stubborn(number: int) -> int:
            for _ in range(3):
                try:
                    await asyncio.sleep(100)
                except asyncio.CancelledError:
                    continue
            return number

        pipeline: Pipeline[int, int] = Pipeline([Stage(stubborn)], close_s=2.0)
        began = asyncio.get_running_loop().time()
        with pytest.warns(ResourceWarning, match="left behind, still running: stubborn worker 1"):
            async with pipeline.run(range(3)):
                await asyncio.sleep(1)
        assert asyncio.get_running_loop().time() - began == pytest.approx(3.0)
        await asyncio.sleep(400)  # it ends by itself

    run_virtual(scenario())


@pytest.mark.parametrize("fails", [False, True])
def test_a_function_that_swallows_its_cancellation_is_not_called_again(fails: bool) -> None:
    async def scenario() -> None:
        calls: list[int] = []

        async def swallows(number: int) -> int:
            calls.append(number)
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                await asyncio.sleep(1)
            if fails:
                raise ValueError
            return number

        stage = Stage(swallows, capacity=5, attempts=3, retriable={"exception"})
        async with assert_nothing_leaked():
            async with Pipeline[int, int]([stage]).run(Numbers()) as run:
                await asyncio.sleep(1)
            assert calls == [0]
            assert run.left[:2] == (0, 1)

    run_virtual(scenario())


# Draining


def test_a_drain_in_time_finishes_everything_that_was_pulled() -> None:
    async def scenario() -> None:
        got: list[int] = []
        source = AsyncNumbers()
        async with assert_nothing_leaked(), three_stages().run(source) as run, asyncio.TaskGroup() as tasks:

            async def take() -> None:
                async for outcome in run:
                    got.append(outcome.item)

            tasks.create_task(take())
            await asyncio.sleep(3)
            before = run.in_flight
            report = await run.drain(60.0)
            assert (report.handed_back, report.abandoned, report.in_time) == (0, 0, True)
            # One may come in at the door, and one go out, while it begins.
            assert abs(report.finished - before) <= 1
        assert got == list(range(run.statistics().accepted))
        assert run.left == ()
        assert source.closed

    run_virtual(scenario())


def test_a_drain_does_not_wait_for_a_source_that_gives_nothing() -> None:
    async def scenario() -> None:
        async def source() -> Any:
            yield 1
            await asyncio.Event().wait()

        async with Pipeline[int, int]([Stage(same)]).run(source()) as run:
            assert (await anext(run)).value == 1
            assert run.statistics().pulling
            report = await run.drain(5.0)
            assert (report.finished, report.took_s, report.in_time) == (0, 0.0, True)
            assert [outcome async for outcome in run] == []

    run_virtual(scenario())


def test_a_drain_without_a_consumer_hands_back_at_its_deadline() -> None:
    async def scenario() -> None:
        source = Numbers()
        async with assert_nothing_leaked(), three_stages().run(source) as run:
            await asyncio.sleep(10)
            in_flight = run.in_flight
            report = await run.drain(5.0)
            assert (report.finished, report.handed_back, report.abandoned) == (0, in_flight, 0)
            assert report.took_s <= 5.0
            assert run.left == tuple(range(in_flight))
            assert [outcome async for outcome in run] == []

    run_virtual(scenario())


def test_a_drain_counts_what_nothing_can_end_as_abandoned_and_returns_by_its_deadline() -> None:
    async def scenario() -> None:
        async def stubborn(number: int) -> int:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                await asyncio.sleep(8)
            return number

        pipeline: Pipeline[int, int] = Pipeline([Stage(stubborn, workers=2, capacity=3)])
        async with assert_nothing_leaked(), pipeline.run(Numbers()) as run:
            await asyncio.sleep(1)
            report = await run.drain(5.0)
            assert (report.handed_back, report.abandoned) == (len(run.left) - 2, 2)
            assert report.took_s <= 5.0

    run_virtual(scenario())
