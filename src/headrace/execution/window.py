"""The arithmetic of the window: how much may be submitted and not yet handed on. It decides, and never waits.

Counting here, and not completions, is what bounds the buffer behind a slow head item: while the head runs, nothing is
handed on, so nothing more is admitted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import dropwhile
from typing import Generic, TypeVar

T = TypeVar("T")
O = TypeVar("O")  # noqa: E741 - an outcome of any kind; the window does not look into it


class Slot(Generic[T, O]):
    """One item's place in the window.

    Attributes:
        position: its place in the order of submission, from 1.
        item: what was submitted.
        weight: what it adds to the weight in flight.
        admitted_at: when, on the caller's clock.
        attempts: attempts that were charged to it.
        outcome: None until it is settled.
    """

    __slots__ = ("admitted_at", "attempts", "item", "outcome", "position", "weight")

    def __init__(self, position: int, item: T, weight: int, admitted_at: float, attempts: int) -> None:
        self.position = position
        self.item = item
        self.weight = weight
        self.admitted_at = admitted_at
        self.attempts = attempts
        self.outcome: O | None = None


class Window(Generic[T, O]):
    """Admits items while there is room and releases their outcomes in the order of submission.

    Args:
        limit: items that may be in the window at once.
        budget: weight that may be in the window at once; None for no limit. The head item is always admitted,
            whatever it weighs: else one heavy item would stop the flow for ever.
    """

    def __init__(self, limit: int, budget: int | None = None) -> None:
        if limit < 1:
            raise ValueError(f"a window holds at least 1 item, not {limit}")
        if budget is not None and budget < 1:
            raise ValueError(f"a budget is at least 1, not {budget}")
        self.limit = limit
        self.budget = budget
        self.weight = 0
        self.admitted = 0
        self.released = 0
        self._slots: deque[Slot[T, O]] = deque()

    @property
    def used(self) -> int:
        """Items submitted and not yet handed on."""
        return self.admitted - self.released

    @property
    def has_room(self) -> bool:
        """Whether one more item may be submitted, weight aside."""
        return self.admitted - self.released < self.limit

    def fits(self, weight: int) -> bool:
        """Whether an item of this weight may be submitted now, its count aside."""
        return self.budget is None or self.admitted == self.released or self.weight + weight <= self.budget

    def admit(self, item: T, weight: int = 0, now: float = 0.0, attempts: int = 0) -> Slot[T, O]:
        """Takes an item in. The caller asked `has_room` and `fits` before."""
        self.admitted += 1
        slot: Slot[T, O] = Slot(self.admitted, item, weight, now, attempts)
        self.weight += weight
        self._place(slot)
        return slot

    def _place(self, slot: Slot[T, O]) -> None:
        self._slots.append(slot)

    def settle(self, slot: Slot[T, O], outcome: O) -> None:
        """Notes an item's outcome."""
        slot.outcome = outcome

    def release(self) -> O | None:
        """The next outcome, which makes room; None when it is not there yet."""
        if not self._slots or self._slots[0].outcome is None:
            return None
        slot = self._slots.popleft()
        self.released += 1
        self.weight -= slot.weight
        return slot.outcome

    @property
    def ready(self) -> bool:
        """Whether an outcome can be released now."""
        return bool(self._slots) and self._slots[0].outcome is not None

    @property
    def settled(self) -> int:
        """Outcomes that are there and were not released."""
        return sum(slot.outcome is not None for slot in self._slots)

    @property
    def unsettled(self) -> tuple[Slot[T, O], ...]:
        """What cannot be released as things are: no outcome, or behind one that has none."""
        return tuple(dropwhile(lambda slot: slot.outcome is not None, self._slots))

    @property
    def oldest(self) -> Slot[T, O] | None:
        """The slot that was admitted first."""
        return self._slots[0] if self._slots else None

    def __iter__(self) -> Iterator[Slot[T, O]]:
        """What is in the window, in the order of submission."""
        return iter(self._slots)


class UnorderedWindow(Window[T, O]):
    """The same bounds for those who need no order: outcomes are released as they come."""

    def __init__(self, limit: int, budget: int | None = None) -> None:
        super().__init__(limit, budget)
        self._waiting: dict[int, Slot[T, O]] = {}
        self._ready: deque[Slot[T, O]] = deque()

    def _place(self, slot: Slot[T, O]) -> None:
        self._waiting[slot.position] = slot

    def settle(self, slot: Slot[T, O], outcome: O) -> None:
        """Notes an item's outcome, which can be released at once."""
        slot.outcome = outcome
        self._ready.append(self._waiting.pop(slot.position))

    def release(self) -> O | None:
        """An outcome, which makes room; None when there is none."""
        if not self._ready:
            return None
        slot = self._ready.popleft()
        self.released += 1
        self.weight -= slot.weight
        return slot.outcome

    @property
    def ready(self) -> bool:
        """Whether an outcome can be released now."""
        return bool(self._ready)

    @property
    def settled(self) -> int:
        """Outcomes that are there and were not released."""
        return len(self._ready)

    @property
    def unsettled(self) -> tuple[Slot[T, O], ...]:
        """What has no outcome."""
        return tuple(self._waiting.values())

    @property
    def oldest(self) -> Slot[T, O] | None:
        """The slot that was admitted first."""
        return min(self, key=lambda slot: slot.position, default=None)

    def __iter__(self) -> Iterator[Slot[T, O]]:
        """What is in the window, in the order of submission."""
        return iter(sorted((*self._ready, *self._waiting.values()), key=lambda slot: slot.position))
