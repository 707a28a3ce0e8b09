"""A run as a part that a `flow.Drain` can drain."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.pipeline.run import Run


class Draining:
    """A run as a part that can be drained.

    Args:
        run: which one.
        hand_back_s: how long closing the run may take.
    """

    def __init__(self, run: Run[Any, Any], hand_back_s: float) -> None:
        self._run = run
        self._hand_back_s = hand_back_s

    @property
    def in_flight(self) -> int:
        """Items in the run."""
        return self._run.in_flight

    async def close(self) -> None:
        """Pulls nothing more."""
        self._run.stop()

    async def drained(self) -> None:
        """Returns when nothing is in flight."""
        while self._run.in_flight:
            self._run._idle.clear()
            await self._run._idle.wait()

    async def hand_back(self) -> int:
        """Ends the run; counts the items that no call is still working on."""
        closing = asyncio.ensure_future(self._run.aclose())
        await asyncio.wait({closing}, timeout=self._hand_back_s)
        return len(self._run.left) - self._run._at_work()
