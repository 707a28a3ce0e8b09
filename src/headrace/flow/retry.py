"""Trying again: when, how often, and what a Retry-After says. Arithmetic only; `headrace.flow.remote` waits.

- Delays grow by a factor and are drawn anew each time ("full jitter"), so that those who failed together do not come
  back together (Brooker, 2015: "Exponential backoff and jitter").
- A budget bounds retries as a part of all calls. Without one, a remote that fails is sent a multiple of its usual load.
- What a remote asks for by Retry-After is kept: never earlier, and the jitter is added on top.
"""

from __future__ import annotations

import datetime
import math
import random
import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?", re.ASCII)
_LONGEST = 64  # characters; an HTTP date has 29


def parse_retry_after(value: str | bytes | float | None, *, now_unix_s: float, cap_s: float = 3600.0) -> float | None:
    """How long a Retry-After header asks to wait, in seconds from now: 0.0 to `cap_s`, or None when it says nothing.

    Takes what RFC 9110 (10.2.3) allows, whole seconds and the three forms of an HTTP date, and what is met besides: a
    fraction of a second ("0.503"), a number. A date that has passed is 0.0. Junk, negative numbers, infinities and NaN
    are None: the caller falls back on a delay of his own. Never raises.

    Args:
        value: the header as it came.
        now_unix_s: the present moment as `time.time()` has it, for dates.
        cap_s: the longest answer.
    """
    if value is None:
        return None
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, int | float):
        return min(float(value), cap_s) if value >= 0 and math.isfinite(value) else None
    text = value.strip()
    if len(text) > _LONGEST:
        return None
    if _NUMBER.fullmatch(text):
        return min(float(text), cap_s)
    try:
        # Without a zone, as in the asctime form, it is UTC: HTTP knows no other.
        date = parsedate_to_datetime(text)
        moment = (date if date.tzinfo is not None else date.replace(tzinfo=datetime.UTC)).timestamp()
    except (ValueError, OverflowError, TypeError, IndexError, AttributeError):
        return None
    return min(max(0.0, moment - now_unix_s), cap_s)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often, and after what delay.

    Attributes:
        attempts: how many there are in all, the first included; 1 never tries again.
        first_delay_s: the most that is waited before the second attempt.
        factor: what that grows by with each further attempt.
        longest_delay_s: the most that is waited of our own accord. A Retry-After may ask for more.
        jitter: 1 draws each delay from 0 up ("full"), 0 always waits the whole of it.
    """

    attempts: int = 4
    first_delay_s: float = 0.2
    factor: float = 2.0
    longest_delay_s: float = 20.0
    jitter: float = 1.0

    def __post_init__(self) -> None:
        good = self.attempts >= 1 and self.factor >= 1 and 0 <= self.jitter <= 1
        if not (good and 0 <= self.first_delay_s <= self.longest_delay_s < math.inf):
            raise ValueError(f"needs attempts and factor >= 1, 0 <= jitter <= 1 and finite delays, got {self}")

    def delay_s(self, failures: int, rng: random.Random, retry_after_s: float | None = None) -> float:
        """What to wait after `failures` attempts have failed.

        Args:
            failures: 1 after the first.
            rng: what the jitter is drawn from.
            retry_after_s: what the remote asked for; the answer is never less.
        """
        grown_s = self.first_delay_s * self.factor ** min(failures - 1, 60)
        most_s = min(self.longest_delay_s, grown_s)
        drawn_s = rng.uniform(most_s * (1 - self.jitter), most_s)
        return drawn_s if retry_after_s is None else retry_after_s + drawn_s


class RetryBudget:
    """How many retries there may be, as a part of all calls: each call earns `ratio`, each retry spends one.

    Holds at most `reserve`, and all of it at the start, so that a rare failure can always be tried again.

    Args:
        ratio: how many retries a call earns; 0.1 allows ten percent more load than there are calls.
        reserve: the most that is kept, at least 1.
    """

    __slots__ = ("_kept", "ratio", "refused", "reserve", "spent")

    def __init__(self, ratio: float = 0.1, reserve: float = 10.0) -> None:
        if not (0 <= ratio < math.inf and 1 <= reserve < math.inf):
            raise ValueError(f"needs a ratio of at least 0 and a reserve of at least 1, got {ratio} and {reserve}")
        self.ratio = ratio
        self.reserve = reserve
        self.spent = 0
        self.refused = 0
        self._kept = float(reserve)

    @property
    def kept(self) -> float:
        """How many retries there may be now."""
        return self._kept

    def earn(self) -> None:
        """A call was begun."""
        self._kept = min(self.reserve, self._kept + self.ratio)

    def spend(self) -> bool:
        """Takes one retry; False, and nothing is taken, when there is none left."""
        if self._kept < 1.0:
            self.refused += 1
            return False
        self._kept -= 1.0
        self.spent += 1
        return True
