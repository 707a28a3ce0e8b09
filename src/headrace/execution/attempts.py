"""What became of the items: settles outcomes, charges failures to the one item they belong to, reruns the others.

A run is *charged* when the item itself failed: it raised, or its worker was lost, hung or grew too large while it was
on that item. Items that only shared the worker are *rerun*: same order, no charge.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import pickle
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from time import monotonic_ns
from typing import Any, Generic, TypeVar

from headrace.execution.options import MapOptions
from headrace.execution.outcome import UNPICKLABLE_RESULT, Failure, Raised, Success, describe
from headrace.execution.process import STUCK, End, Reply, WorkerProcess
from headrace.execution.window import Chunk, Window
from headrace.execution.wire import Kind

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Listener:
    """Who is told: `on_again` when something is to be run again, `on_error` when `on_charge` raised."""

    on_again: Callable[[], None]
    on_error: Callable[[BaseException], None]


class Attempts(Generic[T, R]):
    """The book of attempts of one map.

    Attributes:
        charged, rerun: how many runs were charged to their item, and how many were repeated without charge.
        finished: items that are settled, or given up.
        ceiling: set when the map was stopped: nothing beyond this position is begun any more.
    """

    def __init__(self, window: Window[T, Success[T, R] | Failure[T]], options: MapOptions, listener: Listener) -> None:
        self._window = window
        self._options = options
        self._listener = listener
        self._again: list[tuple[int, Chunk[T, Any]]] = []  # a heap: what came first runs first
        self._charging: set[asyncio.Task[None]] = set()
        self.charged = 0
        self.rerun = 0
        self.finished = 0
        self.ceiling: int | None = None

    @property
    def waiting(self) -> bool:
        """Whether something is to be run again."""
        return bool(self._again)

    def pop(self) -> Chunk[T, Any]:
        """What is to be run again next: the earliest in the order."""
        return heapq.heappop(self._again)[1]

    def take(self, worker: WorkerProcess, reply: Reply) -> None:
        """Enters what a worker answered."""
        chunk, kind, elapsed_ns, payload = reply
        if kind == Kind.VALUE:
            self._take_value(chunk, payload, elapsed_ns, worker)
        elif kind == Kind.VALUES:
            self._take_values(chunk, payload, worker)
        elif kind == Kind.ERROR:
            self._take_error(chunk, payload, elapsed_ns / 1e9, worker)
        elif kind == Kind.UNREADABLE:
            self.again_singly(chunk)
        else:
            self.again(chunk)

    def take_lost(self, worker: WorkerProcess, chunks: tuple[Chunk[T, Any], ...], end: End) -> bool:
        """Enters the end of a worker; says whether an item was charged with it."""
        doing = None if end.code == STUCK else worker.doing()
        charged = False
        for chunk in chunks:
            if doing is None or doing.position != chunk.position:
                self.again(chunk)
            elif doing.place is None and len(chunk.items) > 1:
                # It died reading or answering the chunk: whose fault that is shows when each comes alone.
                self.again_singly(chunk)
            else:
                charged = True
                elapsed_s = (monotonic_ns() - doing.started_ns) / 1e9
                for place, part in enumerate(self._parts(chunk)):
                    if place == (doing.place or 0):
                        self.fail(part, Raised(end.code, end.detail), None, elapsed_s, worker)
                    else:
                        self.again(part)
        return charged

    def _parts(self, chunk: Chunk[T, Any]) -> list[Chunk[T, Any]]:
        return [chunk] if len(chunk.items) == 1 else self._window.split(chunk)

    def _take_value(
        self, chunk: Chunk[T, Any], payload: bytes | bytearray, elapsed_ns: int, worker: WorkerProcess
    ) -> None:
        elapsed_s = elapsed_ns / 1e9
        try:
            value = pickle.loads(payload)
        except (Exception, SystemExit) as error:
            self.fail(chunk, describe(error, UNPICKLABLE_RESULT), error, elapsed_s, worker)
            return
        self.settle(chunk, [Success(chunk.items[0], value, elapsed_s, chunk.attempts + 1, worker.pid)])

    def _take_values(self, chunk: Chunk[T, Any], payload: bytes | bytearray, worker: WorkerProcess) -> None:
        try:
            values, elapsed, errors = pickle.loads(payload)
        except (Exception, SystemExit):
            # One result cannot be read back: when each comes alone, that one will say so.
            self.again_singly(chunk)
            return
        if not errors:
            self._settle_values(chunk, values, elapsed, worker)
            return
        for place, part in enumerate(self._parts(chunk)):
            if place in errors:
                self._take_error(part, errors[place], elapsed[place], worker)
            else:
                self._settle_values(part, values[place : place + 1], elapsed[place : place + 1], worker)

    def _settle_values(
        self, chunk: Chunk[T, Any], values: Sequence[R], elapsed: Sequence[float], worker: WorkerProcess
    ) -> None:
        columns = zip(chunk.items, values, elapsed, repeat(chunk.attempts + 1), repeat(worker.pid), strict=False)
        # As `Success(*row)` of each row, without a step of Python for each.
        self.settle(chunk, list(map(tuple.__new__, repeat(Success), columns)))

    def _take_error(
        self, chunk: Chunk[T, Any], payload: bytes | bytearray, elapsed_s: float, worker: WorkerProcess
    ) -> None:
        raised, pickled = pickle.loads(payload)
        exception: BaseException | None = None
        if pickled is not None:
            with contextlib.suppress(Exception, SystemExit):
                exception = pickle.loads(pickled)
        self.fail(chunk, raised, exception, elapsed_s, worker)

    def settle(self, chunk: Chunk[T, Any], outcomes: list[Success[T, R] | Failure[T]]) -> None:
        """Enters the outcomes of a chunk."""
        self.finished += len(outcomes)
        self._window.settle(chunk, outcomes)

    def fail(
        self,
        chunk: Chunk[T, Any],
        raised: Raised,
        exception: BaseException | None,
        elapsed_s: float,
        worker: WorkerProcess | None,
    ) -> None:
        """Charges the one item of a chunk with a failure.

        It is run again when attempts are left, else that is its outcome.
        """
        (item,) = chunk.items
        chunk.attempts += 1
        self.charged += 1
        again = raised.code in self._options.retriable
        failure = Failure.of(
            item,
            raised,
            attempt=chunk.attempts,
            elapsed_s=elapsed_s,
            retriable=again,
            exception=exception,
            worker=None if worker is None else worker.pid,
        )
        if not again or chunk.attempts >= self._options.attempts:
            self.settle(chunk, [failure])
        elif self._options.on_charge is None:
            heapq.heappush(self._again, (chunk.position, chunk))
        else:
            task = asyncio.ensure_future(self._charge(chunk, self._options.on_charge, failure))
            self._charging.add(task)
            task.add_done_callback(self._charging.discard)

    async def _charge(
        self, chunk: Chunk[T, Any], on_charge: Callable[[T, Failure[T]], Awaitable[None]], failure: Failure[T]
    ) -> None:
        try:
            await on_charge(failure.item, failure)
        except Exception as error:
            self._listener.on_error(error)
            return
        heapq.heappush(self._again, (chunk.position, chunk))
        self._listener.on_again()

    def again(self, chunk: Chunk[T, Any]) -> None:
        """It is run again, without charge."""
        if self.ceiling is not None and chunk.position > self.ceiling:
            self.finished += len(chunk.items)
            return
        self.rerun += len(chunk.items)
        heapq.heappush(self._again, (chunk.position, chunk))

    def again_singly(self, chunk: Chunk[T, Any]) -> None:
        """The same, each item by itself."""
        for part in self._parts(chunk):
            self.again(part)

    def stop(self, ceiling: int) -> None:
        """Gives up what is to be run again and lies beyond the ceiling."""
        self.ceiling = ceiling
        waiting, self._again = self._again, []
        for position, chunk in waiting:
            if position <= ceiling:
                heapq.heappush(self._again, (position, chunk))
            else:
                self.finished += len(chunk.items)

    def give_up(self) -> None:
        """Nothing is run again, and nothing is charged any more; every item counts as finished."""
        self._again.clear()
        self.finished = self._window.admitted
        for task in self._charging:
            task.cancel()

    async def aclose(self) -> None:
        """Ends what charges; returns when it has ended."""
        self.give_up()
        if self._charging:
            await asyncio.wait(tuple(self._charging))
