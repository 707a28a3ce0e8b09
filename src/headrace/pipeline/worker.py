"""One worker of a stage: takes a group of items, calls the function, tries again where that makes sense."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.execution.outcome import DEADLINE, EXCEPTION, Failure, Raised, Success
from headrace.flow import Refusal
from headrace.pipeline.lanes import Lane, Outcome, failed, failure_of
from headrace.pipeline.passage import Passage

if TYPE_CHECKING:
    from headrace.pipeline.stage_run import StageRun


class Worker:
    """Works for one stage until it is retired or cancelled.

    Attributes:
        group: the items that it has; without any it can be retired at once.
        retired: whether it takes nothing new.
        begun: whether its task has run; one that is cancelled before never does, and closes nothing.
        running_since, permit_since, backing_off_since: what it is at and since when, in seconds of the loop.
    """

    def __init__(self, stage_run: StageRun, lane: Lane) -> None:
        self._stage_run = stage_run
        self._stage = stage_run.stage
        self._loop = asyncio.get_running_loop()
        self.lane = lane
        self.task: asyncio.Task[None] | None = None
        self.group: list[Passage] = []
        self.retired = False
        self.begun = False
        self.running_since: float | None = None
        self.permit_since: float | None = None
        self.backing_off_since: float | None = None

    def retire(self) -> None:
        """Lets it go: at once when it is idle, else after its call."""
        self.retired = True
        if self.begun and not self.group and self.task is not None:
            self.task.cancel()

    async def work(self) -> None:
        """Works. Cancelled, its items stay in the line of the stage, and its call is ended or waited for."""
        self.begun = True
        try:
            while not (self.retired or self._stage_run.crew.closed):
                await self.lane.free()
                self.group = await self._stage_run.next_group()
                await self._do(self.group)
                self.group = []
        except asyncio.CancelledError:
            if not self.retired:
                raise
        finally:
            try:
                await self.lane.aclose()
            finally:
                self._stage_run.crew.gone(self)

    async def _do(self, group: list[Passage]) -> None:
        """Calls until each item of the group has an outcome."""
        attempt = 0
        while group:
            attempt += 1
            answer = await self._call(group)
            if self._stage_run.crew.closed:  # the function has swallowed the cancellation: nothing more is to be begun
                return
            batching = self._stage.batching
            if isinstance(answer, Failure) and len(group) > 1 and batching is not None and batching.split_on_failure:
                for passage in group:
                    await self._do([passage])
                return
            again: list[tuple[Passage, Failure[Any]]] = []
            for passage, outcome in zip(group, self._each(group, answer), strict=True):
                if (
                    isinstance(outcome, Failure)
                    and attempt < self._stage.attempts
                    and outcome.code in self._stage.retriable
                ):
                    again.append((passage, outcome._replace(item=passage.item, attempt=attempt)))
                else:
                    self._stage_run.settle(passage, outcome, attempt)
            group = [passage for passage, _ in again]
            if group:
                self._stage_run.retried += 1
                await self.lane.free()  # an attempt that was given up on must not run beside the next
                await self._back_off([failure for _, failure in again])

    async def _call(self, group: Sequence[Passage]) -> Outcome:
        """One call. The permit, if there is one, is taken before it and ended after it, however it ends."""
        values = [passage.value for passage in group]
        argument = values if self._stage.batching is not None else values[0]
        permits = self._stage.permits
        if permits is None:
            return await self._run(argument)
        self.permit_since = self._loop.time()
        try:
            permit = await permits.acquire(size_bytes=sum(passage.weight for passage in group))
        except Refusal as refusal:
            return failed(argument, refusal, 0.0)
        finally:
            self.permit_since = None
        ending = permit.ignore
        try:
            outcome = await self._run(argument)
            late = isinstance(outcome, Failure) and outcome.code == DEADLINE
            ending = permit.dropped if late else permit.done
        finally:
            self.lane.when_free(ending)
        return outcome

    async def _run(self, argument: Any) -> Outcome:
        self.running_since = self._loop.time()
        try:
            return await self.lane.call(argument)
        finally:
            self.running_since = None

    def _each(self, group: Sequence[Passage], answer: Outcome) -> Sequence[Outcome]:
        """The outcome of each item of the group."""
        if isinstance(answer, Failure):
            return [answer] * len(group)
        if self._stage.batching is None:
            return [answer]
        values = answer.value
        if not isinstance(values, Sequence) or len(values) != len(group):
            got = f"{len(values)} results" if isinstance(values, Sequence) else type(values).__name__
            raised = Raised(EXCEPTION, f"a batch of {len(group)} items gave {got}; it must give a list as long")
            return [failure_of(passage.item, raised, answer.elapsed_s) for passage in group]
        share_s = answer.elapsed_s / len(group)
        return [
            failed(passage.item, value, share_s)
            if isinstance(value, BaseException)
            else Success(passage.item, value, share_s, 1, answer.worker)
            for passage, value in zip(group, values, strict=True)
        ]

    async def _back_off(self, failures: Sequence[Failure[Any]]) -> None:
        if self._stage.backoff is None:
            return
        wait_s = max(self._stage.backoff(failure) for failure in failures)
        if not 0 <= wait_s < math.inf:
            raise ValueError(f"the backoff of {self._stage.name} is 0 or more, and finite, not {wait_s!r}")
        self.backing_off_since = self._loop.time()
        try:
            await asyncio.sleep(wait_s)
        finally:
            self.backing_off_since = None
