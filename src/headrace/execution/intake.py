"""The front of a map: pulls from the source what the window has room for, and not one item more."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Generic, TypeVar

from headrace.execution.chunk_size import ChunkSize
from headrace.execution.chunking import Source
from headrace.execution.window import Chunk, Window

T = TypeVar("T")


class Intake(Generic[T]):
    """Moves items from a source into a window and keeps the chunks that wait for a worker.

    A blocking source is pulled by `top_up` only, so it is never read ahead of the workers. An async source is pulled
    by a task, up to one chunk ahead of them.

    Attributes:
        pending: chunks admitted and not yet sent, in order; the last may still grow. Bounded by the window.
        held: pulled, but too heavy for what is left of the budget: an item and its weight. It waits, and nothing is
            pulled behind it.
    """

    def __init__(
        self,
        source: Source[T],
        window: Window[T, Any],
        *,
        chunk: ChunkSize,
        weigh: Callable[[T], int] | None,
        attempts_of: Callable[[T], int] | None,
        on_arrival: Callable[[], None],
    ) -> None:
        self._source = source
        self._window = window
        self._chunk = chunk
        self._weigh = weigh
        self._attempts_of = attempts_of
        self._on_arrival = on_arrival
        self.pending: deque[Chunk[T, Any]] = deque()
        self.held: tuple[T, int] | None = None
        self._stopped = False
        self._wanted = asyncio.Event()
        self._puller = asyncio.create_task(self._pull_async()) if source.is_async else None

    @property
    def ended(self) -> bool:
        """Whether nothing more will be admitted."""
        return self._stopped or (self._source.ended and self.held is None)

    @property
    def _count(self) -> int:
        return sum(len(chunk.items) for chunk in self.pending)

    def top_up(self, count: int, size: int) -> None:
        """Has `count` items pending in chunks of `size`, as far as source and window allow; asks an async source."""
        if self._stopped:
            return
        if self.held is not None:
            self._admit(*self.held, size)
        if self._puller is not None:
            self._wanted.set()
            return
        source, missing = self._source, count - self._count
        if self._weigh is None and self._attempts_of is None:
            missing = min(missing, self._window.room)
            if missing > 0 and not source.ended:
                self._place(source.pull_many(missing), size)
            return
        while missing > 0 and self.held is None and not source.ended and self._window.room:
            pulled = source.pull()
            if pulled is not None:
                self._take(pulled[0], size)
            missing -= 1

    def _place(self, items: list[T], size: int) -> None:
        """Admits items that need no look of their own."""
        pending, window, now = self.pending, self._window, monotonic()
        if size == 1:
            pending.extend([window.admit([item], None, now) for item in items])
            return
        begun = 0
        if pending and (lacking := size - len(pending[-1].items)) > 0:
            window.extend(pending[-1], items[:lacking])
            begun = lacking
        for first in range(begun, len(items), size):
            pending.append(window.admit(items[first : first + size], None, now))

    def _take(self, item: T, size: int) -> None:
        try:
            weight = 0 if self._weigh is None else self._weigh(item)
        except Exception as error:
            # It came from the source and cannot be weighed: an error of the source, in its place.
            self._source.fail(error)
            return
        self._admit(item, weight, size)

    def _admit(self, item: T, weight: int, size: int) -> None:
        if not self._window.fits(weight):
            self.held = (item, weight)
            return
        self.held = None
        try:
            attempts = 0 if self._attempts_of is None else self._attempts_of(item)
        except Exception as error:
            self._source.fail(error)
            return
        pending, window = self.pending, self._window
        weights = None if self._weigh is None else [weight]
        if pending and not attempts and not pending[-1].attempts and len(pending[-1].items) < size:
            window.extend(pending[-1], [item], weights)
        else:
            pending.append(window.admit([item], weights, monotonic(), attempts))

    async def _pull_async(self) -> None:
        source, window = self._source, self._window
        while not self._stopped and not source.ended:
            if self.held is not None or not window.room or self._count >= self._chunk.now:
                self._wanted.clear()
                await self._wanted.wait()
                continue
            pulled = await source.receive()
            if self._stopped:
                # It was under way when this was stopped: pulled all the same, so it is among what is left.
                self.held = None if pulled is None else (pulled[0], 0)
                return
            if pulled is not None:
                self._take(pulled[0], self._chunk.now)
            self._on_arrival()

    def next(self, size: int, *, idle: bool) -> Chunk[T, Any] | None:
        """Takes the next chunk from what is pending.

        A chunk that may still grow is given only to a worker that would stand idle, or when no more comes.
        """
        pending = self.pending
        if not pending or (len(pending) == 1 and len(pending[0].items) < size and not idle and not self.ended):
            return None
        return pending.popleft()

    def stop(self) -> int:
        """Pulls no more and forgets what is pending; says how many items that was. They stay in the window."""
        dropped = self._count
        self._stopped = True
        self.pending.clear()
        self._wanted.set()
        return dropped

    async def aclose(self) -> None:
        """Stops, ends the pulling task and closes the source."""
        self.stop()
        if self._puller is not None:
            self._puller.cancel()
            await asyncio.wait([self._puller])
        await self._source.aclose()
