"""A real receiver of webhooks on a port of this machine, which answers as the test wants it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LONG_S = 60.0


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def told(self) -> Any:
        return json.loads(self.body)

    @property
    def message_id(self) -> str:
        return self.headers["webhook-id"]

    def is_signed_by(self, secret: str) -> bool:
        """Checked as the specification of Standard Webhooks says it, without any code of ours."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = b".".join([self.message_id.encode(), self.headers["webhook-timestamp"].encode(), self.body])
        wanted = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        return f"v1,{wanted}" in self.headers["webhook-signature"].split(" ")


Answer = Callable[[Received, int], tuple[int, dict[str, str]]]
"""What was received, and how many were before it, to a status and headers."""


class Receiver:
    def __init__(self, answer: Answer) -> None:
        self.received: list[Received] = []
        self.released = threading.Event()
        self._answer = answer
        self._changed = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                got = Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                status, headers = outer._take(got)
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("content-length", "0")
                    self.end_headers()
                except OSError:
                    return

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def encrypt(self, certificate: Path, key: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        # The handshake is the handler's thread's, where a client that hangs up does no harm.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)

    def _take(self, got: Received) -> tuple[int, dict[str, str]]:
        with self._changed:
            before = len(self.received)
            self.received.append(got)
            self._changed.notify_all()
        return self._answer(got, before)

    def wait_for(self, count: int) -> list[Received]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.received) >= count, LONG_S), self.received
            return list(self.received)

    def hold(self) -> None:
        """Keeps the caller's request open until the test ends."""
        self.released.wait(LONG_S)

    @contextmanager
    def running(self) -> Iterator[Receiver]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def takes_all(_: Received, __: int) -> tuple[int, dict[str, str]]:
    return 204, {}
