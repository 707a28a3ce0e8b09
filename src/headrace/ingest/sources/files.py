"""A file named on the command line: always taken, whatever it is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.documents.document import printable
from headrace.ingest.sources.source import NOTHING_SKIPPED, Found, found_file, source_key


class File:
    """One file, named by the user."""

    ordered = True
    skipped: Mapping[str, int] = NOTHING_SKIPPED

    def __init__(self, path: bytes, name: bytes) -> None:
        self.key = source_key("file", path)
        self._path = path
        self._name = name

    def __iter__(self) -> Iterator[Found]:
        """The file, or its problem."""
        yield found_file(printable(self._name), self._path)
