"""What an admission says of itself: as numbers, and for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.flow.obstacles import obstacle
from headrace.flow.permits import PermitStatistics
from headrace.flow.shedding import ServiceClass, ShedLevel

if TYPE_CHECKING:
    from headrace.flow.admission import Admission


@dataclass(frozen=True, slots=True)
class AdmissionStatistics:
    """An admission at one moment. offered = admitted + refused (all kinds) + cancelled + waiting, at every instant."""

    permits: PermitStatistics
    tokens: float | None
    level: ShedLevel
    because: str
    paused_s: float
    drain_rate_per_s: float | None
    waiting: int
    waiting_by_class: Mapping[ServiceClass, int]
    oldest_age_s: Mapping[ServiceClass, float]
    offered: int
    admitted: int
    cancelled: int
    refused: Mapping[str, int]
    closed: bool


def statistics_of(a: Admission) -> AdmissionStatistics:
    """The state of an admission at this moment."""
    now = a._now()
    return AdmissionStatistics(
        permits=a.permits.statistics(),
        tokens=a._bucket.tokens(now) if a._bucket is not None else None,
        level=a._shedding.update(a._order.loads(now), now, a._load()),
        because=a._shedding.because,
        paused_s=a._paused_s(now),
        drain_rate_per_s=a._rate.per_s(now),
        waiting=a._counts["waiting"],
        waiting_by_class={class_: a._order.depth(class_) for class_ in ServiceClass},
        oldest_age_s={class_: a._order.oldest_age_s(class_, now) for class_ in ServiceClass},
        offered=a._counts["offered"],
        admitted=a._counts["admitted"],
        cancelled=a._counts["cancelled"],
        refused=dict(a._refused),
        closed=a._closed,
    )


def explained(a: Admission) -> str:
    """See `Admission.explain`."""
    now, s = a._now(), a.statistics()
    head = a._order.head()
    first = "nobody waits" if head is None else f"the next one waits because {obstacle(a, head, now).reason}"
    rate = "not known yet" if s.drain_rate_per_s is None else f"{s.drain_rate_per_s:.3g} per s"
    lines = [
        f"admission: {s.permits.held} of {s.permits.limit} in flight, drain rate {rate}; {first}",
        f"  {a._shedding.explain(now)}",
    ]
    for class_, depth in s.waiting_by_class.items():
        bounds = a._order.bounds_of(class_)
        lines.append(
            f"  {class_.name.lower()}: {depth} of {bounds.capacity} waiting, "
            f"oldest {s.oldest_age_s[class_]:.1f} s of at most {bounds.longest_wait_s:g} s"
        )
    return "\n".join(lines)
