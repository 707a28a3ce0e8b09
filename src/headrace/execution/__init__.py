"""Ordered maps over crash-isolated worker processes: lazy, bounded in items and bytes, driven by the event loop."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.execution.chunking import chunks
    from headrace.execution.errors import ExecutionError, PoolBusy, PoolClosed, WorkerStartFailed
    from headrace.execution.inline import InlinePool
    from headrace.execution.outcome import Failure, Results, Success
    from headrace.execution.pool import WorkerPool
    from headrace.execution.progress import report_progress
    from headrace.execution.statistics import (
        DrainReport,
        MapStatistics,
        PoolStatistics,
        Running,
        WorkerState,
        WorkerStatistics,
    )

# Imported when asked for: a worker imports this package too and needs none of it, nor asyncio (40 ms and 10 MB each).
_HOMES = {
    "DrainReport": "statistics",
    "ExecutionError": "errors",
    "Failure": "outcome",
    "InlinePool": "inline",
    "MapStatistics": "statistics",
    "PoolBusy": "errors",
    "PoolClosed": "errors",
    "PoolStatistics": "statistics",
    "Results": "outcome",
    "Running": "statistics",
    "Success": "outcome",
    "WorkerPool": "pool",
    "WorkerStartFailed": "errors",
    "WorkerState": "statistics",
    "WorkerStatistics": "statistics",
    "chunks": "chunking",
    "report_progress": "progress",
}

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
    "report_progress",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
