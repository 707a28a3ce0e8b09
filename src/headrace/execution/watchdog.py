"""Enforces the time an item may run, from outside: a worker that hangs, loops or is stopped cannot be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic_ns

from headrace.execution.outcome import DEADLINE
from headrace.execution.process import STUCK, End, WorkerProcess

STUCK_S = 5.0  # for a worker that was given work and begins nothing; a busy machine may keep it waiting for a while


class Watchdog:
    """Kills workers that are on one item for longer than the deadline.

    It wakes when the first deadline can have passed, and not at all while nothing runs.
    """

    def __init__(self, workers: Sequence[WorkerProcess], deadline_s: float) -> None:
        self._workers = workers
        self._deadline_s = deadline_s
        self._deadline_ns = int(deadline_s * 1e9)
        self._stuck_ns = int(max(deadline_s, STUCK_S) * 1e9)
        self._timer: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        """Watches from now on; to be called whenever work was given out."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._deadline_s, self._check)

    def cancel(self) -> None:
        """Watches no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        now_ns = monotonic_ns()
        next_ns: int | None = None
        for worker in tuple(self._workers):
            due_ns = self._due_ns(worker)
            if due_ns is not None and due_ns <= now_ns:
                # The loop may have been busy: what the worker has said meanwhile comes first.
                worker.receive()
                due_ns = self._due_ns(worker)
            if due_ns is None:
                continue
            if due_ns <= now_ns:
                self._kill(worker)
            else:
                # Something that begins right now is due a whole deadline from now.
                due_ns = min(due_ns, now_ns + self._deadline_ns)
                next_ns = due_ns if next_ns is None else min(next_ns, due_ns)
        if next_ns is not None:
            delay_s = max(0, next_ns - monotonic_ns()) / 1e9
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._check)

    def _due_ns(self, worker: WorkerProcess) -> int | None:
        if not worker.in_flight or worker.end is not None:
            return None
        doing = worker.doing()
        if doing is None:
            return worker.progress_ns + self._stuck_ns
        # While it is sending a long answer, it is the parent that keeps it waiting.
        return max(doing.started_ns, worker.answering_ns) + self._deadline_ns

    def _kill(self, worker: WorkerProcess) -> None:
        if worker.doing() is None:
            worker.kill(End(STUCK, "the worker was given work and began nothing"))
        else:
            worker.kill(End(DEADLINE, f"the item ran longer than {self._deadline_s:g} s"))
