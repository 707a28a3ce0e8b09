"""Snapshots of a run and of its stages: frozen, cheap, taken at any time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageStatistics:
    """One stage at one moment. Durations are seconds until now, and None when what they measure is not going on.

    Attributes:
        name: the stage.
        depth, limit: items in its inbound channel, and how many fit.
        weight, weight_limit: what those weigh, and how much may be in it (None: nothing is weighed).
        workers: how many calls may run at once.
        running: calls that run now.
        longest_s: how long the longest of them has been running.
        held, window: items taken from the channel and not yet handed on, and how many there may be.
        gathering: of those, the ones that have not begun: they wait for a worker, or for their batch.
        gathering_s: how long the oldest of them has been in the stage.
        behind: done, but behind an earlier one that is not.
        for_room: done and first in the order: on their way into the next channel.
        blocked_s: how long they have been waiting for room there.
        for_permit: calls that wait for a permit.
        permit_s: how long the longest of them has.
        permits_held, permits_limit: of its permits, whoever holds them; 0 and None without permits.
        backing_off: calls that wait before another attempt.
        given_up: calls that were given up on and still occupy a worker.
        given_up_s: since when the oldest of them has been.
        done, failed: items that it finished, and that failed in it.
        passed: failures of earlier stages that flowed by.
        retried: attempts that were made again.
        oldest_age_s: how long the oldest item has been in it, its channel included; 0.0 when it is empty.
        rate_per_s: items done or failed per second, over the last 64 of them.
        idle_s: how long it has had nothing to do.
        paused: whether it was told to begin nothing.
        ended: whether nothing more comes in.
    """

    name: str
    depth: int
    limit: int
    weight: int
    weight_limit: int | None
    workers: int
    running: int
    longest_s: float | None
    held: int
    window: int
    gathering: int
    gathering_s: float | None
    behind: int
    for_room: int
    blocked_s: float | None
    for_permit: int
    permit_s: float | None
    permits_held: int
    permits_limit: int | None
    backing_off: int
    given_up: int
    given_up_s: float | None
    done: int
    failed: int
    passed: int
    retried: int
    oldest_age_s: float
    rate_per_s: float
    idle_s: float | None
    paused: bool
    ended: bool


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """A run at one moment. `accepted = handed_on + failed + in_flight + left` at every instant.

    Attributes:
        accepted: items pulled from the source.
        handed_on: successes that the consumer was given.
        failed: failures that the consumer was given.
        in_flight: pulled and not handed on, counted where they are: before the first channel, in the stages, or ready.
        left: pulled and never to be handed on, because the run was closed; see `Run.left`.
        window: the most that may be in flight.
        ready, ready_limit: outcomes that wait for the consumer.
        pulling: whether the source is being asked for its next item at this moment.
        oldest_age_s: how long ago the oldest item in flight was pulled.
        paused: whether nothing is pulled for now.
        stages: each stage.
    """

    accepted: int
    handed_on: int
    failed: int
    in_flight: int
    left: int
    window: int
    ready: int
    ready_limit: int
    pulling: bool
    oldest_age_s: float
    paused: bool
    stages: tuple[StageStatistics, ...]
