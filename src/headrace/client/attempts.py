"""When a call is tried again, and when not. One place for all rules; it knows nothing of HTTP but its errors.

- "Later" (429 and 503 with a Retry-After, and a key that is in use): the server says when. All calls of the same lane
  wait until then, fewer go at once afterwards, and it goes on until the deadline. It costs no retry: whoever waits as
  told does no harm.
- "Again" (a connection that broke, a timeout, 408, 500, 502, 504, and a 429 or 503 that does not say when): a few
  times, with growing, jittered delays, and only while the retry budget lasts, so that a server that is down is not sent
  a multiple of its load. That a server is away is known to the lane, not found out by each call for itself: its delays
  are everybody's, and what was under way when it went away counts once.
- Everything else is final at once.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import TypeVar

import httpx

from headrace.client.errors import ClientError, DeadlinePassed, ProblemError, Unreachable
from headrace.flow import AdaptivePermits, AimdRule, Expired, LimitBounds, Pause, Permit, RetryBudget, RetryPolicy

T = TypeVar("T")

LONGEST_PAUSE_S = 600.0
"""A Retry-After is believed up to so much."""

PATIENCE = RetryPolicy(attempts=8, first_delay_s=0.25)
"""Bridges about 15 s, as long as a service takes to start again."""

_AWAY = frozenset({429, 502, 503, 504})
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})


class Next(Enum):
    """What an error means for the call."""

    LATER = auto()
    AGAIN = auto()
    NEVER = auto()


def after(error: Exception) -> Next:
    """What to do after an attempt that ended like this."""
    if isinstance(error, ProblemError):
        problem = error.problem
        asked = problem.retry_after_s is not None
        if asked and (problem.status in (429, 503) or problem.code == "idempotency-key-in-use"):
            return Next.LATER
        return Next.AGAIN if problem.status in _AGAIN else Next.NEVER
    ours = isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.ProxyError)
    return Next.AGAIN if isinstance(error, httpx.TransportError) and not ours else Next.NEVER


class Lane:
    """Calls that are asked to wait together. Belongs to one event loop.

    Args:
        in_flight: how many go at once at most; fewer after each "later", one more for each round without.

    Attributes:
        later: how often the server said "later".
        away: how often in a row it was not there, or did not say when to come back.
    """

    def __init__(self, in_flight: int) -> None:
        self._adaptive = AdaptivePermits(AimdRule(LimitBounds(1, in_flight, in_flight), backoff=0.5))
        self.permits = self._adaptive.permits
        self.pause = Pause()
        self.later = 0
        self.away = 0
        self._away_at = -math.inf

    def answered(self) -> None:
        """An answer came: it is there."""
        self.away = 0

    def lost(self, began: float, now: float) -> None:
        """It was not there for a call that began at `began`; older calls than the last one counted are its echo."""
        if began > self._away_at:
            self.away += 1
            self._away_at = now


class Attempts:
    """Makes calls, each in as many attempts as the rules allow; shared by all calls of one client.

    Args:
        policy: how often and after what delay "again" is.
        budget: bounds "again" as a part of all calls.
        rng: what jitter is drawn from.
    """

    def __init__(
        self, policy: RetryPolicy | None = None, budget: RetryBudget | None = None, rng: random.Random | None = None
    ) -> None:
        self.policy = policy or PATIENCE
        self.budget = budget or RetryBudget()
        self._rng = rng or random.Random()

    async def call(self, attempt: Callable[[], Awaitable[T]], lane: Lane, *, deadline_s: float | None) -> T:
        """Makes one call. A cancelled call holds nothing.

        Args:
            attempt: makes one attempt; called anew for each.
            lane: whom it waits with.
            deadline_s: how long the whole may take; None sets no end.

        Raises:
            DeadlinePassed: it took longer, or no further attempt could begin in time.
            Unreachable: the connection broke as often as it was tried.
            ProblemError: the server said no.
        """
        self.budget.earn()
        loop = asyncio.get_running_loop()
        until = None if deadline_s is None else loop.time() + deadline_s
        failures = 0
        last: Exception | None = None
        while True:
            permit = await _admitted(lane, until, last)
            began = loop.time()
            try:
                async with asyncio.timeout_at(until):
                    result = await attempt()
            except TimeoutError as error:
                permit.dropped()
                raise _too_late("the deadline passed during an attempt", last or error) from error
            except (httpx.TransportError, ProblemError) as error:
                last = error
                what = after(error)
                _end(permit, what)
                if what is Next.NEVER:
                    lane.answered()
                    raise _final(error) from error
                if what is Next.LATER:
                    lane.answered()
                    lane.later += 1
                    lane.pause.extend(min(_asked(error) or 0.0, LONGEST_PAUSE_S))
                    continue
                failures += 1
                is_away = not isinstance(error, ProblemError) or error.problem.status in _AWAY
                if is_away:
                    lane.lost(began, loop.time())
                tried = max(failures, lane.away) if is_away else failures
                if tried >= self.policy.attempts or not self.budget.spend():
                    raise _final(error, attempts=tried) from error
                delay_s = self.policy.delay_s(tried, self._rng, _asked(error))
                if until is not None and loop.time() + delay_s >= until:
                    raise _too_late("no further attempt could begin in time", error) from error
                if is_away:
                    lane.pause.extend(delay_s)
                else:
                    await asyncio.sleep(delay_s)
            except BaseException:
                permit.ignore()
                raise
            else:
                permit.done()
                lane.answered()
                return result


async def _admitted(lane: Lane, until: float | None, last: Exception | None) -> Permit:
    """The pause, then the permit. Whoever is paused holds no permit, so he looks again once he has one."""
    loop = asyncio.get_running_loop()
    try:
        while True:
            left_s = None if until is None else until - loop.time()
            if left_s is not None and left_s <= 0:
                raise Expired("the deadline passed before an attempt could begin")
            await lane.pause.over(deadline_s=left_s)
            left_s = None if until is None else max(0.0, until - loop.time())
            permit = await lane.permits.acquire(deadline_s=left_s)
            if not lane.pause.left_s:
                return permit
            permit.ignore()
    except Expired as expired:
        raise _too_late(str(expired), last) from (last or expired)


def _end(permit: Permit, what: Next) -> None:
    if what is Next.NEVER:
        permit.done()  # it was answered: that this document is not taken says nothing about load
    else:
        permit.dropped()


def _asked(error: Exception) -> float | None:
    return error.problem.retry_after_s if isinstance(error, ProblemError) else None


def _too_late(detail: str, last: Exception | None) -> DeadlinePassed:
    if isinstance(last, httpx.TransportError):
        detail = f"{detail}; the last attempt ended with: {_said(last)}"
    return DeadlinePassed(detail, last.problem if isinstance(last, ProblemError) else None)


def _final(error: Exception, *, attempts: int = 1) -> ClientError:
    if isinstance(error, ProblemError):
        return type(error)(error.problem)
    times = f" ({attempts} attempts)" if attempts > 1 else ""
    return Unreachable(f"{_said(error)}{times}")


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
