"""Looking at a run and changing it while it runs: statistics, explain, pause, resume, resize; and what idling costs."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from headrace.flow import Permits
from headrace.flow.testing import VirtualLoop, assert_nothing_leaked, run_virtual
from headrace.pipeline import Batching, Pipeline, Stage
from pipeline.support import Numbers, assert_accounted, plus_one, same, taking


def test_explain_names_the_stage_that_holds_up_the_others_and_since_when() -> None:
    async def scenario() -> None:
        permits = Permits(1)
        read = Stage(same, name="read")
        embed = Stage(taking(lambda n: 0.1), name="embed", workers=4)
        index = Stage(taking(lambda n: 100.0), name="index", workers=2, capacity=8, permits=permits)
        async with Pipeline[int, int]([read, embed, index]).run(Numbers()) as run:
            await asyncio.sleep(2.4)
            assert run.explain() == (
                "read: 0 of 1 running, waits for embed: channel 4/4 full for 2.0 s, because index holds 1 of 1 permits",
                "embed: 0 of 4 running, waits for index: channel 8/8 full for 2.1 s, "
                "because index holds 1 of 1 permits",
                "index: 1 of 2 running, 1 call waits for a permit for 2.3 s: 1 of 1 permits are held",
            )

    run_virtual(scenario())


def test_explain_has_a_sentence_for_every_state() -> None:
    async def waiting_source() -> Any:
        yield 1
        await asyncio.sleep(100)

    async def explained(stages: list[Stage], source: Any, after_s: float = 5.0) -> tuple[str, ...]:
        async with Pipeline[int, int](stages).run(source) as run:
            await asyncio.sleep(after_s)
            return run.explain()

    long = Stage(taking(lambda n: 50.0), name="a", workers=2, capacity=3)
    slow_head = Stage(taking(lambda n: 0.0 if n else 50.0), name="a", workers=2)
    batch = Stage(same, name="a", batching=Batching(max_items=9, linger_s=50.0))
    a, b = Stage(same, name="a"), Stage(same, name="b")
    cases: list[tuple[list[Stage], Any, str]] = [
        ([long], Numbers(), "a: 2 of 2 running, all busy, the longest for 5.0 s, 3 more in its channel"),
        ([long], range(1), "a: 1 of 2 running, waits for the source"),
        ([slow_head], Numbers(), "a: 1 of 2 running, 3 done wait behind the oldest, which has been here for 5.0 s"),
        ([batch], waiting_source(), "a: 0 of 1 running, gathers a batch: 1 so far, the first for 5.0 s"),
        (
            [Stage(same, name="a")],
            Numbers(),
            "a: 0 of 1 running, waits for the consumer: 1 of 1 outcomes ready for 5.0 s",
        ),
        (
            [a, b],
            waiting_source(),
            "b: 0 of 1 running, waits for a, idle for 5.0 s",
        ),
        ([a, b], range(1), "a: finished, 1 done, 0 failed"),
    ]
    for stages, source, sentence in cases:
        assert sentence in run_virtual(explained(stages, source))


def test_the_accounting_adds_up_and_statistics_of_each_stage_say_where_items_are() -> None:
    async def scenario() -> None:
        async def fails_at_3(number: int) -> int:
            await asyncio.sleep(1)
            if number == 3:
                raise ValueError
            return number

        stages = [Stage(same, name="a"), Stage(fails_at_3, name="b", workers=2, capacity=2), Stage(same, name="c")]
        async with Pipeline[int, int](stages).run(range(10)) as run:
            await asyncio.sleep(0.5)
            a, b, c = run.statistics().stages
            assert (b.running, b.longest_s, b.depth, b.limit, b.held) == (2, 0.5, 2, 2, 2)
            assert (b.oldest_age_s, b.done, c.idle_s) == (0.5, 0, 0.5)
            assert (a.done, a.for_room, a.depth) == (6, 2, 1)
            async for _ in run:
                assert_accounted(run)
            a, b, c = run.statistics().stages
            assert (a.done, b.done, b.failed, c.done, c.passed) == (10, 9, 1, 9, 1)
            assert b.rate_per_s == pytest.approx(10 / 4)
            s = run.statistics()
            assert (s.accepted, s.handed_on, s.failed, s.in_flight, s.left) == (10, 9, 1, 0, 0)

    run_virtual(scenario())


def test_a_paused_run_pulls_nothing_and_lets_what_is_in_flow_on() -> None:
    async def scenario() -> None:
        source = Numbers()
        async with Pipeline[int, int]([Stage(same), Stage(plus_one)], ready=50).run(source) as run:
            await anext(run)
            run.pause()
            await asyncio.sleep(1)
            pulled = source.pulled
            for _ in range(pulled - 1):
                await anext(run)
            waiting = asyncio.ensure_future(anext(run))
            await asyncio.sleep(10)
            assert source.pulled == pulled
            assert not waiting.done()
            assert "waits for the run to be resumed" in run.explain()[0]
            run.resume()
            assert (await waiting).item == pulled

    run_virtual(scenario())


def test_a_paused_stage_begins_no_call_and_says_so() -> None:
    async def scenario() -> None:
        calls: list[int] = []

        async def work(number: int) -> int:
            calls.append(number)
            return number

        async with Pipeline[int, int]([Stage(same), Stage(work)]).run(Numbers(20)) as run:
            run.pause("work")
            await asyncio.sleep(10)
            assert calls == []
            assert run.explain()[1] == "work: 0 of 1 running, paused with 1 items in it"
            assert run.explain()[0].endswith("because work is paused")
            run.resume("work")
            assert [outcome.item async for outcome in run] == list(range(20))

    run_virtual(scenario())


def test_a_stage_grows_and_shrinks_while_it_runs_and_its_bound_follows() -> None:
    async def scenario() -> None:
        running = most = 0

        async def work(number: int) -> int:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(1)
            running -= 1
            return number

        async with assert_nothing_leaked(), Pipeline[int, int]([Stage(work, workers=1)]).run(range(60)) as run:
            window = run.window
            for workers in (1, 5, 2):
                await run.resize("work", workers=workers)
                for _ in range(4):  # let those go that are over
                    await anext(run)
                most = 0
                for _ in range(10):
                    await anext(run)
                assert most == workers
                assert run.statistics().stages[0].workers == workers
                assert run.window == window + 2 * (workers - 1)
                assert_accounted(run)
            assert [outcome.item async for outcome in run] == list(range(42, 60))

    run_virtual(scenario())


def test_a_worker_that_goes_in_the_tick_in_which_it_is_given_a_batch_passes_it_on() -> None:
    async def scenario() -> None:
        asked: list[asyncio.Task[None]] = []

        def weigh(number: int) -> int:
            if number == 1:  # the batch is complete in this tick: 0 and 1 for the first worker, while 2 waits
                asked.append(asyncio.ensure_future(run.resize("same", workers=1)))
            return 1

        stage = Stage(same, workers=2, capacity=5, batching=Batching(max_items=2, weigh=weigh, linger_s=1.0))

        async def three() -> Any:
            for number in range(3):
                yield number
            await asyncio.Event().wait()

        run = Pipeline[int, int]([stage]).run(three())
        async with assert_nothing_leaked(), run:
            assert [(await anext(run)).item for _ in range(3)] == [0, 1, 2]
        assert len(asked) == 1

    run_virtual(scenario())


def test_two_resizes_at_once_end_at_the_later_number() -> None:
    async def scenario() -> None:
        async with assert_nothing_leaked(), Pipeline[int, int]([Stage(same)]).run(endless()) as run:
            await asyncio.gather(run.resize("same", workers=4), run.resize("same", workers=5))
            assert run.statistics().stages[0].workers == 5

    run_virtual(scenario())


def test_nonsense_asked_of_a_run_is_refused() -> None:
    async def scenario() -> None:
        async with Pipeline[int, int]([Stage(same)]).run(range(3)) as run:
            with pytest.raises(ValueError, match="pause it instead"):
                await run.resize("same", workers=0)
            with pytest.raises(KeyError, match="there are same"):
                run.pause("other")

    run_virtual(scenario())


class CountingLoop(VirtualLoop):
    """Counts how often it wakes up."""

    wakeups = 0

    def _run_once(self) -> None:
        self.wakeups += 1
        super()._run_once()  # type: ignore[misc]


async def endless() -> Any:
    yield 1
    await asyncio.Event().wait()


def five_stages() -> list[Stage]:
    batched = Stage(same, name="batched", batching=Batching(max_items=4, linger_s=1.0))
    return [Stage(same, name=f"s{n}", workers=3, deadline_s=5.0, permits=Permits(2)) for n in range(4)] + [batched]


@pytest.mark.parametrize("busy", [False, True])
def test_five_stages_that_wait_wake_up_less_than_ten_times_in_ten_seconds(busy: bool) -> None:
    async def scenario(loop: CountingLoop) -> None:
        source: Any = Numbers() if busy else endless()  # blocked by its consumer, or starved by its source
        async with Pipeline[int, int](five_stages()).run(source) as run:
            await anext(run)
            await asyncio.sleep(5)
            before = loop.wakeups
            await asyncio.sleep(10)
            assert loop.wakeups - before < 10

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, CountingLoop)
        runner.run(scenario(loop))


class CountingRealLoop(asyncio.SelectorEventLoop):
    wakeups = 0

    def _run_once(self) -> None:
        self.wakeups += 1
        super()._run_once()  # type: ignore[misc]


def test_threads_and_processes_that_wait_use_no_cpu() -> None:
    async def scenario(loop: CountingRealLoop) -> None:
        stages = [Stage(abs, name="thread", kind="thread", workers=2), Stage(abs, name="process", kind="process")]
        async with Pipeline[int, int](stages).run(endless()) as run:
            assert (await anext(run)).value == 1
            await asyncio.sleep(0.5)  # the sampling of memory ends when nothing runs
            before, cpu_s = loop.wakeups, time.process_time()
            await asyncio.sleep(1.0)
            assert loop.wakeups - before < 3
            assert time.process_time() - cpu_s < 0.2

    with asyncio.Runner(loop_factory=CountingRealLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, CountingRealLoop)
        runner.run(scenario(loop))
