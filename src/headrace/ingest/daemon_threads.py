"""Work that may block for ever, in threads that do not hold up the end of the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


def in_daemon_thread(work: Callable[[], None]) -> asyncio.Future[None]:
    """Runs work in a daemon thread: a pipe that nobody writes to, or reads from, must not keep the process alive.

    Cancelled: the thread goes on by itself, what it raises is dropped.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    future.add_done_callback(_look)

    def finish(error: BaseException | None) -> None:
        if not future.done():
            future.set_result(None) if error is None else future.set_exception(error)

    def run() -> None:
        error = None
        try:
            work()
        except BaseException as caught:
            error = caught
        try:
            loop.call_soon_threadsafe(finish, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    threading.Thread(target=run, name="headrace-blocking", daemon=True).start()
    return future


def _look(future: asyncio.Future[None]) -> None:
    """Has seen the error, so that asyncio does not complain of one that nobody waits for any more."""
    if not future.cancelled():
        future.exception()
