"""Documents of one stream keep their order, whoever of them is ready first, and whoever of them fails."""

from __future__ import annotations

import asyncio
import random

from service_support import BATCH, body_of, jpeg, serving, until

from headrace.flow import Admitted
from headrace.service.reception import Submission
from headrace.service.turn import Turn


def order_of(readiness: list[int], failing: set[int]) -> list[int]:
    """In which order the turns come when documents get ready in this order, and some fail before their turn."""

    async def run() -> list[int]:
        turns: list[Turn] = []
        came: list[int] = []
        ready = [asyncio.Event() for _ in readiness]
        for number in range(len(readiness)):
            turns.append(Turn(turns[number - 1] if number else None))

        async def one(number: int) -> None:
            await ready[number].wait()
            if number not in failing:
                await turns[number].comes()
                came.append(number)
            turns[number].pass_on()

        tasks = [asyncio.create_task(one(number)) for number in range(len(readiness))]
        for number in readiness:
            ready[number].set()
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        return came

    return asyncio.run(run())


def test_turns_come_in_order_whoever_is_ready_first():
    assert order_of([3, 1, 0, 2], set()) == [0, 1, 2, 3]


def test_one_that_fails_early_lets_nobody_overtake_those_before_it():
    assert order_of([1, 2, 0], {1}) == [0, 2]


def test_any_readiness_and_any_failures_keep_the_order():
    chance = random.Random(7)
    for _ in range(200):
        count = chance.randint(1, 12)
        readiness = chance.sample(range(count), count)
        failing = {number for number in range(count) if chance.random() < 0.3}
        assert order_of(readiness, failing) == [number for number in range(count) if number not in failing]


def test_a_turn_that_came_remembers_nobody():
    async def run() -> None:
        first = Turn()
        second = Turn(first)
        first.pass_on()
        first.pass_on()
        await second.comes()
        assert second._before is None

    asyncio.run(run())


def test_who_is_cancelled_while_it_waits_for_its_turn_leaves_nothing_behind(tmp_path):
    async def run() -> None:
        async with serving(tmp_path / "w") as reception:
            submission = Submission("", BATCH)
            decision = reception.decide(submission)
            assert isinstance(decision, Admitted)
            blocked = Turn(Turn())  # the one before never passes on
            task = asyncio.create_task(reception.accept(submission, decision.permit, body_of(jpeg(1)), blocked))
            await until(lambda: reception.capacity().bound("upload_buffer").used > 0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
            assert decision.permit.ended
            assert reception.capacity().bound("upload_buffer").used == 0
            assert await reception.ledger() == []

    asyncio.run(run())
