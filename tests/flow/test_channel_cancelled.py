"""What a channel promises to those who time out, are cancelled, or linger for more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.flow import Closed, Ended, Receiver, Sender, channel
from headrace.flow.testing import Schedule, assert_nothing_leaked, cancelled_at, run_schedules, run_virtual, turns

Ends = tuple[Sender[Any], Receiver[Any]]


def weighed(capacity: int, weight_capacity: int) -> Ends:
    return channel(capacity, weight_capacity=weight_capacity, weigh=lambda item: item)


async def drain(receiver: Receiver[Any]) -> list[Any]:
    return [item async for item in receiver]


def test_those_behind_a_heavy_head_go_on_when_it_gives_up() -> None:
    async def main() -> None:
        sender, _receiver = weighed(10, 10)
        sender.try_send(5)
        heavy = asyncio.create_task(sender.send(9))
        light = asyncio.create_task(sender.send(2))
        await turns(3)
        heavy.cancel()
        await light
        assert sender.statistics().weight == 7

    run_virtual(main())


def test_recv_many_takes_what_is_there_and_no_more_than_asked() -> None:
    async def main() -> None:
        sender, receiver = channel(8)
        for i in range(6):
            sender.try_send(i)
        assert await receiver.recv_many(4) == [0, 1, 2, 3]
        assert await receiver.recv_many(4) == [4, 5]
        with pytest.raises(ValueError, match="at least one"):
            await receiver.recv_many(0)

    run_virtual(main())


def test_recv_many_lingers_from_the_first_item_on_and_stops_when_it_has_enough() -> None:
    async def main() -> None:
        sender, receiver = channel(8)
        loop = asyncio.get_running_loop()

        async def produce() -> None:
            for i in range(8):
                await asyncio.sleep(1.0)
                await sender.send(i)

        task = asyncio.create_task(produce())
        assert await receiver.recv_many(8, linger_s=2.5) == [0, 1, 2]
        assert loop.time() == pytest.approx(3.5)
        assert await receiver.recv_many(2, linger_s=100.0) == [3, 4]
        assert loop.time() == pytest.approx(5.0)
        sender.close()
        with pytest.raises(Closed):
            await task

    run_virtual(main())


def test_a_lingering_receiver_does_not_keep_a_sender_waiting() -> None:
    async def main() -> None:
        sender, receiver = weighed(100, 10)
        receiving = asyncio.create_task(receiver.recv_many(100, linger_s=1000.0))
        await turns(3)
        await sender.send(6)
        await sender.send(6)
        assert await receiving == [6]
        assert asyncio.get_running_loop().time() == 0.0

    run_virtual(main())


def test_a_cancelled_recv_many_leaves_what_came_while_it_lingered_to_the_others() -> None:
    async def main() -> None:
        sender, receiver = channel(8)
        lingering = asyncio.create_task(receiver.recv_many(8, linger_s=1000.0))
        await turns(3)
        sender.try_send(1)
        sender.try_send(2)
        other = asyncio.create_task(receiver.recv())
        await turns(3)
        assert not other.done()
        lingering.cancel()
        assert await other == 1
        assert receiver.try_recv() == 2

    run_virtual(main())


async def _send_all(sender: Sender[int], accepted: list[int]) -> None:
    for i in range(12):
        await sender.send(i)
        accepted.append(i)


async def _reserve_all(sender: Sender[int], accepted: list[int]) -> None:
    for i in range(12):
        with await sender.reserve(weight=i) as slot:
            await asyncio.sleep(0)
            slot.send(i)
            accepted.append(i)


@pytest.mark.parametrize("work", [_send_all, _reserve_all])
@pytest.mark.parametrize("make", [lambda: channel(0), lambda: channel(1), lambda: channel(2), lambda: weighed(9, 1)])
def test_a_sender_cancelled_at_any_await_has_sent_exactly_what_it_knows_of(
    make: Callable[[], Ends], work: Callable[[Sender[int], list[int]], Awaitable[None]]
) -> None:
    async def main(at: int) -> bool:
        sender, receiver = make()
        accepted: list[int] = []
        consumer = asyncio.create_task(drain(receiver))
        async with assert_nothing_leaked(sender):
            struck = await cancelled_at(at, work(sender, accepted))  # type: ignore[arg-type]
            sender.close()
            received = await consumer
        # The one item on its way when the cancellation came may not be in the channel either.
        assert received == accepted
        return struck

    at = 0
    while run_virtual(main(at)):
        at += 1
    assert at > 2


@pytest.mark.parametrize("linger_s", [0.0, 1.0])
@pytest.mark.parametrize("capacity", [0, 1, 2, 8])
def test_a_receiver_cancelled_at_any_await_loses_nothing(capacity: int, linger_s: float) -> None:
    async def main(at: int) -> bool:
        sender, receiver = channel(capacity)
        received: list[int] = []

        async def produce() -> None:
            with sender:
                for i in range(8):
                    await asyncio.sleep(0.4)
                    await sender.send(i)

        async def consume() -> None:
            while True:
                try:
                    items = await receiver.recv_many(3, linger_s=linger_s)
                except Ended:
                    return
                received.extend(items)

        task = asyncio.create_task(produce())
        async with assert_nothing_leaked(sender):
            struck = await cancelled_at(at, consume())
            received.extend(await drain(receiver))
            await task
        assert received == list(range(8))
        return struck

    at = 0
    while run_virtual(main(at)):
        at += 1
    assert at > 2


def test_k16_a_timeout_on_receive_never_loses_an_item() -> None:
    """K16: a timeout on receive loses an item (asyncio #201, #343; anyio #146)."""

    async def main(schedule: Schedule) -> None:
        sender, receiver = channel(4)
        received: list[int] = []

        async def produce() -> None:
            with sender:
                for i in range(1000):
                    if schedule.random.random() < 0.5:
                        await asyncio.sleep(schedule.random.random())
                    await sender.send(i)

        task = asyncio.create_task(produce())
        timeouts = 0
        while True:
            try:
                async with asyncio.timeout(schedule.random.random() * 0.5):
                    item = await receiver.recv()
            except TimeoutError:
                timeouts += 1
            except Ended:
                break
            else:
                received.append(item)
        await task
        assert received == list(range(1000))
        assert timeouts > 50

    run_schedules(main, 5, [0.0])
