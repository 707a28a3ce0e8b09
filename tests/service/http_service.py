"""A real service on a real port of this machine, in a thread with its own event loop, for tests that speak HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
import socket
import tarfile
import tempfile
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
from service_support import serving

from headrace.service.app import create_app
from headrace.service.auth import Keys
from headrace.service.edge import Edge
from headrace.service.limits import Limits, RequestLimits
from headrace.service.server import HttpServer
from headrace.service.views import ServiceLimits

T = TypeVar("T")
EdgeMaker = Callable[[], contextlib.AbstractAsyncContextManager[Edge]]


class HttpService:
    """A running service. `ask` runs a coroutine function inside of its loop."""

    def __init__(self, make_edge: EdgeMaker) -> None:
        self._make_edge = make_edge
        self._ready: threading.Event = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="service")

    def __enter__(self) -> HttpService:
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=30, **options)

    def ask(self, function: Callable[[Edge], Awaitable[T]]) -> T:
        async def call() -> T:
            return await function(self.edge)

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(30)

    def look(self, function: Callable[[Edge], T]) -> T:
        async def call(edge: Edge) -> T:
            return function(edge)

        return self.ask(call)

    def until(self, holds: Callable[[Edge], bool]) -> None:
        async def wait(edge: Edge) -> None:
            async with asyncio.timeout(20):
                while not holds(edge):  # noqa: ASYNC110  # what is looked at has no signal
                    await asyncio.sleep(0.005)

        self.ask(wait)

    def connect(self) -> socket.socket:
        host, port = self.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=20)

    def _serve(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with self._make_edge() as edge:
            self.edge = edge
            server = HttpServer(create_app(edge), "127.0.0.1", 0)
            await server.start()
            self.url = server.url
            self._ready.set()
            await self._end.wait()
            edge.closing.set()
            await server.stop()


def limits(requests: RequestLimits | None = None, service: ServiceLimits | None = None) -> Limits:
    return Limits(requests or RequestLimits(), service or ServiceLimits())


ROOM = 64
"""How many documents the services of these tests take at a time."""


@contextlib.asynccontextmanager
async def open_edge(
    keys: Keys | None = None, told: Limits | None = None, document_bytes: int = 1 << 20
) -> AsyncIterator[Edge]:
    """The edge of a real reception: SQLite in its own folder, one worker process, the engine that reads nothing."""
    told = told or Limits()
    service = dataclasses.replace(told.service, documents=ROOM, min_free_bytes=0)
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder) / "w", service, max_document_bytes=document_bytes) as reception:
            yield Edge(reception, document_bytes, keys or Keys(), dataclasses.replace(told, service=service))


def exchange(sock: socket.socket, request: bytes, until: bytes = b"") -> bytes:
    """Sends bytes as they are; reads until the answer holds `until`, or to its end."""
    sock.sendall(request)
    return read(sock, until)


def read(sock: socket.socket, until: bytes = b"") -> bytes:
    answer = b""
    while not (until and until in answer):
        piece = sock.recv(65536)
        if not piece:
            break
        answer += piece
    return answer


def png(number: int = 0, size_bytes: int = 0) -> bytes:
    """A white PNG of one pixel, different for each number, with rubbish behind it up to a size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4) + kind + content + zlib.crc32(kind + content).to_bytes(4)

    header = (1).to_bytes(4) * 2 + b"\x08\x00\x00\x00\x00"
    text = chunk(b"tEXt", b"number\0%d" % number)
    whole = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + text + chunk(b"IDAT", zlib.compress(b"\0\xff"))
    whole += chunk(b"IEND", b"")
    return whole + b"\0" * (size_bytes - len(whole))


def tar(files: dict[str, bytes], mode: str = "w") -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode=mode) as writer:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            writer.addfile(member, io.BytesIO(content))
    return archive.getvalue()


def numbers() -> Iterator[int]:
    """Numbers that no other test of the process has had, so that no two documents are the same by accident."""
    while True:
        with _lock:
            _counter[0] += 1
            number = _counter[0]
        yield number


_lock = threading.Lock()
_counter = [0]
fresh_number = numbers().__next__


def fresh(size_bytes: int = 0) -> bytes:
    return png(fresh_number(), size_bytes)
