"""Which items go into one call together: pure arithmetic over their weights. It decides, and never waits.

Items that are padded to the longest of their batch (tokens, frames, images) cost `longest x count`. So there items of
similar length belong together; the stage puts the results back into order afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

LOOKAHEAD_BATCHES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """The rule by which a stage gathers items into batches. The function of such a stage gets a list, and returns one.

    A batch goes as soon as it is full, when the oldest of its items has been in the stage's channel for `linger_s`, or
    when nothing more can come. It always holds the oldest item that waits, so that none is passed over for ever.

    Attributes:
        max_items: the most items in a batch.
        max_weight: the most that a batch may cost; a single heavier item goes alone. Goes with `weigh`.
        weigh: the weight of an item, such as its number of tokens; not negative.
        linger_s: how long to wait for more items, in seconds. 0: a batch is what is there.
        padded: a batch costs its longest item times the count, instead of the sum. It holds the oldest item and those
            that are most like it, and is full only when the whole `lookahead` was there to choose from.
        max_padding: with `padded`, the share of a batch's cost that may be padding: an item that would raise it above
            this waits for a batch of its like.
        lookahead: with `padded`, how many waiting items are looked at for such; 4 x `max_items` when not given.
        split_on_failure: a batch that fails as a whole is run again item by item, uncharged, so that only the one
            whose fault it is fails. Choose False where a failure says nothing about the items, as of a remote engine.

    Raises:
        ValueError: a number makes no sense.
    """

    max_items: int
    max_weight: int | None = None
    weigh: Callable[[Any], int] | None = None
    linger_s: float = 0.0
    padded: bool = False
    max_padding: float = 0.25
    lookahead: int | None = None
    split_on_failure: bool = True

    def __post_init__(self) -> None:
        for name, number in (("max_items", self.max_items), ("max_weight", self.max_weight)):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise ValueError(f"{name} is a whole number of at least 1, not {number!r}")
        if (self.max_weight is not None or self.padded) and self.weigh is None:
            raise ValueError("max_weight and padded need weigh")
        if not 0 <= self.linger_s < math.inf:
            raise ValueError(f"linger_s is 0 or more, and finite, not {self.linger_s!r}")
        if not 0 <= self.max_padding <= 1:
            raise ValueError(f"max_padding is a share from 0 to 1, not {self.max_padding!r}")
        if self.lookahead is not None and not (self.padded and self.lookahead >= self.max_items):
            raise ValueError(f"lookahead goes with padded and is at least max_items, not {self.lookahead!r}")

    @property
    def sight(self) -> int:
        """How many waiting items the choice is made from."""
        if not self.padded:
            return self.max_items
        return self.lookahead or LOOKAHEAD_BATCHES * self.max_items

    def cost(self, weights: Sequence[int]) -> int:
        """What a batch of these weights costs."""
        return max(weights, default=0) * len(weights) if self.padded else sum(weights)

    def choose(self, weights: Sequence[int], *, final: bool) -> list[int] | None:
        """The next batch, as positions in `weights`, in rising order; the first is always 0.

        Args:
            weights: of the items that wait, the oldest first; not empty.
            final: waiting for more makes no sense.

        Returns:
            None when the batch is not full and waiting may fill it.
        """
        chosen, full = self._similar(weights) if self.padded else self._first(weights)
        return chosen if full or final else None

    def _first(self, weights: Sequence[int]) -> tuple[list[int], bool]:
        total = 0
        for position, weight in enumerate(weights):
            total += weight
            if position == self.max_items or (position and self.max_weight is not None and total > self.max_weight):
                return list(range(position)), True
        return list(range(len(weights))), len(weights) >= self.max_items

    def _similar(self, weights: Sequence[int]) -> tuple[list[int], bool]:
        """The oldest and those closest to it in length, for as long as cost and padding allow."""
        oldest = weights[0]
        chosen, longest, total = [0], oldest, oldest
        for position in sorted(range(1, len(weights)), key=lambda other: (abs(weights[other] - oldest), other)):
            if len(chosen) == self.max_items:
                break
            weight = weights[position]
            cost = max(longest, weight) * (len(chosen) + 1)
            padding = cost - total - weight
            if (self.max_weight is not None and cost > self.max_weight) or padding > self.max_padding * cost:
                continue
            chosen.append(position)
            longest, total = max(longest, weight), total + weight
        no_room = self.max_weight is not None and longest * (len(chosen) + 1) > self.max_weight
        # One that is full of what happened to come first may be worse than what a look further ahead would give.
        return sorted(chosen), len(weights) >= self.sight and (no_room or len(chosen) == self.max_items)
