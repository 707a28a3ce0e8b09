"""Every bound of the service as a number, with the sum that led to it."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.execution.statistics import PoolStatistics, WorkerState
from headrace.flow import Admission, ServiceClass
from headrace.flow.sizing import Derived, room
from headrace.ingest.bounds import Bounds
from headrace.service.group_commit import GroupCommit
from headrace.service.intake import Intake
from headrace.service.line import Line
from headrace.service.spool import Spool
from headrace.service.views import Bound, CapacityView, ClassView, ServiceLimits

_RETRY_AT_MOST_S = 120
_VARIATION = 1.0
"""Of the times that documents take: 0.4 among scans of one kind, 0.9 to 1.1 among mixed ones, as measured."""


def derived_limit(limits: ServiceLimits, bounds: Bounds, rate_per_s: float | None) -> Derived[int]:
    """How many documents may be accepted and not committed, so that 99 of 100 get done in the acceptable delay.

    Args:
        limits: a number that was set wins.
        bounds: what the rate is expected to be.
        rate_per_s: as it was measured; None when it is not known yet.
    """
    if limits.documents is not None:
        return Derived(limits.documents, "documents", f"set: {limits.documents}")
    rate = rate_per_s or bounds.documents_per_s
    told = "measured" if rate_per_s else "expected"
    wanted = room(rate, limits.acceptable_delay_s, variation=_VARIATION)
    value = min(limits.documents_most, max(limits.documents_least, wanted.value))
    because = f"acceptable delay x rate, {told}: {wanted.because}"
    if value != wanted.value:
        because += f", kept between {limits.documents_least} and {limits.documents_most}"
    return Derived(value, "documents", because)


def capacity_view(
    limits: ServiceLimits,
    bounds: Bounds,
    *,
    admission: Admission,
    line: Line,
    pool: PoolStatistics,
    spool: Spool | None,
    intake: Intake | None,
    outcomes: Mapping[str, int],
    commits: GroupCommit | None,
) -> CapacityView:
    """All of it, from memory."""
    now = admission.statistics()
    permits = now.permits
    limit = derived_limit(limits, bounds, now.drain_rate_per_s)
    found = [
        Bound("documents", "documents", permits.held, permits.limit, limit.because),
        Bound("accepted_bytes", "bytes", permits.held_bytes, permits.limit_bytes, "set"),
        Bound("window", "documents", len(line) - line.waiting, bounds.window, bounds.sums["window"].because),
        Bound("batch_share", "documents", line.settled_behind(), line.share, "window / open batches"),
    ]
    if spool is not None:
        found.append(Bound("upload_buffer", "bytes", spool.buffered_bytes, spool.buffer_bytes, "set"))
        found.append(Bound("uploads", "documents", spool.uploads, permits.limit, "each has a permit"))
        found.append(Bound("blobs", "bytes", spool.taken_bytes, spool.taken_limit_bytes, "blob_bytes"))
    if commits is not None:
        found.append(Bound("commit_group", "steps", commits.waiting, limits.accept_group, "set"))
    classes = {
        class_: ClassView(
            not now.level.refuses(class_),
            line.in_class(class_),
            line.oldest_age_s(class_),
            limits.class_delay_s[class_],
        )
        for class_ in ServiceClass
    }
    refused = dict(now.refused)
    if intake is not None and intake.rate_limited:
        refused["RateLimited"] = intake.rate_limited
    done = sum(outcomes.values())
    return CapacityView(
        bounds=tuple(found),
        oldest_eligible_age_s=max((its.oldest_age_s for its in classes.values()), default=0.0),
        drain_rate_per_s=now.drain_rate_per_s,
        retry_after_s=_retry_after_s(admission),
        level=now.level,
        because=now.because,
        classes=classes,
        refused=refused,
        accepted=done + len(line),
        done=done,
        in_flight=len(line),
        outcomes=dict(outcomes),
        workers=bounds.workers,
        workers_busy=sum(worker.state is WorkerState.BUSY for worker in pool.workers),
        worker_restarts=dict(pool.restarts),
        worker_rss_bytes=tuple(worker.rss_bytes for worker in pool.workers),
    )


def _retry_after_s(admission: Admission) -> int:
    """What somebody who is refused now would be told, about: the time until half of the room is free."""
    now = admission.statistics()
    held, limit = now.permits.held, now.permits.limit
    if held < limit:
        return 0
    rate = now.drain_rate_per_s
    return min(_RETRY_AT_MOST_S, max(1, round((held - limit // 2) / rate))) if rate else 1
