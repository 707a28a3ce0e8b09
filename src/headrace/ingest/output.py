"""The JSONL output: a projection of the ledger, so that a crash between commit and write loses and doubles nothing.

The file itself says how far it got: its last whole line names its ledger entry. On start a torn last line is cut off,
the entry of the last whole line is looked up, and writing goes on after it. Standard output cannot be looked at, so it
gets the whole batch from its first entry, once in each invocation.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from headrace.documents.entry import Entry

_TAIL_BYTES = 1 << 16
_FIRST_BYTES = b'{"kind":"'  # how each of our lines starts


class OutputError(Exception):
    """The output cannot be written, or is somebody else's file. Exit code 5."""


class JsonLines:
    """Writes entries as lines to a file or to standard output; whole lines only, flushed after each group."""

    def __init__(self, target: str, *, overwrite: bool = False) -> None:
        """Opens the target.

        Args:
            target: a path, or `-` for standard output.
            overwrite: start an existing file afresh.

        Raises:
            OutputError: the path cannot be written.
        """
        self.target = target
        self._whole = target == "-" or (os.path.exists(target) and not os.path.isfile(target))
        self._file: IO[bytes]
        if target == "-":
            # Data gets a descriptor of its own; whatever else writes to descriptor 1 ends up on standard error.
            sys.stdout.flush()
            self._file = os.fdopen(os.dup(1), "wb")
            os.dup2(2, 1)
            return
        try:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            mode = "wb" if self._whole else "w+b" if overwrite else "a+b"
            self._file = open(target, mode)  # noqa: SIM115 - closed in close()
        except OSError as error:
            raise OutputError(f"cannot write {target}: {error.strerror}") from error

    def last_entry(self) -> tuple[str, int, str] | None:
        """Where the file stands: (book, sequence, entry hash) of its last whole line; None when it has none.

        A torn last line of ours, as a crash leaves it, is cut off; nothing of anybody else's is touched.

        Raises:
            OutputError: the file was not written by headrace.
        """
        if self._whole:
            return None
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
            if not self._file.read(len(_FIRST_BYTES)).startswith(_FIRST_BYTES[:end]):
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
        data = b"".join(
            json.dumps({"kind": e.kind, **e.record()}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            for e in entries
        )
        try:
            self._file.write(data)
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"cannot write {self.target}: {error.strerror}") from error

    def close(self) -> None:
        """Closes the output."""
        with contextlib.suppress(BrokenPipeError):  # said by `write` already
            self._file.close()
