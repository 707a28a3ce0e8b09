"""Connections that bring no request: bounded in number, time and bytes. uvicorn alone has a bound on none of them."""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_S = 20.0
"""How long the headers of a request may take to come."""

HEADER_BYTES = 64 << 10
"""How long the headers of a request may be, the first and the last piece of them not counted."""

CONNECTIONS_MOST = 10_000

GONE = "headrace.gone"
"""Where a scope has a future that is done when its connection is lost."""

_FILES_OF_OTHERS = 256
_NO_ROOM = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 5\r\n"
    b'connection: close\r\ncontent-length: 91\r\n\r\n{"type":"about:blank","title":"Too many connections","status":503,'
    b'"retry_after_seconds":5} '
)
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/problem+json\r\n"
    b'connection: close\r\ncontent-length: 66\r\n\r\n{"type":"about:blank","title":"The headers are long","status":431}'
)


def connections_most() -> int:
    """How many connections may be open: what the limit on open files leaves beside everything else."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return CONNECTIONS_MOST if files < 0 else max(16, min(CONNECTIONS_MOST, files - _FILES_OF_OTHERS))


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with a deadline and a bound for the headers of each request, and one on open connections."""

    _gone: asyncio.Future[None]
    _deadline: asyncio.TimerHandle | None = None
    _in_headers = False
    _header_bytes = 0

    def connection_made(self, transport: Any) -> None:
        """Takes the connection, or says that there are too many."""
        super().connection_made(transport)
        self._gone = self.loop.create_future()
        if len(self.connections) > connections_most():
            transport.write(_NO_ROOM)
            transport.close()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Goes on with the request; the deadline ends with its headers."""
        in_headers = self._in_headers
        super().data_received(data)
        if in_headers and self._in_headers:  # all of it: what came before belongs to another request
            self._header_bytes += len(data)
            if self._header_bytes > HEADER_BYTES and not self.transport.is_closing():
                self.transport.write(_TOO_LONG)
                self.transport.close()
        if self._waits():
            self._watch()
        else:
            self._unwatch()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_headers, self._header_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its headers are here."""
        self._in_headers = False
        self.scope[GONE] = self._gone  # type: ignore[literal-required]
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends."""
        self._unwatch()
        self._gone.set_result(None)
        super().connection_lost(exc)

    def _waits(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        # The first piece of a request starts it, and no later one moves it: a byte a second does not help.
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADERS_S, self._too_slow)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self._waits() and not self.transport.is_closing():
            self.transport.close()
