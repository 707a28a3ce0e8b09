"""Token + permit + place in a channel, beside the recipe composed of aiolimiter, asyncio.Semaphore and asyncio.Queue.

    python bench/admission.py [rounds]

Nanoseconds per item, every case once per round in one process, on the loop of asyncio and on uvloop. Read the ratios,
which are paired inside one round: absolute numbers drift with the load of the machine. In every case an item takes a
token, a permit and a place, is received, and its permit ends; the rate is so high that nobody waits for a token.

`Intake, lane` is one worker's `async for`-like way; `Intake, work` makes an object for each item, which can be handed
to another task; `Intake, batch` receives and ends many at once. `Admission` and `Ladder` decide more (gates, bytes,
classes, fair turns, promises), one item after the other and without a wait; they stand here for the record.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop
from aiolimiter import AsyncLimiter

from headrace.flow import Ended, Rate
from headrace.flow.admission import Admission, Admitted
from headrace.flow.intake import Intake
from headrace.flow.ladder import Ladder

ITEMS = 40_000
CAPACITY = 64
RATE = Rate(1e9, 1e6)
Case = Callable[[int], Coroutine[Any, Any, float]]


async def drive(
    produce: Callable[[int], Coroutine[Any, Any, None]], consume: Callable[[int], Coroutine[Any, Any, None]], tasks: int
) -> float:
    began = time.perf_counter_ns()
    share = ITEMS // tasks
    await asyncio.gather(*(produce(share) for _ in range(tasks)), *(consume(share) for _ in range(tasks)))
    return (time.perf_counter_ns() - began) / ITEMS


async def composed(tasks: int) -> float:
    queue: asyncio.Queue[int] = asyncio.Queue(CAPACITY)
    permits, limiter = asyncio.Semaphore(CAPACITY), AsyncLimiter(1e9, 1)

    async def produce(count: int) -> None:
        for i in range(count):
            await limiter.acquire()
            await permits.acquire()
            await queue.put(i)

    async def consume(count: int) -> None:
        for _ in range(count):
            await queue.get()
            permits.release()

    return await drive(produce, consume, tasks)


def feeding(intake: Intake[int]) -> Callable[[int], Coroutine[Any, Any, None]]:
    async def produce(count: int) -> None:
        admit = intake.admit
        for i in range(count):
            await admit(i)

    return produce


async def by_lane(tasks: int) -> float:
    intake: Intake[int] = Intake(CAPACITY, rate=RATE)

    async def consume(count: int) -> None:
        with intake.lane() as lane:
            for _ in range(count):
                await lane.recv()

    return await drive(feeding(intake), consume, tasks)


async def by_work(tasks: int) -> float:
    intake: Intake[int] = Intake(CAPACITY, rate=RATE)

    async def consume(count: int) -> None:
        for _ in range(count):
            (await intake.recv()).done()

    return await drive(feeding(intake), consume, tasks)


async def by_batch(tasks: int) -> float:
    intake: Intake[int] = Intake(CAPACITY, rate=RATE)
    left = ITEMS

    async def consume(_: int) -> None:
        nonlocal left
        with contextlib.suppress(Ended):
            while left:
                batch = await intake.recv_many(CAPACITY)
                left -= batch.count
                batch.done()
            intake.close()

    return await drive(feeding(intake), consume, tasks)


async def admission_decide(tasks: int) -> float:
    admission = Admission(CAPACITY, rate=RATE)
    began = time.perf_counter_ns()
    for _ in range(ITEMS):
        decision = admission.decide()
        assert isinstance(decision, Admitted)
        decision.permit.done()
    return (time.perf_counter_ns() - began) / ITEMS


async def ladder(tasks: int) -> float:
    line: Ladder[int] = Ladder()
    began = time.perf_counter_ns()
    for i in range(ITEMS):
        line.try_send(i)
        line.try_recv()
    return (time.perf_counter_ns() - began) / ITEMS


CASES: dict[str, Case] = {
    "limiter + Semaphore + Queue": composed,
    "Intake, lane": by_lane,
    "Intake, work": by_work,
    "Intake, batch": by_batch,
    "Admission, decide": admission_decide,
    "Ladder, try_send/try_recv": ladder,
}
LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    taken: dict[tuple[str, str, int], list[float]] = {}
    for _ in range(rounds):
        for loop_name, new_loop in LOOPS.items():
            for tasks in (1, 4):
                for name, case in CASES.items():
                    gc.collect()
                    with asyncio.Runner(loop_factory=new_loop) as runner:
                        taken.setdefault((name, loop_name, tasks), []).append(runner.run(case(tasks)))
    peer = next(iter(CASES))
    print(f"{'limit ' + str(CAPACITY):28}" + "".join(f"{ln + f' {t}->{t}':>22}" for ln in LOOPS for t in (1, 4)))
    for name in CASES:
        row = f"{name:28}"
        for loop_name in LOOPS:
            for tasks in (1, 4):
                mine, its = taken[name, loop_name, tasks], taken[peer, loop_name, tasks]
                ratio = statistics.median(p / m for p, m in zip(its, mine, strict=True))
                row += f"{statistics.median(mine):10.0f} ns {ratio:7.2f}x"
        print(row)


if __name__ == "__main__":
    main()
