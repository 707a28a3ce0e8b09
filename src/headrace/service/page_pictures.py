"""Pages as pictures, on demand: drawn by a worker process of their own, so that hostile bytes cost no reader, no HTTP.

    show ──permit──> wishes ──> one worker (memory limit, deadline) ──file──> cache ──> who asked

The process is started when the first page is wanted, and ended when none has been wanted for a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.documents.advice import MEANING
from headrace.documents.errors import DocumentError
from headrace.execution import ExecutionError, Failure, Success, WorkerPool
from headrace.flow import Closed, Full, Permits
from headrace.ingest.bounds import Bounds
from headrace.ingest.settings import RunSettings
from headrace.ocr.limits import DECODED_BYTES_PER_PIXEL
from headrace.ocr.registry import thread_environment
from headrace.service.errors import PageUnreadable
from headrace.service.picture_cache import PictureCache
from headrace.service.views import Bound, ServiceLimits
from headrace.storage.errors import StorageFull

DEADLINE_S = 20.0
IDLE_S = 60.0
RECYCLE_AFTER = 500
AT_REST_BYTES = 224 << 20
"""A worker with its libraries and the copies of a page that it makes, beside the page itself."""
_EXPECTED_S = 0.5
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Wish:
    """One page that is wanted as a file."""

    source: bytes
    number: int
    rotation: int | None
    target: bytes


@dataclass(frozen=True, slots=True)
class DrawPages:
    """Makes the function that draws; called in the worker. `limits` are those of `ocr.limits.ReadLimits`."""

    limits: dict[str, Any]

    def __call__(self) -> Callable[[Wish], tuple[int, int]]:
        """Loads what decodes and returns the function: pages of the document, and bytes of the picture."""
        from headrace.ocr.limits import ReadLimits
        from headrace.ocr.picture import write_picture

        limits = ReadLimits(**self.limits)

        def draw(wish: Wish) -> tuple[int, int]:
            picture = write_picture(wish.source, wish.number, wish.target, limits, wish.rotation)
            return picture.page_count, picture.size_bytes

        return draw


class PagePictures:
    """Draws pages and keeps the last ones. Made in a running loop; works while `run` runs.

    Args:
        settings, bounds: limits of a document, and where the workspace is.
        limits: how many may ask at the same time, and how much is kept.
    """

    def __init__(self, settings: RunSettings, bounds: Bounds, limits: ServiceLimits) -> None:
        page_bytes = bounds.page_bytes or DECODED_BYTES_PER_PIXEL * settings.max_pixels  # 0: the engine needs no pages
        self.memory_limit_bytes = AT_REST_BYTES + page_bytes
        self._factory = DrawPages(
            {"max_pixels": settings.max_pixels, "max_pages": settings.max_pages, "max_bytes": page_bytes}
        )
        self._cache = PictureCache(settings.workspace / "pages", limits.page_cache_bytes)
        self._permits = Permits(limits.page_requests)
        self._wishes: dict[str, tuple[Wish, asyncio.Future[int]]] = {}  # bounded by the permits
        self._line: deque[str] = deque()
        self._wanted = asyncio.Event()
        self._ready = asyncio.Event()
        self._usual_s = _EXPECTED_S
        self._pool: WorkerPool[Wish, tuple[int, int]] | None = None

    def change_limits(self, limits: ServiceLimits) -> None:
        """Takes other limits while in use; the cache shrinks with the next picture."""
        self._permits.resize(limits.page_requests)
        self._cache.limit_bytes = limits.page_cache_bytes

    def bounds(self) -> tuple[Bound, ...]:
        """What is used, from memory."""
        held = self._permits.statistics()
        rss_bytes = self._pool.statistics().rss_bytes if self._pool is not None else 0
        return (
            Bound("page_requests", "requests", held.held, held.limit, "set"),
            Bound("page_cache", "bytes", self._cache.size_bytes, self._cache.limit_bytes, "set"),
            Bound("page_worker", "bytes", rss_bytes, self.memory_limit_bytes, "its own 224 MiB + the largest page"),
        )

    async def show(self, source: bytes, sha256: str, number: int, rotation: int | None = None) -> Path | int:
        """The picture of a page, or how many pages there are when there is none of this number.

        A cancelled call leaves the page being drawn, for the next one who asks.

        Args:
            source, sha256: where its bytes are, and their digest.
            number: the page, from 1.
            rotation: how it was turned when it was recognised; None while that is not known.

        Raises:
            Full: too many ask at this moment; says when to come back.
            DocumentError: the document or this page cannot be decoded.
            PageUnreadable: drawing it took too long, too much memory, or killed the worker.
            StorageFull: the picture cannot be written.
            Closed: the service ends.
        """
        name = f"{sha256}-{number}-{rotation}.jpg"
        if (kept := self._cache.get(name)) is not None:
            return kept
        try:
            permit = self._permits.try_acquire()
        except Full as error:
            again_s = max(1.0, math.ceil(len(self._wishes) * self._usual_s))
            raise Full("as many pages are asked for as may be", retry_after_s=again_s) from error
        with permit:
            await self._ready.wait()
            if name not in self._wishes:
                wish = Wish(source, number, rotation, os.fsencode(self._cache.path(name)))
                future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
                future.add_done_callback(lambda done: done.cancelled() or done.exception())
                self._wishes[name] = wish, future
                self._line.append(name)
                self._wanted.set()
            page_count = await asyncio.shield(self._wishes[name][1])
        return self._cache.path(name) if number <= page_count else page_count

    async def run(self) -> None:
        """Draws until cancelled; leaves no process and nobody waiting."""
        with contextlib.suppress(OSError):  # then each picture says so
            await asyncio.to_thread(self._cache.clear)
        self._ready.set()
        try:
            while True:
                await self._wanted.wait()
                try:
                    await self._draw()
                except ExecutionError as failed:
                    self._give_up(PageUnreadable(f"no worker can be started: {failed}"))
        finally:
            self._permits.close()
            self._give_up(Closed("the service ended"))

    async def _draw(self) -> None:
        """Draws what is wanted, until nothing has been for a while."""
        pool = self._pool = WorkerPool(
            self._factory,
            workers=1,
            environment=thread_environment() | {"PYTHONWARNINGS": "ignore"},
            memory_limit_bytes=self.memory_limit_bytes,
            recycle_after=RECYCLE_AFTER,
        )
        try:
            async with pool:
                async for outcome in pool.map(self._next_wishes(), window=1, deadline_s=DEADLINE_S):
                    self._settle(outcome)
        finally:
            self._pool = None

    async def _next_wishes(self) -> AsyncIterator[Wish]:
        while True:
            while self._line:
                yield self._wishes[self._line.popleft()][0]
            self._wanted.clear()
            try:
                async with asyncio.timeout(IDLE_S):
                    await self._wanted.wait()
            except TimeoutError:
                return

    def _settle(self, outcome: Success[Wish, tuple[int, int]] | Failure[Wish]) -> None:
        name = Path(os.fsdecode(outcome.item.target)).name
        _, future = self._wishes.pop(name)
        self._usual_s += (outcome.elapsed_s - self._usual_s) / 8
        if isinstance(outcome, Failure):
            future.set_exception(_error_of(outcome))
            return
        page_count, size_bytes = outcome.value
        if size_bytes:
            self._cache.added(name, size_bytes)
        future.set_result(page_count)

    def _give_up(self, error: Exception) -> None:
        for _, future in self._wishes.values():
            if not future.done():
                future.set_exception(error)
        self._wishes.clear()
        self._line.clear()
        self._wanted.clear()


def _error_of(failure: Failure[Wish]) -> Exception:
    error = failure.exception
    if isinstance(error, DocumentError):
        return error
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return StorageFull("there is no room for the picture")
    why = MEANING.get(failure.code, "its decoder failed")
    return PageUnreadable(f"the page cannot be made into a picture: {why}", failure.code, failure.item.number)
