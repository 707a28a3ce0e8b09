"""The end of a process as the kernel tells it."""

from __future__ import annotations

import os
import signal


def open_pidfd(pid: int) -> int | None:
    """A descriptor that is readable once the process has ended; None where the kernel has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def describe_exit(returncode: int, rss_bytes: int) -> str:
    """How a worker ended while it ran an item, in a sentence for a person."""
    if returncode >= 0:
        return f"the worker ended with exit code {returncode} while it ran the item"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    detail = f"the worker was killed by {name}"
    if returncode == -signal.SIGKILL:
        detail += f"; often that is the kernel short of memory (the worker had {rss_bytes / 2**20:.0f} MB)"
    return detail
