"""A real service in a process of its own, and a wire that can be cut."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_URL = re.compile(r"headrace: (http://[0-9.:]+) ")


class ServiceProcess:
    """`headrace serve` with the null engine. A context manager; may be killed and started again on the same port."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.said: list[str] = []

    def __enter__(self) -> ServiceProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.end(signal.SIGTERM)

    def start(self) -> None:
        port = self.url.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", "headrace", "serve", "--engine", "null", "--workers", "1", "--port", port]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        self._process = subprocess.Popen(
            [*command, *self._options], cwd=self._folder, env=environment, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said.append(line)
            if told := _URL.match(line):
                self.url = told[1]
                break
        else:
            raise AssertionError(f"it did not start: {''.join(self.said)}")
        self._reader = threading.Thread(target=self._read_on, args=(self._process.stderr,))
        self._reader.start()

    def _read_on(self, stream: Iterator[str]) -> None:
        for line in stream:
            self.said = [*self.said[-200:], line]

    def end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait(60)
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._process = None
        return code


class Wire:
    """A TCP proxy in front of a service. `cuts` answers are swallowed: the service has spoken, and the line is cut.

    Only answers of requests that begin with `cut_what` count. With `after_bytes`, connections are cut instead when so
    much went to the service over one of them, and `on_cut` is called before the client hears of it.
    """

    def __init__(
        self,
        url: str,
        *,
        cuts: int,
        cut_what: bytes = b"POST /v1/documents",
        after_bytes: int = 0,
        on_cut: Callable[[], None] = lambda: None,
    ) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._service = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.left, self.cut = cuts, 0
        self._cut_what = cut_what
        self._after_bytes, self._on_cut = after_bytes, on_cut
        self.carried_bytes = 0
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Wire:
        self._threads.append(threading.Thread(target=self._accept))
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(20)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                thread = threading.Thread(target=self._carry, args=(near, socket.create_connection(self._service)))
                self._threads.append(thread)
                thread.start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        asked = b""
        sent_bytes = 0
        with near, far, selectors.DefaultSelector() as ready, contextlib.suppress(OSError):
            ready.register(near, selectors.EVENT_READ, far)
            ready.register(far, selectors.EVENT_READ, near)
            while True:
                for key, _ in ready.select():
                    piece = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    if not piece:
                        return
                    if key.fileobj is near:
                        asked = piece if piece.startswith((b"POST", b"GET", b"PATCH", b"HEAD")) else asked
                        sent_bytes += len(piece)
                        self.carried_bytes += len(piece)
                        if self.left and 0 < self._after_bytes <= sent_bytes:
                            self.left -= 1
                            self.cut += 1
                            self._on_cut()
                            return
                    elif not self._after_bytes and self.left and asked.startswith(self._cut_what):
                        self.left -= 1
                        self.cut += 1
                        return
                    key.data.sendall(piece)


def until(holds: object, within_s: float = 30.0) -> None:
    """Waits for a condition of another process, which has no signal."""
    deadline = time.monotonic() + within_s
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)
