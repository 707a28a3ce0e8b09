"""Waking those who wait for something of a certain name: a document, a batch, the next event."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable


class Bell:
    """Rings for a name. Bounded by those who listen: a name that nobody listens to is not kept."""

    def __init__(self) -> None:
        self._listening: dict[Hashable, set[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._listening.values()))

    def ring(self, name: Hashable) -> None:
        """Wakes all who listen to it now."""
        for future in self._listening.pop(name, ()):
            if not future.done():
                future.set_result(None)

    def ring_all(self) -> None:
        """Wakes everybody."""
        for name in list(self._listening):
            self.ring(name)

    async def next_ring(self, name: Hashable, deadline_s: float) -> bool:
        """Waits until the bell rings for this name; False when it did not by the deadline."""
        looked = False

        async def rang() -> bool:
            nonlocal looked
            before, looked = looked, True
            return before

        return await self.until(name, rang, deadline_s)

    async def until(self, name: Hashable, is_so: Callable[[], Awaitable[bool | None]], deadline_s: float) -> bool:
        """Waits until something is so, looking at once and whenever the bell rings.

        Args:
            name: what to listen to.
            is_so: says True, or False for not yet, or None for never.
            deadline_s: False is the answer when it was not so by then.
        """
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + deadline_s
        while True:
            # First listen, then look: what happens in between is not missed.
            future: asyncio.Future[None] = loop.create_future()
            self._listening.setdefault(name, set()).add(future)
            try:
                if (answer := await is_so()) is not False:
                    return answer is True
                await asyncio.wait({future}, timeout=max(0.0, ends_at - loop.time()))
                if not future.done():
                    return False
            finally:
                future.cancel()
                left = self._listening.get(name)
                if left is not None:
                    left.discard(future)
                    if not left:
                        del self._listening[name]
