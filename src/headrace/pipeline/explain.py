"""Which stage waits for what, since when, in plain sentences made from a snapshot."""

from __future__ import annotations

from headrace.pipeline.statistics import RunStatistics, StageStatistics


def explain(run: RunStatistics) -> tuple[str, ...]:
    """One sentence for each stage, in order."""
    return tuple(_sentence(run, place) for place in range(len(run.stages)))


def _sentence(run: RunStatistics, place: int) -> str:
    stage = run.stages[place]
    if stage.ended and not (stage.held or stage.depth):
        return f"{stage.name}: finished, {stage.done} done, {stage.failed} failed"
    return f"{stage.name}: {stage.running} of {stage.workers} running, {_why(run, place)}"


def _why(run: RunStatistics, place: int) -> str:
    """What keeps this stage from doing more. The order matters: the first that holds is the cause of the later ones."""
    stage = run.stages[place]
    if stage.paused:
        return f"paused with {stage.depth + stage.held} items in it"
    if stage.blocked_s is not None:
        if place + 1 == len(run.stages):
            return f"waits for the consumer: {run.ready} of {run.ready_limit} outcomes ready for {_s(stage.blocked_s)}"
        after = run.stages[place + 1]
        return f"waits for {after.name}: {_full(after)} for {_s(stage.blocked_s)}, because {_cause(run, place + 1)}"
    if stage.for_permit:
        held = f"{stage.permits_held} of {stage.permits_limit} permits are held"
        return f"{_calls(stage.for_permit)} for a permit for {_s(stage.permit_s)}: {held}"
    if stage.given_up:
        workers = "worker is" if stage.given_up == 1 else "workers are"
        return f"{stage.given_up} {workers} held by a call that was given up {_s(stage.given_up_s)} ago"
    if stage.running >= stage.workers:
        waiting = f", {stage.depth} more in its channel" if stage.depth else ""
        return f"all busy, the longest for {_s(stage.longest_s)}{waiting}"
    if stage.backing_off:
        return f"{_calls(stage.backing_off)} before another attempt"
    if stage.behind and stage.held >= stage.window:
        return f"{stage.behind} done wait behind the oldest, which has been here for {_s(stage.oldest_age_s)}"
    if stage.gathering:
        return f"gathers a batch: {stage.gathering} so far, the first for {_s(stage.gathering_s)}"
    before = run.stages[place - 1].name if place else "the source"
    idle = "" if stage.idle_s is None else f", idle for {_s(stage.idle_s)}"
    if place == 0 and run.paused:
        before = "the run to be resumed"
    return f"waits for {before}{idle}"


def _cause(run: RunStatistics, place: int) -> str:
    """Why a stage takes nothing in."""
    stage = run.stages[place]
    if stage.paused:
        return f"{stage.name} is paused"
    if stage.blocked_s is not None:
        if place + 1 == len(run.stages):
            return f"{stage.name} waits for the consumer for {_s(stage.blocked_s)}"
        return _cause(run, place + 1)
    if stage.permits_limit is not None and stage.permits_held >= stage.permits_limit:
        return f"{stage.name} holds {stage.permits_held} of {stage.permits_limit} permits"
    if stage.given_up:
        return f"{stage.given_up} of {stage.name}'s {stage.workers} workers are held by calls that were given up"
    if stage.running:
        busy = f"{stage.name} has {stage.running} of {stage.workers} running"
        return f"{busy}, the longest for {_s(stage.longest_s)}"
    return f"{stage.name} waits before another attempt" if stage.backing_off else f"{stage.name} is slower"


def _full(stage: StageStatistics) -> str:
    """How full its channel is; room that was just granted is taken a tick later."""
    if stage.depth < stage.limit and stage.weight_limit is not None:
        return f"channel {stage.depth}/{stage.limit}, weight {stage.weight}/{stage.weight_limit}, no room"
    return f"channel {stage.depth}/{stage.limit} {'full' if stage.depth >= stage.limit else 'no room'}"


def _calls(count: int) -> str:
    return f"{count} call waits" if count == 1 else f"{count} calls wait"


def _s(duration_s: float | None) -> str:
    return f"{duration_s or 0.0:.1f} s"
