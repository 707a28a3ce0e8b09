"""How many per second: the rate as a value, the token bucket as arithmetic, and a thin layer that waits.

The bucket takes `now` and never sleeps, so it is tested by tables. Nobody sleeps while he holds anything: the one
timer belongs to the head of the line, and every grant costs one wake-up.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from headrace.flow.clock import Clock, LoopClock
from headrace.flow.errors import Closed, Full
from headrace.flow.waiters import WaitLine

# Float seconds are only so exact (2 ns after 115 days of uptime). A wait this short is over; without it a wait that was
# computed exactly would now and then need a second wake-up. What is taken early is owed, so nothing is gained by it.
OVER_S = 1e-8


@dataclass(frozen=True, slots=True)
class Rate:
    """A count per second.

    Attributes:
        per_s: how many per second, above 0; may be below one.
        burst: how many may come at once after a quiet time; at least 1. When not given: one second's worth, but at
            least 1. In any window of T seconds at most `burst + per_s * T` are let through.
    """

    per_s: float
    burst: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.per_s < math.inf):
            raise ValueError(f"a rate must be above 0 and finite, got {self.per_s}")
        if self.burst == 0.0:
            object.__setattr__(self, "burst", max(1.0, self.per_s))
        if not (1 <= self.burst < math.inf):
            raise ValueError(f"a burst must be at least 1 and finite, got {self.burst}")

    @classmethod
    def per_minute(cls, count: float, burst: float = 0.0) -> Rate:
        """So many per minute, the way many remote engines state their quota."""
        return cls(count / 60, burst)


class TokenBucket:
    """The arithmetic of a token bucket: tokens come at `rate.per_s` and are kept up to `rate.burst`.

    More than the burst may be taken at once when the bucket is full; the bucket then owes the difference, so that the
    average still holds and the heaviest request is not refused for ever.

    Args:
        rate: how fast tokens come, and how many are kept.
        now: the present moment, in seconds. The bucket starts full.
    """

    __slots__ = ("_at", "_rate", "_tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._at = now

    @property
    def rate(self) -> Rate:
        """The rate at present."""
        return self._rate

    def tokens(self, now: float) -> float:
        """How many tokens there are; negative while it owes. A clock that went back counts as standing still."""
        if now > self._at:
            # Capped on every look: a long quiet time gives one burst, never two.
            self._tokens = min(self._rate.burst, self._tokens + (now - self._at) * self._rate.per_s)
            self._at = now
        return self._tokens

    def wait_s(self, count: float, now: float) -> float:
        """How long from `now` until `count` can be taken; 0.0 when they can be now."""
        missing = min(count, self._rate.burst) - self.tokens(now)
        wait_s = missing / self._rate.per_s
        return wait_s if wait_s > OVER_S else 0.0

    def take(self, count: float, now: float) -> bool:
        """Takes `count` tokens if they are there; otherwise changes nothing and returns False."""
        if self.wait_s(count, now) > 0.0:
            return False
        self._tokens -= count
        return True

    def put_back(self, count: float, now: float) -> None:
        """Returns tokens that were taken but not used."""
        self._tokens = min(self._rate.burst, self.tokens(now) + count)

    def change_rate(self, rate: Rate, now: float) -> None:
        """From `now` on tokens come at the new rate; what was earned at the old one stays, up to the new burst."""
        self._tokens = min(rate.burst, self.tokens(now))
        self._rate = rate


@dataclass(frozen=True, slots=True)
class RateStatistics:
    """A rate limit at one moment.

    `granted` counts those that had to wait and got their turn, `wakeups` how often the one timer fired for them.
    """

    per_s: float
    burst: float
    tokens: float
    waiting: int
    granted: int
    wakeups: int


class RateLimit:
    """Lets through so many per second, first come first served.

    Belongs to one event loop. Its waits are as exact as the timers of the loop (about a millisecond).

    Args:
        rate: how many per second, and the burst.
        clock: what tells the time; the running loop's when not given.
    """

    def __init__(self, rate: Rate, *, clock: Clock | None = None) -> None:
        self._clock = clock or LoopClock()
        self._bucket = TokenBucket(rate, self._clock.now())
        self._line: WaitLine[float] = WaitLine(self._take, self._put_back)
        self._timer: asyncio.TimerHandle | None = None
        self._wakeups = 0
        self._closed = False

    def try_acquire(self, count: float = 1.0) -> None:
        """Takes `count` tokens now.

        Raises:
            Full: they are not there, or others wait for theirs; `retry_after_s` says when they will be.
            Closed: `close` was called.
        """
        self._check(count)
        if self._line.waiting or not self._take(count):
            ahead = sum(self._line.needs())
            raise Full("the rate is used up", retry_after_s=self._time_until(ahead + count))

    async def acquire(self, count: float = 1.0, *, deadline_s: float | None = None) -> None:
        """Takes `count` tokens, waiting for them in line.

        A cancelled call has taken nothing: its place, or the tokens that had been granted to it, go to the next.

        Raises:
            Expired: they did not come within `deadline_s` seconds.
            Closed: `close` was called.
        """
        self._check(count)
        if not self._line.waiting and self._take(count):
            return
        waiter = self._line.join(count, deadline_s)
        if self._timer is None:
            self._arm()
        try:
            await self._line.outcome(waiter, count)
        except BaseException:
            self._arm()  # whoever is head now may be due at another time than the one who left
            raise

    def change_rate(self, rate: Rate) -> None:
        """Changes the rate while it is in use; those who wait are served at the new one."""
        self._bucket.change_rate(rate, self._clock.now())
        self._line.advance()
        self._arm()

    def close(self) -> None:
        """No more comes in: every wait ends with Closed, and so does every later call."""
        self._closed = True
        self._line.refuse_all(Closed)
        self._arm()

    def statistics(self) -> RateStatistics:
        """A frozen snapshot."""
        rate = self._bucket.rate
        tokens = self._bucket.tokens(self._clock.now())
        return RateStatistics(rate.per_s, rate.burst, tokens, len(self._line), self._line.grants, self._wakeups)

    def _check(self, count: float) -> None:
        if not (0 < count < math.inf):
            raise ValueError(f"needs a count above 0, got {count}")
        if self._closed:
            raise Closed("this rate limit is closed")

    def _take(self, count: float) -> bool:
        return self._bucket.take(count, self._clock.now())

    def _put_back(self, count: float) -> None:
        self._bucket.put_back(count, self._clock.now())

    def _time_until(self, count: float) -> float:
        # Not capped by the burst: those ahead take theirs one after the other.
        return max(0.0, count - self._bucket.tokens(self._clock.now())) / self._bucket.rate.per_s

    def _arm(self) -> None:
        """Keeps exactly one timer, for the head of the line."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        head = self._line.head()
        if head is not None:
            wait_s = self._bucket.wait_s(head, self._clock.now())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._wake)

    def _wake(self) -> None:
        self._wakeups += 1
        self._line.advance()
        self._arm()
