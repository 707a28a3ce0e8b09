"""Draining by a deadline, and a report of what became of what was in flight.

    close     no more comes in                         at most `close_s`
    drain     what is in is finished                   until the deadline, less what abandoning may take
    abandon   the rest is handed back, then given up   at most `abandon_s`

Each phase is bounded on its own, so a part that hangs in one of them cannot eat the time of the next, and a part that
raises does not keep the others from ending. The whole returns by `deadline_s`, whatever happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.flow.clock import Clock, LoopClock


class Drainable(Protocol):
    """A part of the system that work is in: a pool, a channel with its consumers, a set of permits."""

    @property
    def in_flight(self) -> int:
        """How many items are in it now."""
        ...

    async def close(self) -> None:
        """Lets no more in; should return at once."""
        ...

    async def drained(self) -> None:
        """Returns when nothing is in flight. May be cancelled at any time."""
        ...

    async def hand_back(self) -> int:
        """Stops what is running and gives back what can be given back safely; returns how many items that were."""
        ...


@dataclass(frozen=True, slots=True)
class DrainReport:
    """What became of everything that was in flight when the drain began: the three numbers add up to it.

    Attributes:
        finished: came to their end in time.
        handed_back: not finished, but safe: they can be run again.
        abandoned: given up.
        took_s: how long the whole took.
        in_time: whether everything was finished before the deadline.
        errors: what went wrong on the way, one sentence each, named by phase.
    """

    finished: int
    handed_back: int
    abandoned: int
    took_s: float
    in_time: bool
    errors: tuple[str, ...] = ()


class Drain:
    """Ends parts of a system in three bounded phases.

    Args:
        parts: what to drain, in the order in which they are to be closed (doors first).
        consumers: the tasks that do the work, if they are known. Once all of them have ended while work is left,
            waiting longer is of no use: the drain phase ends at once. Their errors are in the report.
        deadline_s: how long the whole may take.
        close_s: how much of it closing may take; a tenth when not given.
        abandon_s: how much of it is kept for handing back; a fifth when not given.
        clock: what tells the time; the running loop's when not given.

    Raises:
        ValueError: the phases do not fit into the deadline.
    """

    def __init__(
        self,
        parts: Sequence[Drainable],
        *,
        deadline_s: float,
        consumers: Iterable[asyncio.Task[object]] = (),
        close_s: float | None = None,
        abandon_s: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._close_s = deadline_s / 10 if close_s is None else close_s
        self._abandon_s = deadline_s / 5 if abandon_s is None else abandon_s
        if not (self._close_s >= 0 and self._abandon_s >= 0 and self._close_s + self._abandon_s <= deadline_s):
            raise ValueError(f"closing and handing back do not fit into a deadline of {deadline_s} s")
        self._parts = list(parts)
        self._consumers = list(consumers)
        self._deadline_s = deadline_s
        self._clock = clock or LoopClock()
        self._errors: list[str] = []

    async def run(self) -> DrainReport:
        """Closes, drains, abandons, and reports. Call it once.

        A cancelled run stops where it is; parts that were closed stay closed.
        """
        began = self._clock.now()
        await self._bounded("close", [part.close for part in self._parts], self._close_s)
        at_close = self._in_flight()

        left_s = self._deadline_s - self._abandon_s - (self._clock.now() - began)
        await self._bounded("drain", [part.drained for part in self._parts], left_s, self._consumers)
        unfinished = self._in_flight()

        handed_back = 0
        if unfinished:
            handed_back = await self._bounded("abandon", [part.hand_back for part in self._parts], self._abandon_s)
        handed_back = min(handed_back, unfinished)
        return DrainReport(
            finished=max(0, at_close - unfinished),
            handed_back=handed_back,
            abandoned=unfinished - handed_back,
            took_s=self._clock.now() - began,
            in_time=not unfinished,
            errors=tuple(self._errors),
        )

    def _in_flight(self) -> int:
        return sum(part.in_flight for part in self._parts)

    async def _bounded(
        self,
        phase: str,
        calls: Sequence[Callable[[], Awaitable[int | None]]],
        limit_s: float,
        consumers: Sequence[asyncio.Task[object]] = (),
    ) -> int:
        """Runs the calls side by side for at most `limit_s`; returns the sum of the numbers that came in time."""
        tasks: list[asyncio.Task[int | None]] = [asyncio.ensure_future(_started(call)) for call in calls]
        await self._settled(tasks, self._clock.now() + limit_s, consumers)
        total = 0
        for task in tasks:
            if not task.done() or task.cancelled():
                self._errors.append(f"{phase}: was not over when its time was")
            elif (error := task.exception()) is not None:
                self._errors.append(f"{phase}: {_sentence(error)}")
            else:
                total += task.result() or 0
        return total

    async def _settled(
        self,
        tasks: Sequence[asyncio.Task[int | None]],
        until: float,
        consumers: Sequence[asyncio.Task[object]],
    ) -> None:
        """Waits until all tasks are done, `until` has come, or no consumer lives; then cancels what is left of them."""
        pending: set[asyncio.Task[int | None]] = set(tasks)
        try:
            while pending and (left_s := until - self._clock.now()) > 0:
                alive = {consumer for consumer in consumers if not consumer.done()}
                if consumers and not alive:
                    # The last consumer may have finished the last item in this very tick: let that be seen.
                    await asyncio.wait(pending, timeout=0)
                    break
                await asyncio.wait({*pending, *alive}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
                pending = {task for task in pending if not task.done()}
        finally:
            for task in tasks:
                task.cancel()
        pending = {task for task in pending if not task.done()}
        if pending:
            # One tick to obey. Whoever does not is left behind: waiting for him is what a deadline forbids.
            await asyncio.wait(pending, timeout=0)
        for consumer in consumers:
            if consumer.cancelled():
                self._errors.append("consumer: was cancelled")
            elif consumer.done() and (error := consumer.exception()) is not None:
                self._errors.append(f"consumer: {_sentence(error)}")


async def _started(call: Callable[[], Awaitable[int | None]]) -> int | None:
    return await call()  # also turns what `call` raises before its first await into the task's error


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
