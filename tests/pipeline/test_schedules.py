"""Thousands of seeded schedules: random pipelines, ready callbacks in random order, cancellations at random awaits.

What each item must come to is known beforehand from a plain model, so that a lost, doubled or misplaced item shows. A
failure names its seed; HEADRACE_TEST_SEED=<seed> runs that one alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headrace.flow import Closed, Permits
from headrace.flow.testing import Schedule, assert_nothing_leaked, run_schedules, run_virtual
from headrace.pipeline import Batching, Failure, Pipeline, PipelineBroken, Run, Stage

WAYS = ("to the end", "leaves early", "waits with timeouts", "drains", "is cancelled", "changes it", "breaks a part")


class Fate:
    """What one random stage does to each item: the model, and the function that behaves like it."""

    def __init__(self, schedule: Schedule, name: str, permits: Permits | None) -> None:
        r = schedule.random
        self.random = r
        self.name = name
        self.batch = r.random() < 0.3
        self.inline = r.random() < 0.2
        self.deadline_s = 1.0 if not self.inline and not self.batch and r.random() < 0.5 else None
        self.attempts = r.choice([1, 1, 2, 3])
        self.salt = r.randrange(1000)
        self.faults = r.random() < 0.7
        self.calls: Counter[int] = Counter()
        self.finished: Counter[int] = Counter()
        self.permits = permits
        self.stage = self._stage(r)

    def _stage(self, r: Any) -> Stage:
        function: Any = self.call_inline if self.inline else self.call
        batching = None
        if self.batch:
            function = self.batch_inline if self.inline else self.call_batch
            batching = Batching(
                max_items=r.choice([1, 2, 3, 5]),
                max_weight=r.choice([None, 12]),
                weigh=lambda item: 1 + item % 7,
                linger_s=r.choice([0.0, 0.2]),
                padded=r.random() < 0.5,
            )
        weighed = r.random() < 0.3
        return Stage(
            function,
            name=self.name,
            kind="inline" if self.inline else "async",
            workers=r.choice([1, 1, 2, 4]),
            capacity=r.choice([None, 1, 3]),
            weight_capacity=5 if weighed else None,
            weigh=(lambda item: 1 + item % 3) if weighed else None,
            ordered=r.random() < 0.75,
            batching=batching,
            deadline_s=self.deadline_s,
            attempts=self.attempts,
            retriable={"exception"},
            backoff=(lambda failure: 0.1 * failure.attempt) if r.random() < 0.5 else None,
            permits=self.permits,
        )

    def fault(self, item: int) -> str:
        number = (item * 31 + self.salt) % 20 if self.faults else 19
        return {0: "always", 1: "once", 2: "hangs"}.get(number, "never")

    def expected(self, item: int) -> str | None:
        """The code that the item fails with here."""
        fault = self.fault(item)
        if fault == "always" or (fault == "once" and self.attempts == 1 and not self.splits):
            return "exception"
        return "deadline" if fault == "hangs" and self.deadline_s is not None else None

    @property
    def splits(self) -> bool:
        return self.batch

    def _begin(self, item: int) -> None:
        self.calls[item] += 1
        fault = self.fault(item)
        if fault == "always" or (fault == "once" and self.calls[item] == 1):
            raise ValueError(f"{item} fails in {self.name}")

    def call_inline(self, item: int) -> int:
        self._begin(item)
        self.finished[item] += 1
        return item

    async def call(self, item: int) -> int:
        assert self.permits is None or self.permits.held >= 1, "a call without its permit"
        await asyncio.sleep(self.random.choice([0, 0, 0.05, 0.3]))
        self._begin(item)
        if self.fault(item) == "hangs" and self.deadline_s is not None:
            await asyncio.sleep(100)
        self.finished[item] += 1
        return item

    def batch_inline(self, items: list[int]) -> list[Any]:
        return self._answers(items)

    async def call_batch(self, items: list[int]) -> list[Any]:
        await asyncio.sleep(self.random.choice([0, 0.05, 0.3]))
        return self._answers(items)

    def _answers(self, items: list[int]) -> list[Any]:
        for item in items:
            self.calls[item] += 1
        answers: list[Any] = []
        for item in items:
            fault = self.fault(item)
            if fault == "always" or (fault == "once" and self.calls[item] == 1):
                answers.append(ValueError(f"{item} fails in {self.name}"))
            else:
                self.finished[item] += 1
                answers.append(item)
        return answers


class Scenario:
    def __init__(self, schedule: Schedule) -> None:
        r = self.random = schedule.random
        self.schedule = schedule
        self.permits = Permits(r.choice([1, 2])) if r.random() < 0.5 else None
        self.fates = [
            Fate(schedule, name, self.permits if r.random() < 0.6 else None) for name in "abc"[: r.randint(1, 3)]
        ]
        for fate in self.fates:
            # Exceptions in the answer of a batch are retried, but never split.
            fate.__class__ = type("Fate", (Fate,), {"splits": False}) if fate.batch else Fate
        self.way = r.choice(WAYS)
        self.pipeline: Pipeline[int, int] = Pipeline(
            [fate.stage for fate in self.fates], ready=r.choice([1, 3]), window=r.choice([None, None, 1, 4])
        )
        self.ordered = all(fate.stage.ordered for fate in self.fates)
        self.count = r.choice([0, 1, 7, 25])
        self.pulled: list[int] = []
        self.got: list[Any] = []
        self.source_closed = False

    async def numbers(self) -> AsyncIterator[int]:
        try:
            for number in range(self.count):
                if self.random.random() < 0.3:
                    await asyncio.sleep(0.1)
                self.pulled.append(number)
                yield number
        finally:
            self.source_closed = True

    def check(self, run: Run[int, int]) -> None:
        in_flight = run.in_flight
        assert run._accepted == run._handed_on + run._failed + in_flight + len(run.left), run.statistics()
        # What ran under a larger window may still be in flight after it was made smaller.
        assert in_flight <= run.window or self.way == "changes it", run.statistics()
        assert self.permits is None or self.permits.held <= self.permits._limit

    def check_outcomes(self) -> None:
        items = [outcome.item for outcome in self.got]
        assert len(items) == len(set(items)), f"doubled: {items}"
        if self.ordered:
            assert items == self.pulled[: len(items)], f"order: {items}"
        for outcome in self.got:
            failing = next((fate for fate in self.fates if fate.expected(outcome.item)), None)
            if failing is None:
                assert outcome.value == outcome.item, outcome
            else:
                assert isinstance(outcome, Failure), outcome
                assert (outcome.stage, outcome.code) == (failing.name, failing.expected(outcome.item)), outcome
        for fate in self.fates:
            assert max(fate.finished.values(), default=0) <= 1, f"{fate.name} finished an item twice"
            assert max(fate.calls.values(), default=0) <= fate.attempts, f"{fate.name} tried too often"

    async def run(self) -> None:
        parts = [self.permits] if self.permits else []
        run = self.pipeline.run(self.numbers())
        self.schedule.watch = lambda: self.check(run)
        async with assert_nothing_leaked(*parts, settle_s=1.0):
            task = asyncio.ensure_future(self.consume(run))
            if self.way == "is cancelled":
                self.schedule.victims.add(task)
            await asyncio.wait({task})
            self.schedule.victims.clear()
            if not task.cancelled():
                task.result()
        self.check_outcomes()
        accepted = [outcome.item for outcome in self.got] + list(run.left)
        # An item that the source was about to give when its wait was ended is the source's own again.
        assert sorted(accepted) == self.pulled[: run._accepted], (accepted, self.pulled)
        assert run._accepted >= len(self.pulled) - 1
        if self.way in ("to the end", "waits with timeouts", "changes it"):
            assert len(self.got) == self.count, f"{len(self.got)} of {self.count}"
        assert self.source_closed or not self.pulled

    async def consume(self, run: Run[int, int]) -> None:
        async with run:
            await getattr(self, self.way.replace(" ", "_"))(run)

    async def take(self, run: Run[int, int], count: int = 10**6) -> None:
        taken = 0
        async for outcome in run:
            self.got.append(outcome)
            taken += 1
            if taken >= count:
                return
            if self.random.random() < 0.2:
                await asyncio.sleep(0.1)

    async def to_the_end(self, run: Run[int, int]) -> None:
        await self.take(run)

    async def is_cancelled(self, run: Run[int, int]) -> None:
        await self.take(run)

    async def leaves_early(self, run: Run[int, int]) -> None:
        await self.take(run, self.random.randint(1, 10))

    async def waits_with_timeouts(self, run: Run[int, int]) -> None:
        while True:
            try:
                async with asyncio.timeout(self.random.choice([0, 0.01, 0.2])):
                    self.got.append(await anext(run))
            except StopAsyncIteration:
                return
            except TimeoutError:
                await asyncio.sleep(0.02)

    async def drains(self, run: Run[int, int]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.take(run))
            await asyncio.sleep(self.random.choice([0, 0.1, 0.5]))
            accepted, got = run._accepted, len(self.got)
            report = await run.drain(self.random.choice([0.05, 0.5, 5.0]))
            assert report.abandoned == 0, "every call here can be ended"
            assert report.handed_back == len(run.left)
            assert report.finished == run._handed_on + run._failed - got
            assert report.finished + report.handed_back == run._accepted - got
            assert run._accepted == accepted, "nothing is pulled once it drains"

    async def changes_it(self, run: Run[int, int]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.take(run))
            for _ in range(4):
                await asyncio.sleep(self.random.choice([0, 0.1]))
                name = self.random.choice(self.fates).name
                what = self.random.randrange(3)
                if what == 0:
                    with contextlib.suppress(Closed):
                        await run.resize(name, workers=self.random.randint(1, 4))
                elif what == 1:
                    run.pause(name)
                else:
                    run.pause()
                assert len(run.explain()) == len(self.fates)
            for fate in self.fates:
                run.resume(fate.name)
            run.resume()

    async def breaks_a_part(self, run: Run[int, int]) -> None:
        part = self.random.choice(sorted(run._tasks, key=lambda task: task.get_name()))
        asyncio.get_running_loop().call_later(self.random.choice([0, 0.1, 0.4]), part.cancel)
        with contextlib.suppress(PipelineBroken):
            await self.take(run)


async def play(schedule: Schedule) -> None:
    await Scenario(schedule).run()


@pytest.mark.schedules
def test_under_any_schedule_no_item_is_lost_doubled_or_misplaced_and_nothing_leaks() -> None:
    run_schedules(play, 1500, (0.005, 0.05))


def test_a_check_that_fails_at_any_one_step_fails_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    check, steps, fails_at = Scenario.check, 0, 0

    def count(scenario: Scenario, run: Run[int, int]) -> None:
        nonlocal steps
        steps += 1
        check(scenario, run)
        assert steps != fails_at, "what the check says"

    monkeypatch.setattr(Scenario, "check", count)
    run_virtual(play(schedule := Schedule(4)), schedule=schedule)
    assert steps > 50
    for step in range(1, steps + 1, steps // 20):
        steps, fails_at = 0, step
        with pytest.raises(AssertionError, match="what the check says") as found:
            run_virtual(play(schedule := Schedule(4)), schedule=schedule)
        assert "schedule seed 4" in found.value.__notes__[0]
