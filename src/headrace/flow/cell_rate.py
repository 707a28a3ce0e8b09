"""A token bucket in one number: the moment up to which its tokens are used up.

The generic cell rate algorithm (ITU-T I.371). It lets through exactly what `TokenBucket` does, one token each, and is
the cheaper one where that is all: nothing has to be brought up to date before it can be asked. It takes `now` and never
sleeps.
"""

from __future__ import annotations

import math

from headrace.flow.rate import OVER_S, Rate


class CellRate:
    """Tokens of a rate, which may be None: then there is always one.

    Attributes:
        limited: whether there is a rate.
    """

    __slots__ = ("_burst", "_interval_s", "_span_s", "_used_until", "limited")

    def __init__(self, rate: Rate | None, now: float) -> None:
        self._burst = self._interval_s = self._span_s = 0.0
        self._used_until = -math.inf
        self.limited = False
        self.change(rate, now)

    def change(self, rate: Rate | None, now: float) -> None:
        """Changes the rate; tokens earned at the old one stay, up to the new burst."""
        tokens = self.tokens(now)
        self.limited = rate is not None
        self._interval_s = 0.0 if rate is None else 1 / rate.per_s
        self._span_s = 0.0 if rate is None else (rate.burst - 1) / rate.per_s
        self._burst = math.inf if rate is None else rate.burst
        self._used_until = -math.inf if rate is None else now - min(tokens, self._burst) * self._interval_s

    def take(self, now: float) -> bool:
        """Takes a token, or returns False."""
        used_until = max(self._used_until + self._interval_s, now - self._span_s)
        if used_until - now > OVER_S:
            return False
        self._used_until = used_until
        return True

    def use(self, count: int) -> None:
        """Takes so many tokens that were seen to be there; gives them back when negative."""
        self._used_until += count * self._interval_s

    def whole(self, now: float) -> int:
        """How many whole tokens there are, where there is a rate; all of them may be used at this moment."""
        self._used_until = max(self._used_until, now - self._span_s - self._interval_s)
        return int((now - self._used_until) / self._interval_s + OVER_S)

    def tokens(self, now: float) -> float:
        """How many tokens there are."""
        if not self.limited:
            return math.inf
        return min(self._burst, (now - self._used_until) / self._interval_s)

    def wait_s(self, now: float, count: int = 1) -> float:
        """How long it takes until there are so many; 0.0 where there are."""
        if not self.limited:
            return 0.0
        used_until = max(self._used_until, now - self._span_s - self._interval_s)
        wait_s = used_until + count * self._interval_s - now
        return wait_s if wait_s > OVER_S else 0.0
