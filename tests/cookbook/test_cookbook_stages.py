"""The third recipe of docs/cookbook.md: stages in the manner of Tokio, with a semaphore and gauges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import copied_stages as copied
import headrace_stages as ours
import pytest

from headrace.flow import Full, Refusal
from headrace.flow.testing import Deadlock, assert_nothing_leaked, run_virtual, turns


async def store(_: bytes) -> None:
    await asyncio.sleep(0.01)


async def bodies(count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield b"%d" % number


async def silent(hang_up: asyncio.Event) -> AsyncIterator[bytes]:
    """A connection that is kept open and sends nothing."""
    await hang_up.wait()
    return
    yield b""


def test_the_gate_of_the_recipe_is_check_then_act_so_a_crowd_walks_through() -> None:
    async def scenario() -> int:
        server = copied.Server(store, connections=20, high_water=4)
        await asyncio.gather(*(server.connected(bodies(1)) for _ in range(20)))
        return server.in_flight

    assert run_virtual(scenario()) == 20, "five times its high water mark"


def test_our_limit_holds_in_the_same_crowd_and_says_when_to_come_back() -> None:
    async def scenario() -> None:
        refusals: list[Refusal] = []
        server = ours.Server(store, refusals.append, documents=4, total_bytes=1_000)
        async with assert_nothing_leaked(server.admission.permits, server.sender):
            await asyncio.gather(*(server.connected(bodies(1)) for _ in range(20)))
            statistics = server.admission.statistics()
            assert (statistics.permits.held, statistics.admitted, len(refusals)) == (4, 4, 16)
            for refusal in refusals:
                assert isinstance(refusal, Full)
                assert isinstance(refusal.retry_after_s, int)
                assert refusal.retry_after_s >= 1
            await work_off(server)

    run_virtual(scenario())


def test_silent_connections_hold_all_permits_of_the_recipe_while_nothing_is_worked_on() -> None:
    async def scenario() -> None:
        server = copied.Server(store, connections=4, high_water=100)
        idle = [asyncio.create_task(server.connected(silent(asyncio.Event()))) for _ in range(4)]
        await turns(3)
        try:
            await server.connected(bodies(1))
        finally:
            assert (server.in_flight, server.stage.qsize()) == (0, 0)
            for task in idle:
                task.cancel()

    with pytest.raises(Deadlock):
        run_virtual(scenario())


def test_one_busy_connection_may_put_anything_in_under_the_one_permit_of_the_recipe() -> None:
    async def scenario() -> int:
        server = copied.Server(store, connections=1, high_water=10**9)
        await server.connected(bodies(500))
        return server.stage.qsize()

    assert run_virtual(scenario()) == 500


def test_our_silent_connections_hold_nothing_and_a_busy_one_gets_no_more_than_the_limit() -> None:
    async def scenario() -> None:
        refusals: list[Refusal] = []
        server = ours.Server(store, refusals.append, documents=4, total_bytes=1_000)
        hang_up = asyncio.Event()
        idle = [asyncio.create_task(server.connected(silent(hang_up))) for _ in range(100)]
        await turns(3)
        assert server.admission.permits.held == 0
        await server.connected(bodies(500))
        assert (server.admission.permits.held, server.sender.statistics().depth, len(refusals)) == (4, 4, 496)
        await work_off(server)
        assert server.admission.permits.held == 0
        hang_up.set()
        await asyncio.gather(*idle)

    run_virtual(scenario())


def test_our_permit_comes_back_when_storing_fails() -> None:
    async def broken(_: bytes) -> None:
        raise OSError("the disk is full")

    async def scenario() -> int:
        server = ours.Server(broken, lambda _: None, documents=1, total_bytes=1_000)
        for _ in range(3):
            with pytest.raises(OSError, match="disk is full"):
                await server.connected(bodies(1))
        return server.admission.permits.held

    assert run_virtual(scenario()) == 0


async def work_off(server: ours.Server) -> None:
    server.sender.close()
    async for _, permit in server.receiver:
        with permit:
            await asyncio.sleep(0.01)
