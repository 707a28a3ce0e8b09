"""Seeded schedules of streamed stages: replies, deaths and slow items of the pool, in any order, under any ending.

The workers are scripted (`execution.scripted`); the map and the pipeline around it are what runs otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from execution.scripted import FATES, Script, ScriptedPool

from headrace.execution.outcome import WORKER_LOST
from headrace.flow.testing import Schedule, assert_nothing_leaked, run_schedules
from headrace.pipeline import Failure, Pipeline, Run, Stage

WAYS = (
    "to the end",
    "to the end",
    "leaves early",
    "is cancelled",
    "waits with timeouts",
    "drains",
    "pool drains",
    "pauses",
)


class Scenario:
    def __init__(self, schedule: Schedule) -> None:
        r = self.random = schedule.random
        self.schedule = schedule
        self.way = r.choice(WAYS)
        self.count = r.choice([0, 1, 5, 12])
        self.script = Script(r, self.count)
        self.lossy = r.random() < 0.3
        self.pool = ScriptedPool(self.script, r.randint(1, 3), r.choice([None, 1]), None, lossy=self.lossy)
        self.attempts = r.choice([1, 2])
        self.ordered = r.random() < 0.75
        self.bad = {n for n in range(self.count) if r.random() < 0.1}  # these fail in the stage before
        budget = r.choice([None, None, 6])
        streamed = Stage(
            pool=self.pool,  # type: ignore[arg-type]
            name="map",
            streamed=True,
            window=r.choice([None, 1, 4]),
            capacity=r.choice([None, 1]),
            ordered=self.ordered,
            attempts=self.attempts,
            byte_budget=budget,
            weigh=None if budget is None else (lambda item: 1 + item % 3),
        )
        before = [Stage(self.first, name="first", workers=r.choice([1, 2]))] if self.bad or r.random() < 0.5 else []
        after = [Stage(self.last, name="last", workers=r.choice([1, 2]))] if r.random() < 0.5 else []
        self.pipeline: Pipeline[int, int] = Pipeline(
            [*before, streamed, *after], ready=r.choice([1, 3]), window=r.choice([None, 2])
        )
        self.pulled: list[int] = []
        self.got: list[Any] = []

    async def first(self, item: int) -> int:
        await asyncio.sleep(self.random.choice([0, 0.05]))
        if item in self.bad:
            raise ValueError(item)
        return item

    async def last(self, value: int) -> int:
        await asyncio.sleep(self.random.choice([0, 0.05]))
        return value

    async def numbers(self) -> AsyncIterator[int]:
        for number in range(self.count):
            if self.random.random() < 0.3:
                await asyncio.sleep(0.1)
            self.pulled.append(number)
            yield number

    def check(self, run: Run[int, int]) -> None:
        in_flight = run.in_flight
        assert run._accepted == run._handed_on + run._failed + in_flight + len(run.left), run.statistics()
        assert in_flight <= run.window, run.statistics()

    def check_outcomes(self) -> None:
        items = [outcome.item for outcome in self.got]
        assert len(items) == len(set(items)), f"doubled: {items}"
        if self.ordered:
            assert items == self.pulled[: len(items)], f"order: {items}"
        for outcome in self.got:
            if outcome.item in self.bad:
                assert (outcome.stage, outcome.code) == ("first", "exception"), outcome
                continue
            fate = FATES[self.script.fates.get(outcome.item, "ok")]
            if isinstance(outcome, Failure):
                lost = outcome.code == WORKER_LOST and outcome.item in self.script.lost
                assert outcome.stage == "map", outcome
                assert outcome.code == fate or lost, outcome
            else:
                assert fate is None, outcome
                assert outcome.value == -outcome.item, outcome
                assert self.script.charged[outcome.item] < self.attempts, outcome

    async def strike(self) -> None:
        while self.lossy:
            await asyncio.sleep(self.random.choice([0.0, 0.02, 0.5]))
            if self.pool.live:
                self.random.choice(self.pool.live).kill()

    async def run(self) -> None:
        run = self.pipeline.run(self.numbers())
        self.schedule.watch = lambda: self.check(run)
        async with assert_nothing_leaked(settle_s=1.0):
            striking = asyncio.create_task(self.strike())
            task = asyncio.ensure_future(self.consume(run))
            if self.way == "is cancelled":
                self.schedule.victims.add(task)
            await asyncio.wait([task])
            self.schedule.victims.clear()
            striking.cancel()
            await self.pool.close()
        if not task.cancelled():
            task.result()
        self.check_outcomes()
        accepted = [outcome.item for outcome in self.got] + list(run.left)
        assert sorted(accepted) == self.pulled[: run._accepted], (accepted, self.pulled)
        if self.way in ("to the end", "waits with timeouts", "pauses"):
            assert len(self.got) == self.count, f"{len(self.got)} of {self.count}"

    async def consume(self, run: Run[int, int]) -> None:
        async with run:
            if self.way == "waits with timeouts":
                await self.with_timeouts(run)
            elif self.way == "leaves early":
                await self.take(run, self.random.randint(1, 6))
            elif self.way in ("drains", "pool drains", "pauses"):
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.take(run))
                    await getattr(self, self.way.replace(" ", "_"))(run)
            else:
                await self.take(run)

    async def take(self, run: Run[int, int], count: int = 10**6) -> None:
        async for outcome in run:
            self.got.append(outcome)
            if len(self.got) >= count:
                return
            if self.random.random() < 0.2:
                await asyncio.sleep(0.1)

    async def with_timeouts(self, run: Run[int, int]) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.random.choice([0, 0.01, 0.2])):
                    try:
                        self.got.append(await anext(run))
                    except StopAsyncIteration:
                        return
            await asyncio.sleep(0.02)

    async def drains(self, run: Run[int, int]) -> None:
        await asyncio.sleep(self.random.choice([0, 0.1, 0.5]))
        got = len(self.got)
        report = await run.drain(self.random.choice([0.05, 0.5, 5.0]))
        assert report.finished == run._handed_on + run._failed - got
        assert report.handed_back + report.abandoned == len(run.left)

    async def pool_drains(self, _: Run[int, int]) -> None:
        await asyncio.sleep(self.random.choice([0, 0.1, 0.5]))
        if self.pool.attached is not None:
            await self.pool.attached.drain(self.random.choice([0.05, 5.0]))

    async def pauses(self, run: Run[int, int]) -> None:
        for _ in range(3):
            await asyncio.sleep(self.random.choice([0, 0.1]))
            self.random.choice([run.pause, run.resume])(self.random.choice([None, "map"]))
        run.resume("map")
        run.resume()


async def play(schedule: Schedule) -> None:
    await Scenario(schedule).run()


@pytest.mark.schedules
def test_in_any_schedule_of_replies_deaths_and_ends_a_streamed_stage_keeps_every_item_once_and_in_its_place() -> None:
    run_schedules(play, 1500, (0.01, 0.1))
