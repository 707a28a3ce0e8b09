"""The chunk a map chooses for itself, as arithmetic and with workers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.execution import Failure, WorkerPool
from headrace.execution.chunk_size import CHUNK_NS, ChunkSize

from . import faults
from .faults import Job
from .support import LIMIT_S, run_map


def test_a_chunk_grows_from_1_by_doubling_up_to_a_quarter_of_a_workers_share() -> None:
    chunk = ChunkSize(None, window=64, workers=2)
    sizes = []
    for _ in range(6):
        sizes.append(chunk.now)
        chunk.observe(chunk.now, 0)
    assert sizes == [1, 2, 4, 8, 8, 8]


def test_items_of_5_ms_are_sent_one_by_one() -> None:
    chunk = ChunkSize(None, window=1024, workers=2)
    chunk.observe(1, 5_000_000)
    assert chunk.now == 1


def test_slow_items_after_quick_ones_bring_it_back_to_1_at_once() -> None:
    chunk = ChunkSize(None, window=1024, workers=2)
    for _ in range(20):
        chunk.observe(chunk.now, 1_000 * chunk.now)
    assert chunk.now > 100
    chunk.observe(chunk.now, 5_000_000 * chunk.now)
    assert chunk.now == 1


def test_a_number_stays_what_it_is() -> None:
    chunk = ChunkSize(7, window=64, workers=2)
    chunk.observe(7, 10**12)
    assert chunk.now == 7


@given(st.integers(1, 500), st.integers(1, 8), st.lists(st.integers(0, 10**8), max_size=60))
def test_whatever_it_sees_it_stays_in_its_bounds(window: int, workers: int, item_ns: list[int]) -> None:
    chunk = ChunkSize(None, window=window, workers=workers)
    for ns in item_ns:
        before = chunk.now
        chunk.observe(before, ns * before)
        assert 1 <= chunk.now <= max(1, window // (4 * workers))
        assert chunk.now <= 2 * before
        assert chunk.now == 1 or chunk.now * ns <= CHUNK_NS


def test_no_other_word_than_auto() -> None:
    with pytest.raises(ValueError, match="chunk"):
        WorkerPool.of(faults.echo, workers=1).map([], window=4, chunk="some")  # type: ignore[arg-type]


def test_every_result_comes_once_in_order() -> None:
    run = run_map(faults.double, range(3_000), window=256, chunk="auto")
    assert run.values == [2 * n for n in range(3_000)]


def test_only_the_item_that_kills_its_worker_is_charged() -> None:
    jobs = [Job(n, "exit" if n == 300 else "lambda" if n == 310 else "ok", 1) for n in range(600)]
    run = run_map(faults.work, jobs, window=128, chunk="auto")
    assert run.items == jobs
    assert [(failure.item.n, failure.code) for failure in run.failures] == [
        (300, "worker-lost"),
        (310, "unpicklable-result"),
    ]


def test_a_deadline_is_an_items_and_not_its_chunks() -> None:
    jobs = [Job(n, "spin" if n == 300 else "ok") for n in range(400)]
    run = run_map(faults.work, jobs, window=128, chunk="auto", deadline_s=0.5)
    assert [(failure.item.n, failure.code) for failure in run.failures] == [(300, "deadline")]
    assert run.items == jobs


def test_behind_a_blocked_head_exactly_the_window_is_pulled() -> None:
    pulled = 0

    def source() -> Iterator[Job]:
        nonlocal pulled
        for n in range(5_000):
            pulled += 1
            yield Job(n, "sleep" if n == 1_000 else "ok", 0.4)

    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.work, workers=2) as pool:
            released, most = 0, 0
            async for outcome in pool.map(source(), window=100, chunk="auto"):
                most = max(most, pulled - released)
                assert not isinstance(outcome, Failure)
                released += 1
            assert (released, most) == (5_000, 100)

    asyncio.run(go())


def test_a_grown_chunk_leaves_each_worker_its_share_of_the_window() -> None:
    async def go() -> None:
        async with asyncio.timeout(LIMIT_S), WorkerPool.of(faults.echo, workers=2) as pool:
            chunks: set[int] = set()
            async for _ in pool.map(range(4_000), window=64, chunk="auto"):
                for worker in pool.live:
                    sizes = [len(chunk.items) for chunk in worker.in_flight]
                    # What was given before the chunk grew stays in flight; what is given after it keeps to the share.
                    assert sum(sizes) <= 64 // 2 + max(sizes, default=0)
                    chunks.update(sizes)
            assert max(chunks) == 8

    asyncio.run(go())
