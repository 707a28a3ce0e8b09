"""Permits: how much may be in flight, in items and in bytes, handed out first come first served.

A permit is a value: it can be handed to another task, and whatever costs money takes one as an argument. It ends
exactly once, in one of three ways, which tell an adaptive limit what to learn from it: done, ignore, dropped.
"""

from __future__ import annotations

import asyncio
import enum
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import get_ident
from types import TracebackType
from typing import NamedTuple

from headrace.flow.clock import Clock, LoopClock
from headrace.flow.errors import Closed, Expired, Full, PermitSpent
from headrace.flow.gauges import Gauge
from headrace.flow.threads import outcome_in_loop
from headrace.flow.waiters import WaitLine


class Ending(enum.Enum):
    """How a permit ended: DONE is a sample, IGNORE says nothing about the resource, DROPPED is a sign of overload."""

    DONE = "done"
    IGNORE = "ignore"
    DROPPED = "dropped"


class _Need(NamedTuple):
    items: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PermitStatistics:
    """Permits at one moment; `done`, `ignored` and `dropped` count the endings so far."""

    held: int
    limit: int
    held_bytes: int
    limit_bytes: int | None
    waiting: int
    done: int
    ignored: int
    dropped: int


class Permit:
    """The right to be in flight. Ends once: by `done`, `ignore` or `dropped`, or by leaving its `with` block.

    Leaving the block normally is done; by `TimeoutError` or `Expired`, dropped; by any other exception (also a
    cancellation), ignore. A permit that was ended inside the block stays as it ended.

    A permit that is forgotten is not lost: when it is collected it ends as ignore, with a ResourceWarning.
    """

    __slots__ = ("_permits", "acquired_at", "count", "size_bytes")

    def __init__(self, permits: Permits, count: int, size_bytes: int, acquired_at: float) -> None:
        self._permits: Permits | None = permits
        self.count = count
        self.size_bytes = size_bytes
        self.acquired_at = acquired_at

    @property
    def ended(self) -> bool:
        """Whether it was given back."""
        return self._permits is None

    def done(self) -> None:
        """Gives it back: the work was done, whatever came out. Raises PermitSpent when it had ended."""
        self._end(Ending.DONE)

    def ignore(self) -> None:
        """Gives it back: the work says nothing about the resource (not started, cancelled). Raises PermitSpent."""
        self._end(Ending.IGNORE)

    def dropped(self) -> None:
        """Gives it back: the resource was overloaded (timeout, refusal by a remote). Raises PermitSpent."""
        self._end(Ending.DROPPED)

    def _end(self, ending: Ending) -> None:
        permits, self._permits = self._permits, None
        if permits is None:
            raise PermitSpent(f"this permit had ended before it was {ending.value}")
        permits._release(self, ending)

    def __enter__(self) -> Permit:
        if self._permits is None:
            raise PermitSpent("this permit had ended before its block began")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._permits is None:
            return
        if kind is None:
            self.done()
        elif issubclass(kind, TimeoutError | Expired):
            self.dropped()
        else:
            self.ignore()

    def __del__(self) -> None:
        permits = self._permits
        if permits is not None:
            permits._forgotten(self)
            warnings.warn(f"a permit for {self.count} was never ended", ResourceWarning, stacklevel=1, source=self)


class _ThreadPermit(Permit):
    """A permit that a thread holds: it ends in the event loop, a moment after the call."""

    __slots__ = ()

    def _end(self, ending: Ending) -> None:
        permits, self._permits = self._permits, None
        if permits is None:
            raise PermitSpent(f"this permit had ended before it was {ending.value}")
        with suppress(RuntimeError):  # the loop is gone, and with it whoever could wait for this
            permits._loop.call_soon_threadsafe(permits._release, self, ending)


class Permits:
    """A limit on what is in flight, in items and (if wished) in bytes, both taken in one step.

    Whatever its weight, the head of the line is admitted when nothing is held: otherwise a document heavier than the
    budget would wait for ever, and everything behind it. Belongs to one event loop.

    Args:
        limit: how many items may be in flight, at least 1. Choose what the resource can work on at once.
        limit_bytes: how many bytes those may hold together; None sets no bound on bytes.
        gauge: shows the items in flight, for a `Gate`.
        observe: called with the ending and the seconds it was held, for every permit that ends.
        clock: what tells the time; the running loop's when not given.
    """

    def __init__(
        self,
        limit: int,
        *,
        limit_bytes: int | None = None,
        gauge: Gauge | None = None,
        observe: Callable[[Ending, float], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._check_limits(limit, limit_bytes)
        self._loop = asyncio.get_running_loop()
        self._loop_thread = get_ident()
        self._clock = clock or LoopClock()
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._gauge = gauge
        self._observe = observe
        self._held = 0
        self._held_bytes = 0
        self._line: WaitLine[_Need] = WaitLine(self._take, self._give_back)
        self._idle: WaitLine[None] = WaitLine(lambda _: self._held == 0, lambda _: None)
        self._endings: Counter[Ending] = Counter()
        self._closed = False

    async def acquire(self, count: int = 1, size_bytes: int = 0, *, deadline_s: float | None = None) -> Permit:
        """Waits in line for a permit over `count` items of `size_bytes` together.

        A cancelled call holds nothing: a permit that had been granted to it goes to the next in line.

        Raises:
            Expired: there was none within `deadline_s` seconds.
            Closed: `close` was called.
        """
        need = self._checked(count, size_bytes)
        if self._line.waiting or not self._take(need):
            await self._line.wait(need, deadline_s)
        return Permit(self, count, size_bytes, self._clock.now())

    def try_acquire(self, count: int = 1, size_bytes: int = 0) -> Permit:
        """A permit now.

        Raises:
            Full: there is none free, or others wait for theirs.
            Closed: `close` was called.
        """
        need = self._checked(count, size_bytes)
        if self._line.waiting or not self._take(need):
            raise Full(f"{self._held} of {self._limit} permits are taken")
        return Permit(self, count, size_bytes, self._clock.now())

    def acquire_blocking(self, count: int = 1, size_bytes: int = 0, *, deadline_s: float | None = None) -> Permit:
        """The same as `acquire` for another thread, which may end the permit too (as may any other thread).

        Raises:
            Expired: there was none within `deadline_s` seconds.
            Closed: `close` was called, or the event loop is gone.
            RuntimeError: called in the thread of the event loop, which would wait for itself.
        """

        async def acquire() -> Permit:
            permit = await self.acquire(count, size_bytes, deadline_s=deadline_s)
            permit._permits = None  # what it held goes to its twin
            return _ThreadPermit(self, count, size_bytes, permit.acquired_at)

        return outcome_in_loop(self._loop, self._loop_thread, acquire)

    def resize(self, limit: int, *, limit_bytes: int | None = None) -> None:
        """Changes the limits while in use. More lets those who wait in at once; less takes effect as permits end.

        Raises:
            ValueError: a limit is below 1.
        """
        self._check_limits(limit, limit_bytes)
        self._limit, self._limit_bytes = limit, limit_bytes
        self._line.advance()

    def close(self) -> None:
        """No more comes in: every wait ends with Closed, and so does every later call. What is held stays held."""
        self._closed = True
        self._line.refuse_all(Closed)

    async def wait_idle(self, *, deadline_s: float | None = None) -> None:
        """Waits until nothing is held. A cancelled wait leaves nothing behind.

        Raises:
            Expired: something was still held after `deadline_s` seconds.
        """
        if self._held:
            await self._idle.wait(None, deadline_s)

    @property
    def limit(self) -> int:
        """How many may be out."""
        return self._limit

    @property
    def held(self) -> int:
        """How many items are in flight."""
        return self._held

    def statistics(self) -> PermitStatistics:
        """A frozen snapshot."""
        done, ignored, dropped = (self._endings[ending] for ending in Ending)
        return PermitStatistics(
            self._held, self._limit, self._held_bytes, self._limit_bytes, len(self._line), done, ignored, dropped
        )

    @staticmethod
    def _check_limits(limit: int, limit_bytes: int | None) -> None:
        if limit < 1 or (limit_bytes is not None and limit_bytes < 1):
            raise ValueError(f"a limit must be at least 1, got {limit} items and {limit_bytes} bytes")

    def _checked(self, count: int, size_bytes: int) -> _Need:
        if count < 1 or size_bytes < 0:
            raise ValueError(f"needs at least one item and no negative size, got {count} and {size_bytes} bytes")
        if self._closed:
            raise Closed("these permits are closed")
        return _Need(count, size_bytes)

    def _take(self, need: _Need) -> bool:
        if self._held:
            if self._held + need.items > self._limit:
                return False
            if self._limit_bytes is not None and self._held_bytes + need.size_bytes > self._limit_bytes:
                return False
        self._move(need.items, need.size_bytes)
        return True

    def _give_back(self, need: _Need) -> None:
        self._move(-need.items, -need.size_bytes)

    def _move(self, count: int, size_bytes: int) -> None:
        self._held += count
        self._held_bytes += size_bytes
        if self._gauge is not None:
            self._gauge.set(self._held)
        if not self._held:
            self._idle.advance()

    def _release(self, permit: Permit, ending: Ending) -> None:
        self._endings[ending] += 1
        self._move(-permit.count, -permit.size_bytes)
        self._line.advance()
        if self._observe is not None:
            self._observe(ending, self._clock.now() - permit.acquired_at)

    def _forgotten(self, permit: Permit) -> None:
        # The collector runs in any thread and at any point of our own code, so the loop does the giving back.
        need = _Need(permit.count, permit.size_bytes)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take_home, need)

    def _take_home(self, need: _Need) -> None:
        self._endings[Ending.IGNORE] += 1
        self._give_back(need)
        self._line.advance()
