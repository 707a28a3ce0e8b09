"""Seeded campaigns: workers are killed and stopped at random, items crash at random; every item still comes once."""

from __future__ import annotations

import asyncio
import os
import random
import signal

import pytest

from headrace.execution import Success, WorkerPool

from . import faults
from .faults import Job
from .support import LIMIT_S


@pytest.mark.parametrize("seed", range(4))
def test_under_random_kills_every_item_comes_once_in_order_and_only_running_ones_are_charged(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.execution.watchdog.STUCK_S", 0.5)
    choose = random.Random(seed)
    chunk = choose.choice([1, 1, 4])
    count = 120

    def job(n: int) -> Job:
        kind = choose.choices(["ok", "sleep", "exit", "lambda"], [80, 14, 3, 3])[0]
        return Job(n, kind, {"sleep": 0.01, "exit": 1}.get(kind))

    jobs = [job(n) for n in range(count)]

    async def go() -> None:
        signals = 0
        async with asyncio.timeout(2 * LIMIT_S), WorkerPool.of(faults.work, workers=3, recycle_after=60) as pool:
            results = pool.map(jobs, window=24, chunk=chunk, deadline_s=0.5)

            async def kill_at_random() -> None:
                nonlocal signals
                while signals < 6:
                    await asyncio.sleep(choose.uniform(0.0, 0.12))
                    ready = [worker.worker for worker in pool.statistics().workers if worker.state in ("busy", "idle")]
                    if ready:
                        os.kill(choose.choice(ready), choose.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP]))
                        signals += 1

            killing = asyncio.create_task(kill_at_random())
            outcomes = [outcome async for outcome in results]
            killing.cancel()
            assert [outcome.item for outcome in outcomes] == jobs
            by_signal = 0
            for outcome in outcomes:
                good = outcome.item.kind in ("ok", "sleep")
                if isinstance(outcome, Success):
                    assert good
                    assert outcome.value == outcome.item.n
                elif outcome.item.kind == "lambda":
                    assert outcome.code in ("unpicklable-result", "worker-lost", "deadline")
                else:
                    assert outcome.code in ("worker-lost", "deadline")
                    by_signal += good
            assert by_signal <= signals
            statistics = results.statistics()
            assert (statistics.pulled, statistics.released, statistics.window_used) == (count, count, 0)
            assert statistics.charged == sum(not isinstance(outcome, Success) for outcome in outcomes)

    asyncio.run(go())
