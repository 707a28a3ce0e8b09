"""What the items of a channel weigh together, found in bulk: taking an item out costs nothing here.

The weight of what is in is the difference of two running sums, that of all that ever came in and that of all that ever
went out. The second one is looked up only when something has to be decided or shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Scale(Generic[T]):
    """The weights of one channel, whose items are numbered in their order from 0 on.

    Attributes:
        weigh: the weight of one item.
        limit: the most that the items may weigh together, with what is reserved.
        credit: how many items may come in without asking `Slots`; it settles before it gives more, so that no more than
            `capacity` sums of items that have left can be in `totals`, and as many of items that are in.
        total: the sum up to the last item that came in; never falls.
        totals: the sum up to each item that came in, from some item on that has left.
        ceiling: what `total` may rise to; as of the last `settle`, so it may be too low.
        reserved: weight that is promised to senders.
        owed: the part of it for senders that step back.
    """

    __slots__ = ("_dropped", "_out", "ceiling", "credit", "limit", "owed", "reserved", "total", "totals", "weigh")

    def __init__(self, weigh: Callable[[T], int], limit: int) -> None:
        self.weigh = weigh
        self.limit = self.ceiling = limit
        self.credit = self.total = self.reserved = self.owed = 0
        self.totals: list[int] = []
        self._dropped = 0  # items before the first of `totals`
        self._out = 0  # the sum up to the last item that has left

    def weight_of(self, item: T) -> int:
        """The weight of an item. Raises ValueError for a negative one."""
        weight = self.weigh(item)
        if weight < 0:
            raise ValueError(f"an item cannot weigh {weight}")
        return weight

    def put(self, weight: int) -> None:
        """An item came in."""
        self.total += weight
        self.totals.append(self.total)

    def reserve(self, weight: int) -> None:
        """Promises weight to a sender, or takes that back when it is negative."""
        self.reserved += weight
        self.ceiling -= weight

    def settle(self, taken: int) -> int:
        """The weight of what is in now that `taken` items have left, without what is reserved."""
        gone = taken - self._dropped
        if gone:
            self._out = self.totals[gone - 1]
            if 2 * gone > len(self.totals):
                del self.totals[:gone]
                self._dropped = taken
        self.ceiling = self.limit + self._out - self.reserved
        return self.total - self._out

    def fits(self, weight: int, taken: int, for_owed: bool = False) -> bool:
        """Whether there is room for so much more, also in what is owed if that may be used."""
        return self.settle(taken) + self.reserved - (self.owed if for_owed else 0) + weight <= self.limit
