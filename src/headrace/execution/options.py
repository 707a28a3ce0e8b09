"""The options of a map, checked once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass
from typing import Any, Literal

from headrace.execution.outcome import WORKER_LOST, Failure
from headrace.execution.wire import MAX_CHUNK


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOptions:
    """The options of `WorkerPool.map`, which documents them; nonsense is a `ValueError` before anything starts."""

    window: int
    byte_budget: int | None = None
    weigh: Callable[[Any], int] | None = None
    chunk: int | Literal["auto"] = 1
    deadline_s: float | None = None
    ordered: bool = True
    attempts: int = 1
    attempts_of: Callable[[Any], int] | None = None
    on_charge: Callable[[Any, Failure[Any]], Awaitable[None]] | None = None
    on_progress: Callable[[Any, int, int], None] | None = None
    retriable: Container[str] = frozenset({WORKER_LOST})

    def __post_init__(self) -> None:
        numbers = [("window", self.window), ("attempts", self.attempts)]
        if self.chunk != "auto":
            numbers.append(("chunk", self.chunk))
        for name, number in numbers:
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise ValueError(f"{name} is a whole number of at least 1, not {number!r}")
        if self.chunk != "auto" and self.chunk > min(self.window, MAX_CHUNK):
            raise ValueError(f"chunk is at most the window ({self.window}) and {MAX_CHUNK}, not {self.chunk}")
        if self.byte_budget is not None and (self.byte_budget < 1 or self.weigh is None):
            raise ValueError("byte_budget is at least 1 and needs weigh")
        if self.deadline_s is not None and not 0 < self.deadline_s < float("inf"):
            raise ValueError(f"deadline_s is above 0 and finite (None: no deadline), not {self.deadline_s!r}")
