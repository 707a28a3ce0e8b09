"""What stepping back for a turn promises of an intake: who is next does not change, and nothing stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from headrace.flow import Closed, Full, Rate
from headrace.flow.intake import Intake
from headrace.flow.testing import run_virtual, turns

KINDS: dict[str, dict[str, Any]] = {"plain": {}, "rated": {"rate": Rate(1000.0, 50.0)}}


def task(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.create_task(call)


async def a_sender_that_stepped_back(intake: Intake[Any], item: Any) -> tuple[asyncio.Task[Any], asyncio.Task[Any]]:
    """The intake of one is full, its receiver is woken and about to run, and `item` waits to come in."""

    async def receive() -> None:
        (await intake.recv()).done()

    async def send() -> None:
        intake.try_admit("first")  # wakes the receiver, which runs in the next turn
        await intake.admit(item)

    receiving = task(receive())
    await turns(2)
    sending = task(send())
    await turns(1)
    s = intake.statistics()
    assert (s.waiting_senders, len(intake._senders), s.held) == (1, 0, 1), "it did not step back"
    return sending, receiving


@pytest.mark.parametrize("kind", KINDS)
def test_a_sender_that_stepped_back_comes_in_before_all_who_came_later(kind: str) -> None:
    async def main() -> None:
        intake: Intake[Any] = Intake(1, **KINDS[kind])
        sending, receiving = await a_sender_that_stepped_back(intake, "second")
        later = [task(intake.admit("third")), task(intake.admit("fourth", deadline_s=9.0))]
        with pytest.raises(Full):
            intake.try_admit("too early")
        order = []
        for _ in range(3):
            with await intake.recv() as item:
                order.append(item)
        assert order == ["second", "third", "fourth"]
        await asyncio.gather(sending, receiving, *later)
        s = intake.statistics()
        assert (s.admitted, s.done, s.held, s.waiting_senders, s.waiting_receivers) == (4, 4, 0, 0, 0)

    run_virtual(main())


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_for_a_sender_that_is_cancelled_while_it_steps_back_goes_to_the_next(kind: str) -> None:
    async def main() -> None:
        intake: Intake[Any] = Intake(1, **KINDS[kind])
        sending, receiving = await a_sender_that_stepped_back(intake, "second")
        later = task(intake.admit("third", deadline_s=9.0))
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        with await intake.recv() as item:
            assert item == "third"
        await asyncio.gather(receiving, later)
        s = intake.statistics()
        assert (s.admitted, s.held, s.waiting_senders, s.waiting_receivers) == (2, 0, 0, 0)

    run_virtual(main())


def test_an_intake_that_closes_gives_the_item_back_to_a_sender_that_stepped_back() -> None:
    async def main() -> None:
        intake: Intake[Any] = Intake(1)
        sending, receiving = await a_sender_that_stepped_back(intake, "second")
        intake.close()
        with pytest.raises(Closed) as refused:
            await sending
        assert refused.value.item == "second"
        await receiving
        assert intake.statistics().admitted == 1

    run_virtual(main())


def test_a_receiver_that_is_cancelled_while_it_steps_back_takes_nothing() -> None:
    async def main() -> None:
        intake: Intake[int] = Intake(2)
        received: list[int] = []

        async def consume() -> None:
            with intake.lane() as lane:
                while len(received) < 20:
                    received.append(await lane.recv())

        async def produce() -> None:
            for item in range(20):
                await intake.admit(item)

        consuming, sending = task(consume()), task(produce())
        while not intake.receivers_stepping:  # turns are the subject
            assert not sending.done(), "it never stepped back"
            await asyncio.sleep(0)
        assert intake.statistics().waiting_receivers == 1
        consuming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consuming
        assert intake.receivers_stepping == 0
        await asyncio.gather(consume(), sending)
        assert received == list(range(20))
        assert intake.held == 0

    run_virtual(main())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tasks", [1, 4])
def test_senders_and_receivers_that_keep_pace_do_not_wake_each_other_through_the_lines(kind: str, tasks: int) -> None:
    async def main() -> None:
        intake: Intake[int] = Intake(8, rate=None if kind == "plain" else Rate(1e9, 1e6))
        count = 800

        async def produce() -> None:
            for item in range(count // tasks):
                await intake.admit(item)

        async def consume() -> None:
            with intake.lane() as lane:
                for _ in range(count // tasks):
                    await lane.recv()

        await asyncio.gather(*(produce() for _ in range(tasks)), *(consume() for _ in range(tasks)))
        # Each time it is full would be a grant for every task at either end.
        assert intake._senders.grants + intake._receivers.grants < 0.2 * 2 * tasks * count / 8

    run_virtual(main())
