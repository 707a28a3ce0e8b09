"""One item's way through the pipeline, and the line in which a stage keeps the items that it has taken in."""

from __future__ import annotations

from collections import deque
from typing import Any

from headrace.execution.outcome import Failure, Success


class Passage:
    """One item on its way.

    Attributes:
        position: its place in the order of the source, from 1.
        item: what the source gave.
        value: what the stages have made of it so far.
        failure: set once a stage has failed on it; from then on it only flows by.
        weight: what it weighs in the channel that it is in, or waits for.
        entered_at: when it came into the channel of the stage that it is in.
        turn: its place in the order of arrival at that stage.
        batch_weight: what it weighs in a batch, or in the window, of that stage.
        settled: whether that stage is through with it.
        elapsed_s: time in the functions so far, failed attempts not counted.
        attempt, worker: of the last call.
    """

    __slots__ = (
        "attempt",
        "batch_weight",
        "elapsed_s",
        "entered_at",
        "failure",
        "item",
        "position",
        "pulled_at",
        "settled",
        "turn",
        "value",
        "weight",
        "worker",
    )

    def __init__(self, position: int, item: Any, now: float) -> None:
        self.position = position
        self.item = self.value = item
        self.failure: Failure[Any] | None = None
        self.pulled_at = self.entered_at = now
        self.weight = self.batch_weight = self.turn = 0
        self.settled = False
        self.elapsed_s = 0.0
        self.attempt = 1
        self.worker = 0

    def take(self, outcome: Success[Any, Any] | Failure[Any], stage: str, attempt: int) -> None:
        """Enters what a stage made of it."""
        self.settled = True
        self.elapsed_s += outcome.elapsed_s
        if isinstance(outcome, Failure):
            self.failure = outcome._replace(item=self.item, stage=stage, attempt=attempt)
        else:
            self.value, self.attempt, self.worker = outcome.value, attempt, outcome.worker

    def outcome(self) -> Success[Any, Any] | Failure[Any]:
        """What became of it in the end."""
        if self.failure is not None:
            return self.failure
        return Success(self.item, self.value, self.elapsed_s, self.attempt, self.worker)


class Line:
    """What a stage has taken in and not yet handed on, in order of arrival; with the rule of what leaves next.

    Args:
        ordered: leave in order of arrival, or as they are settled.
    """

    def __init__(self, ordered: bool) -> None:
        self._ordered = ordered
        self._passages: dict[Passage, None] = {}
        self._ready: deque[Passage] = deque()  # settled, in the order of that; unordered lines only

    def __len__(self) -> int:
        """How many are in it."""
        return len(self._passages)

    def admit(self, passage: Passage) -> None:
        """Takes one in at the end."""
        self._passages[passage] = None
        if passage.settled:
            self.settled(passage)

    def settled(self, passage: Passage) -> None:
        """The stage is through with one that is in the line."""
        if not self._ordered:
            self._ready.append(passage)

    def next(self) -> Passage | None:
        """What leaves next; None when that is not settled. It stays in until it is removed."""
        if not self._ordered:
            return self._ready[0] if self._ready else None
        oldest = self.oldest
        return oldest if oldest is not None and oldest.settled else None

    def remove(self, passage: Passage) -> None:
        """Removes what `next` has returned."""
        if not self._ordered:
            self._ready.popleft()
        del self._passages[passage]

    @property
    def oldest(self) -> Passage | None:
        """What came first."""
        return next(iter(self._passages), None)

    def count_settled(self) -> tuple[int, int]:
        """How many could leave now, and how many are settled but wait for an earlier one."""
        settled = sum(passage.settled for passage in self._passages)
        if not self._ordered:
            return settled, 0
        free = 0
        for passage in self._passages:
            if not passage.settled:
                break
            free += 1
        return free, settled - free
