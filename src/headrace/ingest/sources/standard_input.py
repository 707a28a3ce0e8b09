"""Documents named on the standard input: paths or NDJSON, line by line, or names that end in NUL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import BinaryIO, cast

from headrace.ingest.sources.json_lines import TOO_LONG, found_in_json
from headrace.ingest.sources.locations import bad_line, found_at
from headrace.ingest.sources.records import Readable, Records
from headrace.ingest.sources.source import NOTHING_SKIPPED, Found

NAME = "stdin"


class StandardInput:
    """The documents that the standard input names, each handed on as soon as its line is there.

    A line that begins with `{` is NDJSON, any other is a path. When the first piece has NUL bytes, as from
    `find -print0`, records end in NUL and all are paths. It can be read once, and its identity is only that it is the
    standard input: to resume, give the same list again.

    Args:
        stream: is read, never closed.
        folder: what relative paths are relative to.
    """

    key = NAME
    ordered = True
    skipped: Mapping[str, int] = NOTHING_SKIPPED

    def __init__(self, stream: BinaryIO, folder: bytes) -> None:
        self._stream = stream
        self._folder = folder

    def __iter__(self) -> Iterator[Found]:
        """Reads record by record."""
        # Buffered streams and BytesIO have read1, though BinaryIO does not say so.
        stream = cast(Readable, self._stream)
        records = Records(stream, end=None)
        for number, record in enumerate(records, 1):
            if record is None:
                yield bad_line(NAME, number, TOO_LONG)
            elif record.startswith(b"{") and records.end != b"\0":
                yield found_in_json(record, name=NAME, number=number, folder=self._folder)
            elif record:
                yield found_at(record.decode("utf-8", "surrogateescape"), self._folder)
