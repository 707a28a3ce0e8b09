"""Peers of the ordered map, each as its own documentation says it is used. Imported by the other benchmarks.

Work functions are here as well, so that the workers of every peer can import them. The ways a map is driven are
generators: `drive(function, source, deadline_s)` yields a value, or an exception in the place of one.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any, Literal, Protocol

from headrace.execution import Success, WorkerPool, chunks

WORKERS = 2
FLIGHT = 8  # in flight in the copied recipe: four for each worker
WINDOW = 256  # ours

Chunk = int | Literal["auto"]
Sink = Callable[[Any], bool]
"""Takes an outcome, which is a value or an exception; true ends the map."""


class Peer(Protocol):
    """A map over `WORKERS` processes: opened once, run, closed."""

    def open(self, function: Callable[[Any], Any]) -> None: ...

    def run(
        self, source: Iterator[Any], sink: Sink, *, window: int | None, deadline_s: float | None, chunk: Chunk = 1
    ) -> None: ...

    def close(self) -> None: ...


# Work.


def trivial(item: Any) -> Any:
    return item


def slow_head(item: int) -> int:
    time.sleep(3.0 if item == 0 else 0.002)
    return item


def kills_third(item: int) -> int:
    time.sleep(0.01)
    if item == 3:
        os._exit(1)
    return item


def takes_5_ms(item: int) -> int:
    """The processor's time and not the clock's: two on one core would else look like two cores."""
    end_ns = time.thread_time_ns() + 5_000_000
    while time.thread_time_ns() < end_ns:
        pass
    return item


def spins_second(item: int) -> int:
    time.sleep(0.01)
    while item == 2:
        pass
    return item


class Chunked:
    """A function on a chunk, for peers that know no chunks."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __call__(self, items: list[Any]) -> list[Any]:
        function = self.function
        return [function(item) for item in items]


# Peers.


class Headrace:
    """This project's pool."""

    def open(self, function: Callable[[Any], Any]) -> None:
        self._runner = asyncio.Runner()
        self._pool: WorkerPool[Any, Any] = WorkerPool.of(function, workers=WORKERS)
        self._runner.run(self._pool.__aenter__())

    def run(
        self, source: Iterator[Any], sink: Sink, *, window: int | None, deadline_s: float | None, chunk: Chunk = 1
    ) -> None:
        async def go() -> None:
            results = self._pool.map(source, window=window or WINDOW, deadline_s=deadline_s, chunk=chunk)
            async for outcome in results:
                if sink(outcome.value if isinstance(outcome, Success) else RuntimeError(outcome.code)):
                    break
            await results.aclose()

        self._runner.run(go())

    def close(self) -> None:
        self._runner.run(self._pool.__aexit__(None, None, None))
        self._runner.close()


class _Blocking:
    """Drives an iterator whose `next` may raise in the place of one item."""

    def _outcomes(self, source: Iterator[Any], deadline_s: float | None, chunk: int) -> Iterator[Any]:
        raise NotImplementedError

    def run(
        self, source: Iterator[Any], sink: Sink, *, window: int | None, deadline_s: float | None, chunk: Chunk = 1
    ) -> None:
        assert chunk != "auto", "no peer chooses its chunk"
        outcomes, errors = self._outcomes(source, deadline_s, chunk), 0
        while errors < 20:
            try:
                outcome = next(outcomes)
            except StopIteration:
                return
            except Exception as error:
                outcome, errors = error, errors + 1
            if sink(outcome):
                return


class Pebble(_Blocking):
    """pebble.ProcessPool.map: the one peer that isolates crashes and enforces a time limit."""

    def open(self, function: Callable[[Any], Any]) -> None:
        from pebble import ProcessPool

        self._function = function
        self._pool = ProcessPool(max_workers=WORKERS)

    def _outcomes(self, source: Iterator[Any], deadline_s: float | None, chunk: int) -> Iterator[Any]:
        outcomes: Iterator[Any] = self._pool.map(self._function, source, timeout=deadline_s, chunksize=chunk).result()
        return outcomes

    def close(self) -> None:
        stop: Any = self._pool.stop
        stop()
        self._pool.join()


class Mpire(_Blocking):
    """mpire.WorkerPool.imap."""

    def open(self, function: Callable[[Any], Any]) -> None:
        from mpire.pool import WorkerPool as MpirePool

        self._function = function
        self._pool = MpirePool(n_jobs=WORKERS, keep_alive=True)

    def _outcomes(self, source: Iterator[Any], deadline_s: float | None, chunk: int) -> Iterator[Any]:
        outcomes: Iterator[Any] = self._pool.imap(
            self._function, ((item,) for item in source), chunk_size=chunk, task_timeout=deadline_s
        )
        return outcomes

    def close(self) -> None:
        self._pool.terminate()


class Recipe:
    """The widely copied recipe: ProcessPoolExecutor, prime, wait for the first, refill, reorder in a heap."""

    def open(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._executor = ProcessPoolExecutor(WORKERS)

    def run(
        self, source: Iterator[Any], sink: Sink, *, window: int | None, deadline_s: float | None, chunk: Chunk = 1
    ) -> None:
        function, parts = self._function, source
        if chunk != 1:
            assert chunk != "auto", "no peer chooses its chunk"
            function, parts = Chunked(function), chunks(source, chunk)
        numbered = enumerate(parts)
        live: dict[Future[Any], int] = {}
        done: list[tuple[int, Future[Any]]] = []
        following = 0
        for number, item in itertools.islice(numbered, window or FLIGHT):
            live[self._executor.submit(function, item)] = number
        while live:
            for future in wait(live, return_when=FIRST_COMPLETED).done:
                heapq.heappush(done, (live.pop(future), future))
                for number, item in itertools.islice(numbered, 1):
                    live[self._executor.submit(function, item)] = number
            while done and done[0][0] == following:
                following += 1
                error = (future := heapq.heappop(done)[1]).exception()
                outcome: Any = future.result() if error is None else error
                for value in outcome if chunk != 1 and error is None else (outcome,):
                    if sink(value):
                        return

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)


class PoolImap(_Blocking):
    """multiprocessing.Pool.imap: the fastest, with no bound, and it hangs when a worker dies."""

    def open(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._pool = multiprocessing.Pool(WORKERS)

    def _outcomes(self, source: Iterator[Any], deadline_s: float | None, chunk: int) -> Iterator[Any]:
        return iter(self._pool.imap(self._function, source, chunksize=chunk))

    def close(self) -> None:
        self._pool.terminate()
        self._pool.join()


class RawPipes:
    """The limit: forked workers on bare pipes, one frame and one write per item, taken in turn.

    No selecting, no time limit, no crash handling: nobody could use it. `DEPTH` frames in flight per worker.
    """

    DEPTH = 16

    def open(self, function: Callable[[Any], Any]) -> None:
        self._children: list[int] = []
        self._pipes: list[tuple[int, int]] = []
        for _ in range(WORKERS):
            (there, to_child), (from_child, back) = os.pipe(), os.pipe()
            pid = os.fork()
            if pid == 0:
                for descriptor in (to_child, from_child, *itertools.chain(*self._pipes)):
                    os.close(descriptor)
                with contextlib.suppress(BrokenPipeError):
                    for frame in _frames(there):
                        what = _load(frame)
                        _write(back, [function(item) for item in what] if isinstance(what, list) else function(what))
                os._exit(0)
            os.close(there)
            os.close(back)
            self._children.append(pid)
            self._pipes.append((from_child, to_child))

    def run(
        self, source: Iterator[Any], sink: Sink, *, window: int | None, deadline_s: float | None, chunk: Chunk = 1
    ) -> None:
        assert chunk != "auto", "it knows no time"
        one_by_one = chunk == 1
        answers = [_frames(from_child) for from_child, _ in self._pipes]
        sent = taken = 0

        def take(value: Any) -> None:
            for one in (value,) if one_by_one else value:
                sink(one)

        for item in source if one_by_one else chunks(source, chunk):
            _write(self._pipes[sent % WORKERS][1], item)
            sent += 1
            if sent - taken == WORKERS * self.DEPTH:
                take(_load(next(answers[taken % WORKERS])))
                taken += 1
        for number in range(taken, sent):
            take(_load(next(answers[number % WORKERS])))

    def close(self) -> None:
        for descriptor in itertools.chain(*self._pipes):
            os.close(descriptor)
        for pid in self._children:
            os.waitpid(pid, 0)


def _load(frame: bytes) -> Any:
    import pickle

    return pickle.loads(frame)


def _write(descriptor: int, value: Any) -> None:
    import pickle

    body = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    os.write(descriptor, len(body).to_bytes(4, "little") + body)


def _frames(descriptor: int) -> Iterator[bytes]:
    buffer = b""
    while data := os.read(descriptor, 1 << 16):
        buffer += data
        while len(buffer) >= 4 and len(buffer) >= 4 + (length := int.from_bytes(buffer[:4], "little")):
            frame, buffer = buffer[4 : 4 + length], buffer[4 + length :]
            yield frame


PEERS: dict[str, type[Any]] = {
    "headrace": Headrace,
    "pebble": Pebble,
    "mpire": Mpire,
    "recipe": Recipe,
    "Pool.imap": PoolImap,
    "raw pipes": RawPipes,
}


def versions() -> dict[str, str]:
    """What was compared."""
    from importlib.metadata import version

    return {"python": sys.version.split()[0], **{name: version(name) for name in ("headrace", "pebble", "mpire")}}
