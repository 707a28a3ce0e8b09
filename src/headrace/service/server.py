"""uvicorn inside of an event loop that is not its own: it takes no signals, and ends when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import ClassVar

import uvicorn
from starlette.types import ASGIApp

from headrace.service.connections import BoundedProtocol

_KEEP_ALIVE_S = 15
_GRACE_S = 5


class CannotListen(Exception):
    """The address is taken, or may not be used; ends with exit code 5."""

    exit_code: ClassVar[int] = 5


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the command's: a drain comes before the end of HTTP."""
        yield


class HttpServer:
    """Serves an app on one address.

    Args:
        app: what answers.
        host, port: where; port 0 takes a free one.
    """

    def __init__(self, app: ASGIApp, host: str, port: int) -> None:
        self._host, self._port = host, port
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            http=BoundedProtocol,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        port = self._server.servers[0].sockets[0].getsockname()[1] if self._server.started else self._port
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{port}"

    async def start(self) -> None:
        """Returns when connections are taken.

        Raises:
            CannotListen: the address is taken.
        """
        self._task = asyncio.create_task(self._serve(), name="http")
        while not self._server.started:
            if self._task.done():
                self._task.result()
                raise CannotListen(f"cannot listen on {self._host}:{self._port}")
            await asyncio.sleep(0.01)  # uvicorn has no signal for this

    async def ended(self) -> None:
        """Returns when it serves no more; raises what ended it."""
        assert self._task is not None
        await asyncio.shield(self._task)

    async def stop(self, *, at_once: bool = False) -> None:
        """Takes no more connections and ends, with those that are being answered unless `at_once`."""
        if self._task is None:
            return
        self._server.should_exit = True
        self._server.force_exit = at_once
        await asyncio.gather(self._task, return_exceptions=True)

    async def _serve(self) -> None:
        try:
            await self._server.serve()
        except SystemExit as end:  # uvicorn's way to say that it cannot bind
            raise CannotListen(f"cannot listen on {self._host}:{self._port}: is another service there?") from end
