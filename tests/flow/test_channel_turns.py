"""What stepping back for a turn promises: it is cheaper than waiting in line, and does not change who is next."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from headrace.flow import Closed, Ended, Receiver, Sender, channel
from headrace.flow.testing import assert_nothing_leaked, run_virtual, turns

Ends = tuple[Sender[Any], Receiver[Any]]
KINDS = ["plain", "weighed"]


def make(kind: str, capacity: int) -> Ends:
    return channel(capacity) if kind == "plain" else channel(capacity, weight_capacity=100, weigh=lambda item: 1)


def task(call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.create_task(call)


async def a_sender_that_stepped_back(sender: Sender[Any], receiver: Receiver[Any], item: Any) -> asyncio.Task[Any]:
    """The channel of one is full, its receiver is woken and about to run, and `item` waits to come in."""
    receiving = task(receiver.recv())
    await turns(2)

    async def send() -> None:
        sender.try_send("first")  # wakes the receiver, which runs in the next turn
        await sender.send(item)

    sending = task(send())
    await turns(1)
    s = sender.statistics()
    assert (s.waiting_senders, len(sender._slots.senders_line)) == (1, 0), "it did not step back"
    receiving.add_done_callback(lambda done: None)
    return sending


@pytest.mark.parametrize("kind", KINDS)
def test_a_sender_that_stepped_back_comes_in_before_all_who_came_later(kind: str) -> None:
    async def main() -> None:
        sender, receiver = make(kind, 1)
        async with assert_nothing_leaked(sender):
            sending = await a_sender_that_stepped_back(sender, receiver, "second")
            later = [task(sender.send(item)) for item in ("third", "fourth")]
            assert [await receiver.recv() for _ in range(3)] == ["second", "third", "fourth"]
            await asyncio.gather(sending, *later)

    run_virtual(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_sender_that_is_cancelled_while_it_steps_back_has_sent_nothing_and_its_slot_goes_to_the_next(
    kind: str,
) -> None:
    async def main() -> None:
        sender, receiver = make(kind, 1)
        async with assert_nothing_leaked(sender):
            sending = await a_sender_that_stepped_back(sender, receiver, "second")
            later = task(sender.send("third"))
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert await receiver.recv() == "third"
            await later
            assert sender.statistics().waiting_senders == 0

    run_virtual(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_channel_that_closes_gives_the_item_back_to_a_sender_that_stepped_back(kind: str) -> None:
    async def main() -> None:
        sender, receiver = make(kind, 1)
        sending = await a_sender_that_stepped_back(sender, receiver, "second")
        receiver.close()
        with pytest.raises(Closed) as refused:
            await sending
        assert refused.value.item == "second"
        with pytest.raises(Ended):
            await receiver.recv()

    run_virtual(main())


def test_a_receiver_that_steps_back_is_served_before_those_who_line_up_behind_it() -> None:
    async def main() -> None:
        sender, receiver = channel(2)
        order: list[tuple[str, Any]] = []

        async def consume(name: str, count: int) -> None:
            for _ in range(count):
                order.append((name, await receiver.recv()))

        async def produce() -> None:
            for item in range(9):
                await sender.send(item)

        tasks = [task(produce()), task(consume("a", 3)), task(consume("b", 3)), task(consume("c", 3))]
        await asyncio.gather(*tasks)
        assert [item for _, item in order] == list(range(9))
        assert [name for name, _ in order].count("a") == 3

    run_virtual(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_receiver_that_is_cancelled_while_it_steps_back_takes_nothing(kind: str) -> None:
    async def main() -> None:
        sender, receiver = make(kind, 1)
        async with assert_nothing_leaked(sender):
            received: list[Any] = []

            async def consume() -> None:
                while True:
                    received.append(await receiver.recv())

            consuming = task(consume())

            async def produce() -> None:
                for item in range(20):
                    await sender.send(item)

            sending = task(produce())
            while not sender._slots.receivers_stepping:  # turns are the subject
                assert not sending.done(), "it never stepped back"
                await asyncio.sleep(0)
            consuming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await consuming
            while len(received) < 20:
                received.append(await receiver.recv())
            assert received == list(range(20))
            await sending

    run_virtual(main())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tasks", [1, 4])
def test_senders_and_receivers_that_keep_pace_do_not_wake_each_other_through_the_lines(kind: str, tasks: int) -> None:
    async def main() -> None:
        sender, receiver = make(kind, 8)
        count = 800

        async def produce() -> None:
            for item in range(count // tasks):
                await sender.send(item)

        async def consume() -> None:
            for _ in range(count // tasks):
                await receiver.recv()

        await asyncio.gather(*(produce() for _ in range(tasks)), *(consume() for _ in range(tasks)))
        # Each channelful would be a grant for every task at either end.
        grants = sender._slots.senders_line.grants + sender._slots.receivers_line.grants
        assert grants < 0.2 * 2 * tasks * count / 8

    run_virtual(main())


def test_whoever_finds_nothing_after_stepping_back_sleeps_and_takes_no_more_turns() -> None:
    async def main() -> None:
        sender, receiver = channel(1)
        sending = await a_sender_that_stepped_back(sender, receiver, "second")
        late = task(sender.send("third"))
        await turns(5)
        assert sending.done()
        slots = sender._slots
        assert (slots.senders_stepping, len(slots.senders_line), slots.owed) == (0, 1, 0)
        assert [await receiver.recv(), await receiver.recv()] == ["second", "third"]
        await late

    run_virtual(main())
