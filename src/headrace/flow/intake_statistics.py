"""What an intake says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.flow.intake_counts import IntakeCounts


@dataclass(frozen=True, slots=True)
class IntakeStatistics:
    """An intake at one moment. `held` counts waiting and worked on; held <= limit and depth <= capacity always.

    admitted = done + ignored + dropped + held, at every instant.
    """

    held: int
    limit: int
    depth: int
    capacity: int
    tokens: float
    waiting_senders: int
    waiting_receivers: int
    oldest_age_s: float
    admitted: int
    done: int
    ignored: int
    dropped: int
    drain_rate_per_s: float | None
    closed: bool


def statistics_of(s: IntakeCounts[Any]) -> IntakeStatistics:
    """The state of an intake at this moment."""
    now = s._now()
    return IntakeStatistics(
        held=s.held,
        limit=s._limit,
        depth=len(s.buffer),
        capacity=s._capacity,
        tokens=s.tokens(now),
        waiting_senders=len(s._senders) + s.senders_stepping,
        waiting_receivers=len(s._receivers) + s.receivers_stepping,
        oldest_age_s=s.oldest_age_s(),
        admitted=s._total + s.held,
        done=s.done,
        ignored=s._ignored,
        dropped=s._dropped,
        drain_rate_per_s=s.measured(now).per_s(now),
        closed=s._closed,
    )
