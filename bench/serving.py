"""Servers as the load tests need them: started in a process group of their own, watched from outside, killed at the end.

Also: load generators in processes of their own, what they measured, and a ledger as it is read from its file.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).resolve().parent
START_S = 60.0
READY = {"headrace": "/readyz"}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def get(port: int, path: str, timeout_s: float = 10.0) -> Any:
    """JSON from a server.

    Raises:
        OSError, http.client.HTTPException: nobody answered.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read()
        return json.loads(content) if answer.status == 200 else None
    finally:
        connection.close()


@dataclass
class Server:
    """One server with its process group; a context manager that kills it."""

    name: str
    command: Sequence[str]
    port: int
    errors: Path
    ready_path: str | None
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self, *, wait: bool = True) -> Server:
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *self.command],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env=os.environ | self.environment,
            )
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        ends = time.monotonic() + START_S
        while time.monotonic() < ends:
            if self.process.poll() is not None:
                raise SystemExit(f"{self.name} ended with {self.process.returncode}:\n{self.said()}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.ready_path is None:
                    socket.create_connection(("127.0.0.1", self.port), 1).close()
                    return
                if get(self.port, self.ready_path, 1.0) is not None:
                    return
            time.sleep(0.02)
        raise SystemExit(f"{self.name} was not ready after {START_S:g} s:\n{self.said()}")

    def said(self) -> str:
        return self.errors.read_text(errors="replace")

    def ceiling_bytes(self) -> int | None:
        """What it said before it began that it would take at most; the twins say nothing."""
        found = re.search(r"RSS ceiling [^(]*\((\d+) bytes\)", self.said())
        return int(found[1]) if found else None

    def kill(self) -> None:
        """The whole group, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def terminate(self, timeout_s: float = 90.0) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


def headrace(
    folder: Path,
    *arguments: str,
    engine: str = "null",
    service_time_s: float = 0.0,
    limits: dict[str, Any] | None = None,
) -> Server:
    """`headrace serve` on a workspace in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    program = ["-m", "headrace"] if not service_time_s else [str(HERE / "fixed_time.py"), str(service_time_s)]
    told = ["--port", str(port), "--engine", engine, "--workspace", str(folder / "workspace"), *arguments]
    if limits is not None:
        lines = []
        for section, values in limits.items():
            lines += [f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
        (folder / "limits.toml").write_text("\n".join(lines) + "\n")
        told += ["--limits", str(folder / "limits.toml")]
    return Server("headrace", [*program, "serve", *told], port, folder / "stderr", "/readyz")


def twin(name: str, folder: Path, *arguments: str, ready_path: str | None = "/livez") -> Server:
    """One of `bench/twins`."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [str(HERE / "twins" / f"{name}.py"), "--port", str(port), *arguments]
    return Server(name, command, port, folder / "stderr", ready_path)


class Watch:
    """Peak RSS of a process tree, looked at from outside every 100 ms (sum of all its processes)."""

    def __init__(self, pid: int) -> None:
        self._tree = psutil.Process(pid)
        self._stop = threading.Event()
        self.peak_bytes = 0
        self.samples: list[tuple[float, int]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            try:
                tree = [self._tree, *self._tree.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            rss = sum(_rss(process) for process in tree)
            self.samples.append((time.monotonic(), rss))
            self.peak_bytes = max(self.peak_bytes, rss)


def _rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


@dataclass(frozen=True, slots=True)
class Answer:
    """One request and its answer; see `http_load`."""

    due: float
    sent: float
    answered: float
    status: int
    retry_after: int
    document_id: str
    accepted_at: float


class Load:
    """Load generators in processes of their own, which begin at the same moment."""

    def __init__(self, mode: str, port: int, processes: int, seed: int, **options: Any) -> None:
        self._scratch = tempfile.TemporaryDirectory()
        folder = Path(self._scratch.name)
        self.starts_at = time.monotonic() + 0.5 + 0.3 * processes
        self._outs = [folder / f"{number}.json" for number in range(processes)]
        told = [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]
        self._processes = [
            subprocess.Popen(
                [sys.executable, str(HERE / "http_load.py"), mode, f"--port={port}", f"--seed={seed * 100 + number}",
                 f"--start-at={self.starts_at}", f"--out={out}", *told]
            )
            for number, out in enumerate(self._outs)
        ]  # fmt: skip

    def wait(self) -> tuple[list[Answer], int]:
        """All answers in the order of their due times, and how many could not be sent for want of connections."""
        for process in self._processes:
            if process.wait():
                raise SystemExit(f"a load generator ended with {process.returncode}")
        told = [json.loads(out.read_text()) for out in self._outs]
        self._scratch.cleanup()
        answers = [Answer(*answer) for one in told for answer in one["answers"]]
        return sorted(answers, key=lambda answer: answer.due), sum(one["unsent"] for one in told)


@contextlib.contextmanager
def database(folder: Path) -> Iterator[sqlite3.Connection]:
    """The store of a workspace in `folder`, to read."""
    path = folder / "workspace/headrace.db"
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    try:
        yield connection
    finally:
        connection.close()


def ends(folder: Path) -> dict[str, float]:
    """When each document got its entry, by the wall clock."""
    with database(folder) as connection:
        rows = connection.execute(
            "SELECT document_id, at FROM events WHERE kind IN "
            "('document.succeeded', 'document.partial', 'document.failed', 'document.cancelled')"
        )
        return dict(rows.fetchall())


def quantile(values: Sequence[float], q: float) -> float:
    """The value below which the share `q` of them is; nan when there are none."""
    return sorted(values)[min(len(values) - 1, int(q * len(values)))] if values else float("nan")


def load_average() -> str:
    return f"{os.getloadavg()[0]:.1f}"
