"""What became of the items: settles outcomes, charges failures to the one item they belong to, reruns the others.

A run is *charged* when the item itself failed: it raised, or its worker was lost, hung or grew too large while it was
on that item. Items that only shared the worker are *rerun*: same order, no charge.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import pickle
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any, Generic, TypeVar

from headrace.execution.options import MapOptions
from headrace.execution.outcome import UNPICKLABLE_RESULT, Failure, Raised, Success, describe
from headrace.execution.process import STUCK, End, Frame, Reply, WorkerProcess
from headrace.execution.window import Slot, Window
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
        self._again: list[tuple[int, list[Slot[T, Any]]]] = []  # a heap: what came first runs first
        self._charging: set[asyncio.Task[None]] = set()
        self.charged = 0
        self.rerun = 0
        self.finished = 0
        self.ceiling: int | None = None

    @property
    def waiting(self) -> bool:
        """Whether something is to be run again."""
        return bool(self._again)

    def pop(self) -> list[Slot[T, Any]]:
        """What is to be run again next: the earliest in the order."""
        return heapq.heappop(self._again)[1]

    def take(self, worker: WorkerProcess, reply: Reply) -> None:
        """Enters what a worker answered."""
        slots, kind = reply.frame.slots, reply.kind
        if kind == Kind.VALUE:
            self._take_value(slots[0], reply, worker)
        elif kind == Kind.ERROR:
            self._take_error(slots[0], reply.payload, reply.elapsed_ns, worker)
        elif kind == Kind.VALUES:
            self._take_values(slots, reply.payload, worker)
        elif kind == Kind.UNREADABLE:
            self.again_singly(slots)
        else:
            self.again(slots)

    def take_lost(self, worker: WorkerProcess, frames: tuple[Frame, ...], end: End) -> bool:
        """Enters the end of a worker; says whether an item was charged with it."""
        doing = None if end.code == STUCK else worker.doing()
        charged = False
        for position, slots in frames:
            if doing is None or doing.position != position:
                self.again(slots)
            elif doing.place is None and len(slots) > 1:
                # It died reading or answering the chunk: whose fault that is shows when each comes alone.
                self.again_singly(slots)
            else:
                victim = slots[doing.place or 0]
                charged = True
                self.again([slot for slot in slots if slot is not victim])
                elapsed_s = (monotonic_ns() - doing.started_ns) / 1e9
                self.fail(victim, Raised(end.code, end.detail), None, elapsed_s, worker)
        return charged

    def _take_value(self, slot: Slot[T, Any], reply: Reply, worker: WorkerProcess) -> None:
        elapsed_s = reply.elapsed_ns / 1e9
        try:
            value = pickle.loads(reply.payload)
        except (Exception, SystemExit) as error:
            self.fail(slot, describe(error, UNPICKLABLE_RESULT), error, elapsed_s, worker)
            return
        self.settle(slot, Success(slot.item, value, elapsed_s, slot.attempts + 1, worker.pid))

    def _take_values(self, slots: list[Slot[T, Any]], payload: bytearray, worker: WorkerProcess) -> None:
        try:
            values, elapsed, errors = pickle.loads(payload)
        except (Exception, SystemExit):
            # One result cannot be read back: when each comes alone, that one will say so.
            self.again_singly(slots)
            return
        for index, slot in enumerate(slots):
            if index in errors:
                self._take_error(slot, errors[index], elapsed[index], worker)
            else:
                elapsed_s = elapsed[index] / 1e9
                self.settle(slot, Success(slot.item, values[index], elapsed_s, slot.attempts + 1, worker.pid))

    def _take_error(
        self, slot: Slot[T, Any], payload: bytes | bytearray, elapsed_ns: int, worker: WorkerProcess
    ) -> None:
        raised, pickled = pickle.loads(payload)
        exception: BaseException | None = None
        if pickled is not None:
            with contextlib.suppress(Exception, SystemExit):
                exception = pickle.loads(pickled)
        self.fail(slot, raised, exception, elapsed_ns / 1e9, worker)

    def settle(self, slot: Slot[T, Any], outcome: Success[T, R] | Failure[T]) -> None:
        """Enters an item's outcome."""
        self.finished += 1
        self._window.settle(slot, outcome)

    def fail(
        self,
        slot: Slot[T, Any],
        raised: Raised,
        exception: BaseException | None,
        elapsed_s: float,
        worker: WorkerProcess | None,
    ) -> None:
        """Charges an item with a failure; it is run again when attempts are left, else that is its outcome."""
        slot.attempts += 1
        self.charged += 1
        again = raised.code in self._options.retriable
        failure = Failure.of(
            slot.item,
            raised,
            attempt=slot.attempts,
            elapsed_s=elapsed_s,
            retriable=again,
            exception=exception,
            worker=None if worker is None else worker.pid,
        )
        if not again or slot.attempts >= self._options.attempts:
            self.settle(slot, failure)
        elif self._options.on_charge is None:
            heapq.heappush(self._again, (slot.position, [slot]))
        else:
            task = asyncio.ensure_future(self._charge(slot, self._options.on_charge, failure))
            self._charging.add(task)
            task.add_done_callback(self._charging.discard)

    async def _charge(
        self, slot: Slot[T, Any], on_charge: Callable[[T, Failure[T]], Awaitable[None]], failure: Failure[T]
    ) -> None:
        try:
            await on_charge(slot.item, failure)
        except Exception as error:
            self._listener.on_error(error)
            return
        heapq.heappush(self._again, (slot.position, [slot]))
        self._listener.on_again()

    def again(self, slots: list[Slot[T, Any]]) -> None:
        """These are run again, without charge."""
        if not slots:
            return
        if self.ceiling is not None and slots[0].position > self.ceiling:
            self.finished += len(slots)
            return
        self.rerun += len(slots)
        heapq.heappush(self._again, (slots[0].position, slots))

    def again_singly(self, slots: list[Slot[T, Any]]) -> None:
        """The same, each by itself."""
        for slot in slots:
            self.again([slot])

    def stop(self, ceiling: int) -> None:
        """Gives up what is to be run again and lies beyond the ceiling."""
        self.ceiling = ceiling
        waiting, self._again = self._again, []
        for position, slots in waiting:
            if position <= ceiling:
                heapq.heappush(self._again, (position, slots))
            else:
                self.finished += len(slots)

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
