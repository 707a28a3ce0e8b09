"""Keeps search up with the ledger, as work that can wait: it stops while documents wait, and goes on by itself.

What is to be done is not in memory: it is what the store says is missing. So a pause, a stop and a killed process all
leave the same, and the next update goes on there: texts of new entries first, then vectors, also for another model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.service.views import IndexingState, IndexingView, ServiceLimits

if TYPE_CHECKING:
    from headrace.search import Embedder, Progress

_BATCH_ITEMS, _BATCH_TOKENS = 8, 512
"""A query waits for at most one such batch, since there is one session: about 60 ms."""
_AGAIN_TICKS = 30  # after a failure


class Indexing:
    """Runs `search.update` when there is something to do and nothing better. Belongs to one event loop.

    Args:
        workspace: what is indexed.
        limits: whether it is wanted at all.
        embedder: gives the one that is shared with the searches; is not closed here.
        busy: why it must wait now; "" when it need not.
    """

    def __init__(
        self,
        workspace: Path,
        limits: ServiceLimits,
        *,
        embedder: Callable[[], Awaitable[Embedder]],
        busy: Callable[[], str],
    ) -> None:
        self.limits = limits
        self._workspace, self._embedder, self._busy = workspace, embedder, busy
        self._behind = True  # what the last process left
        self._go = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._because = self._failed = ""
        self._again_in = 0
        self._taken_in = self._embedded = 0

    def changed(self) -> None:
        """There are new entries."""
        self._behind = True

    def look(self) -> None:
        """Starts, pauses or goes on, as things stand. To be called about once a second."""
        self._because = self._busy() if self.limits.index_receipts else ""
        wanted = self.limits.index_receipts and not self._because
        if self._again_in:
            self._again_in -= 1
        if self._task is not None and not wanted:
            self._task.cancel()
        elif self._task is None and wanted and self._behind and not self._again_in:
            self._go.set()

    def view(self) -> IndexingView:
        """How it is, from memory."""
        state, because = IndexingState.CURRENT, ""
        if not self.limits.index_receipts:
            state = IndexingState.OFF
        elif self._because:
            state, because = IndexingState.PAUSED, self._because
        elif self._failed:
            state, because = IndexingState.FAILED, self._failed
        elif self._behind or self._task is not None:
            state = IndexingState.INDEXING
        return IndexingView(state, because, self._taken_in, self._embedded)

    async def run(self) -> None:
        """Works until cancelled; leaves whole transactions and no thread.

        It ends when the batch that is being embedded, or the file that is being written, is done.
        """
        while True:
            await self._go.wait()
            self._go.clear()
            self._task = asyncio.create_task(self._update())
            try:
                await asyncio.wait({self._task})
            finally:
                self._task.cancel()
                await asyncio.gather(self._task, return_exceptions=True)
                self._task = None

    async def _update(self) -> None:
        await asyncio.to_thread(import_module, "headrace.search")  # the first time, it takes a while
        from headrace.search import update
        from headrace.search.embedding import token_batching

        taken_in, embedded = self._taken_in, self._embedded

        def tell(progress: Progress) -> None:
            self._taken_in, self._embedded = taken_in + progress.taken_in, embedded + progress.embedded

        self._behind = False  # what is committed from now on may be left to the next one
        try:
            batching = token_batching(max_items=_BATCH_ITEMS, max_tokens=_BATCH_TOKENS)
            progress = await update(self._workspace, await self._embedder(), batching=batching, tell=tell)
            self._failed = progress.failures[0] if progress.failures else ""
        except asyncio.CancelledError:
            self._behind = True
            raise
        except Exception as error:  # whatever it is, documents go on; it is shown, and tried again
            self._failed = str(error) or type(error).__name__
        if self._failed:
            self._behind, self._again_in = True, _AGAIN_TICKS
