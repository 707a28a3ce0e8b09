"""Cutting a stream into chunks without reading ahead, and one face for sources of both kinds."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar, cast

T = TypeVar("T")


def chunks(source: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cuts a source into lists of `size` items, the last one shorter; reads one chunk at a time and never ahead.

    Raises:
        ValueError: at the call, not at the first chunk, when `size` is below 1.
    """
    if size < 1:
        raise ValueError(f"a chunk has at least 1 item, not {size}")
    iterator = iter(source)
    return iter(lambda: list(islice(iterator, size)), [])


class Source(Generic[T]):
    """An iterable or async iterable, pulled no further than it is asked to.

    A blocking iterable is advanced in the event loop: whatever waits for disk or network longer than the loop can
    spare should be an async iterable.

    Attributes:
        ended: nothing more comes: it ended, it raised, or it was closed.
        error: what it raised.
    """

    def __init__(self, source: Iterable[T] | AsyncIterable[T]) -> None:
        self._iterator: Iterator[T] | AsyncIterator[T]
        if isinstance(source, AsyncIterable):
            self._iterator, self.is_async = aiter(source), True
        else:
            self._iterator, self.is_async = iter(source), False
        self.ended = False
        self.error: Exception | None = None

    def pull(self) -> tuple[T] | None:
        """The next item of a blocking source, in a tuple of one; None when it ended or raised."""
        items = self.pull_many(1)
        return (items[0],) if items else None

    def pull_many(self, most: int) -> list[T]:
        """The next items of a blocking source; fewer than asked for when it ended or raised."""
        items: list[T] = []
        try:
            items.extend(islice(cast("Iterator[T]", self._iterator), most))  # keeps what came before an error
        except Exception as error:
            self.fail(error)
        else:
            self.ended = len(items) < most
        return items

    async def receive(self) -> tuple[T] | None:
        """The same of an async source. Cancelled, it has passed the cancellation on into the source."""
        try:
            return (await anext(cast("AsyncIterator[T]", self._iterator)),)
        except StopAsyncIteration:
            self.ended = True
        except Exception as error:
            self.fail(error)
        return None

    def fail(self, error: Exception) -> None:
        """Notes an error as the source's own end."""
        self.error, self.ended = error, True

    async def aclose(self) -> None:
        """Closes the source by its own `aclose` or `close`, when it has one; nothing is pulled afterwards."""
        self.ended = True
        close = getattr(self._iterator, "aclose", None) or getattr(self._iterator, "close", None)
        if close is not None:
            closing = close()
            if inspect.isawaitable(closing):
                await closing
