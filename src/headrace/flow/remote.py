"""Calls to a remote engine: what it can take, how fast, and when it asks to be left alone.

    remote = Remote(permits=AdaptivePermits(AimdRule()).permits, rate=RateLimit(Rate.per_minute(600)))
    text = await remote.call(lambda: client.read(page), deadline_s=30)

An attempt says how it ended by what it raises: `BackPressure` (the remote said 429, or 503 with a Retry-After),
`TimeoutError` or a connection error (worth another try), anything else (not worth one). Back-pressure pauses all calls
to that remote, ends the permit as dropped, so that an adaptive limit falls, and is never counted as a failure: a remote
that says how much it can take is well.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from headrace.flow.clock import Clock, LoopClock
from headrace.flow.errors import Expired, FlowError
from headrace.flow.permits import Ending, Permit, Permits, PermitStatistics
from headrace.flow.rate import OVER_S, RateLimit
from headrace.flow.retry import RetryBudget, RetryPolicy, parse_retry_after
from headrace.flow.waiters import WaitLine

T = TypeVar("T")


class BackPressure(FlowError):
    """The remote asked for less: raise it from an attempt for a 429, or for a 503 that carries a Retry-After.

    Args:
        retry_after: the header as it came, or seconds; None when there was none.
    """

    def __init__(self, detail: str = "the remote asked for less", *, retry_after: str | float | None = None) -> None:
        super().__init__(detail)
        self.retry_after = retry_after


class Pause:
    """Lets nobody pass until a moment, which can only be moved further away. Belongs to one event loop.

    Args:
        clock: what tells the time; the running loop's when not given.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._now = (clock or LoopClock()).now
        self._until = self._now()
        self._line: WaitLine[None] = WaitLine(lambda _: self.left_s <= 0.0, lambda _: None)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def left_s(self) -> float:
        """How long it still lasts; 0.0 when it is over."""
        left_s = self._until - self._now()
        return left_s if left_s > OVER_S else 0.0

    @property
    def waiting(self) -> int:
        """How many wait for its end."""
        return len(self._line)

    def extend(self, duration_s: float) -> None:
        """Lasts at least so long from now; never shortens it."""
        self._until = max(self._until, self._now() + duration_s)
        if self._line.waiting:
            self._arm()

    async def over(self, *, deadline_s: float | None = None) -> None:
        """Returns when it is over; at once when it is. A cancelled wait leaves nothing behind.

        Raises:
            Expired: it lasts longer than `deadline_s`; at once, for that is known.
        """
        while (left_s := self.left_s) > 0.0:
            if deadline_s is not None and left_s > deadline_s:
                raise Expired(f"paused for {left_s:.1f} s, and may wait {deadline_s:g} s", retry_after_s=left_s)
            self._arm()
            began = self._now()
            await self._line.wait(None, deadline_s)
            if deadline_s is not None:
                deadline_s -= self._now() - began

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self.left_s, self._end)

    def _end(self) -> None:
        self._timer = None
        self._line.advance()
        if self._line.waiting:  # the timer was early by the grain of the clock
            self._arm()


@dataclass(frozen=True, slots=True)
class RemoteStatistics:
    """A remote at one moment. `failures_in_a_row` is what may be read as its health; back-pressure is not in it.

    calls = succeeded + failed + expired + cancelled + in progress.
    """

    permits: PermitStatistics
    paused_s: float
    calls: int
    attempts: int
    succeeded: int
    failed: int
    expired: int
    cancelled: int
    pushed_back: int
    failures_in_a_row: int
    retries_kept: float


class Remote:
    """All calls to one remote. Belongs to one event loop.

    Args:
        permits: how many calls may be in flight; those of `AdaptivePermits` learn from how they end.
        rate: how many may begin per second; None sets none.
        policy: how often and after what delay a call is tried again.
        budget: bounds retries as a part of all calls; share one between remotes to bound them together.
        worth_another: whether an error is worth another attempt; timeouts and connection errors when not given. Is not
            asked about back-pressure, which always is.
        pause: where back-pressure is heard; share one to let it reach further, such as an `Admission`.
        longest_pause_s: a Retry-After is believed up to so much.
        unix_time_s: tells the wall time, for Retry-After dates.
        rng: what jitter is drawn from.
        clock: what tells the time; the running loop's when not given.
    """

    def __init__(
        self,
        *,
        permits: Permits,
        rate: RateLimit | None = None,
        policy: RetryPolicy | None = None,
        budget: RetryBudget | None = None,
        worth_another: Callable[[Exception], bool] | None = None,
        pause: Pause | None = None,
        longest_pause_s: float = 120.0,
        unix_time_s: Callable[[], float] = time.time,
        rng: random.Random | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or LoopClock()
        self._permits = permits
        self._rate = rate
        self._policy = policy or RetryPolicy()
        self._budget = budget or RetryBudget()
        self._worth_another = worth_another or (lambda error: isinstance(error, TimeoutError | ConnectionError))
        self.pause = pause or Pause(clock=self._clock)
        self._longest_pause_s = longest_pause_s
        self._unix_time_s = unix_time_s
        self._rng = rng or random.Random()
        self._calls = self._attempts = self._succeeded = self._failed = 0
        self._expired = self._cancelled = self._pushed_back = self._failures_in_a_row = 0

    async def call(self, attempt: Callable[[], Awaitable[T]], *, deadline_s: float | None = None) -> T:
        """Makes one call, in as many attempts as the policy, the budget and the deadline allow.

        Each attempt waits for the pause, the permit and the rate, in this order, and runs under what is left of the
        deadline. A cancelled call holds nothing; its attempt is cancelled and its permit ends as ignore.

        Args:
            attempt: makes one attempt; called anew for each.
            deadline_s: how long the whole may take.

        Raises:
            Expired: the deadline passed, or no further attempt could begin in time. Its `__cause__` is the error of the
                last attempt, when there was one.
            Closed: the permits or the rate were closed.
            Exception: what the last attempt raised.
        """
        self._calls += 1
        self._budget.earn()
        until = None if deadline_s is None else self._clock.now() + deadline_s
        try:
            result = await self._attempts_of(attempt, until)
        except asyncio.CancelledError:
            self._cancelled += 1
            raise
        except Expired:
            self._expired += 1
            raise
        except BaseException:
            self._failed += 1
            raise
        self._succeeded += 1
        return result

    def statistics(self) -> RemoteStatistics:
        """A frozen snapshot."""
        return RemoteStatistics(
            permits=self._permits.statistics(),
            paused_s=self.pause.left_s,
            calls=self._calls,
            attempts=self._attempts,
            succeeded=self._succeeded,
            failed=self._failed,
            expired=self._expired,
            cancelled=self._cancelled,
            pushed_back=self._pushed_back,
            failures_in_a_row=self._failures_in_a_row,
            retries_kept=self._budget.kept,
        )

    async def _attempts_of(self, attempt: Callable[[], Awaitable[T]], until: float | None) -> T:
        failures = 0
        while True:
            permit = await self._admitted(until)
            try:
                result = await self._one(attempt, permit, until)
            except Exception as error:
                failures += 1
                if isinstance(error, TimeoutError) and self._left_s(until) == 0.0:
                    raise Expired("the deadline passed during an attempt") from error
                if failures >= self._policy.attempts or not self._again(error):
                    raise
                delay_s = self._policy.delay_s(failures, self._rng, self.pause.left_s or None)
                if until is not None and self._clock.now() + delay_s >= until:
                    raise Expired("no further attempt could begin in time", retry_after_s=delay_s) from error
                if not self._budget.spend():
                    raise
            else:
                self._failures_in_a_row = 0
                return result
            await self._clock.sleep(delay_s)

    async def _admitted(self, until: float | None) -> Permit:
        """Pause, permit and rate. Whoever is paused holds no permit, so he checks again once he has one."""
        while True:
            if self._left_s(until) == 0.0:
                raise Expired("the deadline passed before an attempt could begin")
            await self.pause.over(deadline_s=self._left_s(until))
            permit = await self._permits.acquire(deadline_s=self._left_s(until))
            try:
                if self._rate is not None and not self.pause.left_s:
                    await self._rate.acquire(deadline_s=self._left_s(until))
            except BaseException:
                permit.ignore()
                raise
            if not self.pause.left_s:
                return permit
            permit.ignore()

    async def _one(self, attempt: Callable[[], Awaitable[T]], permit: Permit, until: float | None) -> T:
        self._attempts += 1
        ending = Ending.IGNORE
        try:
            async with asyncio.timeout(self._left_s(until)):
                result = await attempt()
            ending = Ending.DONE
            return result
        except BackPressure as asked:
            ending = Ending.DROPPED
            self._heed(asked)
            raise
        except TimeoutError:
            ending = Ending.DROPPED
            self._failures_in_a_row += 1
            raise
        except Exception:
            self._failures_in_a_row += 1
            raise
        finally:
            _end(permit, ending)

    def _heed(self, asked: BackPressure) -> None:
        self._pushed_back += 1
        wait_s = parse_retry_after(asked.retry_after, now_unix_s=self._unix_time_s(), cap_s=self._longest_pause_s)
        if wait_s:
            self.pause.extend(wait_s)

    def _again(self, error: Exception) -> bool:
        return isinstance(error, BackPressure) or self._worth_another(error)

    def _left_s(self, until: float | None) -> float | None:
        if until is None:
            return None
        left_s = until - self._clock.now()
        return left_s if left_s > OVER_S else 0.0


def _end(permit: Permit, ending: Ending) -> None:
    if ending is Ending.DONE:
        permit.done()
    elif ending is Ending.DROPPED:
        permit.dropped()
    else:
        permit.ignore()
