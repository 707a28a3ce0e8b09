"""One run of a pipeline: pulls from the source, moves through the stages, hands outcomes on, and ends cleanly.

Shutdown in three steps: `stop` (nothing more is pulled), the stages finish what is in and close their doors one after
the other, the last outcome ends the iteration. `aclose` cuts that short at any point.
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from headrace.execution import Failure, Success
from headrace.execution.chunking import Source
from headrace.flow import Drain, DrainReport, Ended
from headrace.pipeline.door import Door
from headrace.pipeline.draining import Draining
from headrace.pipeline.explain import explain
from headrace.pipeline.passage import Passage
from headrace.pipeline.stage_run import StageRun
from headrace.pipeline.statistics import RunStatistics
from headrace.pipeline.streamed import StreamedRun, stage_run_of

if TYPE_CHECKING:
    from headrace.execution.statistics import MapStatistics
    from headrace.pipeline.pipeline import Pipeline

T = TypeVar("T")
R = TypeVar("R")

_ABANDON_SHARE = 0.2  # of the deadline of a drain, for handing back


class PipelineBroken(RuntimeError):
    """A part of the run was ended from outside: a task of it was cancelled, or the source raised a cancellation."""


class Run(Generic[T, R]):
    """The outcomes of one run, in order; an async context manager and an async iterator, to be used once.

    In the block, waiting for the next outcome may be cancelled or timed out without loss: it is there for the next.
    Leaving the block early closes everything: the source is closed, running calls are ended (see `Stage` for what can
    be), permits are given back, and no task, process or thread stays. Without a block, `async for` opens the run and
    closes it when the loop is left; there, a cancelled wait ends the run.

    What was pulled and not handed on is in `left`.
    """

    def __init__(self, pipeline: Pipeline[T, R], source: Iterable[T] | AsyncIterable[T]) -> None:
        self._pipeline = pipeline
        self._given = source
        self._source: Source[T] | None = None
        self._doors: list[Door] = []
        self._stages: list[StageRun] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_flight: dict[Passage, None] = {}  # in order of the source; bounded by the window
        self._left: tuple[T, ...] = ()
        self._accepted = self._handed_on = self._failed = 0
        self._at_the_door = self._behind_the_last = 0
        self._pulling: asyncio.Task[None] | None = None  # set while the source is being asked
        self._may_pull = asyncio.Event()
        self._idle = asyncio.Event()
        self._paused = False
        self._stopped = False
        self._last: Passage | None = None  # with on_error="stop": the failure that was handed on last
        self._error: BaseException | None = None
        self._closing: asyncio.Task[None] | None = None

    # Beginning

    async def __aenter__(self) -> Self:
        """Starts the workers, then begins to pull, up to the window.

        Raises:
            RuntimeError: it was used before.
            Exception: what a factory raised; WorkerStartFailed for processes. Nothing is left behind, nothing pulled.
        """
        if self._doors or self._closing is not None:
            raise RuntimeError("a run is used once; call run() again for another")
        self._loop = asyncio.get_running_loop()
        stages = self._pipeline.stages
        self._doors = [Door(stage, stage.capacity_for(stage.workers)) for stage in stages]
        self._doors.append(Door(None, self._pipeline.ready))
        self._stages = [
            stage_run_of(stage, into, onward, on_failed=self._on_failed, start=self._start, on_drained=self.stop)
            for stage, into, onward in zip(stages, self._doors, self._doors[1:], strict=False)
        ]
        try:
            async with asyncio.TaskGroup() as opening:
                for stage_run in self._stages:
                    opening.create_task(stage_run.open())
            self._source = Source(self._given)
        except BaseException as error:
            await self.aclose()
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from None
            raise
        for stage_run in self._stages:
            stage_run.begin()
        self._start(self._pull(self._source), "source")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes the run."""
        await self.aclose()

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = (
            PipelineBroken(f"{task.get_name()} was cancelled from outside") if task.cancelled() else task.exception()
        )
        if error is None or self._closing is not None:
            return
        if self._error is None:
            self._error = error
        self.stop()
        self._doors[-1].receiver.close()  # what is ready is still handed on, then the error is raised

    async def _pull(self, source: Source[T]) -> None:
        """Takes from the source what there is room for."""
        try:
            while not self._stopped:
                if self._paused or len(self._in_flight) >= self.window:
                    self._may_pull.clear()
                    await self._may_pull.wait()
                    continue
                pulled = await self._ask(source)
                if pulled is None:
                    break
                passage = Passage(self._accepted + 1, pulled[0], self._loop.time())
                self._accepted += 1
                self._in_flight[passage] = None
                self._at_the_door = 1
                await self._doors[0].send(passage)
                self._at_the_door = 0
        finally:
            # First: the stages need not wait until the source has closed.
            self._doors[0].close()
            await source.aclose()

    async def _ask(self, source: Source[T]) -> tuple[T] | None:
        if not source.is_async:
            return source.pull()
        self._pulling = asyncio.current_task()
        try:
            return await source.receive()
        except asyncio.CancelledError:
            if not self._stopped or self._closing is not None:
                raise
            return None  # `stop` has ended the wait; nothing was pulled
        finally:
            self._pulling = None

    # Handing on

    def __aiter__(self) -> AsyncIterator[Success[T, R] | Failure[T]]:
        """The outcomes, and after the last one the source's own error, if it had one."""
        return self if self._doors else self._by_itself()

    async def _by_itself(self) -> AsyncIterator[Success[T, R] | Failure[T]]:
        async with self:
            async for outcome in self:
                yield outcome

    async def __anext__(self) -> Success[T, R] | Failure[T]:
        """The next outcome. Cancelled, it is there for the next call."""
        return (await self.next_many(1))[0]

    async def next_many(self, max_items: int, *, linger_s: float = 0.0) -> list[Success[T, R] | Failure[T]]:
        """The next outcomes: at least one, and up to `max_items` of them; see `Receiver.recv_many`.

        Cancelled, they are there for the next call. Raises StopAsyncIteration, or the error of the source, after the
        last one.
        """
        if self._closing is None and self._last is None and self._doors:
            try:
                passages = await self._doors[-1].receiver.recv_many(max_items, linger_s=linger_s)
            except Ended:
                pass
            else:
                if self._closing is None:
                    return self._hand_on(passages)
        elif not self._doors:
            raise RuntimeError("this run was closed before it began")
        error = None
        if self._closing is None:  # it came to its end by itself
            error = self._error or (None if self._stopped or self._source is None else self._source.error)
        await self.aclose()
        if error is not None:
            raise error
        raise StopAsyncIteration

    def _hand_on(self, passages: Sequence[Passage]) -> list[Success[T, R] | Failure[T]]:
        outcomes = []
        for passage in passages:
            del self._in_flight[passage]
            outcome = passage.outcome()
            outcomes.append(outcome)
            if not isinstance(outcome, Failure):
                self._handed_on += 1
                continue
            self._failed += 1
            if self._pipeline.on_error == "stop":
                self._last = passage
                break
        self._behind_the_last = len(passages) - len(outcomes)
        self._may_pull.set()
        if not self._in_flight:
            self._idle.set()
        return outcomes

    def _on_failed(self, _: Passage) -> None:
        if self._pipeline.on_error == "stop":
            self.stop()

    async def run_to(
        self, sink: Callable[[Any], Any], *, max_items: int | None = None, linger_s: float = 0.0
    ) -> RunStatistics:
        """Gives every outcome to the sink, a function or a coroutine function, one after the other, and closes.

        An outcome counts as handed on when the sink is called. What the sink raises ends the run and is raised here,
        and so is the error of the source.

        Args:
            sink: gets one outcome; with `max_items` a list of outcomes in their order, failures among them.
            max_items: the most in a list; as many must fit into `ready` of the pipeline to be there at once.
            linger_s: how long to wait for a list to fill up.
        """
        async with self:
            while True:
                try:
                    outcomes = await self.next_many(max_items or 1, linger_s=linger_s)
                except StopAsyncIteration:
                    break
                answer = sink(outcomes if max_items else outcomes[0])
                if inspect.isawaitable(answer):
                    await answer
        return self.statistics()

    # Changing it while it runs

    def pause(self, stage: str | None = None) -> None:
        """Pulls nothing more for now, and lets what is in flow on; or has one stage begin no more calls."""
        self._set_paused(stage, True)

    def resume(self, stage: str | None = None) -> None:
        """Undoes `pause` of the same."""
        self._set_paused(stage, False)

    def _set_paused(self, stage: str | None, paused: bool) -> None:
        if stage is not None:
            self._stage(stage).pause(paused)
            return
        self._paused = paused
        self._may_pull.set()

    async def resize(self, stage: str, *, workers: int) -> None:
        """Changes how many workers a stage has; returns when new ones are ready. Busy ones go after their call.

        The window of the stage, and of the run, follow where they are derived; capacities of channels stay. Cancelled,
        it has changed nothing.

        Raises:
            KeyError: there is no such stage.
            Closed: the run was closed meanwhile.
            ValueError: below 1, or more than its given pool has.
            Exception: what a factory raised.
        """
        await self._stage(stage).resize(workers)
        self._may_pull.set()

    def _stage(self, name: str) -> StageRun:
        for stage_run in self._stages:
            if stage_run.stage.name == name:
                return stage_run
        raise KeyError(
            f"there is no stage {name!r}; there are {', '.join(s.stage.name for s in self._stages) or 'none'}"
        )

    # Looking

    @property
    def window(self) -> int:
        """The most items that may be in flight now."""
        return self._pipeline.limit(sum(stage_run.into.capacity + stage_run.window for stage_run in self._stages))

    @property
    def in_flight(self) -> int:
        """Items pulled and not handed on, counted where they are; 0 once the run is closed."""
        if self._closing is not None or not self._doors:
            return 0
        held = sum(stage_run.held + stage_run.into.depth for stage_run in self._stages)
        return self._at_the_door + held + self._doors[-1].depth + self._behind_the_last

    @property
    def left(self) -> tuple[T, ...]:
        """Items that were pulled and not handed on when the run was closed, in order: what another run has to do."""
        return self._left

    def statistics(self) -> RunStatistics:
        """A frozen snapshot. Stages are listed once the run has begun."""
        now = self._loop.time() if self._doors else 0.0
        oldest = next(iter(self._in_flight), None)
        open_ = self._closing is None
        return RunStatistics(
            accepted=self._accepted,
            handed_on=self._handed_on,
            failed=self._failed,
            in_flight=self.in_flight,
            left=len(self._left),
            window=self.window if self._doors else self._pipeline.window.value,
            ready=self._doors[-1].depth if self._doors and open_ else 0,
            ready_limit=self._pipeline.ready,
            pulling=self._pulling is not None,
            oldest_age_s=0.0 if oldest is None or not open_ else now - oldest.pulled_at,
            paused=self._paused,
            stages=tuple(stage_run.statistics(now) for stage_run in self._stages),
        )

    def map_statistics(self, stage: str) -> MapStatistics[T]:
        """What the pool says of the items of a streamed stage: their weight, what runs, for how long, and where.

        Raises:
            KeyError: there is no such stage (the run has not begun, perhaps), or it is not streamed.
        """
        if isinstance(stage_run := self._stage(stage), StreamedRun):
            return stage_run.map_statistics()
        raise KeyError(f"the stage {stage!r} is not streamed")

    def explain(self) -> tuple[str, ...]:
        """For each stage one sentence: what it waits for, and since when."""
        return explain(self.statistics())

    # Ending

    def stop(self) -> None:
        """Pulls nothing more. What was pulled is finished and handed on, then the iteration ends."""
        self._stopped = True
        self._may_pull.set()
        if self._pulling is not None:
            self._pulling.cancel()

    async def drain(self, deadline_s: float) -> DrainReport:
        """Stops, lets what is in be finished and handed on, and at the deadline hands the rest back in `left`.

        Whoever iterates must go on iterating meanwhile. Three phases, each bounded: stopping, finishing, handing back.
        Items in calls that nothing can end count as abandoned, although they are in `left` too: it is not known what
        became of them. Cancelled, it has stopped the run.
        """
        self.stop()  # in this tick: nothing more is pulled
        abandon_s, before = deadline_s * _ABANDON_SHARE, self._handed_on + self._failed
        report = await Drain([Draining(self, abandon_s / 2)], deadline_s=deadline_s, abandon_s=abandon_s).run()
        # Counted here again, because items go on being handed on in the ticks between its phases.
        finished, left = self._handed_on + self._failed - before, len(self._left)
        abandoned = min(left, self._at_work())
        return replace(report, finished=finished, handed_back=left - abandoned, abandoned=abandoned, in_time=not left)

    def _at_work(self) -> int:
        return sum(stage_run.at_work() for stage_run in self._stages)

    async def aclose(self) -> None:
        """Ends the run now; see the class. Cancelled, the closing goes on in the background."""
        if self._closing is None:
            self._stopped = True
            self._left = tuple(passage.item for passage in self._in_flight)
            self._in_flight.clear()
            self._idle.set()
            for stage_run in self._stages:
                stage_run.close()
            if self._doors:
                self._doors[-1].receiver.close()
            tasks = set(self._tasks)
            for task in tasks:  # in this tick, so that nothing more is pulled or begun
                task.cancel()
            self._closing = asyncio.get_running_loop().create_task(self._close(tasks), name="closing a run")
        await asyncio.shield(self._closing)

    async def _close(self, tasks: set[asyncio.Task[None]]) -> None:
        left_behind: list[str] = []
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=self._pipeline.close_s)
            for task in stuck:
                task.cancel()
            if stuck:
                await asyncio.wait(stuck, timeout=0)
            left_behind = sorted(task.get_name() for task in stuck)
        for stage_run in self._stages:
            await stage_run.aclose()
        if left_behind:
            warnings.warn(f"left behind, still running: {', '.join(left_behind)}", ResourceWarning, stacklevel=2)
