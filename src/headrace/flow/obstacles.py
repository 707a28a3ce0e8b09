"""What stands in the way of those whom an admission cannot let in now, and how long it will."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.flow.gate import GateState
from headrace.flow.ladder_order import Waiting
from headrace.flow.shedding import ServiceClass

if TYPE_CHECKING:
    from headrace.flow.admission import Admission


class Obstacle(NamedTuple):
    """What stands in somebody's way, and how long it will; None when that is not known."""

    reason: str
    lasts_s: float | None


def expected_wait_s(a: Admission, caller: Waiting, now: float) -> float:
    """By what was measured and what is set, at least so long; 0.0 where nothing is known."""
    needed = a._order.cost_before(caller.class_) + caller.cost
    wait_s = a._paused_s(now)
    if a._bucket is not None:
        wait_s = max(wait_s, (needed - a._bucket.tokens(now)) / a._bucket.rate.per_s)
    return max(wait_s, a._rate.time_for_s(needed - max(0, a._limit - a.permits.held), now) or 0.0)


def obstacle(a: Admission, caller: Waiting | None, now: float) -> Obstacle:
    """What stands in the way, and how long it will: the longest of all that do."""
    found: list[Obstacle] = []
    before = a._order.cost_before(caller.class_ if caller is not None else ServiceClass.BACKGROUND)
    count = caller.cost if caller is not None else 0.0
    if paused_s := a._paused_s(now):
        found.append(Obstacle("it is paused", paused_s))
    for gate, drain in a._gates:
        if gate.state is GateState.CLOSED:
            marks = gate.marks
            reason = f"{gate.gauge.name} reached {marks.high_water:g}; opens again at {marks.low_water:g}"
            found.append(Obstacle(reason, drain.time_until_low_s()))
    if a._bucket is not None and (missing := before + count - a._bucket.tokens(now)) > 0:
        found.append(Obstacle("the rate is used up", missing / a._bucket.rate.per_s))
    held, low = a.permits.held, a._limit // 2 if a._low_water is None else a._low_water
    if not found or held + before + count > a._limit:
        reason = f"{held} of {a._limit} permits are taken and {len(a._order)} callers wait"
        found.append(Obstacle(reason, a._rate.time_for_s(held + before - low, now)))
    # Of several the one that is known to last longest: when it is gone, the others are.
    return max(found, key=lambda one: one.lasts_s or 0.0)
