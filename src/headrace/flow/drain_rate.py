"""How fast a limit drains, measured, and the time to come back that follows from it.

What counts is the rate at capacity: how many leave per second while more are waiting. Time in which nothing waits says
nothing about capacity, so the owner of the meter pauses it then; a stall that nobody announced (a suspended machine, a
remote that hung once) is recognised by its shape and left out as soon as it is over.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.flow.gate import GateState, WaterMarks
from headrace.flow.gauges import Gauge

# A slice so many times slower than the median is a stall, unless its neighbour is too: then things really are slow.
_STALL = 8.0
# With fewer than this many measured, there is no rate: one lucky item must not refuse those who come after it.
_ENOUGH = 4


class _Slice(NamedTuple):
    left: float
    took_s: float

    @property
    def pace_s(self) -> float:
        return self.took_s / self.left


class DrainRate:
    """Measures how many leave per second while more are waiting. Pure arithmetic; starts paused.

    Keeps the last `slices` stretches of at least `slice_s` each, so it follows a change within `slices * slice_s` of
    measured time, or within `slices` items where one takes longer than that.

    Args:
        slice_s: the shortest stretch, in seconds; long against the jitter of one item.
        slices: how many are kept.
    """

    __slots__ = ("_closed", "_count", "_since", "_slice_s", "_took_s", "_usual")

    def __init__(self, *, slice_s: float = 1.0, slices: int = 16) -> None:
        if not (slice_s > 0 and slices >= 1):
            raise ValueError(f"needs slices of more than 0 s and at least one of them, got {slice_s} s and {slices}")
        self._slice_s = slice_s
        self._closed: deque[_Slice] = deque(maxlen=slices)
        self._usual = _Slice(0.0, 0.0)  # all closed slices together, but for stalls
        self._count = 0.0  # of the open slice
        self._took_s = 0.0  # of the open slice, up to `_since`
        self._since: float | None = None  # None while paused

    @property
    def paused(self) -> bool:
        """Whether time is not being counted."""
        return self._since is None

    def resume(self, now: float) -> None:
        """From `now` on something waits: time counts. Changes nothing when it counts already."""
        if self._since is None:
            self._since = now

    def pause(self, now: float) -> None:
        """From `now` on nothing waits, or draining was stopped on purpose: time does not count."""
        if self._since is not None:
            self._took_s += max(0.0, now - self._since)
            self._since = None

    def record(self, count: float, now: float) -> None:
        """`count` left at `now`. Ignored while paused: who leaves then was not waited for."""
        if self._since is None or count <= 0:
            return
        self._took_s += max(0.0, now - self._since)
        self._since = now
        self._count += count
        if self._took_s >= self._slice_s:
            self._closed.append(_Slice(self._count, self._took_s))
            self._count = self._took_s = 0.0
            usual = self._without_stalls()
            self._usual = _Slice(sum(part.left for part in usual), sum(part.took_s for part in usual))

    def per_s(self, now: float) -> float | None:
        """The rate at `now`; None until enough was measured. Falls while a stall lasts, recovers when it is over."""
        running_s = 0.0 if self._since is None else max(0.0, now - self._since)
        count = self._usual.left + self._count
        took_s = self._usual.took_s + self._took_s + running_s
        return count / took_s if count >= _ENOUGH and took_s > 0 else None

    def time_for_s(self, count: float, now: float) -> float | None:
        """How long until `count` more have left; None when there is no rate yet."""
        rate = self.per_s(now)
        return None if rate is None else max(0.0, count) / rate

    def _without_stalls(self) -> list[_Slice]:
        parts = list(self._closed)
        if len(parts) < 3:
            return parts
        bound_s = _STALL * statistics.median(part.pace_s for part in parts)
        slow = [False, *(part.pace_s > bound_s for part in parts), False]
        return [part for i, part in enumerate(parts, 1) if not slow[i] or slow[i - 1] or slow[i + 1]]


class GaugeDrain:
    """Measures how fast a gauge falls while its gate is closed, in whatever the gauge counts (items, bytes).

    Args:
        gauge: what to watch.
        marks: when the gate over it closes and opens: between the two nothing new comes in, so it drains alone.
        now: tells the time.
    """

    def __init__(self, gauge: Gauge, marks: WaterMarks, now: Callable[[], float]) -> None:
        self.rate = DrainRate()
        self._gauge = gauge
        self._marks = marks
        self._now = now
        self._state = GateState.OPEN
        self._level = gauge.value
        gauge.watch(self._observe)

    def time_until_low_s(self) -> float | None:
        """How long until the gauge is at the low water mark; None when its rate is not known yet."""
        return self.rate.time_for_s(self._gauge.value - self._marks.low_water, self._now())

    def _observe(self, level: float) -> None:
        fell_by, self._level = self._level - level, level
        now = self._now()
        if self._state is GateState.CLOSED:
            self.rate.record(fell_by, now)
        self._state = self._marks.next_state(self._state, level)
        if self._state is GateState.CLOSED:
            self.rate.resume(now)
        else:
            self.rate.pause(now)


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Turns an estimate into what a caller is told: whole seconds, spread out, bounded.

    Attributes:
        rng: what the jitter is drawn from; seed it and the answers replay.
        jitter: answers differ by up to this fraction either way, so that those refused together do not come back
            together.
        cap_s: the longest answer.
        unknown_s: the estimate where nothing was measured yet.
    """

    rng: random.Random = field(default_factory=random.Random)
    jitter: float = 0.2
    cap_s: int = 120
    unknown_s: float = 5.0

    def __post_init__(self) -> None:
        if not (0 <= self.jitter < 1 and self.cap_s >= 1 and 0 < self.unknown_s < math.inf):
            raise ValueError(f"needs 0 <= jitter < 1, a cap of at least 1 s and an estimate above 0, got {self}")

    def after(self, estimate_s: float | None) -> int:
        """Seconds to wait, an integer from 1 to `cap_s`: what HTTP's Retry-After may carry (RFC 9110, 10.2.3)."""
        expected_s = self.unknown_s if estimate_s is None or math.isnan(estimate_s) else estimate_s
        spread_s = expected_s * self.rng.uniform(1 - self.jitter, 1 + self.jitter)
        return max(1, math.ceil(min(spread_s, self.cap_s)))
