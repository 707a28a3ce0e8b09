"""Standard error that never costs a run: what is said there is a courtesy, the work is not."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class _BestEffort(io.FileIO):
    """A descriptor whose writes are lost where they cannot be made: a full disk, a pipe that nobody reads."""

    def write(self, data: Any, /) -> int:
        """Takes all of it, or loses it."""
        try:
            written = super().write(data)
        except OSError:
            written = None
        return len(data) if written is None else written  # None: it does not block and has no room


def keep_harmless() -> None:
    """Makes `sys.stderr` a stream that raises nothing; one that was replaced already, say by a test, stays.

    Where descriptor 2 is closed, it leads to nowhere from now on: the next file that is opened would become it, and get
    what workers print.
    """
    if sys.stderr is not None and sys.stderr is not sys.__stderr__:
        return
    try:
        os.fstat(2)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        if nowhere == 2:
            os.set_inheritable(2, True)
        else:
            os.dup2(nowhere, 2)
            os.close(nowhere)
    writer = io.BufferedWriter(_BestEffort(2, "w", closefd=False))
    encoding = sys.stderr.encoding if sys.stderr is not None else "utf-8"
    sys.stderr = io.TextIOWrapper(writer, encoding, "backslashreplace", line_buffering=True)
