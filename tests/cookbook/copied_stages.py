"""The third recipe as it is passed on, told in our own words: it is here to show what breaks. Do not use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable


class Server:
    def __init__(self, store: Callable[[bytes], Awaitable[None]], *, connections: int, high_water: int) -> None:
        self.store = store
        self.permits = asyncio.Semaphore(connections)
        self.high_water = high_water
        self.in_flight = 0  # the gauge
        self.refused = 0
        self.stage: asyncio.Queue[bytes] = asyncio.Queue()

    async def connected(self, bodies: AsyncIterable[bytes]) -> None:
        async with self.permits:  # one for each connection, for as long as it is open
            async for body in bodies:
                if self.in_flight >= self.high_water:  # check ...
                    self.refused += 1
                    continue
                await self.store(body)  # ... here all others make the same check ...
                self.in_flight += 1  # ... then act
                await self.stage.put(body)
