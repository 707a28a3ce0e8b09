"""Draining by a deadline: three bounded phases, and a report that adds up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from headrace.flow import Drain, Permit, Permits, Receiver, channel
from headrace.flow.testing import run_virtual


async def _nothing() -> None:
    return None


async def _for_ever() -> None:
    await asyncio.Event().wait()


class Part:
    """A part whose three phases are what the test says."""

    def __init__(
        self,
        in_flight: int,
        *,
        close: Callable[[], Awaitable[None]] = _nothing,
        drain: Callable[[Part], Awaitable[None]] | None = None,
        safe: int | Exception | None = 0,
    ) -> None:
        self.in_flight = in_flight
        self.close = close
        self._drain = drain
        self._safe = safe

    async def drained(self) -> None:
        if self._drain is None:
            await _for_ever()
        else:
            await self._drain(self)

    async def hand_back(self) -> int:
        if isinstance(self._safe, Exception):
            raise self._safe
        if self._safe is None:
            await _for_ever()
            return 0
        safe = min(self._safe, self.in_flight)
        self.in_flight -= safe
        return safe


async def _one_a_second(part: Part) -> None:
    while part.in_flight:
        await asyncio.sleep(1)
        part.in_flight -= 1


def test_what_is_in_flight_is_finished_when_the_time_is_enough() -> None:
    async def main() -> None:
        report = await Drain([Part(3, drain=_one_a_second), Part(2, drain=_one_a_second)], deadline_s=10).run()
        assert (report.finished, report.handed_back, report.abandoned, report.in_time) == (5, 0, 0, True)
        assert report.took_s == pytest.approx(3.0)
        assert report.errors == ()

    run_virtual(main())


def test_at_the_deadline_the_rest_is_handed_back_or_abandoned_and_the_numbers_add_up() -> None:
    async def main() -> None:
        report = await Drain([Part(20, drain=_one_a_second, safe=9)], deadline_s=10, abandon_s=2).run()
        assert (report.finished, report.handed_back, report.abandoned) == (7, 9, 4)
        assert not report.in_time
        assert report.took_s == pytest.approx(8.0)

    run_virtual(main())


async def _raises() -> None:
    raise OSError("disk full")


@pytest.mark.parametrize("close", [_for_ever, _raises])
@pytest.mark.parametrize("safe", [None, RuntimeError("store down")])
def test_a_part_that_hangs_or_raises_in_a_phase_keeps_nothing_else_from_ending(
    close: Callable[[], Awaitable[None]], safe: Exception | None
) -> None:
    async def main() -> None:
        bad = Part(4, close=close, safe=safe)
        good = Part(6, drain=_one_a_second, safe=2)
        report = await Drain([bad, good], deadline_s=10.5, close_s=1, abandon_s=4).run()
        closing_s = 1 if close is _for_ever else 0
        assert report.finished == 6 - closing_s
        assert report.handed_back == closing_s
        assert report.finished + report.handed_back + report.abandoned == 10
        assert report.took_s <= 10.5
        assert any(error.startswith("close:") for error in report.errors)
        assert any(error.startswith("abandon:") for error in report.errors)

    run_virtual(main())


def test_a_part_that_ignores_its_cancellation_is_left_behind_at_the_deadline() -> None:
    async def stubborn(part: Part) -> None:
        while part.in_flight:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                await asyncio.sleep(1000)
                part.in_flight = 0

    async def main() -> None:
        report = await Drain([Part(1, drain=stubborn, safe=1)], deadline_s=10).run()
        assert report.took_s <= 10
        assert report.handed_back == 1

    run_virtual(main())


class Work:
    """A channel of permits with its consumers, the way a pipeline drains one."""

    def __init__(self, permits: Permits, receiver: Receiver[Permit]) -> None:
        self._permits = permits
        self._receiver = receiver

    @property
    def in_flight(self) -> int:
        return self._permits.held

    async def close(self) -> None:
        self._permits.close()
        self._receiver.close()

    async def drained(self) -> None:
        await self._permits.wait_idle()

    async def hand_back(self) -> int:
        count = 0
        async for permit in self._receiver:
            permit.ignore()
            count += 1
        return count


@pytest.mark.parametrize("error", [asyncio.CancelledError(), ValueError("bad item")])
def test_k18_a_drain_returns_with_the_error_when_the_consumer_died(error: BaseException) -> None:
    """K18: join() never returns when the consumer died (openai-agents PR #4199, janus #294)."""

    async def main() -> None:
        permits = Permits(5)
        sender, receiver = channel(5)
        for _ in range(5):
            await sender.send(await permits.acquire())

        async def consume() -> None:
            done = 0
            async for permit in receiver:
                with permit:
                    await asyncio.sleep(1)
                    done += 1
                if done == 2:
                    raise error

        consumer = asyncio.create_task(consume())
        report = await Drain([Work(permits, receiver)], deadline_s=100, consumers=[consumer]).run()
        assert (report.finished, report.handed_back, report.abandoned) == (2, 3, 0)
        assert report.took_s < 5
        assert any(e.startswith("consumer:") for e in report.errors)
        if isinstance(error, ValueError):
            assert "consumer: ValueError: bad item" in report.errors

    run_virtual(main())


def test_k18_a_drain_returns_at_the_deadline_when_nobody_knows_the_consumer() -> None:
    async def main() -> None:
        permits = Permits(5)
        sender, receiver = channel(5)
        for _ in range(3):
            await sender.send(await permits.acquire())
        report = await Drain([Work(permits, receiver)], deadline_s=10).run()
        assert (report.finished, report.handed_back, report.abandoned) == (0, 3, 0)
        assert report.took_s <= 10

    run_virtual(main())


def test_consumers_that_finish_normally_do_not_cut_the_drain_short() -> None:
    async def main() -> None:
        permits = Permits(5)
        sender, receiver = channel(5)
        for _ in range(3):
            await sender.send(await permits.acquire())

        async def consume() -> None:
            async for permit in receiver:
                with permit:
                    await asyncio.sleep(1)

        consumers = [asyncio.create_task(consume()) for _ in range(2)]
        report = await Drain([Work(permits, receiver)], deadline_s=100, consumers=consumers).run()
        assert (report.finished, report.in_time, report.errors) == (3, True, ())

    run_virtual(main())


def test_phases_that_do_not_fit_into_the_deadline_are_refused() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="deadline"):
            Drain([], deadline_s=1, close_s=0.6, abandon_s=0.6)

    run_virtual(main())
