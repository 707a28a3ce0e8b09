"""Order, bounds, laziness and failures in their place, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.flow import Permits
from headrace.flow.testing import assert_nothing_leaked, run_virtual
from headrace.pipeline import Batching, Failure, Pipeline, Stage
from pipeline.support import AsyncNumbers, Numbers, assert_accounted, brief, outcomes_of, plus_one, same, taking


def test_values_go_through_all_stages_in_order() -> None:
    pipeline: Any = Pipeline([Stage(plus_one), Stage(lambda n: n * 10, kind="inline"), Stage(same)])
    assert brief(run_virtual(outcomes_of(pipeline, range(5)))) == [10, 20, 30, 40, 50]


@pytest.mark.parametrize("source", [[], (), range(0)])
def test_an_empty_source_gives_no_outcomes(source: Any) -> None:
    assert run_virtual(outcomes_of(Pipeline([Stage(same)]), source)) == []


def test_order_is_kept_when_later_items_are_faster() -> None:
    stages = [Stage(taking(lambda n: 5 - n), name=name, workers=4) for name in "ab"]
    assert brief(run_virtual(outcomes_of(Pipeline(stages), range(5)))) == [0, 1, 2, 3, 4]


def test_an_unordered_stage_hands_on_as_items_are_done() -> None:
    pipeline: Any = Pipeline([Stage(taking(lambda n: 5 - n), workers=5, ordered=False, name="work"), Stage(same)])
    assert brief(run_virtual(outcomes_of(pipeline, range(5)))) == [4, 3, 2, 1, 0]


def test_a_success_tells_the_source_item_the_value_and_the_time_in_the_functions() -> None:
    pipeline: Any = Pipeline(
        [Stage(taking(lambda n: 2.0), name="a"), Stage(taking(lambda n: 1.0), name="b"), Stage(plus_one)]
    )
    (outcome,) = run_virtual(outcomes_of(pipeline, [41]))
    assert (outcome.item, outcome.value, outcome.elapsed_s, outcome.attempt) == (41, 42, 3.0, 1)


@pytest.mark.parametrize("numbers", [Numbers, AsyncNumbers])
def test_behind_a_blocked_head_exactly_the_window_is_pulled(numbers: Any) -> None:
    async def scenario() -> None:
        head = asyncio.Event()

        async def work(number: int) -> int:
            if number == 0:
                await head.wait()
            return number

        pipeline: Pipeline[int, int] = Pipeline([Stage(same), Stage(work, workers=3, capacity=2), Stage(plus_one)])
        source = numbers()
        async with pipeline.run(source) as run:
            first = asyncio.ensure_future(anext(run))
            await asyncio.sleep(3)
            # Everything up to the place where the head is blocked is full, and nothing beyond it.
            same_stage, work_stage, plus_stage = run.statistics().stages
            assert work_stage.held == work_stage.window == 6
            assert (work_stage.depth, same_stage.held, same_stage.depth) == (2, same_stage.window, 1)
            assert plus_stage.held == plus_stage.depth == 0
            assert source.pulled == 1 + 1 + same_stage.window + 2 + work_stage.window
            assert source.pulled <= pipeline.window.value
            assert_accounted(run)
            head.set()
            assert [(await first).value] + [(await anext(run)).value for _ in range(50)] == list(range(1, 52))
            assert_accounted(run)

    run_virtual(scenario())


def test_without_a_consumer_no_more_than_the_window_is_pulled() -> None:
    async def scenario() -> None:
        pipeline: Pipeline[int, int] = Pipeline(
            [Stage(same, name=name, workers=2, capacity=3) for name in "abc"], ready=2
        )
        source = Numbers()
        async with pipeline.run(source) as run:
            await asyncio.sleep(10)
            assert source.pulled == pipeline.window.value == run.statistics().in_flight == 1 + 3 * (3 + 4) + 2
        assert source.closed

    run_virtual(scenario())


@pytest.mark.parametrize("window", [1, 2, 5])
def test_a_window_that_was_set_is_never_exceeded(window: int) -> None:
    async def scenario() -> None:
        source, handed_on = Numbers(40), 0
        stages = [Stage(taking(lambda n: n % 3), name=name, workers=4, capacity=4) for name in "ab"]
        pipeline: Pipeline[int, int] = Pipeline(stages, window=window)
        async with pipeline.run(source) as run:
            async for outcome in run:
                handed_on += 1
                assert outcome.item == handed_on - 1
                assert source.pulled - handed_on <= window
                assert run.statistics().window == window
        assert handed_on == 40

    run_virtual(scenario())


def test_the_window_is_shown_with_the_sum_behind_it() -> None:
    stages = [
        Stage(same, name="read", workers=2, capacity=5),
        Stage(same, name="embed", batching=Batching(max_items=8)),
    ]
    window = Pipeline(stages, ready=3).window
    assert window.value == 1 + (5 + 4) + (8 + 16) + 3
    assert (
        window.because == "1 at the door + read (channel 5 + window 4) + embed (channel 8 + window 16) + 3 ready = 37"
    )
    assert Pipeline(stages, window=9).window.because.startswith("set to 9; without that, 1 at the door")


def test_the_weight_in_a_channel_is_bounded_and_a_single_heavier_item_gets_through() -> None:
    async def scenario() -> None:
        seen: list[int] = []

        async def slow(item: int) -> int:
            stage = run.statistics().stages[1]
            assert stage.weight <= 10 or stage.depth == 1
            seen.append(stage.weight)
            await asyncio.sleep(1)
            return item

        heavy = Stage(slow, capacity=100, weight_capacity=10, weigh=lambda n: n)
        pipeline: Pipeline[int, int] = Pipeline([Stage(same), heavy])
        async with pipeline.run([3, 4, 5, 99, 6, 1, 1, 1, 1, 1]) as run:
            assert [outcome.value async for outcome in run] == [3, 4, 5, 99, 6, 1, 1, 1, 1, 1]
        assert max(seen) > 0

    run_virtual(scenario())


def test_a_failure_takes_its_place_in_the_order_and_flows_past_the_later_stages() -> None:
    seen: list[int] = []

    async def odd_fails(number: int) -> int:
        await asyncio.sleep(0.1 * (number % 4))
        if number % 2:
            raise ValueError(f"{number} is odd")
        return number

    async def later(number: int) -> int:
        seen.append(number)
        return number

    pipeline: Any = Pipeline([Stage(odd_fails, workers=3), Stage(later, workers=2), Stage(same)])
    outcomes = run_virtual(outcomes_of(pipeline, range(6)))
    wrong = ("odd_fails", "exception")
    assert brief(outcomes) == [0, wrong, 2, wrong, 4, wrong]
    assert sorted(seen) == [0, 2, 4]
    assert [outcome.item for outcome in outcomes] == list(range(6))
    assert (outcomes[1].detail, str(outcomes[1].exception)) == ("ValueError: 1 is odd", "1 is odd")
    assert "odd_fails" in outcomes[1].traceback


def test_what_cannot_be_weighed_fails_in_the_stage_that_it_cannot_get_into() -> None:
    stage = Stage(same, name="embed", weigh=lambda text: len(text), weight_capacity=10)
    batched = Stage(same, name="store", batching=Batching(max_items=2, weigh=lambda text: 10 // len(text)))
    outcomes = run_virtual(outcomes_of(Pipeline([stage, batched]), ["ab", 7, "", "c"]))
    assert brief(outcomes) == ["ab", ("embed", "exception"), ("store", "exception"), "c"]


def test_an_own_code_of_an_exception_is_the_code_of_the_failure() -> None:
    class Quota(Exception):
        code = "quota"

    async def refuse(_: int) -> int:
        raise Quota("none left")

    (failure,) = run_virtual(outcomes_of(Pipeline([Stage(refuse)]), [1]))
    assert (failure.code, failure.detail, failure.stage) == ("quota", "none left", "refuse")


def test_a_stage_function_that_raises_a_cancellation_costs_its_item_only() -> None:
    async def work(number: int) -> int:
        if number == 1:
            raise asyncio.CancelledError
        return number

    assert brief(run_virtual(outcomes_of(Pipeline([Stage(work)]), range(3)))) == [0, ("work", "exception"), 2]


def test_on_error_stop_ends_with_the_first_failure_and_what_comes_before_it() -> None:
    async def scenario() -> None:
        async def work(number: int) -> int:
            await asyncio.sleep(5 - number)
            if number == 3:
                raise ValueError
            return number

        source = Numbers()
        pipeline: Pipeline[int, int] = Pipeline([Stage(work, workers=4), Stage(same)], on_error="stop")
        async with assert_nothing_leaked(), pipeline.run(source) as run:
            outcomes = [outcome async for outcome in run]
        assert brief(outcomes) == [0, 1, 2, ("work", "exception")]
        assert source.closed
        assert run.left == tuple(range(4, source.pulled))
        assert_accounted(run)

    run_virtual(scenario())


def test_an_error_of_the_source_comes_after_the_outcomes_of_everything_before_it() -> None:
    async def scenario(source: Any) -> None:
        got: list[Any] = []
        async with assert_nothing_leaked():
            run = Pipeline[int, int]([Stage(same, workers=2), Stage(plus_one)]).run(source)
            with pytest.raises(OSError, match="disk"):
                await run.run_to(lambda outcome: got.append(outcome.value))
        assert got == list(range(1, 51))

    run_virtual(scenario(Numbers(50, OSError("disk"))))
    run_virtual(scenario(AsyncNumbers(50, OSError("disk"))))


def test_at_the_deadline_a_coroutine_is_cancelled_and_its_item_fails() -> None:
    async def scenario() -> None:
        ended: list[str] = []

        async def work(number: int) -> int:
            try:
                await asyncio.sleep(100 if number == 1 else 0.5)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
            return number

        began = asyncio.get_running_loop().time()
        outcomes = await outcomes_of(Pipeline([Stage(work, deadline_s=2.0)]), range(3))
        assert brief(outcomes) == [0, ("work", "deadline"), 2]
        assert outcomes[1].detail == "gave up waiting after 2 s"
        assert ended == ["cancelled"]
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.5 + 2.0 + 0.5)

    run_virtual(scenario())


def test_a_timeout_of_the_functions_own_is_not_the_deadline() -> None:
    async def work(_: int) -> int:
        raise TimeoutError("the remote is slow")

    assert brief(run_virtual(outcomes_of(Pipeline([Stage(work, deadline_s=2.0)]), [0]))) == [("work", "exception")]


def test_a_coroutine_that_ignores_its_cancellation_is_given_up_and_takes_nothing_new_until_it_ends() -> None:
    async def scenario() -> None:
        running = most = 0

        async def stubborn(number: int) -> int:
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                await asyncio.sleep(10)
            running -= 1
            return number

        permits = Permits(2)
        async with assert_nothing_leaked(permits):
            pipeline: Pipeline[int, int] = Pipeline([Stage(stubborn, deadline_s=1.0, permits=permits)])
            async with pipeline.run(range(3)) as run:
                loop = asyncio.get_running_loop()
                first = await anext(run)
                assert (first.code, loop.time()) == ("deadline", 1.0)
                assert first.detail.endswith("cannot be ended from here")
                assert permits.held == 1, "the resource is still in use"
                assert "held by a call that was given up" in run.explain()[0]
                assert [outcome.code async for outcome in run] == ["deadline", "deadline"]
        assert most == 1
        assert permits.statistics().dropped == 3

    run_virtual(scenario())


def test_retries_obey_attempts_codes_and_the_backoff() -> None:
    async def scenario() -> None:
        calls: dict[int, int] = {}
        told: list[tuple[int, int, str]] = []

        class Busy(Exception):
            code = "busy"

        async def work(number: int) -> int:
            calls[number] = calls.get(number, 0) + 1
            if number == 0 and calls[number] < 3:
                raise Busy
            if number == 1:
                raise Busy
            if number == 2:
                raise ValueError
            return number

        def backoff(failure: Failure[Any]) -> float:
            told.append((failure.item, failure.attempt, failure.code))
            return 2.0**failure.attempt

        stage = Stage(work, attempts=3, retriable={"busy"}, backoff=backoff)
        outcomes = await outcomes_of(Pipeline([stage]), range(4))
        assert brief(outcomes) == [0, ("work", "busy"), ("work", "exception"), 3]
        assert [outcome.attempt for outcome in outcomes] == [3, 3, 1, 1]
        assert told == [(0, 1, "busy"), (0, 2, "busy"), (1, 1, "busy"), (1, 2, "busy")]
        assert asyncio.get_running_loop().time() == pytest.approx(2 * (2 + 4))

    run_virtual(scenario())


def test_a_backoff_that_raises_ends_the_run_instead_of_hanging_it() -> None:
    async def fails(_: int) -> int:
        raise ValueError

    stage = Stage(fails, attempts=2, retriable={"exception"}, backoff=lambda _: float("nan"))
    with pytest.raises(ValueError, match="backoff of fails"):
        run_virtual(outcomes_of(Pipeline([stage]), range(3)))


def test_a_permit_is_held_for_exactly_the_call_and_ended_before_the_result_is_handed_on() -> None:
    async def scenario() -> None:
        permits = Permits(1)
        held: list[int] = []

        async def embed(number: int) -> int:
            held.append(permits.held)
            await asyncio.sleep(1)
            if number == 1:
                raise ValueError
            return number

        async def index(number: int) -> int:
            await asyncio.sleep(10)
            return number

        stages = [Stage(embed, workers=3, permits=permits), Stage(index)]
        async with assert_nothing_leaked(permits), Pipeline[int, int](stages).run(range(4)) as run:
            await asyncio.sleep(4.5)
            assert permits.held == 0, "all calls are over, though hardly anything was handed on"
            assert run.statistics().stages[0].done == 3
            assert [outcome.item async for outcome in run] == [0, 1, 2, 3]
        assert held == [1, 1, 1, 1]
        assert (permits.statistics().done, permits.statistics().ignored) == (4, 0)

    run_virtual(scenario())


def test_a_permit_is_not_held_while_an_attempt_waits_for_the_next() -> None:
    async def scenario() -> None:
        permits = Permits(1)
        calls = 0

        async def work(number: int) -> int:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise ValueError
            return number

        stage = Stage(work, attempts=2, retriable={"exception"}, backoff=lambda _: 5.0, permits=permits)
        async with Pipeline[int, int]([stage]).run([0]) as run:
            await asyncio.sleep(2)
            assert permits.held == 0
            assert run.explain() == ("work: 0 of 1 running, 1 call waits before another attempt",)
            assert (await anext(run)).attempt == 2

    run_virtual(scenario())


def test_closed_permits_fail_the_items_instead_of_hanging_them() -> None:
    async def scenario() -> list[Any]:
        permits = Permits(1)
        permits.close()
        return await outcomes_of(Pipeline([Stage(same, permits=permits)]), range(2))

    assert brief(run_virtual(scenario())) == [("same", "exception")] * 2


# Batches


def test_batches_are_filled_and_the_last_one_does_not_linger() -> None:
    async def scenario() -> None:
        sizes: list[int] = []

        async def embed(texts: list[str]) -> list[int]:
            sizes.append(len(texts))
            return [len(text) for text in texts]

        stage = Stage(embed, batching=Batching(max_items=4, linger_s=60.0))
        outcomes = await outcomes_of(Pipeline([stage]), ["a" * n for n in range(10)])
        assert brief(outcomes) == list(range(10))
        assert sizes == [4, 4, 2]
        assert asyncio.get_running_loop().time() == 0.0

    run_virtual(scenario())


def test_a_batch_goes_when_its_oldest_item_has_lingered() -> None:
    async def scenario() -> None:
        batches: list[tuple[float, list[int]]] = []

        async def source() -> Any:
            for number in range(4):
                yield number
                await asyncio.sleep(1.0 if number != 2 else 10.0)

        async def work(numbers: list[int]) -> list[int]:
            batches.append((asyncio.get_running_loop().time(), numbers))
            return numbers

        await outcomes_of(Pipeline([Stage(work, batching=Batching(max_items=9, linger_s=2.5))]), source())
        assert batches == [(2.5, [0, 1, 2]), (13.0, [3])] or batches == [(2.5, [0, 1, 2]), (14.5, [3])]

    run_virtual(scenario())


def test_padded_batches_group_similar_lengths_and_outcomes_keep_their_order() -> None:
    async def scenario() -> None:
        batches: list[list[int]] = []

        async def embed(texts: list[str]) -> list[int]:
            batches.append([len(text) for text in texts])
            return [len(text) for text in texts]

        lengths = [100, 3, 98, 4, 5, 99, 2, 101] * 4
        batching = Batching(max_items=4, max_weight=420, weigh=len, linger_s=1.0, padded=True)
        outcomes = await outcomes_of(Pipeline([Stage(embed, batching=batching)]), ["x" * n for n in lengths])
        assert brief(outcomes) == lengths
        padded, actual = sum(max(b) * len(b) for b in batches), sum(lengths)
        assert padded < 1.2 * actual, batches
        assert all(max(b) * len(b) <= 420 for b in batches)

    run_virtual(scenario())


def test_a_batch_that_fails_is_split_so_that_only_the_one_at_fault_fails() -> None:
    async def embed(numbers: list[int]) -> list[int]:
        if 3 in numbers:
            raise ValueError("3 is bad")
        return numbers

    stage = Stage(embed, batching=Batching(max_items=5))
    outcomes = run_virtual(outcomes_of(Pipeline([stage]), range(10)))
    assert brief(outcomes) == [n if n != 3 else ("embed", "exception") for n in range(10)]
    assert {outcome.attempt for outcome in outcomes} == {1}, "nobody was charged for the batch"


def test_a_batch_that_is_not_to_be_split_fails_as_a_whole_and_is_retried_as_a_whole() -> None:
    calls: list[list[int]] = []

    async def embed(numbers: list[int]) -> list[int]:
        calls.append(numbers)
        raise ValueError

    batching = Batching(max_items=2, split_on_failure=False, linger_s=1.0)
    stage = Stage(embed, batching=batching, attempts=2, retriable={"exception"})
    outcomes = run_virtual(outcomes_of(Pipeline([stage]), range(2)))
    assert brief(outcomes) == [("embed", "exception")] * 2
    assert calls == [[0, 1], [0, 1]]


def test_an_exception_in_the_answer_of_a_batch_is_the_failure_of_its_item_and_it_alone_is_retried() -> None:
    calls: list[list[int]] = []

    async def embed(numbers: list[int]) -> list[Any]:
        calls.append(numbers)
        return [ValueError(number) if number == 1 and len(calls) == 1 else number for number in numbers]

    stage = Stage(embed, batching=Batching(max_items=3, linger_s=1.0), attempts=2, retriable={"exception"})
    assert brief(run_virtual(outcomes_of(Pipeline([stage]), range(3)))) == [0, 1, 2]
    assert calls == [[0, 1, 2], [1]]


@pytest.mark.parametrize("answer", [[1], None, 7, {1: 2}])
def test_a_batch_function_that_answers_with_the_wrong_number_of_results_says_so(answer: Any) -> None:
    async def embed(_: list[int]) -> Any:
        return answer

    stage = Stage(embed, batching=Batching(max_items=3, linger_s=1.0))
    outcomes = run_virtual(outcomes_of(Pipeline([stage]), range(3)))
    assert brief(outcomes) == [("embed", "exception")] * 3
    assert "a batch of 3 items gave" in outcomes[0].detail
