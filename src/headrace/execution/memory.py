"""How much memory a process has resident, from `/proc`."""

from __future__ import annotations

import ctypes
import os

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ResidentMemory:
    """Reads the resident memory of one process; keeps `/proc/<pid>/statm` open, so that a reading costs 2 us.

    The open file stays bound to that process: when it is gone, or its id is used again, `read` gives None.
    """

    def __init__(self, pid: int | None = None) -> None:
        try:
            self._fd: int | None = os.open(f"/proc/{pid or 'self'}/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = None

    def read(self) -> int | None:
        """Resident bytes; None when the process is gone or `/proc` is not there."""
        if self._fd is None:
            return None
        try:
            return int(os.pread(self._fd, 256, 0).split(None, 2)[1]) * PAGE_BYTES
        except (OSError, IndexError):
            return None

    def close(self) -> None:
        """Closes the file; later readings give None."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def return_memory_promptly() -> None:
    """Makes this process's allocator (glibc) give memory back: one arena, and a threshold for trimming that stays.

    By default glibc opens an arena per thread and raises the threshold with every large block, so that a long run would
    seem to grow by some megabytes. Call it before threads start; elsewhere than on glibc nothing happens.
    """
    arena_max, trim_threshold = -8, -1  # M_ARENA_MAX and M_TRIM_THRESHOLD of malloc.h
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(arena_max, 1)
    mallopt(trim_threshold, 128 * 1024)
