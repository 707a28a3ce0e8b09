"""How long originals are kept: those of documents that have their entries go when their time is over, a page at a time.

The ledger keeps everything else of them: entry, digest, receipt.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from headrace.flow import Closed
from headrace.service.keeping import Keeping
from headrace.service.views import ServiceLimits
from headrace.storage.errors import StoreError
from headrace.storage.sqlite import SqliteStore

PAGE = 100
"""Digests in one step of the database thread: files are removed there, between two groups of accepts."""

_DAY_S = 86_400.0
_BETWEEN_PAGES_S = 1.0
_BETWEEN_ROUNDS_S = 60.0


class Do(Protocol):
    """Does a step in the database thread."""

    def __call__(self, step: Callable[[SqliteStore], Any], /) -> Awaitable[Any]:
        """The result of the step."""


class Retention:
    """Removes originals whose time is over. Belongs to one event loop.

    Args:
        limits: of the service; replaced as a whole by a reload.
        keeping: knows who needs bytes and has no row yet.
        do: does a step in the database thread.

    Attributes:
        removed: originals that were removed since the start.
    """

    def __init__(self, limits: ServiceLimits, keeping: Keeping, do: Do) -> None:
        self.limits = limits
        self._keeping = keeping
        self._do = do
        self._after = ""
        self.removed = 0

    async def run(self) -> None:
        """Looks through all documents again and again, until it is cancelled. An outage costs one page's turn."""
        if await self._do(lambda store: store.has_unfinished_run()):
            return  # the bytes may be its documents' only ones; it cannot finish while we have the workspace
        while True:
            more = False
            with contextlib.suppress(StoreError, OSError, Closed):
                more = await self.sweep_page()
            await asyncio.sleep(_BETWEEN_PAGES_S if more else _BETWEEN_ROUNDS_S)

    async def sweep_page(self) -> bool:
        """Looks at the next page, and removes what is outdated; whether there are more pages."""
        days = self.limits.retention_days
        if days is None:
            return False
        removed, self._after = await self._do(partial(self._drop, self._after, time.time() - days * _DAY_S))
        self.removed += removed
        return bool(self._after)

    def _drop(self, after: str, before: float, store: SqliteStore) -> tuple[int, str]:
        # Rows are written by this thread only: what is outdated here stays so while it is removed.
        outdated, last = store.outdated_bytes(after, before, PAGE)
        return self._keeping.drop(outdated), last
