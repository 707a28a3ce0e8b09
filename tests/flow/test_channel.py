"""What a channel promises, one promise at a time."""

from __future__ import annotations

import asyncio
import itertools
import warnings
from collections import deque
from typing import Any

import pytest

from headrace.flow import Closed, Empty, Ended, Expired, Full, Gauge, Receiver, Sender, channel
from headrace.flow.ages import STAMP_S
from headrace.flow.testing import Schedule, assert_nothing_leaked, run_schedules, run_virtual, turns

Ends = tuple[Sender[Any], Receiver[Any]]


def weighed(capacity: int, weight_capacity: int) -> Ends:
    return channel(capacity, weight_capacity=weight_capacity, weigh=lambda item: item)


async def drain(receiver: Receiver[Any]) -> list[Any]:
    return [item async for item in receiver]


def test_items_come_out_in_the_order_in_which_they_went_in() -> None:
    async def main() -> list[int]:
        sender, receiver = channel(3)

        async def produce() -> None:
            with sender:
                for i in range(100):
                    await sender.send(i)

        task = asyncio.create_task(produce())
        items = await drain(receiver)
        await task
        return items

    assert run_virtual(main()) == list(range(100))


def test_k26_a_bound_of_five_accepts_exactly_five_of_fifty_offers_and_tells_the_others() -> None:
    """K26: a bound that is off under bursts (triton #5783, rabbitmq #8966)."""

    async def main() -> None:
        sender, receiver = channel(5)
        refused: list[int] = []

        async def offer(i: int) -> None:
            try:
                sender.try_send(i)
            except Full as full:
                refused.append(full.item)

        await asyncio.gather(*(offer(i) for i in range(50)))
        assert len(refused) == 45
        assert sender.statistics().depth == 5
        sender.close()
        assert sorted(refused + await drain(receiver)) == list(range(50))

    run_schedules(lambda _: main(), 20, [0.0])


def test_a_send_that_finds_no_room_by_its_deadline_is_expired_and_brings_the_item_back() -> None:
    async def main() -> None:
        sender, receiver = channel(1)
        await sender.send("first")
        began = asyncio.get_running_loop().time()
        with pytest.raises(Expired) as refused:
            await sender.send("second", deadline_s=2.5)
        assert refused.value.item == "second"
        assert asyncio.get_running_loop().time() - began == pytest.approx(2.5)
        async with assert_nothing_leaked(sender):
            assert receiver.try_recv() == "first"
        with pytest.raises(Empty):
            receiver.try_recv()

    run_virtual(main())


@pytest.mark.parametrize("capacity", [0, 1, 2])
def test_close_by_the_receiver_refuses_senders_and_keeps_what_is_buffered_readable(capacity: int) -> None:
    async def main() -> None:
        sender, receiver = channel(capacity)
        for i in range(capacity):
            sender.try_send(i)
        waiting = asyncio.create_task(sender.send("late"))
        await turns(3)
        receiver.close()
        with pytest.raises(Closed) as refused:
            await waiting
        assert refused.value.item == "late"
        with pytest.raises(Closed) as at_once:
            sender.try_send("later")
        assert at_once.value.item == "later"
        assert await drain(receiver) == list(range(capacity))
        with pytest.raises(Ended):
            await receiver.recv()
        with pytest.raises(Ended):
            receiver.try_recv()

    run_virtual(main())


def test_the_channel_closes_with_the_last_of_its_cloned_senders() -> None:
    async def main() -> None:
        sender, receiver = channel(4)
        clone = sender.clone()
        sender.close()
        sender.close()
        with pytest.raises(Closed) as refused:
            sender.try_send(0)
        assert refused.value.item == 0
        with pytest.raises(Closed):
            await sender.send(0)
        with pytest.raises(Closed):
            sender.clone()
        assert not clone.closed
        await clone.send(1)
        waiting = asyncio.create_task(drain(receiver))
        await turns(3)
        clone.close()
        assert await waiting == [1]

    run_virtual(main())


def test_the_channel_stays_open_until_the_last_of_its_cloned_receivers_closes() -> None:
    async def main() -> None:
        sender, receiver = channel(4)
        clone = receiver.clone()
        receiver.close()
        sender.try_send(1)
        clone.close()
        with pytest.raises(Closed):
            sender.try_send(2)
        assert clone.try_recv() == 1

    run_virtual(main())


def test_every_waiting_receiver_is_told_when_the_channel_ends() -> None:
    async def main() -> None:
        sender, receiver = channel(4)
        waiting = [asyncio.create_task(receiver.recv()) for _ in range(3)]
        await turns(3)
        sender.close()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [Ended] * 3

    run_virtual(main())


def test_a_rendezvous_lets_an_item_in_only_for_a_receiver_that_waits() -> None:
    async def main() -> None:
        sender, receiver = channel(0)
        with pytest.raises(Full):
            sender.try_send(1)
        sending = asyncio.create_task(sender.send(1))
        await turns(5)
        assert not sending.done()
        assert sender.statistics().depth == 0
        assert await receiver.recv() == 1
        await sending

        receivers = [asyncio.create_task(receiver.recv()) for _ in range(2)]
        await turns(2)
        sender.try_send(2)
        sender.try_send(3)
        with pytest.raises(Full):
            sender.try_send(4)
        assert await asyncio.gather(*receivers) == [2, 3]

    run_virtual(main())


def test_the_weight_of_all_items_stays_within_its_capacity() -> None:
    async def main() -> None:
        sender, receiver = weighed(10, 10)
        sender.try_send(4)
        sender.try_send(6)
        with pytest.raises(Full):
            sender.try_send(1)
        assert sender.statistics().weight == 10
        assert receiver.try_recv() == 4
        sender.try_send(3)
        assert sender.statistics().weight == 9

    run_virtual(main())


def test_an_item_heavier_than_the_whole_capacity_is_let_in_when_the_channel_is_empty() -> None:
    async def main() -> None:
        sender, receiver = weighed(10, 10)
        sender.try_send(1)
        heavy = asyncio.create_task(sender.send(1000))
        light = asyncio.create_task(sender.send(2))
        await turns(5)
        assert not heavy.done()
        assert not light.done()  # it would fit, but it came later
        assert await receiver.recv() == 1
        await heavy
        assert not light.done()
        assert await receiver.recv() == 1000
        await light
        assert await receiver.recv() == 2
        assert sender.statistics().weight == 0

    run_virtual(main())


def test_a_reserved_slot_counts_as_taken_until_it_is_filled_or_released() -> None:
    async def main() -> None:
        sender, receiver = channel(2)
        slot = await sender.reserve()
        sender.try_send("a")
        with pytest.raises(Full):
            sender.try_send("b")
        slot.send("c")
        with pytest.raises(ValueError, match="before"):
            slot.send("d")
        assert [receiver.try_recv(), receiver.try_recv()] == ["a", "c"]
        with await sender.reserve():
            assert sender.statistics().reserved == 1
        assert sender.statistics().reserved == 0

    run_virtual(main())


def test_a_slot_of_a_channel_that_closed_brings_the_item_back() -> None:
    async def main() -> None:
        sender, receiver = channel(2)
        slot = await sender.reserve()
        receiver.close()
        with pytest.raises(Closed) as refused:
            slot.send("late")
        assert refused.value.item == "late"
        assert sender.statistics().reserved == 0

    run_virtual(main())


def test_a_slot_takes_no_item_heavier_than_what_was_reserved_and_gives_back_what_is_lighter() -> None:
    async def main() -> None:
        sender, _ = weighed(10, 10)
        slot = await sender.reserve(weight=8)
        with pytest.raises(ValueError, match="reserved for a weight of 8"):
            slot.send(9)
        waiting = asyncio.create_task(sender.send(5))
        await turns(3)
        assert not waiting.done()
        slot.send(3)
        await waiting
        assert sender.statistics().weight == 8

    run_virtual(main())


def test_a_forgotten_slot_comes_back_with_a_warning() -> None:
    async def main() -> None:
        sender, _ = channel(1)
        slot = await sender.reserve()
        waiting = asyncio.create_task(sender.send(1))
        await turns(3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del slot
        assert [w.category for w in caught] == [ResourceWarning]
        await waiting

    run_virtual(main())


def test_statistics_tell_depth_waiters_and_the_age_of_the_oldest() -> None:
    async def main() -> None:
        sender, receiver = channel(2)
        sender.try_send("a")
        await asyncio.sleep(3)
        sender.try_send("b")
        waiting = asyncio.create_task(sender.send("c"))
        await asyncio.sleep(2)
        s = receiver.statistics()
        assert (s.depth, s.limit, s.waiting_senders, s.oldest_age_s) == (2, 2, 1, 5.0)
        receiver.try_recv()
        await waiting
        assert receiver.statistics().oldest_age_s == 2.0
        assert await receiver.recv_many(9) == ["b", "c"]
        receiving = asyncio.create_task(receiver.recv())
        await turns(3)
        s = receiver.statistics()
        assert (s.depth, s.waiting_receivers, s.oldest_age_s) == (0, 1, 0.0)
        sender.close()
        with pytest.raises(Ended):
            await receiving

    run_virtual(main())


def test_an_age_is_never_too_low_and_at_most_a_stamp_too_high_and_stamps_are_bounded_by_the_items() -> None:
    async def main(schedule: Schedule) -> None:
        r = schedule.random
        sender, receiver = channel(5)
        came: deque[float] = deque()
        loop = asyncio.get_running_loop()
        for _ in range(400):
            await asyncio.sleep(r.choice([0.0, 0.001, 0.004, 0.02, 1.0]))
            for _ in range(r.randint(0, 3)):
                if len(came) < 5:
                    sender.try_send(None)
                    came.append(loop.time())
            for _ in range(r.randint(0, 3)):
                if came:
                    receiver.try_recv() if r.random() < 0.5 else await receiver.recv()
                    came.popleft()
            age_s = receiver.statistics().oldest_age_s
            true_s = loop.time() - came[0] if came else 0.0
            assert true_s - 1e-9 <= age_s <= true_s + STAMP_S + 1e-9
            assert len(sender._slots.stamps) <= 5 + 1

    run_schedules(main, 20, [0.0])


def test_the_depth_gauge_follows_every_change() -> None:
    async def main() -> None:
        gauge = Gauge("depth")
        seen: list[float] = []
        gauge.watch(seen.append)
        sender, receiver = channel(3, depth_gauge=gauge)
        sender.try_send(1)
        await sender.send(2)
        await receiver.recv()
        receiver.try_recv()
        depths = [seen[0]] + [now for before, now in itertools.pairwise(seen) if now != before]
        assert depths == [0, 1, 2, 1, 0]

    run_virtual(main())


@pytest.mark.parametrize(
    "options",
    [
        {"capacity": -1},
        {"capacity": 1, "weight_capacity": 5},
        {"capacity": 1, "weigh": len},
        {"capacity": 1, "weigh": len, "weight_capacity": 0},
    ],
)
def test_a_channel_that_makes_no_sense_is_not_made(options: dict[str, Any]) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="capacity"):
            channel(**options)

    run_virtual(main())


def test_a_negative_weight_is_refused() -> None:
    async def main() -> None:
        sender, _ = weighed(10, 10)
        with pytest.raises(ValueError, match="weigh"):
            sender.try_send(-1)
        assert sender.statistics().depth == 0

    run_virtual(main())
