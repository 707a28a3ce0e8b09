"""The first recipe as it is passed on, told in our own words: it is here to show what breaks. Do not use it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class SleepingBucket:
    def __init__(self, per_s: float, burst: float) -> None:
        self.per_s, self.burst, self.tokens = per_s, burst, burst
        self.lock = asyncio.Lock()
        self.seen = asyncio.get_running_loop().time()

    def refill(self) -> None:
        now = asyncio.get_running_loop().time()
        self.tokens = min(self.burst, self.tokens + (now - self.seen) * self.per_s)
        self.seen = now

    async def take(self, count: float = 1.0) -> None:
        async with self.lock:
            self.refill()
            while self.tokens < count:
                await asyncio.sleep((count - self.tokens) / self.per_s)  # everybody else now waits for the lock
                self.refill()
            self.tokens -= count

    async def take_if_there(self, count: float = 1.0) -> bool:
        async with self.lock:
            self.refill()
            if self.tokens < count:
                return False
            self.tokens -= count
            return True

    async def change_rate(self, per_s: float) -> None:
        async with self.lock:
            self.refill()
            self.per_s = per_s


class OcrDoor:
    def __init__(self, *, capacity: int = 64, in_flight: int = 64, per_s: float = 1000.0) -> None:
        self.documents: asyncio.Queue[str] = asyncio.Queue(capacity)
        self.permits = asyncio.Semaphore(in_flight)
        self.bucket = SleepingBucket(per_s, burst=per_s)
        self.high, self.low = capacity * 3 // 4, capacity // 4
        self.open = asyncio.Event()
        self.open.set()

    async def submit(self, document: str) -> None:
        await self.open.wait()
        await self.bucket.take()
        await self.permits.acquire()
        await self.documents.put(document)
        self.look()

    async def work(self, recognise: Callable[[str], Awaitable[object]]) -> None:
        while True:
            await self.open.wait()  # "let the pool rest while the gate is closed"
            document = await self.documents.get()
            self.look()
            await recognise(document)
            self.permits.release()  # not reached when the line above raises, or is cancelled

    def look(self) -> None:
        if self.documents.qsize() >= self.high:
            self.open.clear()
        elif self.documents.qsize() <= self.low:
            self.open.set()
