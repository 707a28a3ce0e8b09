"""Ordered maps over crash-isolated worker processes: lazy, bounded in items and bytes, driven by the event loop."""

from headrace.execution.chunking import chunks
from headrace.execution.errors import ExecutionError, PoolBusy, PoolClosed, WorkerStartFailed
from headrace.execution.inline import InlinePool
from headrace.execution.outcome import Failure, Results, Success
from headrace.execution.pool import WorkerPool
from headrace.execution.statistics import (
    DrainReport,
    MapStatistics,
    PoolStatistics,
    Running,
    WorkerState,
    WorkerStatistics,
)

__all__ = [
    "DrainReport",
    "ExecutionError",
    "Failure",
    "InlinePool",
    "MapStatistics",
    "PoolBusy",
    "PoolClosed",
    "PoolStatistics",
    "Results",
    "Running",
    "Success",
    "WorkerPool",
    "WorkerStartFailed",
    "WorkerState",
    "WorkerStatistics",
    "chunks",
]
