"""What sending in batches promises: how far it got is known however it ends."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import Any

import pytest

from headrace.flow import Closed, Expired, Receiver, Sender, Sending, channel
from headrace.flow.testing import Schedule, assert_nothing_leaked, cancelled_at, run_schedules, run_virtual, turns

Ends = tuple[Sender[Any], Receiver[Any]]
KINDS = ["plain", "weighed", "rendezvous"]


def make(kind: str) -> Ends:
    if kind == "plain":
        return channel(4)
    if kind == "rendezvous":
        return channel(0)
    return channel(9, weight_capacity=4, weigh=lambda item: 1 + item % 2)


async def drain(receiver: Receiver[Any]) -> list[Any]:
    return [item async for item in receiver]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 4, 5, 50])
def test_a_batch_arrives_whole_and_in_order_whatever_its_length(kind: str, count: int) -> None:
    async def main() -> None:
        sender, receiver = make(kind)
        draining = asyncio.create_task(drain(receiver))
        await turns(2)
        assert await sender.send_many(range(count)) == count
        sender.close()
        assert await draining == list(range(count))

    run_virtual(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_batch_knows_which_items_are_in_the_channel(kind: str) -> None:
    async def main(at: int) -> bool:
        sender, receiver = make(kind)
        received: list[int] = []

        async def consume() -> None:
            async for item in receiver:
                received.append(item)
                await asyncio.sleep(0)

        consumer = asyncio.create_task(consume())
        sending: Sending[int] = sender.send_many(range(20))
        async with assert_nothing_leaked(sender):
            struck = await cancelled_at(at, sending)
            sender.close()
            await consumer
        assert received == list(range(sending.accepted))
        return struck

    at = 0
    while run_virtual(main(at)):
        at += 1
    assert at > 2


def test_a_batch_that_finds_no_room_by_its_deadline_brings_back_what_is_left() -> None:
    async def main() -> None:
        sender, receiver = channel(4)
        sending = sender.send_many("abcdefgh", deadline_s=2.0)
        receiving = asyncio.get_running_loop().call_later(1.0, receiver.try_recv)
        with pytest.raises(Expired) as refused:
            await sending
        assert asyncio.get_running_loop().time() == pytest.approx(2.0)
        assert (sending.accepted, refused.value.item) == (5, "fgh")
        assert receiving.when() == 1.0
        sender.close()
        assert await drain(receiver) == list("bcde")

    run_virtual(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_whose_channel_closes_brings_back_what_is_left(kind: str) -> None:
    async def main() -> None:
        sender, receiver = make(kind)
        sending = sender.send_many(list(range(20)))
        task = asyncio.create_task(sending)
        await turns(3)
        receiver.close()
        with pytest.raises(Closed) as refused:
            await task
        assert refused.value.item == list(range(20))[sending.accepted :]
        assert await drain(receiver) == list(range(sending.accepted))
        with pytest.raises(Closed) as at_once:
            await sender.send_many([1, 2])
        assert at_once.value.item == [1, 2]

    run_virtual(main())


def test_a_batch_and_single_senders_are_served_in_order_of_arrival() -> None:
    async def main() -> list[Any]:
        sender, receiver = channel(2)
        await sender.send_many(["a", "b"])
        tasks = [
            asyncio.create_task(sender.send("c")),
            asyncio.create_task(sender.send_many(["d", "e", "f"])),
            asyncio.create_task(sender.send("g")),
        ]
        await turns(3)
        received = [await receiver.recv() for _ in range(7)]
        await asyncio.gather(*tasks)
        return received

    received = run_virtual(main())
    assert received[:4] == ["a", "b", "c", "d"]
    assert received.index("g") < received.index("f")  # whoever waits is not passed by a batch that goes on


def test_a_batch_that_is_never_awaited_sends_nothing_and_warns() -> None:
    async def main() -> None:
        sender, _ = channel(2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sender.send_many([1])
            gc.collect()
        assert ["never awaited" in str(warning.message) for warning in caught] == [True]
        assert sender.statistics().depth == 0
        sending = sender.send_many([1])
        sending.close()
        assert (sending.accepted, sender.statistics().depth) == (0, 0)

    run_virtual(main())


def test_a_receiver_of_many_that_was_woken_takes_the_whole_burst_and_those_behind_it_are_not_forgotten() -> None:
    async def main() -> None:
        sender, receiver = channel(8)
        first = asyncio.create_task(receiver.recv_many(3))
        second = asyncio.create_task(receiver.recv_many(8))
        third = asyncio.create_task(receiver.recv())
        await turns(3)
        for i in range(5):
            sender.try_send(i)
        assert await first == [0, 1, 2]
        assert await second == [3, 4]
        await turns(3)
        assert not third.done()
        sender.try_send(5)
        assert await third == 5

    run_virtual(main())


def test_a_woken_receiver_of_many_that_is_cancelled_leaves_the_burst_to_those_behind_it() -> None:
    async def main(schedule: Schedule) -> None:
        sender, receiver = channel(8)
        first = asyncio.create_task(receiver.recv_many(8))
        others = [asyncio.create_task(receiver.recv()) for _ in range(3)]
        await turns(8)
        for i in range(3):
            sender.try_send(i)
        first.cancel()
        await asyncio.wait([first])
        taken = [] if first.cancelled() else first.result()
        sender.close()
        results = await asyncio.gather(*others, return_exceptions=True)
        assert sorted(taken + [r for r in results if isinstance(r, int)]) == [0, 1, 2]  # who runs first, takes first

    run_schedules(main, 50, [0.0])
