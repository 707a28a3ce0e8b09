"""A streamed stage while it runs: its items go through one map of the caller's pool.

    inbound channel --values--> line + map of the pool --stream--> settled in the line --hand_on--> next channel

The line has everything that was taken in, as in any stage; the map has the values of those that are not settled, and
its own bounds: it is asked for the next outcome only when the last one is in the next channel.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.execution import Failure
from headrace.flow import Ended
from headrace.pipeline.door import Door
from headrace.pipeline.passage import Passage
from headrace.pipeline.stage import Stage
from headrace.pipeline.stage_run import StageRun
from headrace.pipeline.statistics import StageStatistics

if TYPE_CHECKING:
    import asyncio

    from headrace.execution.statistics import MapStatistics


class StreamedRun(StageRun):
    """The running form of a streamed stage.

    Args:
        stage, into, onward, on_failed, start: as in `StageRun`.
        on_drained: called when somebody has drained the pool: what is not begun will never be.
    """

    def __init__(
        self,
        stage: Stage,
        into: Door,
        onward: Door,
        *,
        on_failed: Callable[[Passage], None],
        start: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
        on_drained: Callable[[], None],
    ) -> None:
        super().__init__(stage, into, onward, on_failed=on_failed, start=start)
        assert stage.pool is not None
        self._on_drained = on_drained
        self._drained = False
        self._given: dict[int, list[Passage]] = {}  # what the map has, by the identity of the value
        self._weigh = stage.weigh if stage.byte_budget is not None else None
        self._results = stage.pool.map(
            self._values(),
            window=self.window,
            byte_budget=stage.byte_budget,
            weigh=None if self._weigh is None else self._weight_of,
            deadline_s=stage.deadline_s,
            ordered=stage.ordered,
            attempts=stage.attempts,
            attempts_of=stage.attempts_of,
            on_charge=self._charge,
            on_progress=stage.on_progress,
            retriable=stage.retriable,
        )

    async def open(self) -> None:
        """Nothing is to be loaded: the pool is open."""

    def begin(self) -> None:
        """Starts to move items."""
        self._start(self._stream(), f"{self.stage.name} map")
        self._start(self._hand_on(), f"{self.stage.name} out")

    async def resize(self, workers: int) -> None:
        """Refuses any number but the pool's own, with a ValueError."""
        if workers != self.stage.workers:
            raise ValueError(f"the pool of {self.stage.name} has {self.stage.workers} workers, not {workers}")

    async def aclose(self) -> None:
        """Ends the map, killing what still runs 50 ms later."""
        await self._results.aclose()

    async def _values(self) -> AsyncIterator[Any]:
        """What the map is given: the values of what comes in. Failures of earlier stages flow by in the line."""
        while True:
            while self.paused or len(self._line) >= self.window:
                self._want_more.clear()
                await self._want_more.wait()
            try:
                self._admit(await self.into.receiver.recv())
            except Ended:
                break
            while self._waiting:
                passage = self._waiting.popleft()
                # Equal identities are the same object, so it does not matter which of them gets which outcome.
                self._given.setdefault(id(passage.value), []).append(passage)
                yield passage.value
        self.ended = True
        self._ready.set()

    async def _stream(self) -> None:
        try:
            async for outcome in self._results:
                self.settle(self._taken_from_map(outcome.item), outcome, outcome.attempt)
                while self._line.next() is not None:
                    self._want_more.clear()
                    await self._want_more.wait()
        finally:
            await self._results.aclose()
        if self._given or not self.ended:
            self._drained = True
            self._on_drained()
        self._ready.set()

    def _taken_from_map(self, value: Any) -> Passage:
        passages = self._given[id(value)]
        passage = passages.pop(0)
        if not passages:
            del self._given[id(value)]
        return passage

    def _weight_of(self, value: Any) -> int:
        return self._given[id(value)][-1].batch_weight

    async def _charge(self, value: Any, failure: Failure[Any]) -> None:
        self.retried += 1
        if self.stage.on_charge is not None:
            await self.stage.on_charge(value, failure)

    def _nothing_more(self) -> bool:
        return super()._nothing_more() or (self._drained and self._line.next() is None)

    def _remove(self, passage: Passage) -> None:
        super()._remove(passage)
        self._want_more.set()

    def at_work(self) -> int:
        """How many items the workers of the pool are on."""
        return len(self._results.statistics().running)

    def map_statistics(self) -> MapStatistics[Any]:
        """What the map says."""
        return self._results.statistics()

    def statistics(self, now: float) -> StageStatistics:
        """A snapshot."""
        running = self._results.statistics().running
        longest_s = max((one.since_s for one in running), default=None)
        return replace(super().statistics(now), running=len(running), longest_s=longest_s)


def stage_run_of(
    stage: Stage,
    into: Door,
    onward: Door,
    *,
    on_failed: Callable[[Passage], None],
    start: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
    on_drained: Callable[[], None],
) -> StageRun:
    """The running form of any stage."""
    if stage.streamed:
        return StreamedRun(stage, into, onward, on_failed=on_failed, start=start, on_drained=on_drained)
    return StageRun(stage, into, onward, on_failed=on_failed, start=start)
