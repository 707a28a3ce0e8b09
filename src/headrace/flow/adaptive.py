"""A limit that finds itself: how much a remote engine can take, learned from how calls end.

The rules are arithmetic (`AimdRule`, `GradientRule`): they take `now`, an ending, a latency and what was in flight, and
say the limit. `AdaptivePermits` is the thin layer: permits whose endings are the samples and whose limit follows.

What all rules promise:

- A timeout or a refusal of the remote is a loss, never a sample of its latency. So when every call times out alike,
  the limit falls to its floor: a latency that is the same for all is not mistaken for the remote's usual one.
- One overload is answered once: losses of calls that had begun before the last cut are echoes of what was cut already.
- The limit grows only while it is used: an idle hour is no proof that more would be well.
- Nothing is ever refused to find something out: there is no probe. The floor keeps enough in flight to learn from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from headrace.flow.clock import Clock, LoopClock
from headrace.flow.gauges import Gauge
from headrace.flow.permits import Ending, Permits


class LimitRule(Protocol):
    """Decides a limit. Pure: the same samples give the same limit."""

    @property
    def limit(self) -> int:
        """The limit now."""
        ...

    def observe(self, ending: Ending, latency_s: float, in_flight: int, now: float) -> None:
        """A call ended at `now` after `latency_s`, with `in_flight` at that moment, itself included."""
        ...


@dataclass(frozen=True, slots=True)
class LimitBounds:
    """Between what a limit may move.

    Attributes:
        floor: it never falls below; at least 1.
        ceiling: it never rises above: what you would dare to send if all went well.
        initial: where it begins; the floor when not given.
    """

    floor: int = 1
    ceiling: int = 256
    initial: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.floor <= self.ceiling or not self.floor <= self.start <= self.ceiling:
            raise ValueError(f"needs 1 <= floor <= initial <= ceiling, got {self}")

    @property
    def start(self) -> int:
        """Where the limit begins."""
        return self.floor if self.initial is None else self.initial

    def clamp(self, limit: float) -> float:
        """The nearest limit within the bounds."""
        return min(float(self.ceiling), max(float(self.floor), limit))


class _Rule:
    """What the rules share: losses cut once, and successes are looked at in windows.

    Args:
        bounds: between what the limit may move.
        backoff: what a loss multiplies the limit by, above 0 and below 1.
        timeout_s: a call that took so long is a loss, however it says it ended.
    """

    def __init__(self, bounds: LimitBounds, *, backoff: float, timeout_s: float | None) -> None:
        if not 0 < backoff < 1 or (timeout_s is not None and not timeout_s > 0):
            raise ValueError(f"needs 0 < backoff < 1 and a timeout above 0, got {backoff} and {timeout_s}")
        self.bounds = bounds
        self._backoff = backoff
        self._timeout_s = math.inf if timeout_s is None else timeout_s
        self._exact = float(bounds.start)
        self._cut_at = -math.inf
        self._window_began = -math.inf
        self._latencies_s = 0.0  # sum over the window
        self._count = 0
        self._peak = 0  # most in flight in the window

    @property
    def limit(self) -> int:
        """The limit now."""
        return int(self._exact)

    def observe(self, ending: Ending, latency_s: float, in_flight: int, now: float) -> None:
        """A call ended at `now` after `latency_s`, with `in_flight` at that moment, itself included."""
        if ending is Ending.IGNORE:
            return
        began = now - latency_s
        if ending is Ending.DROPPED or latency_s >= self._timeout_s:
            if began >= self._cut_at:
                self._exact = self.bounds.clamp(self._exact * self._backoff)
                self._cut_at = now
                self._open_window(now)
            return
        if began < self._window_began:
            return  # it ran under the limit before the last change, and says nothing about this one
        self._latencies_s += latency_s
        self._count += 1
        self._peak = max(self._peak, in_flight)
        if self._count >= max(1, self.limit):
            # Used: the limit was reached, or nearly; only then the window says something about a higher one.
            mean_s, used = self._latencies_s / self._count, self._peak >= 0.9 * self.limit
            self._open_window(now)
            self._exact = self.bounds.clamp(self._next(mean_s, used, now))

    def _open_window(self, now: float) -> None:
        self._window_began = now
        self._latencies_s, self._count, self._peak = 0.0, 0, 0

    def _next(self, mean_s: float, used: bool, now: float) -> float:
        raise NotImplementedError


class AimdRule(_Rule):
    """Additive increase, multiplicative decrease: one more for each window without loss, a cut for each loss.

    Needs losses to find the limit, so it suits remotes that refuse (429) or time out (Chiu and Jain, 1989: "Analysis of
    the increase and decrease algorithms for congestion avoidance in computer networks").

    Args:
        bounds: between what the limit may move.
        backoff: what a loss multiplies the limit by.
        timeout_s: a call that took so long is a loss, however it says it ended.
    """

    def __init__(
        self, bounds: LimitBounds | None = None, *, backoff: float = 0.8, timeout_s: float | None = None
    ) -> None:
        super().__init__(bounds or LimitBounds(), backoff=backoff, timeout_s=timeout_s)

    def _next(self, mean_s: float, used: bool, now: float) -> float:
        return self._exact + 1 if used else self._exact


class GradientRule(_Rule):
    """Follows latency: as calls take longer than they do at rest, the limit shrinks in proportion, before any is lost.

    In each window: new = limit * min(1, tolerance * rest / mean) + sqrt(limit), where the square root is the line in
    front of the remote that is wished for (after Netflix's concurrency-limits). The latency at rest is the smallest
    window seen, and is forgotten slowly (it doubles in `forget_s`), because nothing is refused to measure it again: a
    remote that has become slower for good is believed after a while, and the ceiling bounds what that can cost.

    Args:
        bounds: between what the limit may move.
        tolerance: how much slower than at rest is still well; at least 1.
        smoothing: how far each window moves the limit towards the new one, above 0 and at most 1.
        forget_s: how long until the latency at rest is believed to be twice what was seen.
        backoff: what a loss multiplies the limit by.
        timeout_s: a call that took so long is a loss, however it says it ended.
    """

    def __init__(
        self,
        bounds: LimitBounds | None = None,
        *,
        tolerance: float = 1.5,
        smoothing: float = 0.5,
        forget_s: float = 1800.0,
        backoff: float = 0.8,
        timeout_s: float | None = None,
    ) -> None:
        super().__init__(bounds or LimitBounds(), backoff=backoff, timeout_s=timeout_s)
        if not (tolerance >= 1 and 0 < smoothing <= 1 and forget_s > 0):
            raise ValueError(f"needs tolerance >= 1, 0 < smoothing <= 1 and forget_s > 0, got {tolerance}, {smoothing}")
        self._tolerance = tolerance
        self._smoothing = smoothing
        self._forget_s = forget_s
        self._rest_s = math.inf
        self._rest_at = 0.0

    @property
    def rest_s(self) -> float:
        """The latency at rest as it is believed to be; infinite before the first window."""
        return self._rest_s

    def _next(self, mean_s: float, used: bool, now: float) -> float:
        rest_s = self._rest_s * 2 ** (min(100.0, (now - self._rest_at) / self._forget_s))
        self._rest_s, self._rest_at = max(1e-9, min(rest_s, mean_s)), now
        gradient = min(1.0, self._tolerance * self._rest_s / max(mean_s, 1e-9))
        wished = self._exact * gradient + math.sqrt(self._exact)
        if wished > self._exact and not used:
            return self._exact
        return self._exact + self._smoothing * (wished - self._exact)


class AdaptivePermits:
    """Permits whose limit follows a rule. Take them from `permits`, like any; how they end is what is learned from.

    Args:
        rule: what decides.
        limit_bytes: how many bytes may be in flight; stays as it is.
        gauge: shows the items in flight.
        observe: called with the ending and the seconds held, after the rule.
        on_change: called with the new limit when it has changed; for another part that must be resized too.
        clock: what tells the time; the running loop's when not given.
    """

    def __init__(
        self,
        rule: LimitRule,
        *,
        limit_bytes: int | None = None,
        gauge: Gauge | None = None,
        observe: Callable[[Ending, float], None] | None = None,
        on_change: Callable[[int], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or LoopClock()
        self.rule = rule
        self._follow = AdaptiveLimit(rule, self._resize, now=clock.now)
        self._limit_bytes = limit_bytes
        self._on_change = on_change
        self._also_observe = observe
        self.permits = Permits(rule.limit, limit_bytes=limit_bytes, gauge=gauge, observe=self._observe, clock=clock)

    def _observe(self, ending: Ending, held_s: float) -> None:
        self._follow.observe(ending, held_s, self.permits.held + 1)
        if self._also_observe is not None:
            self._also_observe(ending, held_s)

    def _resize(self, limit: int) -> None:
        self.permits.resize(limit, limit_bytes=self._limit_bytes)
        if self._on_change is not None:
            self._on_change(limit)


class AdaptiveLimit:
    """Feeds a rule and applies what it says, to whatever can be resized: permits, an admission, an intake.

    Args:
        rule: what decides.
        resize: is given the new limit whenever it has changed.
        now: tells the time.
    """

    def __init__(self, rule: LimitRule, resize: Callable[[int], object], *, now: Callable[[], float]) -> None:
        self.rule = rule
        self._resize = resize
        self._now = now
        self._applied = rule.limit

    def observe(self, ending: Ending, latency_s: float, in_flight: int) -> None:
        """A call ended; resizes when that changes the limit."""
        self.rule.observe(ending, latency_s, in_flight, self._now())
        if self.rule.limit != self._applied:
            self._applied = self.rule.limit
            self._resize(self._applied)
