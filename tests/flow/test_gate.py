"""The hysteresis gate: as a table, over a gauge, and in front of a channel."""

from __future__ import annotations

import asyncio
import math

import pytest

from headrace.flow import Closed, Expired, Full, Gate, GateState, Gauge, Gauges, WaterMarks, channel
from headrace.flow.testing import assert_nothing_leaked, cancelled_at, run_virtual, turns

OPEN, CLOSED = GateState.OPEN, GateState.CLOSED


@pytest.mark.parametrize(
    ("state", "level", "then"),
    [
        (OPEN, 0, OPEN),
        (OPEN, 16, OPEN),
        (OPEN, 47, OPEN),
        (OPEN, 48, CLOSED),
        (OPEN, 64, CLOSED),
        (CLOSED, 64, CLOSED),
        (CLOSED, 47, CLOSED),
        (CLOSED, 17, CLOSED),
        (CLOSED, 16, OPEN),
        (CLOSED, 0, OPEN),
    ],
)
def test_between_the_marks_the_gate_stays_as_it_is(state: GateState, level: float, then: GateState) -> None:
    assert WaterMarks(high_water=48, low_water=16).next_state(state, level) is then


@pytest.mark.parametrize(("high", "low"), [(1, 1), (1, 2), (1, -1), (math.nan, 0), (1, math.nan)])
def test_marks_that_make_no_sense_are_not_made(high: float, low: float) -> None:
    with pytest.raises(ValueError, match="low_water < high_water"):
        WaterMarks(high, low)


def test_k13_the_gate_stops_admission_only_and_opens_again_at_the_low_mark() -> None:
    """K13: a gate that also stops draining never falls below its low mark. Closed at 48 of 64, open again at 16."""

    async def main() -> None:
        depth = Gauge("depth")
        sender, receiver = channel(64, depth_gauge=depth)
        gate = Gate(depth, high_water=48, low_water=16)
        closed_at: list[int] = []
        opened_at: list[int] = []

        async def produce() -> None:
            with sender:
                for i in range(500):
                    if gate.state is CLOSED:
                        closed_at.append(sender.statistics().depth)
                        await gate.wait_open()
                        opened_at.append(sender.statistics().depth)
                    await sender.send(i)

        async def consume() -> list[int]:
            received = []
            async for item in receiver:
                received.append(item)
                await asyncio.sleep(1)
            return received

        async with assert_nothing_leaked(sender, gate):
            task = asyncio.create_task(produce())
            assert await consume() == list(range(500))
            await task
        assert set(closed_at) == {48}
        assert set(opened_at) == {16}
        assert gate.statistics().closings == len(closed_at) > 5

    run_virtual(main())


def test_a_closed_gate_refuses_those_who_do_not_wait_and_expires_those_who_do() -> None:
    async def main() -> None:
        level = Gauge("level")
        gate = Gate(level, high_water=2, low_water=1)
        gate.try_pass()
        level.set(2)
        with pytest.raises(Full, match="level"):
            gate.try_pass()
        with pytest.raises(Expired):
            await gate.wait_open(deadline_s=1)
        level.add(-1)
        gate.try_pass()
        await gate.wait_open()

    run_virtual(main())


def test_those_who_wait_pass_in_the_order_in_which_they_came() -> None:
    async def main() -> None:
        level = Gauge("level", 9)
        gate = Gate(level, high_water=2, low_water=1)
        passed: list[int] = []

        async def wait(i: int) -> None:
            await gate.wait_open()
            passed.append(i)

        tasks = [asyncio.create_task(wait(i)) for i in range(5)]
        await turns(3)
        assert gate.statistics().waiting == 5
        tasks[1].cancel()
        level.set(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert passed == [0, 2, 3, 4]

    run_virtual(main())


def test_a_gate_shut_for_good_ends_every_wait() -> None:
    async def main() -> None:
        gate = Gate(Gauge("level", 9), high_water=2, low_water=1)
        waiting = asyncio.create_task(gate.wait_open())
        await turns(3)
        gate.close()
        with pytest.raises(Closed):
            await waiting
        with pytest.raises(Closed):
            await gate.wait_open()
        with pytest.raises(Closed):
            gate.try_pass()

    run_virtual(main())


def test_a_waiter_cancelled_at_any_await_leaves_the_gate_to_the_others() -> None:
    async def main(at: int) -> bool:
        level = Gauge("level", 9)
        gate = Gate(level, high_water=2, low_water=1)
        async with assert_nothing_leaked(gate):
            other = asyncio.create_task(gate.wait_open())
            asyncio.get_running_loop().call_later(1, level.set, 0)
            struck = await cancelled_at(at, gate.wait_open())
            await other
        return struck

    assert [run_virtual(main(at)) for at in range(2)] == [True, False]


def test_a_gauge_keeps_its_peak_and_takes_no_nan() -> None:
    gauges = Gauges()
    gauge = gauges.gauge("window_used")
    gauges.read_from("age_s", lambda: 1.5)
    gauge.set(4)
    gauge.add(-3)
    with pytest.raises(ValueError, match="NaN"):
        gauge.set(math.nan)
    with pytest.raises(ValueError, match="already"):
        gauges.gauge("age_s")
    assert (gauge.value, gauge.peak) == (1, 4)
    assert gauges.snapshot() == {"age_s": 1.5, "window_used": 1}
    assert list(gauges) == ["age_s", "window_used"]
    assert len(gauges) == 2
