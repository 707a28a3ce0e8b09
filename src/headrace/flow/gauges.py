"""Named gauges: numbers that go up and down and that others may watch, such as a gate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator


class Gauge:
    """One number that goes up and down, with its peak.

    Watchers are called in the same tick as the change, in the order in which they came; they must not raise.

    Args:
        name: what it measures, ending in its unit (`window_used`, `in_flight_bytes`).
    """

    __slots__ = ("_watchers", "name", "peak", "value")

    def __init__(self, name: str, value: float = 0.0) -> None:
        self.name = name
        self.value = value
        self.peak = value
        self._watchers: list[Callable[[float], object]] = []

    def set(self, value: float) -> None:
        """Moves to `value` and tells the watchers. Raises ValueError for NaN, which no comparison can handle."""
        if math.isnan(value):
            raise ValueError(f"gauge {self.name} cannot be NaN")
        self.value = value
        if value > self.peak:
            self.peak = value
        for watch in self._watchers:
            watch(value)

    def add(self, change: float) -> None:
        """Moves by `change`, which may be negative."""
        self.set(self.value + change)

    def watch(self, watcher: Callable[[float], object]) -> None:
        """Calls `watcher(value)` now and after every change, for as long as the gauge lives."""
        self._watchers.append(watcher)
        watcher(self.value)


class Gauges:
    """The gauges of one process part, by name; each name once. Values are read at the moment of asking."""

    def __init__(self) -> None:
        self._read: dict[str, Callable[[], float]] = {}

    def gauge(self, name: str) -> Gauge:
        """A new gauge under `name`. Raises ValueError when the name is taken."""
        gauge = Gauge(name)
        self.read_from(name, lambda: gauge.value)
        return gauge

    def read_from(self, name: str, read: Callable[[], float]) -> None:
        """Shows under `name` whatever `read()` returns. Raises ValueError when the name is taken."""
        if name in self._read:
            raise ValueError(f"there is a gauge named {name} already")
        self._read[name] = read

    def snapshot(self) -> dict[str, float]:
        """All values now, in order of name."""
        return {name: self._read[name]() for name in self}

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._read))

    def __len__(self) -> int:
        return len(self._read)
