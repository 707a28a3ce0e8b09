"""The arithmetic of the window: how much may be submitted and not yet handed on. It decides, and never waits.

Counting here, and not completions, is what bounds the buffer behind a slow head item: while the head runs, nothing is
handed on, so nothing more is admitted.

Bounds are counted in items; what is kept for them is kept by the chunk, so that an item costs next to nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Generic, TypeVar

T = TypeVar("T")
O = TypeVar("O")  # noqa: E741 - an outcome of any kind; the window does not look into it


class Chunk(Generic[T, O]):
    """Consecutive items that go to a worker at once and come back at once; often just one.

    Attributes:
        position: the place of its first item in the order of submission, from 1.
        items: what was submitted. The consumer takes them away from the front.
        weights: what each adds to the weight in flight; None when nothing is weighed.
        admitted_at: when the first was, on the caller's clock.
        attempts: attempts that were charged to it; an item that was charged is a chunk of its own.
        outcomes: None until it is settled, then one for each item.
    """

    __slots__ = ("admitted_at", "attempts", "items", "outcomes", "position", "weights")

    def __init__(
        self, position: int, items: list[T], weights: list[int] | None, admitted_at: float, attempts: int
    ) -> None:
        self.position = position
        self.items = items
        self.weights = weights
        self.admitted_at = admitted_at
        self.attempts = attempts
        self.outcomes: list[O] | None = None

    @property
    def end(self) -> int:
        """The position of its last item."""
        return self.position + len(self.items) - 1


class Window(Generic[T, O]):
    """Admits items while there is room and releases their outcomes in the order of submission.

    Args:
        limit: items that may be in the window at once.
        budget: weight that may be in the window at once; None for no limit. The head item is always admitted,
            whatever it weighs: else one heavy item would stop the flow for ever.

    Attributes:
        ready: outcomes to be handed on, in order. The consumer pops them from the left; that alone makes room.
        admitted: items that were ever admitted.
    """

    def __init__(self, limit: int, budget: int | None = None) -> None:
        if limit < 1:
            raise ValueError(f"a window holds at least 1 item, not {limit}")
        if budget is not None and budget < 1:
            raise ValueError(f"a budget is at least 1, not {budget}")
        self.limit = limit
        self.budget = budget
        self.ready: deque[O] = deque()
        self.admitted = 0
        self._released = 0
        self._weight = 0
        self._counted = 0  # outcomes in `ready` when it was last looked at
        self._leaving: deque[Chunk[T, O]] = deque()  # whose outcomes are in `ready`
        self._waiting: deque[Chunk[T, O]] = deque()  # the first of them is not settled

    # The consumer pops without telling: an item costs no call here. What it took is counted when somebody asks.

    def _count(self) -> None:
        gone = self._counted - len(self.ready)
        if not gone:
            return
        self._counted -= gone
        self._released += gone
        leaving = self._leaving
        while gone:
            chunk = leaving[0]
            size = len(chunk.items)
            if size <= gone:
                leaving.popleft()
                gone -= size
                if chunk.weights is not None:
                    self._weight -= sum(chunk.weights)
                continue
            chunk.position += gone
            del chunk.items[:gone]
            if chunk.weights is not None:
                self._weight -= sum(chunk.weights[:gone])
                del chunk.weights[:gone]
            gone = 0

    @property
    def released(self) -> int:
        """Outcomes that were handed on."""
        self._count()
        return self._released

    @property
    def used(self) -> int:
        """Items submitted and not yet handed on."""
        self._count()
        return self.admitted - self._released

    @property
    def room(self) -> int:
        """How many more items may be submitted, weight aside."""
        return self.limit - self.used

    @property
    def weight(self) -> int:
        """What the items weigh that were submitted and not yet handed on."""
        self._count()
        return self._weight

    def fits(self, weight: int) -> bool:
        """Whether an item of this weight may be submitted now, its count aside."""
        return self.budget is None or self.used == 0 or self._weight + weight <= self.budget

    def admit(
        self, items: list[T], weights: list[int] | None = None, now: float = 0.0, attempts: int = 0
    ) -> Chunk[T, O]:
        """Takes items in, which from now on are the window's own. The caller asked `room` and `fits` before."""
        chunk: Chunk[T, O] = Chunk(self.admitted + 1, items, weights, now, attempts)
        self.admitted += len(items)
        if weights is not None:
            self._weight += sum(weights)
        self._waiting.append(chunk)
        return chunk

    def extend(self, chunk: Chunk[T, O], items: list[T], weights: list[int] | None = None) -> None:
        """Adds items to the chunk that was admitted last and is not sent yet."""
        chunk.items += items
        self.admitted += len(items)
        if chunk.weights is not None and weights is not None:
            chunk.weights += weights
            self._weight += sum(weights)

    def split(self, chunk: Chunk[T, O]) -> list[Chunk[T, O]]:
        """Puts each item of an unsettled chunk into a chunk of its own, in the same places; says which those are."""
        weights = [None] * len(chunk.items) if chunk.weights is None else [[weight] for weight in chunk.weights]
        parts: list[Chunk[T, O]] = [
            Chunk(position, [item], own, chunk.admitted_at, chunk.attempts)
            for position, item, own in zip(range(chunk.position, chunk.end + 1), chunk.items, weights, strict=True)
        ]
        place = self._waiting.index(chunk)
        self._waiting.rotate(-place)
        self._waiting.popleft()
        self._waiting.extendleft(reversed(parts))
        self._waiting.rotate(place)
        return parts

    def settle(self, chunk: Chunk[T, O], outcomes: list[O]) -> None:
        """Notes the outcomes of a chunk, one for each item."""
        chunk.outcomes = outcomes
        waiting = self._waiting
        if waiting[0] is not chunk:
            return
        self._count()
        while waiting and (outcomes_there := waiting[0].outcomes) is not None:
            self._leaving.append(waiting.popleft())
            self.ready += outcomes_there
        self._counted = len(self.ready)

    def withdraw(self) -> None:
        """Hands nothing on any more: what is ready stays in the window."""
        self._count()
        self.ready.clear()
        self._counted = 0

    @property
    def settled(self) -> int:
        """Outcomes that are there and were not released."""
        return sum(len(chunk.items) for chunk in self if chunk.outcomes is not None)

    @property
    def unsettled(self) -> tuple[T, ...]:
        """Items that cannot be released as things are: without an outcome, or behind one that has none."""
        return tuple(chain.from_iterable(chunk.items for chunk in self._waiting))

    @property
    def items(self) -> tuple[T, ...]:
        """What was submitted and not handed on, in the order of submission."""
        return tuple(chain.from_iterable(chunk.items for chunk in self))

    @property
    def oldest_at(self) -> float | None:
        """When the oldest item was admitted that was not handed on."""
        return min((chunk.admitted_at for chunk in self), default=None)

    def __iter__(self) -> Iterator[Chunk[T, O]]:
        """The chunks of what was not handed on, in the order of submission."""
        self._count()
        return iter((*self._leaving, *self._waiting))


class UnorderedWindow(Window[T, O]):
    """The same bounds for those who need no order: outcomes are released as they come."""

    def settle(self, chunk: Chunk[T, O], outcomes: list[O]) -> None:
        """Notes the outcomes of a chunk, which can be released at once."""
        self._count()
        chunk.outcomes = outcomes
        self._waiting.remove(chunk)
        self._leaving.append(chunk)
        self.ready += outcomes
        self._counted = len(self.ready)

    def __iter__(self) -> Iterator[Chunk[T, O]]:
        """The chunks of what was not handed on, in the order of submission."""
        return iter(sorted(super().__iter__(), key=lambda chunk: chunk.position))
