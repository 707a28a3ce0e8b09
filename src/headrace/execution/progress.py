"""How far a function is with its item, told while it runs: `report_progress(23, 113)`.

What is told is news, not a result: it may be left out, and the outcome never depends on it. A worker sends at most five
a second, and none while its pipe is full; the parent keeps the last one of each worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

Listener = Callable[[int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("headrace_progress", default=None)


class Progress(NamedTuple):
    """How far a worker is: `done` of `total` steps of the item at this place of its chunk."""

    place: int
    done: int
    total: int


def report_progress(done: int, total: int) -> None:
    """Says how far the running function is with its item: `done` of `total` steps, pages or rows.

    To be called by the function, in the thread that it was called in; anywhere else it does nothing. Cheap enough for
    every step: most calls send nothing, and none waits.

    Raises:
        ValueError: not 0 <= done <= total.
    """
    if not 0 <= done <= total:
        raise ValueError(f"progress is 0 <= done <= total, not {done!r} of {total!r}")
    listener = _listener.get()
    if listener is not None:
        listener(done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """What is reported inside goes to this listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
