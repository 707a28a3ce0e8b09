"""The one thread that touches the database: calls queue up behind each other, the event loop never waits for a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headrace.storage.store import Store

R = TypeVar("R")


class DatabaseThread:
    """Owns a store and runs every step on it in one thread, in the order they were asked for.

    Bounded: at most one call per awaiting task, and the run has a fixed number of tasks.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headrace-database")

    async def call(self, step: Callable[[Store], R]) -> R:
        """Runs `step(store)` in the database thread and gives its result.

        Cancelled: a step that has begun runs to its end (a transaction is never torn); its result is dropped.
        """
        return await asyncio.get_running_loop().run_in_executor(self._executor, step, self._store)

    def close(self) -> None:
        """Waits for the step that runs, drops those that have not begun, and closes the store."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._store.close()
