"""What can go wrong with a pool itself; what goes wrong with an item is a `Failure`, never an exception.

ExecutionError
  PoolClosed            you closed or drained it, or have not entered it yet
  PoolBusy              you started a map while another one of the same pool runs
  WorkerStartFailed     workers cannot start: the factory raised, hung, died or needs more memory than the limit
"""

from __future__ import annotations


class ExecutionError(Exception):
    """A pool of workers cannot do what it was asked."""


class PoolClosed(ExecutionError):
    """The pool is not open: enter it with `async with` first; after `drain` or the end of the block it takes no map."""


class PoolBusy(ExecutionError):
    """A pool runs one map at a time: iterate the earlier results to their end or close them, or use a second pool."""


class WorkerStartFailed(ExecutionError):
    """A worker could not be started, or workers died again and again before they finished anything.

    Attributes:
        detail: what happened, with the worker's traceback where it had one.
        errno: what the system said when it gave no process, file or memory; None when it was not asked in vain.
        raised: the factory itself raised, and `detail` has its traceback.
    """

    def __init__(self, detail: str, *, errno: int | None = None, raised: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errno = errno
        self.raised = raised
