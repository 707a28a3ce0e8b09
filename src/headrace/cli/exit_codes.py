"""What the exit code of every command means. Scripts rely on these numbers: they never change."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended."""

    OK = 0
    BUG = 1
    USAGE = 2
    SOME_FAILED = 3
    ALL_FAILED = 4
    OUTPUT = 5
    MISSING = 6
    POLICY = 7
    UNSAFE_CONFIG = 9
    SIGINT = 130
    SIGTERM = 143


MEANING = {
    ExitCode.OK: "everything was accepted",
    ExitCode.BUG: "a bug in headrace",
    ExitCode.USAGE: "the command line or a setting makes no sense",
    ExitCode.SOME_FAILED: "some documents failed; their results say why",
    ExitCode.ALL_FAILED: "all documents failed",
    ExitCode.OUTPUT: "the output exists already or cannot be written",
    ExitCode.MISSING: "a dependency, an engine or language data is missing",
    ExitCode.POLICY: "a receipt was not accepted, and --strict was asked for",
    ExitCode.UNSAFE_CONFIG: "the settings could take more memory than there is",
    ExitCode.SIGINT: "stopped by Ctrl-C; the same command goes on where it stopped",
    ExitCode.SIGTERM: "stopped by SIGTERM; the same command goes on where it stopped",
}
