"""Who is next: classes, aging, and fair turns, as arithmetic that takes `now` and never waits.

The order, in three rules:

1. Whoever has been promoted goes first, in the order of promotion.
2. Then the highest class that has something waiting; inside it the clients take fair turns (`headrace.flow.fairness`).
3. The oldest of a class is promoted when what is left of its promised longest wait T is no more than what it takes to
   serve everything that waits now. (While no rate is known: when half of T is over.)

So T holds: at the moment of promotion only those promoted earlier are before it, they are part of what waits now, and
nobody who is promoted later overtakes. It holds as long as the measured rate does, to within the service of one entry,
and provided that T is not shorter than serving all that the lines may hold (`sizing.longest_wait` has the sum).
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace.flow.fairness import FairTurns
from headrace.flow.shedding import ClassLoad, ServiceClass


@dataclass(frozen=True, slots=True)
class ClassBounds:
    """The bounds of one class.

    Attributes:
        capacity: how many may wait in its line.
        longest_wait_s: what is promised: nobody who was let into the line waits longer.
        client_share: how many one client may have waiting, as a multiple of the room that is left in the line. With 1
            a lone client fills half the line, two a third each, and there is always room for one more client (Choudhury
            and Hahne, 1998: "Dynamic queue length thresholds"). Does not bind entries without a client.
    """

    capacity: int
    longest_wait_s: float
    client_share: float = 1.0

    def __post_init__(self) -> None:
        if self.capacity < 1 or not 0 < self.longest_wait_s < math.inf or not 0 < self.client_share < math.inf:
            raise ValueError(f"needs room for at least one, a finite longest wait and a share above 0, got {self}")


DEFAULT_BOUNDS: Mapping[ServiceClass, ClassBounds] = {
    ServiceClass.INTERACTIVE: ClassBounds(64, 30.0),
    ServiceClass.BATCH: ClassBounds(256, 300.0),
    ServiceClass.BACKGROUND: ClassBounds(256, 1800.0),
}

_IDLE: Mapping[ServiceClass, ClassLoad] = dict.fromkeys(ServiceClass, ClassLoad())


class Waiting:
    """One who waits on the ladder. Told apart by identity."""

    __slots__ = ("came_at", "class_", "client", "cost")

    def __init__(self, class_: ServiceClass, client: Hashable, cost: float, came_at: float) -> None:
        self.class_ = class_
        self.client = client
        self.cost = cost
        self.came_at = came_at


E = TypeVar("E", bound=Waiting)


class LadderOrder(Generic[E]):
    """Everyone who waits, and who is next.

    Args:
        bounds: for each class; all three must be there.
        quantum: see `FairTurns`.
        weight_of: the weight of a client in the turns of its class.
    """

    __slots__ = ("_bounds", "_cost", "_count", "_held", "_promoted", "_promoted_cost", "_turns", "_waiting")

    def __init__(
        self,
        bounds: Mapping[ServiceClass, ClassBounds] = DEFAULT_BOUNDS,
        *,
        quantum: float = 1.0,
        weight_of: Callable[[Hashable], float] | None = None,
    ) -> None:
        if set(bounds) != set(ServiceClass):
            raise ValueError("each class needs its bounds")
        self._bounds = bounds
        self._waiting: dict[ServiceClass, OrderedDict[E, None]] = {c: OrderedDict() for c in ServiceClass}
        self._turns: dict[ServiceClass, FairTurns[E]] = {
            class_: FairTurns(quantum=quantum, weight_of=weight_of) for class_ in ServiceClass
        }
        # Part of `_waiting` too; no longer part of `_turns`.
        self._promoted: OrderedDict[E, None] = OrderedDict()
        self._count = 0
        self._cost = dict.fromkeys(ServiceClass, 0.0)
        self._promoted_cost = dict.fromkeys(ServiceClass, 0.0)  # part of `_cost` too
        # How many each client has waiting; whoever has none is forgotten.
        self._held: dict[ServiceClass, Counter[Hashable]] = {class_: Counter() for class_ in ServiceClass}

    def __len__(self) -> int:
        return self._count

    def __contains__(self, entry: E) -> bool:
        return entry in self._waiting[entry.class_]

    def depth(self, class_: ServiceClass) -> int:
        """How many of a class wait, promoted ones included."""
        return len(self._waiting[class_])

    def clients(self, class_: ServiceClass) -> int:
        """How many clients of a class have something waiting."""
        return len(self._held[class_])

    @property
    def promoted(self) -> int:
        """How many go before every class."""
        return len(self._promoted)

    def bounds_of(self, class_: ServiceClass) -> ClassBounds:
        """The bounds of a class."""
        return self._bounds[class_]

    def oldest_age_s(self, class_: ServiceClass, now: float) -> float:
        """How long the oldest of a class has waited; 0.0 when nobody does."""
        oldest = next(iter(self._waiting[class_]), None)
        return max(0.0, now - oldest.came_at) if oldest is not None else 0.0

    def loads(self, now: float) -> Mapping[ServiceClass, ClassLoad]:
        """What presses on whom; see `headrace.flow.shedding`."""
        if not len(self):
            return _IDLE
        return {
            class_: ClassLoad(
                len(line) / self._bounds[class_].capacity,
                self.oldest_age_s(class_, now) / self._bounds[class_].longest_wait_s,
            )
            for class_, line in self._waiting.items()
        }

    def no_room(self, class_: ServiceClass, client: Hashable) -> str | None:
        """Why there is no room for one more of this class and client; None when there is."""
        bounds, depth = self._bounds[class_], len(self._waiting[class_])
        if depth >= bounds.capacity:
            return f"the line of {class_.name.lower()} holds {depth} and can take no more now"
        if client is not None:
            share, its = bounds.client_share * (bounds.capacity - depth), self._held[class_][client]
            if its >= max(1.0, share):
                return (
                    f"this client has {its} waiting in the line of {class_.name.lower()}, all that it may at this load"
                )
        return None

    def cost_before(self, class_: ServiceClass) -> float:
        """What is served before a newcomer of this class, if none of a higher class comes after it."""
        return sum((self._cost if other <= class_ else self._promoted_cost)[other] for other in ServiceClass)

    def someone_before(self, class_: ServiceClass) -> bool:
        """Whether anybody is served before a newcomer of this class."""
        return bool(self._count) and (
            bool(self._promoted) or any(self._waiting[other] for other in ServiceClass if other <= class_)
        )

    def push(self, entry: E) -> None:
        """Lets an entry in. The caller has asked `no_room`; nothing is checked here."""
        self._turns[entry.class_].push(entry, entry.client, entry.cost)
        self._waiting[entry.class_][entry] = None
        self._held[entry.class_][entry.client] += 1
        self._count += 1
        self._cost[entry.class_] += entry.cost

    def peek(self, now: float, rate_per_s: float | None) -> E | None:
        """Promotes whoever is due, and says who is next; None when nobody waits.

        Args:
            now: the present moment.
            rate_per_s: how much cost is served per second; None when that is not known.
        """
        self._promote(now, rate_per_s)
        return self.head()

    def head(self) -> E | None:
        """Who is next as things stand, without a look at the clock."""
        for entry in self._promoted:
            return entry
        for turns in self._turns.values():  # in order of class
            if turns:
                return turns.peek()
        return None

    def next_promotion_s(self, now: float, rate_per_s: float | None) -> float | None:
        """How long until somebody is promoted if nothing changes; None when nobody would be."""
        lead_s = self._lead_s(rate_per_s)
        due = [oldest.came_at + self._before_promise_s(c, lead_s) for c, oldest in self._oldest_by_class()]
        return max(0.0, min(due) - now) if due else None

    def take(self, entry: E) -> None:
        """Takes out an entry to serve it; its client pays for it."""
        if entry in self._promoted:
            self._unpromote(entry)  # it was charged when it was promoted
        else:
            self._turns[entry.class_].take(entry)
        self._left(entry)

    def discard(self, entry: E) -> bool:
        """Takes out an entry that gave up, from anywhere; returns whether it was there."""
        if entry not in self:
            return False
        if entry in self._promoted:
            self._unpromote(entry)
        else:
            self._turns[entry.class_].discard(entry)
        self._left(entry)
        return True

    def everyone(self) -> list[E]:
        """All who wait, in order of class and arrival."""
        return [entry for line in self._waiting.values() for entry in line]

    def _unpromote(self, entry: E) -> None:
        del self._promoted[entry]
        promoted = self._promoted
        self._promoted_cost[entry.class_] = self._promoted_cost[entry.class_] - entry.cost if promoted else 0.0

    def _left(self, entry: E) -> None:
        line, held = self._waiting[entry.class_], self._held[entry.class_]
        del line[entry]
        self._count -= 1
        held[entry.client] -= 1
        if not held[entry.client]:
            del held[entry.client]
        # Costs may be fractions: an empty line costs exactly nothing, so that rounding cannot pile up.
        self._cost[entry.class_] = self._cost[entry.class_] - entry.cost if line else 0.0

    def _promote(self, now: float, rate_per_s: float | None) -> None:
        lead_s = self._lead_s(rate_per_s)
        due: list[tuple[float, E]] = []
        for class_, turns in self._turns.items():
            before_s = self._before_promise_s(class_, lead_s)
            while (oldest := turns.oldest()) is not None and oldest.came_at + before_s <= now:
                turns.take(oldest)
                due.append((oldest.came_at + before_s, oldest))
        due.sort(key=lambda pair: pair[0])
        for _, entry in due:
            self._promoted[entry] = None
            self._promoted_cost[entry.class_] += entry.cost

    def _lead_s(self, rate_per_s: float | None) -> float | None:
        """What it takes to serve all who wait, and one that is being served."""
        return (sum(self._cost.values()) + 1) / rate_per_s if rate_per_s else None

    def _before_promise_s(self, class_: ServiceClass, lead_s: float | None) -> float:
        """At which age one of this class is promoted."""
        longest_s = self._bounds[class_].longest_wait_s
        return longest_s / 2 if lead_s is None else max(0.0, longest_s - lead_s)

    def _oldest_by_class(self) -> list[tuple[ServiceClass, E]]:
        return [(c, oldest) for c, turns in self._turns.items() if (oldest := turns.oldest()) is not None]
