"""The clock contract: durations are float seconds on a clock that never goes back.

Deciding is apart from waiting, so whatever decides takes `now` as a number; a clock is needed only where someone waits
or measures an age. `LoopClock` is the default everywhere: it follows the event loop, so a loop with virtual time
(`headrace.flow.testing`) carries everything on it along.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        ...

    async def sleep(self, duration_s: float) -> None:
        """Returns when `duration_s` seconds have passed; at once when it is not positive."""
        ...


class MonotonicClock:
    """The clock of the machine."""

    def now(self) -> float:
        """Seconds of `time.monotonic`."""
        return time.monotonic()

    async def sleep(self, duration_s: float) -> None:
        """Waits in real time; a cancelled sleep leaves nothing behind."""
        await asyncio.sleep(max(0.0, duration_s))


class LoopClock:
    """The time of an event loop: real on an ordinary one, virtual on a virtual one.

    Args:
        loop: the loop to follow; the running one when not given.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop or asyncio.get_running_loop()
        # asyncio's own loop tells time.monotonic(); asking it directly costs half, and channels ask for every item.
        plain = getattr(type(self.loop), "time", None) is asyncio.BaseEventLoop.time
        self.now: Callable[[], float] = time.monotonic if plain else self.loop.time

    async def sleep(self, duration_s: float) -> None:
        """Waits in the time of the loop; a cancelled sleep leaves nothing behind."""
        await asyncio.sleep(max(0.0, duration_s))
