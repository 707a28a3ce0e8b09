"""The client for code without asyncio: a door to `AsyncClient`, with no rule of its own and no thread."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from headrace.client.answers import Batch, Capacity, Document, Result
from headrace.client.async_client import AsyncClient, ClassName
from headrace.client.batches import Submitted, Verdict
from headrace.client.errors import ClientError
from headrace.client.uploads import Upload

T = TypeVar("T")


class Client:
    """A headrace service, from afar. Close it, or use it in `with`; belongs to one thread at a time.

    Each call runs an event loop of its own until it has its answer; Ctrl-C ends the call, and leaves nothing open.
    Where an event loop runs already, use `AsyncClient`.

    Args:
        url: where it is, such as `http://127.0.0.1:8080`.
        options: as `AsyncClient` takes them.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._client = AsyncClient(url, **options)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections and the loop."""
        try:
            self._run(self._client.aclose())
        finally:
            self._runner.close()

    @property
    def later(self) -> int:
        """How often the server said "later" so far."""
        return self._client.later

    def submit(
        self,
        content: Upload | str | bytes | os.PathLike[str],
        *,
        name: str = "",
        service_class: ClassName = "interactive",
        key: str | None = None,
        wait_s: int | None = None,
        deadline_s: float | None = None,
    ) -> Document:
        """As `AsyncClient.submit`."""
        options: dict[str, Any] = {"name": name, "service_class": service_class, "key": key}
        return self._run(self._client.submit(content, **options, wait_s=wait_s, deadline_s=deadline_s))

    def document(self, document_id: str, *, deadline_s: float | None = None) -> Document:
        """As `AsyncClient.document`."""
        return self._run(self._client.document(document_id, deadline_s=deadline_s))

    def wait(self, document: Document, *, deadline_s: float | None = None) -> Document:
        """As `AsyncClient.wait`."""
        return self._run(self._client.wait(document, deadline_s=deadline_s))

    def receipt(self, document_id: str, *, deadline_s: float | None = None) -> Mapping[str, Any] | None:
        """As `AsyncClient.receipt`."""
        return self._run(self._client.receipt(document_id, deadline_s=deadline_s))

    def open_batch(
        self, *, key: str | None = None, service_class: ClassName = "batch", deadline_s: float | None = None
    ) -> Batch:
        """As `AsyncClient.open_batch`."""
        return self._run(self._client.open_batch(key=key, service_class=service_class, deadline_s=deadline_s))

    def close_batch(self, batch_id: int, *, deadline_s: float | None = None) -> Batch:
        """As `AsyncClient.close_batch`."""
        return self._run(self._client.close_batch(batch_id, deadline_s=deadline_s))

    def batch(self, batch_id: int, *, deadline_s: float | None = None) -> Batch:
        """As `AsyncClient.batch`."""
        return self._run(self._client.batch(batch_id, deadline_s=deadline_s))

    def submit_many(
        self,
        uploads: Iterable[Upload],
        *,
        key: str | None = None,
        service_class: ClassName = "batch",
        in_order: bool = True,
        on_open: Callable[[Batch], None] | None = None,
        on_verdict: Callable[[Verdict], None] | None = None,
        deadline_s: float | None = None,
    ) -> Submitted:
        """As `AsyncClient.submit_many`; `uploads` is iterated in a thread, one at a time."""
        told: dict[str, Any] = {"key": key, "service_class": service_class, "deadline_s": deadline_s}
        told["in_order"] = in_order
        return self._run(self._client.submit_many(uploads, on_open=on_open, on_verdict=on_verdict, **told))

    def results(
        self, batch_id: int, *, after: int = 0, follow: bool = True, deadline_s: float | None = None
    ) -> Generator[Result, None, None]:
        """As `AsyncClient.results`."""
        results = self._client.results(batch_id, after=after, follow=follow, deadline_s=deadline_s)

        async def following() -> Result | None:
            return await anext(results, None)

        try:
            while (result := self._run(following())) is not None:
                yield result
        finally:
            self._run(results.aclose())

    def capacity(self, *, deadline_s: float | None = None) -> Capacity:
        """As `AsyncClient.capacity`."""
        return self._run(self._client.capacity(deadline_s=deadline_s))

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._runner.run(call)
        call.close()
        raise ClientError("an event loop runs in this thread: use AsyncClient there")
