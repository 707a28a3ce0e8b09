"""What a person is told when no worker can be started."""

from __future__ import annotations

import errno

from headrace.execution import WorkerStartFailed

_START_ADVICE: dict[int | None, str] = {
    errno.EMFILE: "raise ulimit -n or lower --workers",
    errno.ENFILE: "the whole system has no file left to open: close other programs or lower --workers",
    errno.EAGAIN: "raise ulimit -u (or the container's limit of processes) or lower --workers",
    errno.ENOMEM: "free memory or lower --workers",
}
_KILLED_ADVICE = "if that was for want of memory, free some or lower --workers; headrace doctor tests the engine"


class WorkersUnavailable(Exception):
    """The system does not let the workers live; `exit_code` is 9 when fewer of them, or a higher limit, would do."""

    exit_code: int = 6

    @classmethod
    def because(cls, error: WorkerStartFailed) -> WorkersUnavailable:
        """Says what to do about it."""
        advice = _START_ADVICE.get(error.errno)
        told = cls(f"{error.detail}\n{advice or _KILLED_ADVICE}; the same command then goes on where it stopped")
        told.exit_code = 9 if advice else 6
        return told
