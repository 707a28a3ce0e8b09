"""Channels beside their peers: nanoseconds per item, every case once per round, in one process, on both event loops.

    python bench/channels.py [rounds] [part of a case's name ...]

Read the ratios, which are paired inside one round: absolute numbers drift with the load of the machine. What runs in one
thread is measured in its CPU time, what crosses threads in wall time. Ours run with everything on: close, ages, statistics, fairness; "weighed" weighs every item too. `deque + Event` is what a channel
without any of that costs, for one sender and one receiver.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import culsans
import janus
import uvloop

from headrace.flow import Ended, Full, Receiver, Sender, channel

ITEMS = 100_000
BATCH = 64
Case = Callable[[int, int, int], Coroutine[Any, Any, int]]
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


async def drive(producers: list[Coroutine[Any, Any, None]], consumers: list[Coroutine[Any, Any, None]]) -> int:
    began = time.thread_time_ns()  # everything runs in this thread and never sleeps, so others' load stays out
    await asyncio.gather(*producers, *consumers)
    return time.thread_time_ns() - began


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


async def asyncio_queue(capacity: int, tasks: int, items: int) -> int:
    queue: asyncio.Queue[int] = asyncio.Queue(capacity)
    return await one_by_one(queue.put, queue.get, tasks, items)


async def anyio_nowait_first(capacity: int, tasks: int, items: int) -> int:
    send_end, receive_end = anyio.create_memory_object_stream[int](capacity)

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


async def deque_and_event(capacity: int, tasks: int, items: int) -> int:
    line: deque[int] = deque()
    some, room = asyncio.Event(), asyncio.Event()

    async def produce() -> None:
        for i in range(items):
            if len(line) >= capacity:
                room.clear()
                await room.wait()
            line.append(i)
            if len(line) == 1:
                some.set()

    async def consume() -> None:
        low = capacity // 2
        for _ in range(items):
            if not line:
                some.clear()
                await some.wait()
            line.popleft()
            if len(line) == low:
                room.set()

    return await drive([produce()], [consume()])


async def send_recv(capacity: int, tasks: int, items: int) -> int:
    sender, receiver = channel(capacity)
    return await one_by_one(sender.send, receiver.recv, tasks, items)


async def send_recv_weighed(capacity: int, tasks: int, items: int) -> int:
    sender, receiver = channel(capacity, weight_capacity=10 * capacity, weigh=lambda item: 1)
    return await one_by_one(sender.send, receiver.recv, tasks, items)


def consumers_of_many(receiver: Receiver[int], tasks: int, items: int) -> list[Coroutine[Any, Any, None]]:
    left = items // tasks * tasks

    async def consume() -> None:
        nonlocal left
        with contextlib.suppress(Ended):
            while left > 0:
                for _ in (received := await receiver.recv_many(256)):
                    pass
                left -= len(received)
            receiver.close()

    return [consume() for _ in range(tasks)]


async def _try_send_recv_many(sender: Sender[int], receiver: Receiver[int], tasks: int, items: int) -> int:
    async def produce() -> None:
        try_send, send = sender.try_send, sender.send
        for i in range(items // tasks):
            try:
                try_send(i)
            except Full:
                await send(i)

    return await drive([produce() for _ in range(tasks)], consumers_of_many(receiver, tasks, items))


async def try_send_recv_many(capacity: int, tasks: int, items: int) -> int:
    return await _try_send_recv_many(*channel(capacity), tasks, items)


async def try_send_recv_many_weighed(capacity: int, tasks: int, items: int) -> int:
    ends = channel(capacity, weight_capacity=10 * capacity, weigh=lambda item: 1)
    return await _try_send_recv_many(*ends, tasks, items)


async def send_many_recv_many(capacity: int, tasks: int, items: int) -> int:
    sender, receiver = channel(capacity)

    async def produce() -> None:
        batch: list[int] = []
        for i in range(items // tasks):
            batch.append(i)
            if len(batch) == BATCH:
                await sender.send_many(batch)
                batch = []
        await sender.send_many(batch)

    return await drive([produce() for _ in range(tasks)], consumers_of_many(receiver, tasks, items))


async def threads_into(
    put: Callable[[int], Any], consume: Callable[[int], Coroutine[Any, Any, None]], tasks: int, items: int
) -> int:
    """From as many threads into one consumer; a quarter of the items."""
    share = items // 4 // tasks

    def produce() -> None:
        for i in range(share):
            put(i)

    threads = [threading.Thread(target=produce) for _ in range(tasks)]
    began = time.perf_counter_ns()
    for thread in threads:
        thread.start()
    await consume(share * tasks)
    took = time.perf_counter_ns() - began
    for thread in threads:
        thread.join()
    return took * 4


async def thread_to_channel(capacity: int, tasks: int, items: int) -> int:
    sender, receiver = channel(capacity)

    async def consume(count: int) -> None:
        while count:
            for _ in (received := await receiver.recv_many(256)):
                pass
            count -= len(received)

    return await threads_into(sender.send_blocking, consume, tasks, items)


async def thread_to_channel_singly(capacity: int, tasks: int, items: int) -> int:
    sender, receiver = channel(capacity)

    async def consume(count: int) -> None:
        for _ in range(count):
            await receiver.recv()

    return await threads_into(sender.send_blocking, consume, tasks, items)


async def _thread_to_peer(queue: Any, tasks: int, items: int) -> int:
    async def consume(count: int) -> None:
        for _ in range(count):
            await queue.async_q.get()

    took = await threads_into(queue.sync_q.put, consume, tasks, items)
    queue.close()
    await queue.wait_closed()
    return took


async def thread_to_janus(capacity: int, tasks: int, items: int) -> int:
    return await _thread_to_peer(janus.Queue[int](capacity), tasks, items)


async def thread_to_culsans(capacity: int, tasks: int, items: int) -> int:
    return await _thread_to_peer(culsans.Queue[int](capacity), tasks, items)


QUEUE, ANYIO, CULSANS, JANUS = "asyncio.Queue", "anyio, *_nowait first", "thread: culsans", "thread: janus"
CASES: dict[str, Case] = {
    QUEUE: asyncio_queue,
    ANYIO: anyio_nowait_first,
    "limit: deque + Event": deque_and_event,
    "channel send/recv": send_recv,
    "channel send/recv, weighed": send_recv_weighed,
    "channel try_send/recv_many": try_send_recv_many,
    "channel try_send/recv_many, weighed": try_send_recv_many_weighed,
    f"channel send_many({BATCH})/recv_many": send_many_recv_many,
    CULSANS: thread_to_culsans,
    JANUS: thread_to_janus,
    "thread: send_blocking/recv_many": thread_to_channel,
    "thread: send_blocking/recv": thread_to_channel_singly,
}
# What must be reached, issue by issue: (case, peer, times as fast, capacities).
TARGETS = [
    ("channel send/recv", QUEUE, 1.7, (64,)),
    ("channel send/recv, weighed", QUEUE, 1.7, (64,)),
    ("channel try_send/recv_many", ANYIO, 1.4, (64, 1024)),
    (f"channel send_many({BATCH})/recv_many", ANYIO, 2.2, (64, 1024)),
    ("thread: send_blocking/recv_many", CULSANS, 3.0, (64,)),
    ("thread: send_blocking/recv_many", JANUS, 8.0, (64,)),
    ("thread: send_blocking/recv", CULSANS, 3.0, (64,)),
    ("thread: send_blocking/recv", JANUS, 8.0, (64,)),
]
SHAPES = [(64, 1), (64, 4), (1024, 1), (1024, 4)]
Key = tuple[str, str, int, int]  # loop, case, capacity, tasks at each end


def wanted(name: str, capacity: int, tasks: int, parts: list[str]) -> bool:
    if parts and not any(part in name for part in parts):
        return False
    return not (tasks > 1 and name.startswith("limit")) and not (capacity > 64 and name.startswith("thread"))


def measure(rounds: int, parts: list[str]) -> dict[Key, list[float]]:
    taken: dict[Key, list[float]] = {}
    for _ in range(rounds):
        for capacity, tasks in SHAPES:
            for name, case in CASES.items():
                if not wanted(name, capacity, tasks, parts):
                    continue
                for loop, factory in LOOPS.items():
                    gc.collect()
                    with asyncio.Runner(loop_factory=factory) as runner:
                        took = runner.run(case(capacity, tasks, ITEMS))
                    taken.setdefault((loop, name, capacity, tasks), []).append(took / ITEMS)
    return taken


def ratio(peer: list[float], ours: list[float]) -> float:
    return statistics.median(p / t for p, t in zip(peer, ours, strict=True))


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    taken = measure(rounds, sys.argv[2:])
    print(f"ns per item, medians of {rounds} rounds [x asyncio.Queue of the same round]; capacity, senders->receivers")
    for loop in LOOPS:
        print(f"\n{loop:38}" + "".join(f"{f'{capacity}, {tasks}->{tasks}':>18}" for capacity, tasks in SHAPES))
        for name in CASES:
            row = f"{name:38}"
            for capacity, tasks in SHAPES:
                times = taken.get((loop, name, capacity, tasks))
                peer = taken.get((loop, QUEUE, capacity, tasks))
                times_as_fast = f"[{ratio(peer, times):.2f}x]" if times and peer else ""
                row += f"{statistics.median(times):9.0f} {times_as_fast:8}" if times else " " * 18
            if row.strip() != name:
                print(row)
    print(f"\n{'target':64} {'wanted':>7}  reached")
    reached = []
    for loop in LOOPS:
        for name, peer_name, least, capacities in TARGETS:
            for capacity, tasks in SHAPES:
                if capacity not in capacities or (loop, peer_name, capacity, tasks) not in taken:
                    continue
                if (loop, name, capacity, tasks) not in taken or (tasks > 1 and name.startswith("thread")):
                    continue
                got = ratio(taken[loop, peer_name, capacity, tasks], taken[loop, name, capacity, tasks])
                title = f"{loop}, {capacity}, {tasks}->{tasks}: {name} / {peer_name}"
                print(f"{title:70} {least:5.1f}x {got:7.2f}x {'' if got >= least else '  MISSED'}")
                reached.append({"case": title, "wanted": least, "reached": round(got, 2)})
    if not sys.argv[2:]:
        rows = [
            {"loop": key[0], "case": key[1], "capacity": key[2], "tasks": key[3], "ns": round(statistics.median(ns))}
            for key, ns in taken.items()
        ]
        out = Path(__file__).parent / "out" / "channels.json"
        out.parent.mkdir(exist_ok=True)
        out.write_text(
            json.dumps({"rounds": rounds, "items": ITEMS, "rows": rows, "targets": reached}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
