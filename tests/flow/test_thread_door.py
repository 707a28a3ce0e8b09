"""Sending from threads into a channel, on a real event loop: real threads are the subject."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import pytest

from headrace.flow import Closed, Ended, Expired, Permits, PermitSpent, Receiver, Sender, channel

T = TypeVar("T")
TEST_LIMIT_S = 30


def run(main: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(TEST_LIMIT_S):
            return await main()

    return asyncio.run(bounded())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # what a thread does sets no event of the loop
        await asyncio.sleep(0.001)


def start(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def make(kind: str, capacity: int) -> tuple[Sender[Any], Receiver[Any]]:
    if kind == "weighed":
        return channel(capacity, weight_capacity=3, weigh=lambda item: 1)
    return channel(capacity)


@pytest.mark.parametrize(("kind", "capacity"), [("plain", 0), ("plain", 1), ("plain", 8), ("weighed", 8)])
def test_items_of_several_threads_and_the_loop_arrive_once_each_in_order_and_within_the_bound(
    kind: str, capacity: int
) -> None:
    async def main() -> None:
        sender, receiver = make(kind, capacity)
        count, threads = 300, 3

        def produce(k: int) -> None:
            for i in range(count):
                sender.send_blocking((k, i))

        workers = [start(lambda k=k: produce(k)) for k in range(threads)]  # type: ignore[misc]

        async def produce_here() -> None:
            for i in range(count):
                await sender.send((threads, i))

        here = asyncio.create_task(produce_here())
        received: list[tuple[int, int]] = []
        while len(received) < count * (threads + 1):
            received += await receiver.recv_many(5)
            s = receiver.statistics()
            assert s.depth + s.reserved <= max(capacity, 1)
            assert s.weight <= 3
        await here
        for worker in workers:
            worker.join(TEST_LIMIT_S)
        for k in range(threads + 1):
            assert [i for source, i in received if source == k] == list(range(count))
        # What threads had in reserve is there for everybody: the channel can be filled to its bound.
        for i in range(min(capacity, 3)):
            sender.try_send(i)

    run(main)


def test_a_thread_that_finds_no_room_by_its_deadline_is_expired_and_brings_the_item_back() -> None:
    async def main() -> None:
        sender, receiver = channel(1)
        sender.try_send("first")
        refusals: list[Expired] = []

        def produce() -> None:
            try:
                sender.send_blocking("second", deadline_s=0.02)
            except Expired as expired:
                refusals.append(expired)

        thread = start(produce)
        await until(lambda: not thread.is_alive())
        assert [refusal.item for refusal in refusals] == ["second"]
        await until(lambda: sender.statistics().waiting_senders == 0)
        assert receiver.try_recv() == "first"
        sender.try_send("third")
        assert receiver.try_recv() == "third"

    run(main)


def test_threads_that_wait_are_told_when_the_channel_closes_and_what_they_had_sent_is_received() -> None:
    async def main() -> None:
        sender, receiver = channel(4)
        accepted: list[int] = []
        refused: list[int] = []

        def produce() -> None:
            for i in range(100):
                try:
                    sender.send_blocking(i)
                except Closed as closed:
                    refused.append(closed.item)
                    return
                accepted.append(i)

        thread = start(produce)
        await until(lambda: sender.statistics().waiting_senders == 1)
        receiver.close()
        received = [item async for item in receiver]
        await until(lambda: not thread.is_alive())
        assert received == accepted
        assert refused == [len(accepted)]
        with pytest.raises(Closed):
            await asyncio.to_thread(sender.send_blocking, 5)

    run(main)


def test_a_sender_in_the_loop_does_not_wait_for_slots_that_threads_do_not_use() -> None:
    async def main() -> None:
        sender, receiver = channel(8)
        await asyncio.to_thread(sender.send_blocking, 0)
        await until(lambda: sender.statistics().depth == 1)
        for i in range(1, 8):
            sender.try_send(i)
        assert await receiver.recv_many(9) == list(range(8))

    run(main)


def test_send_blocking_in_the_thread_of_the_loop_is_refused_for_it_would_wait_for_itself() -> None:
    async def main() -> None:
        sender, _ = channel(1)
        with pytest.raises(RuntimeError, match="use send"):
            sender.send_blocking(1)

    run(main)


def test_a_thread_is_told_when_the_event_loop_is_gone() -> None:
    made: list[Sender[int]] = []
    refused: list[int] = []

    def produce(item: int) -> None:
        try:
            made[0].send_blocking(item)
        except Closed as closed:
            refused.append(closed.item)

    async def main() -> threading.Thread:
        sender, _ = channel(1)
        sender.try_send(0)
        made.append(sender)
        thread = start(lambda: produce(1))
        await until(lambda: sender.statistics().waiting_senders == 1)
        return thread

    thread = run(main)
    thread.join(TEST_LIMIT_S)
    assert refused == [1]
    produce(2)
    assert refused == [1, 2]


@pytest.mark.parametrize("capacity", [1, 3, 16])
def test_closing_while_threads_send_loses_no_item_that_was_accepted_and_refuses_every_other(capacity: int) -> None:
    async def main() -> None:
        for attempt in range(60):
            sender, receiver = channel(capacity)
            accepted: list[list[int]] = [[], [], []]
            refused: list[int] = []

            def produce(mine: list[int], k: int, sender: Sender[int] = sender, refused: list[int] = refused) -> None:
                for i in range(k, 10**6, 3):
                    try:
                        sender.send_blocking(i)
                    except Closed as closed:
                        refused.append(closed.item)
                        return
                    mine.append(i)

            threads = [start(partial(produce, mine, k)) for k, mine in enumerate(accepted)]
            received: list[int] = []
            while len(received) < 5 + 7 * attempt:
                received += await receiver.recv_many(4)
            receiver.close()
            received += [item async for item in receiver]
            await until(lambda threads=threads: not any(thread.is_alive() for thread in threads))  # type: ignore[misc]
            received += [item async for item in receiver]
            assert sorted(received) == sorted(itertools.chain(*accepted))
            assert len(refused) == 3
            s = receiver.statistics()
            assert (s.depth, s.reserved, s.waiting_senders) == (0, 0, 0)

    run(main)


def test_a_thread_receives_in_line_and_takes_nothing_when_its_time_is_over() -> None:
    async def main() -> None:
        sender, receiver = channel(2)
        outcomes: list[Any] = []

        def consume() -> None:
            try:
                receiver.recv_blocking(deadline_s=0.01)
            except Expired as expired:
                outcomes.append(type(expired))
            try:
                while True:
                    outcomes.append(receiver.recv_blocking(deadline_s=TEST_LIMIT_S))
            except Ended:
                outcomes.append(Ended)

        thread = start(consume)
        await until(lambda: outcomes == [Expired])
        for i in range(20):
            await sender.send(i)
        sender.close()
        await until(lambda: not thread.is_alive())
        assert outcomes == [Expired, *range(20), Ended]
        with pytest.raises(RuntimeError, match="would wait for itself"):
            receiver.recv_blocking()

    run(main)


def test_threads_share_permits_with_the_loop_and_may_end_them() -> None:
    async def main() -> None:
        permits = Permits(2)
        held, most = 0, 0
        lock = threading.Lock()
        expired: list[Expired] = []

        def work() -> None:
            nonlocal held, most
            for _ in range(30):
                with permits.acquire_blocking():
                    with lock:
                        held += 1
                        most = max(most, held)
                    with lock:
                        held -= 1

        def impatient() -> None:
            try:
                permits.acquire_blocking(deadline_s=0.01)
            except Expired as error:
                expired.append(error)

        threads = [start(work) for _ in range(4)]
        for _ in range(30):
            async with asyncio.timeout(TEST_LIMIT_S):
                with await permits.acquire():
                    pass
        await until(lambda: not any(thread.is_alive() for thread in threads))
        await permits.wait_idle(deadline_s=TEST_LIMIT_S)
        assert most <= 2
        assert permits.statistics().done == 150
        with permits.try_acquire(2):
            thread = start(impatient)
            await until(lambda: not thread.is_alive())
        assert len(expired) == 1
        permit = await asyncio.to_thread(permits.acquire_blocking)
        permit.done()
        with pytest.raises(PermitSpent):
            permit.done()
        await permits.wait_idle(deadline_s=TEST_LIMIT_S)
        assert permits.statistics().waiting == 0

    run(main)
