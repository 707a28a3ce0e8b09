"""A load generator for one HTTP/1.1 server: one process, one event loop, one request per connection at a time.

    python bench/http_load.py open   --port P --rate 500 --seconds 20 --bytes 20000 --seed 1 --out FILE [--start-at T]
    python bench/http_load.py closed --port P --connections 32 --seconds 5 --bytes 100000 --seed 1 --out FILE

`open`: arrivals come by a Poisson schedule that was drawn before, and never wait for an answer; each takes an idle
keep-alive connection or a new one. `closed`: so many connections, each sends again as soon as it is answered.

Every document differs from every other (its first bytes hold seed and number), so that none is a duplicate. `--real DIR`
sends files of a folder instead, each with a few bytes more. Times are of CLOCK_MONOTONIC, which all processes share; a
latency counts from the moment the schedule said, not from when this process got round to it.

FILE is JSON: {"answers": [[due, sent, answered, status, retry_after, document_id, accepted_at], ...], "unsent": n}.
`accepted_at` is the wall clock at the answer; status 0 is a broken connection.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import uvloop

JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000")
_READABLE = (b"\xff\xd8\xff", b"\x89PNG")  # a collection may have files that only look like documents
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_RETRY = re.compile(rb"\r\nretry-after: *(\d+)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_DOCUMENT = re.compile(rb'"(?:document_)?id": ?"([^"]+)"')

OnAnswer = Callable[["Connection", int, bytes, bytes], None]


class Connection(asyncio.Protocol):
    """One connection. `send` while an answer is outstanding is a mistake of the caller."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.open = False
        self._buffer = bytearray()
        self._needs = 0
        self._on_answer: OnAnswer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.open = cast(asyncio.Transport, transport), True  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self._answer(0, b"", b"")

    def send(self, parts: list[bytes], on_answer: OnAnswer) -> None:
        self._on_answer, self._needs = on_answer, 0
        self._buffer.clear()
        self.transport.writelines(parts)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        if len(buffer) < self._needs:
            return
        ends = buffer.find(b"\r\n\r\n")
        if ends < 0:
            return
        head = bytes(buffer[:ends])
        length = _LENGTH.search(head)
        self._needs = ends + 4 + (int(length[1]) if length else 0)
        if len(buffer) < self._needs:
            return
        body = bytes(buffer[ends + 4 : self._needs])
        if _CLOSE.search(head):
            self.open = False
            self.transport.close()
        self._answer(int(head[9:12]), head, body)

    def _answer(self, status: int, head: bytes, body: bytes) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(self, status, head, body)


class Documents:
    """What is sent: requests as pieces of bytes, no two documents alike."""

    def __init__(self, port: int, path: str, size_bytes: int, seed: int, folder: Path | None) -> None:
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/octet-stream\r\n"
        ).encode()
        self._seed, self._number = seed, 0
        if folder is None:
            self._tails = [random.Random(seed).randbytes(max(0, size_bytes - len(JPEG) - 24))]
            self._front = True
        else:
            kinds = {".jpg", ".jpeg", ".png"}
            found = [path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix.lower() in kinds]
            self._tails = [content for content in found if content.startswith(_READABLE)][:60]
            self._front = False

    def next_request(self) -> list[bytes]:
        number = self._number = self._number + 1
        mark = b"%012d%012d" % (self._seed, number)
        tail = self._tails[number % len(self._tails)]
        body = [JPEG + mark, tail] if self._front else [tail, mark]
        length = b"Content-Length: %d\r\n\r\n" % sum(map(len, body))
        return [self._head + length + body[0], *body[1:]]


class Log:
    """What was sent and what came back."""

    def __init__(self) -> None:
        self.answers: list[tuple[float, float, float, int, int, str, float]] = []
        self.unsent = 0
        self.all_answered = asyncio.Event()
        self._outstanding = 0

    def sending(self) -> None:
        self._outstanding += 1
        self.all_answered.clear()

    def add(self, due: float, sent: float, status: int, head: bytes, body: bytes) -> None:
        self._outstanding -= 1
        if not self._outstanding:
            self.all_answered.set()
        retry = _RETRY.search(head)
        name = _DOCUMENT.search(body) if status in (200, 202) else None
        self.answers.append(
            (due, sent, time.monotonic(), status, int(retry[1]) if retry else 0, name[1].decode() if name else "",
             time.time())
        )  # fmt: skip

    def write(self, path: Path) -> None:
        path.write_text(json.dumps({"answers": self.answers, "unsent": self.unsent}))


def schedule(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Seconds from the start at which documents arrive: a Poisson process."""
    rng, at = random.Random(seed), 0.0
    while (at := at + rng.expovariate(rate)) < seconds:
        yield at


async def _connect(port: int) -> Connection:
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    connection.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


async def open_loop(options: argparse.Namespace, documents: Documents, log: Log) -> None:
    idle: deque[Connection] = deque()
    opening: set[asyncio.Task[None]] = set()
    connections = 0

    def send(connection: Connection, due: float) -> None:
        sent = time.monotonic()

        def answered(connection: Connection, status: int, head: bytes, body: bytes) -> None:
            nonlocal connections
            log.add(due, sent, status, head, body)
            if connection.open:
                idle.append(connection)
            else:
                connections -= 1

        connection.send(documents.next_request(), answered)

    async def send_on_new(due: float) -> None:
        nonlocal connections
        sent = time.monotonic()
        try:
            connection = await _connect(options.port)
        except OSError:
            connections -= 1
            log.add(due, sent, 0, b"", b"")
            return
        send(connection, due)

    began = options.start_at or time.monotonic()
    for at in schedule(options.rate, options.seconds, options.seed):
        due = began + at
        if (wait_s := due - time.monotonic()) > 0:
            await asyncio.sleep(wait_s)
        while idle and not idle[-1].open:
            idle.pop()
            connections -= 1
        if idle:
            log.sending()
            send(idle.pop(), due)
        elif connections < options.most_connections:
            connections += 1
            log.sending()
            task = asyncio.create_task(send_on_new(due))
            opening.add(task)
            task.add_done_callback(opening.discard)
        else:
            log.unsent += 1
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(options.linger):
            await log.all_answered.wait()


async def closed_loop(options: argparse.Namespace, documents: Documents, log: Log) -> None:
    began = options.start_at or time.monotonic()
    await asyncio.sleep(began - time.monotonic())
    ends = began + options.seconds
    over = asyncio.get_running_loop().create_future()
    running = options.connections

    def start(connection: Connection) -> None:
        nonlocal running
        now = time.monotonic()
        if now >= ends or not connection.open:
            running -= 1
            if not running and not over.done():
                over.set_result(None)
            return

        def answered(connection: Connection, status: int, head: bytes, body: bytes) -> None:
            log.add(now, now, status, head, body)
            loop.call_soon(start, connection)

        log.sending()
        connection.send(documents.next_request(), answered)

    loop = asyncio.get_running_loop()
    for connection in [await _connect(options.port) for _ in range(options.connections)]:
        start(connection)
    async with asyncio.timeout(options.seconds + options.linger):
        await over


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("open", "closed"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", default="/v1/documents")
    parser.add_argument("--rate", type=float, default=10.0, help="arrivals per second")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--most-connections", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--linger", type=float, default=10.0, help="how long to wait for the last answers")
    parser.add_argument("--bytes", type=int, default=20_000)
    parser.add_argument("--real", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start-at", type=float)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    documents = Documents(options.port, options.path, options.bytes, options.seed, options.real)
    log = Log()
    loop = open_loop if options.mode == "open" else closed_loop
    uvloop.run(loop(options, documents, log))
    log.write(options.out)


if __name__ == "__main__":
    main()
