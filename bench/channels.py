"""Channels beside asyncio.Queue and anyio: nanoseconds per item, every case once per round, in one process.

    python bench/channels.py [rounds]

Read the ratios, which are paired inside one round: absolute numbers drift with the load of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from headrace.flow import Closed, Ended, Full, channel

ITEMS = 200_000
CAPACITY = 64
Case = Callable[[int, int], Coroutine[Any, Any, int]]


async def drive(producers: list[Coroutine[Any, Any, None]], consumers: list[Coroutine[Any, Any, None]]) -> int:
    began = time.perf_counter_ns()
    await asyncio.gather(*producers, *consumers)
    return time.perf_counter_ns() - began


async def one_by_one(
    put: Callable[[int], Awaitable[Any]], get: Callable[[], Awaitable[Any]], tasks: int, items: int
) -> int:
    async def produce() -> None:
        for i in range(items // tasks):
            await put(i)

    async def consume() -> None:
        for _ in range(items // tasks):
            await get()

    return await drive([produce() for _ in range(tasks)], [consume() for _ in range(tasks)])


async def asyncio_queue(tasks: int, items: int) -> int:
    queue: asyncio.Queue[int] = asyncio.Queue(CAPACITY)
    return await one_by_one(queue.put, queue.get, tasks, items)


async def send_recv(tasks: int, items: int) -> int:
    sender, receiver = channel(CAPACITY)
    return await one_by_one(sender.send, receiver.recv, tasks, items)


async def send_recv_weighed(tasks: int, items: int) -> int:
    sender, receiver = channel(CAPACITY, weight_capacity=10 * CAPACITY, weigh=lambda item: 1)
    return await one_by_one(sender.send, receiver.recv, tasks, items)


async def try_send_recv_many(tasks: int, items: int) -> int:
    sender, receiver = channel(CAPACITY)

    async def produce() -> None:
        try_send, send = sender.try_send, sender.send
        for i in range(items // tasks):
            try:
                try_send(i)
            except Full:
                await send(i)

    left = items

    async def consume() -> None:
        nonlocal left
        while left > 0:
            got = len(await receiver.recv_many(CAPACITY))
            left -= got
        receiver.close()

    async def consume_until_closed() -> None:
        with contextlib.suppress(Ended):
            await consume()

    return await drive([produce() for _ in range(tasks)], [consume_until_closed() for _ in range(tasks)])


async def anyio_nowait_first(tasks: int, items: int) -> int:
    import anyio

    send_end, receive_end = anyio.create_memory_object_stream[int](CAPACITY)

    async def produce() -> None:
        put, slow, full = send_end.send_nowait, send_end.send, anyio.WouldBlock
        for i in range(items // tasks):
            try:
                put(i)
            except full:
                await slow(i)

    async def consume() -> None:
        get, slow, empty = receive_end.receive_nowait, receive_end.receive, anyio.WouldBlock
        for _ in range(items // tasks):
            try:
                get()
            except empty:
                await slow()

    with send_end, receive_end:
        return await drive([produce() for _ in range(tasks)], [consume() for _ in range(tasks)])


async def thread_to_loop(tasks: int, items: int) -> int:
    """From as many threads into one consumer; a tenth of the items."""
    sender, receiver = channel(CAPACITY)
    share = items // 10 // tasks

    def produce() -> None:
        try:
            for i in range(share):
                sender.send_blocking(i)
        except Closed:
            print("the channel closed under a thread", file=sys.stderr)

    threads = [threading.Thread(target=produce) for _ in range(tasks)]
    began = time.perf_counter_ns()
    for thread in threads:
        thread.start()
    left = share * tasks
    while left:
        left -= len(await receiver.recv_many(CAPACITY))
    took = time.perf_counter_ns() - began
    for thread in threads:
        thread.join()
    return took * 10


CASES: dict[str, Case] = {
    "asyncio.Queue, put/get": asyncio_queue,
    "anyio, *_nowait first": anyio_nowait_first,
    "channel, send/recv": send_recv,
    "channel, send/recv, weighed": send_recv_weighed,
    "channel, try_send/recv_many": try_send_recv_many,
    "channel, threads into the loop": thread_to_loop,
}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{'capacity ' + str(CAPACITY):34} {'1->1 ns':>8} {'x Queue':>8} {'4->4 ns':>8} {'x Queue':>8}")
    taken: dict[str, dict[int, list[float]]] = {name: {1: [], 4: []} for name in CASES}
    for _ in range(rounds):
        for name, case in CASES.items():
            for tasks in (1, 4):
                gc.collect()
                taken[name][tasks].append(asyncio.run(case(tasks, ITEMS)) / ITEMS)
    peer = taken["asyncio.Queue, put/get"]
    for name, by_tasks in taken.items():
        row = f"{name:34}"
        for tasks in (1, 4):
            ratio = statistics.median(p / t for p, t in zip(peer[tasks], by_tasks[tasks], strict=True))
            row += f" {statistics.median(by_tasks[tasks]):8.0f} {ratio:7.2f}x"
        print(row)


if __name__ == "__main__":
    main()
