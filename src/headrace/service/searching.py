"""Search for clients: a few at once, off the loop, each only in what is its own. The model is loaded by the first one.

The extra `search` may be missing: nothing of it is imported before somebody searches.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.flow import Full, Permit, Permits
from headrace.service.errors import BadSearch, SearchUnavailable
from headrace.service.views import Bound, ServiceLimits

if TYPE_CHECKING:
    from headrace.search import Embedder, Found, Search

MEMORY_BYTES = 320 << 20
"""Model and libraries 220 MiB, as measured; 65 MiB to compare 20,000 vectors that the index file lacks; the rest room.

The index file is mapped: its pages count as resident, and the kernel takes them back when it needs them.
"""

_EXPECTED_S = 0.1


def minilm() -> Embedder:
    """The model of this machine with one session: searches of a service take turns, and documents need the cores."""
    from headrace.search.minilm import MiniLM

    return MiniLM(sessions=1)


class Searching:
    """Searches the workspace. Made in a running loop; `run` ends with nobody left in the store.

    Args:
        workspace: what is searched.
        limits: how many may search at the same time.

    Attributes:
        workspace: the folder.
        embedder: makes the one that queries are embedded by, in a thread; looked at by the first search.
    """

    def __init__(self, workspace: Path, limits: ServiceLimits) -> None:
        self.embedder: Callable[[], Embedder] = minilm
        self.workspace = workspace
        self._permits = Permits(limits.search_requests)
        self._tasks: set[asyncio.Task[Found]] = set()  # bounded by the permits
        self._opening = asyncio.Lock()
        self._search: Search | None = None
        self._embedder: Embedder | None = None
        self._usual_s = _EXPECTED_S

    def change_limits(self, limits: ServiceLimits) -> None:
        """Takes another number while in use."""
        self._permits.resize(limits.search_requests)

    def bounds(self) -> tuple[Bound, ...]:
        """What is used, from memory."""
        held = self._permits.statistics()
        memory_bytes = MEMORY_BYTES if self._embedder is not None else 0
        return (
            Bound("search_requests", "requests", held.held, held.limit, "set"),
            Bound("search_memory", "bytes", memory_bytes, MEMORY_BYTES, "set aside by the first search"),
        )

    async def find(self, words: str, limit: int, **narrowed: object) -> Found:
        """What fits the words best, among what passes; see `Search.find`, and `search.Filters` for what narrows.

        A cancelled call leaves its search running to its end: a thread cannot be stopped, and it keeps its permit.

        Raises:
            Full: as many search as may; says when to come back.
            BadSearch: there is nothing to look for, or nothing can pass the filters.
            SearchUnavailable: the extra is not installed, or the vectors are of another model.
            StoreError: of the store.
            Closed: the service ends.
        """
        try:
            permit = self._permits.try_acquire()
        except Full as error:
            again_s = max(1.0, math.ceil(len(self._tasks) * self._usual_s))
            raise Full("as many searches are under way as may be", retry_after_s=again_s) from error
        task = asyncio.create_task(self._find(permit, words, limit, narrowed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def run(self) -> None:
        """Waits until it is cancelled; then takes no more, lets what looks into the store end, and closes it."""
        try:
            await asyncio.Event().wait()
        finally:
            self._permits.close()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._embedder is not None:
                await self._embedder.aclose()
            if self._search is not None:
                await asyncio.to_thread(self._search.close)

    async def _find(self, permit: Permit, words: str, limit: int, narrowed: Mapping[str, Any]) -> Found:
        with permit:
            began = asyncio.get_running_loop().time()
            await asyncio.to_thread(import_module, "headrace.search")  # the first time, it takes a while
            from headrace.search import BadQuery, Filters, SearchError

            try:
                search = await self._opened()
                found = await search.find(words, filters=Filters(**narrowed), limit=limit)
            except BadQuery as error:
                raise BadSearch(str(error)) from error
            except SearchError as error:
                raise SearchUnavailable(str(error)) from error
            self._usual_s += (asyncio.get_running_loop().time() - began - self._usual_s) / 8
            return found

    async def shared_embedder(self) -> Embedder:
        """The embedder, for who has texts of the same workspace; is closed here.

        Raises:
            EmbedderMissing: the extra is not installed.
        """
        async with self._opening:
            if self._embedder is None:
                self._embedder = await asyncio.to_thread(self.embedder)
            return self._embedder

    async def _opened(self) -> Search:
        from headrace.search import Search

        embedder = await self.shared_embedder()
        async with self._opening:
            if self._search is None:
                self._search = await asyncio.to_thread(Search.open, self.workspace, embedder=embedder)
            return self._search
