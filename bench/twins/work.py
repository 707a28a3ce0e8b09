"""What the workers of the twins do with a document: the same as headrace's, in a `ProcessPoolExecutor`."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

_work: Callable[[bytes], None]


def _sleep(seconds: float) -> Callable[[bytes], None]:
    return lambda body: time.sleep(seconds)


def _read(engine: str) -> Callable[[bytes], None]:
    from headrace.documents.document import Document
    from headrace.ingest.reading import ReadDocuments

    read = ReadDocuments(engine, {}, 64 << 20, dt.date.today())()  # noqa: DTZ011 - as headrace does it

    def work(body: bytes) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(body)
            file.flush()
            path = os.fsencode(file.name)
            read(Document("0" * 32, 1, 1, "upload", path, "blob", len(body), 0))

    return work


def _start(engine: str, seconds: float) -> None:
    global _work
    _work = _sleep(seconds) if engine == "null" else _read(engine)


def work(body: bytes) -> float:
    """Works on one document; returns the wall clock at its end."""
    _work(body)
    return time.time()


def ready() -> None:
    """Does nothing, so that a worker is started."""


def parse(description: str | None) -> argparse.Namespace:
    """The arguments that both twins take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engine", default="null")
    parser.add_argument("--service-time", type=float, default=0.04)
    parser.add_argument("--most", type=int, default=100, help="room in the queue, where it has a bound")
    return parser.parse_args()


def workers(options: argparse.Namespace) -> ProcessPoolExecutor:
    """Started and loaded."""
    from headrace.ocr.registry import thread_environment

    os.environ.update(thread_environment())
    pool = ProcessPoolExecutor(
        options.workers, get_context("spawn"), initializer=_start, initargs=(options.engine, options.service_time)
    )
    for future in [pool.submit(ready) for _ in range(options.workers)]:
        future.result()
    return pool
