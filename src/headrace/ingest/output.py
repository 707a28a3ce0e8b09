"""The JSONL output: a projection of the ledger, so that a crash between commit and write loses and doubles nothing.

The file itself says how far it got: its last whole line names its ledger entry. On start a torn last line is cut off,
the entry of the last whole line is looked up, and writing goes on after it. Standard output cannot be looked at, so it
gets the whole batch from its first entry, once in each invocation.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, ClassVar

from headrace.documents.entry import Entry

_TAIL_BYTES = 1 << 16


class OutputError(Exception):
    """The output cannot be written, or is somebody else's file."""

    exit_code: ClassVar[int] = 5


class JsonLines:
    """Writes entries as lines to a file or to standard output; whole lines only, nothing is held back.

    Attributes:
        target: where to, as the user wrote it.
        may_block: whoever reads it can hold up `write` (a pipe, a terminal): not to be called in an event loop.
    """

    def __init__(self, target: str, *, overwrite: bool = False) -> None:
        """Opens the target; changes nothing in it before `last_entry`.

        Args:
            target: a path, or `-` for standard output.
            overwrite: start an existing file afresh.

        Raises:
            OutputError: the path cannot be written.
        """
        self.target = target
        self.may_block = target == "-" or (os.path.exists(target) and not os.path.isfile(target))
        self._overwrite = overwrite
        try:
            self._file = _standard_output() if target == "-" else self._open()
        except OSError as error:
            raise OutputError(f"cannot write {self._name}: {error.strerror}") from error

    def _open(self) -> IO[bytes]:
        Path(self.target).parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered: what a full disk did not take must not be tried again when the file is closed.
        file = open(self.target, "wb" if self.may_block else "a+b", buffering=0)  # noqa: SIM115 - closed in close()
        if not self.may_block:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.close()
                raise OutputError(
                    f"{self._name} is being written by another run; wait for it, or choose another -o"
                ) from error
        return file

    @property
    def _name(self) -> str:
        return "standard output" if self.target == "-" else self.target

    def last_entry(self, is_ours: Callable[[bytes], bool]) -> tuple[str, int, str] | None:
        """Where the file stands: (book, sequence, entry hash) of its last whole line; None when it has none.

        A torn last line of ours, as a crash leaves it, is cut off; nothing of anybody else's is touched. With
        `overwrite` the file is emptied. So this is for the one who has the workspace, and nobody before him.

        Args:
            is_ours: whether bytes without a line's end, which are all that the file has, begin a line of this ledger.

        Raises:
            OutputError: the file was not written by headrace.
        """
        if self.may_block:
            return None
        if self._overwrite:
            self._file.truncate(0)
            self._overwrite = False  # once: more than one batch may be written
        end = self._file.seek(0, os.SEEK_END)
        whole = self._end_of_last_newline(end)
        position = None
        if whole:
            try:
                ledger = json.loads(self._line_that_ends_at(whole))["ledger"]
                position = str(ledger["book"]), int(ledger["sequence"]), str(ledger["entry_hash"])
            except (ValueError, KeyError, TypeError) as error:
                raise self._not_ours() from error
        elif end:
            self._file.seek(0)
            if not is_ours(self._file.read(_TAIL_BYTES)):
                raise self._not_ours()
        if whole < end:
            self._file.truncate(whole)
        return position

    def _not_ours(self) -> OutputError:
        return OutputError(f"{self.target} exists and was not written by headrace; choose another -o, or --overwrite")

    def _end_of_last_newline(self, end: int) -> int:
        while end > 0:
            start = max(0, end - _TAIL_BYTES)
            self._file.seek(start)
            newline = self._file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0

    def _line_that_ends_at(self, end: int) -> bytes:
        tail, start = b"", end
        while start > 0 and b"\n" not in tail[:-1]:
            start = max(0, start - _TAIL_BYTES)
            self._file.seek(start)
            tail = self._file.read(end - start)
        return tail[:-1].rsplit(b"\n", 1)[-1]

    def write(self, entries: Iterable[Entry]) -> None:
        """Appends entries and hands them to the operating system.

        Raises:
            OutputError: the disk is full or the reader is gone (a broken pipe is raised as `BrokenPipeError`).
        """
        rest = memoryview(b"".join(entry.json_line() for entry in entries))
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"cannot write {self._name}: {error.strerror}; the same command goes on here") from error

    def close(self) -> None:
        """Closes the output."""
        with contextlib.suppress(OSError):  # nothing is left to be written; `write` has said what went wrong
            self._file.close()


def _standard_output() -> IO[bytes]:
    """Standard output with a descriptor of its own: whatever else writes to descriptor 1 goes to standard error."""
    if sys.stdout is None:  # it was closed when we started; by now another file has its number
        raise OSError(errno.EBADF, "it is closed")
    sys.stdout.flush()
    file = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return file
