"""Snapshots of a pool and of a map: frozen, cheap, taken at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Running(NamedTuple, Generic[T]):
    """An item that is being worked on: since when, in which process, and how far (0 of 0: it does not say)."""

    item: T
    since_s: float
    worker: int
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class MapStatistics(Generic[T]):
    """Where the items of one map are.

    Attributes:
        pulled: items taken from the source.
        released: outcomes handed on. `pulled - released` is never above `window_limit`.
        window_used, window_limit: items pulled and not yet handed on, and how many there may be.
        weight, byte_budget: their weight as `weigh` gave it, and its limit (None: no limit).
        buffered: outcomes that are there and wait, behind a slower item or for the consumer.
        running: what the workers are on at this moment; `since_s` is seconds ago.
        oldest_age_s: how long ago the oldest item in the window was pulled; 0 when it is empty.
        charged: attempts that were charged to an item.
        rerun: runs that were repeated without charge, because another item cost the worker.
    """

    pulled: int
    released: int
    window_used: int
    window_limit: int
    weight: int
    byte_budget: int | None
    buffered: int
    running: tuple[Running[T], ...]
    oldest_age_s: float
    charged: int
    rerun: int


class WorkerState(StrEnum):
    """`starting -> idle <-> busy -> retiring -> gone`; a worker that is killed or dies goes to `gone` from anywhere."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    RETIRING = "retiring"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """One worker. `items_done` counts items whose outcome came back from it."""

    worker: int
    state: WorkerState
    rss_bytes: int
    items_done: int


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """The workers of a pool.

    Attributes:
        workers: those that live at this moment.
        started: how many were started since the pool was opened.
        restarts: replaced workers by reason: `worker-lost`, `deadline`, `memory-limit`, `recycled-count`,
            `recycled-rss`, `start-failed`, `stuck`, `closed`.
        rss_bytes: resident memory of the workers together, when last sampled.
        peak_rss_bytes: the largest such sum that was seen.
    """

    workers: tuple[WorkerStatistics, ...]
    started: int
    restarts: Mapping[str, int]
    rss_bytes: int
    peak_rss_bytes: int


@dataclass(frozen=True, slots=True)
class DrainReport(Generic[T]):
    """How a drain ended.

    Attributes:
        finished: items that got their outcome while it was draining.
        killed: items that still ran at the deadline.
        left: items pulled that have no outcome, the killed ones among them, in order. The caller's to run again.
    """

    finished: int
    killed: int
    left: tuple[T, ...]
