"""The front of a map: pulls from the source what the window has room for, and not one item more."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Generic, TypeVar

from headrace.execution.chunk_size import ChunkSize
from headrace.execution.chunking import Source
from headrace.execution.window import Slot, Window

T = TypeVar("T")


class Intake(Generic[T]):
    """Moves items from a source into a window and keeps those that wait for a worker.

    A blocking source is pulled by `top_up` only, so it is never read ahead of the workers. An async source is pulled
    by a task, up to one chunk ahead of them.

    Attributes:
        pending: admitted and not yet sent, in order. Bounded by the window.
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
        self.pending: deque[Slot[T, Any]] = deque()
        self.held: tuple[T, int] | None = None
        self._stopped = False
        self._wanted = asyncio.Event()
        self._puller = asyncio.create_task(self._pull_async()) if source.is_async else None

    @property
    def ended(self) -> bool:
        """Whether nothing more will be admitted."""
        return self._stopped or (self._source.ended and self.held is None)

    def top_up(self, count: int) -> None:
        """Has up to `count` items pending, as far as source and window allow. Of an async source it asks only."""
        pending = self.pending
        if self._stopped:
            return
        if self.held is not None:
            self._admit(*self.held)
        if self._puller is not None:
            self._wanted.set()
            return
        window, source = self._window, self._source
        while len(pending) < count and self.held is None and not source.ended and window.has_room:
            pulled = source.pull()
            if pulled is not None:
                self._take(pulled[0])

    def _take(self, item: T) -> None:
        try:
            weight = 0 if self._weigh is None else self._weigh(item)
        except Exception as error:
            # It came from the source and cannot be weighed: an error of the source, in its place.
            self._source.fail(error)
            return
        self._admit(item, weight)

    def _admit(self, item: T, weight: int) -> None:
        if not self._window.fits(weight):
            self.held = (item, weight)
            return
        self.held = None
        try:
            attempts = 0 if self._attempts_of is None else self._attempts_of(item)
        except Exception as error:
            self._source.fail(error)
            return
        self.pending.append(self._window.admit(item, weight, monotonic(), attempts))

    async def _pull_async(self) -> None:
        source, window = self._source, self._window
        while not self._stopped and not source.ended:
            if self.held is not None or not window.has_room or len(self.pending) >= self._chunk.now:
                self._wanted.clear()
                await self._wanted.wait()
                continue
            pulled = await source.receive()
            if self._stopped:
                # It was under way when this was stopped: pulled all the same, so it is among what is left.
                self.held = None if pulled is None else (pulled[0], 0)
                return
            if pulled is not None:
                self._take(pulled[0])
            self._on_arrival()

    def stop(self) -> int:
        """Pulls no more and forgets what is pending; says how many those were. They stay in the window."""
        dropped = len(self.pending)
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
