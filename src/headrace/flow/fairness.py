"""Fair turns between clients: deficit round robin, as arithmetic that never waits.

Each client with something waiting has a line of its own. The turn goes round; at each turn a client is credited
`quantum * weight` and is served for as long as its credit covers the cost of its next entry. So in every stretch in
which two clients both have something waiting, each gets its share, whatever the sizes of the entries and however many
the other has sent (Shreedhar and Varghese, 1996: "Efficient fair queuing using deficit round robin").

A client whose line becomes empty is forgotten at once, credit and all: the records of idle clients are bounded by none.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Entry = TypeVar("Entry", bound=Hashable)


class _Line(Generic[Entry]):
    __slots__ = ("credit", "credited", "entries")

    def __init__(self) -> None:
        self.entries: OrderedDict[Entry, float] = OrderedDict()  # with their costs
        self.credit = 0.0
        self.credited = False  # whether this turn was credited already

    @property
    def missing(self) -> float:
        return next(iter(self.entries.values())) - self.credit


class FairTurns(Generic[Entry]):
    """Entries of many clients, taken out in fair turns; first come, first served within a client.

    Entries are told apart by identity or equality and must be unique. All operations take constant time per entry,
    but for a turn that goes round: that takes the number of clients waiting.

    Args:
        quantum: what a client of weight 1 is credited per turn. About the cost of a usual entry; smaller is smoother.
        weight_of: the weight of a client, above 0; every client has 1 when not given.
    """

    __slots__ = ("_arrivals", "_lines", "_quantum", "_weight_of")

    def __init__(self, *, quantum: float = 1.0, weight_of: Callable[[Hashable], float] | None = None) -> None:
        if not 0 < quantum < math.inf:
            raise ValueError(f"a quantum must be above 0 and finite, got {quantum}")
        self._quantum = quantum
        self._weight_of = weight_of
        self._lines: OrderedDict[Hashable, _Line[Entry]] = OrderedDict()  # the first one has the turn
        self._arrivals: OrderedDict[Entry, Hashable] = OrderedDict()  # every entry with its client

    def __len__(self) -> int:
        return len(self._arrivals)

    @property
    def clients(self) -> int:
        """How many clients have something waiting."""
        return len(self._lines)

    def waiting_of(self, client: Hashable) -> int:
        """How many entries of one client are waiting."""
        line = self._lines.get(client)
        return len(line.entries) if line is not None else 0

    def push(self, entry: Entry, client: Hashable, cost: float = 1.0) -> None:
        """Adds an entry at the end of its client's line. Raises ValueError for a cost that is not above 0."""
        if not 0 < cost < math.inf:
            raise ValueError(f"a cost must be above 0 and finite, got {cost}")
        if entry in self._arrivals:
            raise ValueError("this entry is waiting already")
        line = self._lines.get(client)
        if line is None:
            line = self._lines[client] = _Line()
        line.entries[entry] = cost
        self._arrivals[entry] = client

    def oldest(self) -> Entry | None:
        """The entry that came first, whoever's turn it is."""
        return next(iter(self._arrivals), None)

    def peek(self) -> Entry | None:
        """Whose turn it is. Stays the same until an entry is taken or discarded."""
        turned_down = 0
        while self._lines:
            client, line = next(iter(self._lines.items()))
            if not line.credited:
                line.credit += self._share(client)
                line.credited = True
            if line.missing <= 0:
                return next(iter(line.entries))
            self._next_turn(client, line)
            turned_down += 1
            if turned_down == len(self._lines):
                self._skip_rounds()
                turned_down = 0
        return None

    def pop(self) -> Entry:
        """Takes out the entry whose turn it is. Raises IndexError when nothing is waiting."""
        entry = self.peek()
        if entry is None:
            raise IndexError("nothing is waiting")
        self.take(entry)
        return entry

    def take(self, entry: Entry) -> None:
        """Takes out any entry to be served; out of turn too, which its client then pays from the credit to come.

        Raises:
            KeyError: it is not waiting.
        """
        line = self._lines[self._arrivals[entry]]
        line.credit -= line.entries[entry]
        self.discard(entry)

    def discard(self, entry: Entry) -> bool:
        """Takes out an entry that gave up: nobody pays for it. Returns whether it was there."""
        if entry not in self._arrivals:
            return False
        client = self._arrivals.pop(entry)
        line = self._lines[client]
        del line.entries[entry]
        if not line.entries:
            del self._lines[client]
        return True

    def _share(self, client: Hashable) -> float:
        weight = self._weight_of(client) if self._weight_of is not None else 1.0
        if not 0 < weight < math.inf:
            raise ValueError(f"the weight of a client must be above 0 and finite, got {weight} for {client!r}")
        return self._quantum * weight

    def _next_turn(self, client: Hashable, line: _Line[Entry]) -> None:
        line.credited = False
        self._lines.move_to_end(client)

    def _skip_rounds(self) -> None:
        """Nobody could afford his entry for a whole round: credits all rounds but the last in which nobody will."""
        shares = {client: self._share(client) for client in self._lines}
        rounds = min(math.ceil(line.missing / shares[client]) for client, line in self._lines.items()) - 1
        for client, line in self._lines.items():
            line.credit += rounds * shares[client]
