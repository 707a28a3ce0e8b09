"""A batch of 10,000 documents in one tar, streamed into a server that has room for 16: TCP slows the client down.

    python bench/batch_stream.py
    python bench/batch_stream.py --documents 1000 --bytes 20000

The archive is made while it is sent; nothing holds it whole. Beside it one client follows the results. Measured: how far
the sender was ever ahead of the ledger, what of its time it spent blocked in `send`, RSS of the service's tree by thirds of
the run, and whether the results came in the order of the archive, each once. Exit code 1 when they did not.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import io
import json
import random
import socket
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from http_load import JPEG
from serving import HERE, Watch, get, headrace, load_average, quantile

BATCH = 1  # the first one of a new workspace


@dataclass
class Sender:
    """Sends the archive member by member, chunked, over a plain socket; notes how long `send` blocked."""

    port: int
    documents: int
    size_bytes: int
    sent: int = 0
    sent_bytes: int = 0
    blocked_s: float = 0.0
    took_s: float = 0.0
    status: int = 0
    reply: dict[str, Any] = field(default_factory=dict)
    digests: list[str] = field(default_factory=list)

    def run(self) -> None:
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(
                b"POST /v1/batches HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-tar\r\n"
                b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            )
            for piece in self._members():
                before = time.monotonic()
                connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
                self.blocked_s += time.monotonic() - before
                self.sent += 1
                self.sent_bytes += len(piece)
            connection.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (1024, bytes(1024)))
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            self.status = answer.status
            self.reply = json.loads(answer.read())
        self.took_s = time.monotonic() - began

    def _members(self) -> Iterator[bytes]:
        tail = random.Random(5).randbytes(self.size_bytes)
        for number in range(1, self.documents + 1):
            content = JPEG + b"document %d " % number + tail
            self.digests.append(hashlib.sha256(content).hexdigest())
            info = tarfile.TarInfo(f"scans/{number:05d}.jpg")
            info.size = len(content)
            block = io.BytesIO()
            block.write(info.tobuf(tarfile.GNU_FORMAT))
            block.write(content)
            block.write(bytes(-len(content) % 512))
            yield block.getvalue()


@dataclass
class Follower:
    """Reads `results?follow=1` to its end."""

    port: int
    positions: list[int] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    error: str = ""

    def run(self) -> None:
        try:
            while get(self.port, f"/v1/batches/{BATCH}") is None:
                time.sleep(0.02)
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
            connection.request("GET", f"/v1/batches/{BATCH}/results?follow=1&after=0")
            answer = connection.getresponse()
            if answer.status != 200:
                self.error = f"results: {answer.status} {answer.read()!r}"
                return
            for line in answer:
                if line.strip():
                    entry = json.loads(line)
                    self.positions.append(int(entry["source"]["uri"].rpartition("/")[2].removesuffix(".jpg")))
                    self.digests.append(entry["sha256"])
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=20_000)
    parser.add_argument("--window", type=int, default=16)
    parser.add_argument("--service-time", type=float, default=0.004)
    options = parser.parse_args()
    ahead: list[int] = []
    with tempfile.TemporaryDirectory() as scratch:
        limits = {"service": {"documents": options.window}}
        server = headrace(
            Path(scratch) / "service", "--workers", "2", "--window", str(options.window),
            service_time_s=options.service_time, limits=limits,
        )  # fmt: skip
        with server, Watch(server.process.pid) as watch:
            sender = Sender(server.port, options.documents, options.bytes)
            follower = Follower(server.port)
            sending, following = threading.Thread(target=sender.run), threading.Thread(target=follower.run)
            began = time.monotonic()
            sending.start()
            following.start()
            most_in_flight = 0
            while sending.is_alive():
                told = get(server.port, "/v1/capacity")
                ahead.append(sender.sent - told["done"])
                most_in_flight = max(most_in_flight, told["in_flight"])
                time.sleep(0.2)
            following.join(120)
            elapsed_s = time.monotonic() - began
            ceiling = server.ceiling_bytes() or 0
    wrong = _wrong(sender, follower, options.documents, watch, ceiling, most_in_flight, options.window)
    thirds = _thirds(watch)
    print(
        f"| documents in one tar | window | s (load average) | documents/s | client blocked by TCP | sender ahead of the ledger, "
        f"documents, at most | in flight, at most | peak RSS by thirds, MB (ceiling) | results |\n|---|---|---|---|---|---|---|---|---|\n"
        f"| {options.documents:,} of {options.bytes // 1000} KB, {sender.sent_bytes / 1e6:.0f} MB | {options.window} "
        f"| {elapsed_s:.1f} ({load_average()}) | {options.documents / elapsed_s:.0f} "
        f"| {sender.blocked_s / sender.took_s if sender.took_s else 0:.0%} of its time "
        f"| {max(ahead)} (median {quantile(ahead, 0.5):g}) | {most_in_flight} "
        f"| {' / '.join(f'{mb:.0f}' for mb in thirds)} ({ceiling / 1e6:.0f}) "
        f"| {len(follower.positions):,}, {'in order, each once' if not wrong else 'WRONG'} |"
    )
    for line in wrong:
        print(f"BAD  {line}")
    result = {"elapsed_s": elapsed_s, "blocked_s": sender.blocked_s, "ahead": ahead, "rss_mb": thirds, "wrong": wrong,
              "rss_samples": [(round(at - began, 1), rss) for at, rss in watch.samples[::10]]}  # fmt: skip
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    (out / "batch_stream.json").write_text(json.dumps(result, indent=1))
    return 1 if wrong else 0


def _wrong(
    sender: Sender, follower: Follower, documents: int, watch: Watch, ceiling: int, in_flight: int, window: int
) -> list[str]:
    wrong = [follower.error] if follower.error else []
    if sender.status != 202 or not sender.reply.get("complete") or sender.reply.get("items_accepted") != documents:
        told = {key: value for key, value in sender.reply.items() if key != "items"}
        wrong.append(f"the batch was answered with {sender.status} {told}")
    if follower.positions != list(range(1, documents + 1)):
        wrong.append(f"results: {len(follower.positions)}, not in the order of the archive")
    if follower.digests != sender.digests:
        wrong.append("results have other digests than the members")
    if watch.peak_bytes > ceiling:
        wrong.append(f"peak RSS {watch.peak_bytes} is over the ceiling {ceiling}")
    if in_flight > window:
        wrong.append(f"{in_flight} in flight, and the limit is {window}")
    return wrong


def _thirds(watch: Watch) -> list[float]:
    """Peak RSS of each third of the run, in MB."""
    size = max(1, len(watch.samples) // 3)
    parts = [watch.samples[:size], watch.samples[size : 2 * size], watch.samples[2 * size :]]
    return [max((rss for _, rss in part), default=0) / 1e6 for part in parts]


if __name__ == "__main__":
    raise SystemExit(main())
