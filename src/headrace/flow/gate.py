"""The hysteresis gate: closes at a high water mark, opens again at a low one, and stays as it is in between.

A gate stops admission only. Whoever takes things out must never wait for a gate: what they take out is what opens it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from headrace.flow.errors import Closed, Full
from headrace.flow.gauges import Gauge
from headrace.flow.waiters import WaitLine


class GateState(enum.Enum):
    """What a gate says to those who want in."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class WaterMarks:
    """The rule of a gate, without waiting.

    Attributes:
        high_water: at this level or above, the gate closes.
        low_water: at this level or below, it opens again. The distance is what keeps it from flapping: it should be
            worth several seconds of draining.

    Raises:
        ValueError: unless 0 <= low_water < high_water.
    """

    high_water: float
    low_water: float

    def __post_init__(self) -> None:
        if not 0 <= self.low_water < self.high_water:  # also false for NaN
            raise ValueError(f"needs 0 <= low_water < high_water, got {self.low_water} and {self.high_water}")

    def next_state(self, state: GateState, level: float) -> GateState:
        """The state after `state` once the level is `level`."""
        if level >= self.high_water:
            return GateState.CLOSED
        if level <= self.low_water:
            return GateState.OPEN
        return state


@dataclass(frozen=True, slots=True)
class GateStatistics:
    """A gate at one moment. `closings` counts how often it closed so far."""

    state: GateState
    level: float
    high_water: float
    low_water: float
    waiting: int
    closings: int


class Gate:
    """Watches a gauge and lets nobody in while it is CLOSED.

    Args:
        gauge: what fills up: items in a channel, bytes in flight, the age of the oldest.
        high_water: see `WaterMarks`.
        low_water: see `WaterMarks`.
    """

    def __init__(self, gauge: Gauge, *, high_water: float, low_water: float) -> None:
        self.marks = WaterMarks(high_water, low_water)
        self.gauge = gauge
        self.state = GateState.OPEN
        self._closings = 0
        self._ended = False
        self._line: WaitLine[None] = WaitLine(lambda _: self.state is GateState.OPEN, lambda _: None)
        gauge.watch(self._observe)

    def try_pass(self) -> None:
        """Returns when the gate is open.

        Raises:
            Full: the level is too high.
            Closed: `close` was called.
        """
        if self._ended:
            raise Closed(f"the gate over {self.gauge.name} was shut for good")
        if self.state is GateState.CLOSED:
            raise Full(f"{self.gauge.name} reached {self.marks.high_water:g}; opens again at {self.marks.low_water:g}")

    async def wait_open(self, *, deadline_s: float | None = None) -> None:
        """Waits until the gate is open; those who wait go on in the order in which they came.

        An open gate is no reservation: take a permit after it. A cancelled wait leaves nothing behind.

        Raises:
            Expired: it did not open within `deadline_s` seconds.
            Closed: `close` was called.
        """
        if self._ended:
            raise Closed(f"the gate over {self.gauge.name} was shut for good")
        if self.state is GateState.CLOSED:
            await self._line.wait(None, deadline_s)

    def close(self) -> None:
        """No more comes in, whatever the level: every wait ends with Closed, and so does every later call."""
        self._ended = True
        self._line.refuse_all(Closed)

    def statistics(self) -> GateStatistics:
        """A frozen snapshot."""
        return GateStatistics(
            self.state, self.gauge.value, self.marks.high_water, self.marks.low_water, len(self._line), self._closings
        )

    def _observe(self, level: float) -> None:
        before, self.state = self.state, self.marks.next_state(self.state, level)
        if self.state is GateState.OPEN:
            self._line.advance()
        elif before is GateState.OPEN:
            self._closings += 1
