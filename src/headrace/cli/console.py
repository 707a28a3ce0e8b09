"""The two places to write to: data on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from rich.console import Console

WIDTH_WITHOUT_TERMINAL = 120


def output_console() -> Console:
    """Rich on standard output, for what was asked for."""
    return _console(sys.stdout)


def message_console() -> Console:
    """Rich on standard error, for progress, summaries and messages."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    # Rich takes 80 columns for a file or a pipe, and folds tables that nobody sees in 80 columns.
    known = stream.isatty() or "COLUMNS" in os.environ
    return Console(file=stream, width=None if known else WIDTH_WITHOUT_TERMINAL, highlight=False, emoji=False)
