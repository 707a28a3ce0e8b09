"""The stage: a function and everything about how it is run, checked once and shown as numbers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

from headrace.execution.outcome import WORKER_LOST, Failure, Results
from headrace.flow import Permits
from headrace.pipeline.batching import Batching

StageKind = Literal["async", "inline", "thread", "process"]


class Pool(Protocol):
    """Workers of the caller's, open already: a `WorkerPool`, an `InlinePool`, or anything with the same map."""

    workers: int

    @property
    def map(self) -> Callable[..., Results[Any, Any]]:
        """As `WorkerPool.map`."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a pipeline.

    What a call that is cut short leaves behind depends on the kind. An async function is cancelled. A thread cannot be
    stopped: the stage gives up waiting, the item fails with `deadline`, and the worker takes nothing new until its
    thread has come back. Only a process is killed.

    Attributes:
        function: gets a value and returns the next one; with `batching`, gets a list of values and returns a list as
            long, in which an exception stands for the failure of its item.
        name: in statistics and failures; the function's own when not given.
        kind: `async` (the default for a coroutine function), `thread` (the default for others), `process` (spawned
            workers: function, items and results must be picklable), or `inline`: called in the event loop, for what is
            cheap.
        workers: how many calls run at once.
        capacity: items that may wait in the inbound channel; when not given, one batch (or item) for each worker,
            or what a padded batching looks ahead.
        weight_capacity, weigh: the bound of that channel in weight, such as bytes; see `flow.channel`.
        ordered: whether items leave in the order in which they came, or as they are done.
        window: items taken from the channel and not yet handed on. When not given: twice what the workers run, and
            what a padded batching looks ahead. More of it keeps the workers busy behind a slow item.
        batching: see `Batching`.
        deadline_s: how long one call may take, the waits before it not counted. With batching: the call for the batch.
        attempts: how often an item may fail here, with one of the `retriable` codes, before that is its outcome.
        retriable: codes of failures that are worth another attempt.
        backoff: seconds until the next attempt, told the failure (`attempt` counts from 1; `exception` may say more,
            such as a Retry-After). The worker waits; a permit is not held meanwhile.
        permits: one is held for exactly the call, with the weight of its items, and ended before the result is handed
            on: dropped at the deadline, ignored when cancelled, else done. Several stages may share them. For a thread
            that was given up on it is held until the thread is back, or the run is closed: the resource is in use.
        factory: instead of `function`: called once in each worker, returns the function. Loads what is heavy.
        pool: workers of the caller's instead of own processes, so that they serve many runs; it is neither opened nor
            closed here, and its own function is run.
        streamed: with `pool`: the items go through one `map` of it, in place of one call after the other. Workers then
            have the next items before they ask, which counts where an item takes a millisecond or less. `window`,
            `ordered`, `deadline_s`, `attempts` and `retriable` are those of the map. No batching, permits or backoff,
            and no `resize`; `pause` lets go on what the pool has. When somebody drains the pool, what runs, and what
            comes before it in the order, is still handed on; then the run ends, and the rest is in `Run.left`.
        byte_budget: of a streamed stage: what the items in its window may weigh together, by `weigh`; the oldest is
            taken in whatever it weighs.
        attempts_of, on_charge: of a streamed stage: attempts charged to an item before this run, and what is awaited
            before a charged one is run again, so that the count lasts. See `WorkerPool.map`; what they raise ends the
            run.
        on_progress: of a streamed stage: told how far an item is, as its function says by
            `execution.report_progress`: item, done, total.
        pool_options: for own processes: `memory_limit_bytes`, `recycle_after`, `environment`, ... of `WorkerPool`.

    Raises:
        ValueError: a number, or a combination, makes no sense.
    """

    function: Callable[[Any], Any] | None = None
    name: str = field(default="", kw_only=True)
    kind: StageKind | None = field(default=None, kw_only=True)
    workers: int = field(default=1, kw_only=True)
    capacity: int | None = field(default=None, kw_only=True)
    weight_capacity: int | None = field(default=None, kw_only=True)
    weigh: Callable[[Any], int] | None = field(default=None, kw_only=True)
    ordered: bool = field(default=True, kw_only=True)
    window: int | None = field(default=None, kw_only=True)
    batching: Batching | None = field(default=None, kw_only=True)
    deadline_s: float | None = field(default=None, kw_only=True)
    attempts: int = field(default=1, kw_only=True)
    retriable: Container[str] = field(default=frozenset({WORKER_LOST}), kw_only=True)
    backoff: Callable[[Failure[Any]], float] | None = field(default=None, kw_only=True)
    permits: Permits | None = field(default=None, kw_only=True)
    factory: Callable[[], Callable[[Any], Any]] | None = field(default=None, kw_only=True)
    pool: Pool | None = field(default=None, kw_only=True)
    streamed: bool = field(default=False, kw_only=True)
    byte_budget: int | None = field(default=None, kw_only=True)
    attempts_of: Callable[[Any], int] | None = field(default=None, kw_only=True)
    on_charge: Callable[[Any, Failure[Any]], Awaitable[None]] | None = field(default=None, kw_only=True)
    on_progress: Callable[[Any, int, int], None] | None = field(default=None, kw_only=True)
    pool_options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.function, self.factory, self.pool)) != 1:
            raise ValueError("a stage has a function, or a factory, or a pool")
        set_ = object.__setattr__
        set_(self, "kind", self.kind or self._own_kind())
        set_(self, "name", self.name or _name_of(self.function or self.factory or self.pool))
        if self.pool is not None:
            set_(self, "workers", self.pool.workers)
        if self.kind not in get_args(StageKind):
            raise ValueError(f"kind is one of {', '.join(get_args(StageKind))}, not {self.kind!r}")
        if (self.pool is not None or self.pool_options) and self.kind != "process":
            raise ValueError("pool and pool_options are for stages of processes")
        for name in ("workers", "capacity", "weight_capacity", "window", "byte_budget", "attempts"):
            number = getattr(self, name)
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise ValueError(f"{name} is a whole number of at least 1, not {number!r}")
        if (self.weigh is None) != (self.weight_capacity is None and self.byte_budget is None):
            raise ValueError("weigh goes together with weight_capacity, or byte_budget, or both")
        self._check_streamed()
        if self.deadline_s is not None and not 0 < self.deadline_s < math.inf:
            raise ValueError(f"deadline_s is above 0 and finite (None: no deadline), not {self.deadline_s!r}")
        if self.deadline_s is not None and self.kind == "inline":
            raise ValueError("nothing can interrupt an inline stage: it takes no deadline_s")
        if self.window is not None and self.window < self.per_call:
            raise ValueError(f"a window of {self.window} does not hold one batch of {self.per_call}")

    def _check_streamed(self) -> None:
        if self.streamed:
            if self.pool is None:
                raise ValueError("a streamed stage needs a pool")
            if self.batching is not None or self.permits is not None or self.backoff is not None:
                raise ValueError("a streamed stage makes no calls of its own: no batching, permits or backoff")
        elif any(given is not None for given in (self.byte_budget, self.attempts_of, self.on_charge, self.on_progress)):
            raise ValueError("byte_budget, attempts_of, on_charge and on_progress are for streamed stages")

    def _own_kind(self) -> StageKind:
        if self.pool is not None:
            return "process"
        call = getattr(self.function, "__call__", None)  # noqa: B004 - of an object whose __call__ is a coroutine
        is_async = inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(call)
        return "async" if is_async else "thread"

    @property
    def per_call(self) -> int:
        """The most items that one call gets."""
        return 1 if self.batching is None else self.batching.max_items

    def capacity_for(self, workers: int) -> int:
        """The bound of the inbound channel when so many workers run."""
        return self.capacity or max(workers * self.per_call, 1 if self.batching is None else self.batching.sight)

    def window_for(self, workers: int) -> int:
        """How many items may be taken in and not handed on when so many workers run."""
        if self.window is not None:
            return self.window
        running = workers * self.per_call
        return running + max(running, 0 if self.batching is None else self.batching.sight)


def _name_of(what: Any) -> str:
    inner = getattr(what, "func", what)  # of a partial
    return str(getattr(inner, "__name__", type(inner).__name__)).strip("<>")
