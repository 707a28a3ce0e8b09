"""The pipeline: stages in a row, and the sum that says how much can be in it."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Sequence
from typing import Any, Generic, Literal, TypeVar

from headrace.flow.sizing import Derived
from headrace.pipeline.run import Run
from headrace.pipeline.stage import Stage

T = TypeVar("T")
R = TypeVar("R")


class Pipeline(Generic[T, R]):
    """A description that can be run many times, also at the same time; every run has its own channels and workers.

    Args:
        stages: in order; their names differ.
        ready: outcomes that may wait for the consumer.
        window: bounds the items in flight more tightly than the stages do; see the property.
        on_error: `continue`: a failure takes its place among the outcomes and the flow goes on. `stop`: the first
            failure that comes out is the last outcome; nothing more is pulled from the moment on when an item fails.
        close_s: how long leaving early waits for calls that cannot be ended (threads, coroutines that ignore their
            cancellation) before it leaves them behind, with a ResourceWarning.

    Raises:
        ValueError: a number, or a combination, makes no sense.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        *,
        ready: int = 1,
        window: int | None = None,
        on_error: Literal["continue", "stop"] = "continue",
        close_s: float = 10.0,
    ) -> None:
        names = [stage.name for stage in stages]
        if not stages:
            raise ValueError("a pipeline has at least 1 stage")
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"the names of stages differ; give these one of their own: {', '.join(sorted(twice))}")
        for what, number in (("ready", ready), ("window", window)):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise ValueError(f"{what} is a whole number of at least 1, not {number!r}")
        if on_error not in ("continue", "stop"):
            raise ValueError(f"on_error is continue or stop, not {on_error!r}")
        if not 0 <= close_s < float("inf"):
            raise ValueError(f"close_s is 0 or more, and finite, not {close_s!r}")
        self.stages = tuple(stages)
        self.ready = ready
        self.on_error = on_error
        self.close_s = close_s
        self._window = window

    @property
    def window(self) -> Derived[int]:
        """The most items that can be pulled from the source and not yet handed on, with the sum behind it."""
        bounds = [(stage.capacity_for(stage.workers), stage.window_for(stage.workers)) for stage in self.stages]
        parts = [
            f"{stage.name} (channel {capacity} + window {window})"
            for stage, (capacity, window) in zip(self.stages, bounds, strict=True)
        ]
        total = sum(map(sum, bounds)) + 1 + self.ready
        because = f"1 at the door + {' + '.join(parts)} + {self.ready} ready = {total}"
        limit = self.limit(sum(map(sum, bounds)))
        return Derived(limit, "items", because if limit == total else f"set to {limit}; without that, {because}")

    def limit(self, in_stages: int) -> int:
        """The most items in flight when so many can be in the stages and their channels."""
        total = in_stages + 1 + self.ready
        return total if self._window is None else min(total, self._window)

    def run(self, source: Iterable[T] | AsyncIterable[T]) -> Run[T, R]:
        """Runs everything from the source through the stages.

            async with pipeline.run(source) as outcomes:
                async for outcome in outcomes:
                    ...

        A plain iterable is advanced in the event loop: what waits long for disk or network should be an async one.
        """
        return Run(self, source)

    async def run_to(self, source: Iterable[T] | AsyncIterable[T], sink: Any, **options: Any) -> Any:
        """Runs everything from the source into a sink; see `Run.run_to`."""
        return await self.run(source).run_to(sink, **options)
