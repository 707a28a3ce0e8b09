"""Enforces the time an item may run, from outside: a worker that hangs, loops or is stopped cannot be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic_ns

from headrace.execution.outcome import DEADLINE
from headrace.execution.process import STUCK, End, WorkerProcess

STUCK_S = 5.0  # for a worker that was given work and begins nothing; a busy machine may keep it waiting for a while
PULSE_S = 1.0  # at most this long between two looks while anything runs
STALL_S = 2.0  # a look that comes this much too late says that this process stood still, and most likely all of them


class Watchdog:
    """Kills workers that are on one item for longer than the deadline.

    It wakes when the first deadline can have passed, every `PULSE_S` at least, and not at all while nothing runs.

    Time in which this process stood still (Ctrl-Z and `fg`, a machine that was asleep) is nobody's: the clock ran on,
    the workers did not. The deadlines of what runs are put off by it, at most by `PULSE_S` too much.
    """

    def __init__(self, workers: Sequence[WorkerProcess], deadline_s: float) -> None:
        self._workers = workers
        self._deadline_s = deadline_s
        self._deadline_ns = int(deadline_s * 1e9)
        self._stuck_ns = int(max(deadline_s, STUCK_S) * 1e9)
        self._timer: asyncio.TimerHandle | None = None
        self._looked_ns = self._planned_ns = 0

    def arm(self) -> None:
        """Watches from now on; to be called whenever work was given out."""
        if self._timer is None:
            self._look_in(self._deadline_s)

    def cancel(self) -> None:
        """Watches no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_in(self, delay_s: float) -> None:
        delay_s = min(delay_s, PULSE_S)
        self._looked_ns = monotonic_ns()
        self._planned_ns = self._looked_ns + int(delay_s * 1e9)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._check)

    def _check(self) -> None:
        self._timer = None
        now_ns = monotonic_ns()
        if now_ns - self._planned_ns > STALL_S * 1e9:
            self._excuse(now_ns)
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
            self._look_in(max(0, next_ns - monotonic_ns()) / 1e9)

    def _excuse(self, now_ns: int) -> None:
        """Does not count, for what runs, the time since the last look."""
        for worker in self._workers:
            if worker.in_flight and worker.end is None:
                since_ns = self._since_ns(worker)
                worker.excuse(since_ns, now_ns - max(since_ns, self._looked_ns))

    def _due_ns(self, worker: WorkerProcess) -> int | None:
        if not worker.in_flight or worker.end is not None:
            return None
        since_ns = self._since_ns(worker)
        limit_ns = self._stuck_ns if worker.doing() is None else self._deadline_ns
        return since_ns + limit_ns + worker.excused_ns(since_ns)

    @staticmethod
    def _since_ns(worker: WorkerProcess) -> int:
        doing = worker.doing()
        if doing is None:
            return worker.progress_ns
        # While it is sending a long answer, it is the parent that keeps it waiting.
        return max(doing.started_ns, worker.answering_ns)

    def _kill(self, worker: WorkerProcess) -> None:
        if worker.doing() is None:
            worker.kill(End(STUCK, "the worker was given work and began nothing"))
        else:
            worker.kill(End(DEADLINE, f"the item ran longer than {self._deadline_s:g} s"))
