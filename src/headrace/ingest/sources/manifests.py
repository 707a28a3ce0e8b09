"""Manifests: files that list documents, as CSV with a header or as NDJSON. Order is the order of the rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Literal

from headrace.documents.document import printable
from headrace.ingest.sources.csv_rows import read_csv, read_header
from headrace.ingest.sources.json_lines import read_json_lines
from headrace.ingest.sources.records import BOM, Records
from headrace.ingest.sources.source import NOTHING_SKIPPED, BrokenSource, Found, SourceError, source_key

_CSV = (b".csv", b".tsv")
_NDJSON = (b".ndjson", b".jsonl")
EXTENSIONS = _CSV + _NDJSON


class Manifest:
    """The documents that a manifest names; relative paths are relative to the manifest's own folder.

    Args:
        path: the manifest, absolute.
        name: as the user wrote it.
    """

    ordered = True
    skipped: Mapping[str, int] = NOTHING_SKIPPED

    def __init__(self, path: bytes, name: bytes) -> None:
        self.key = source_key("manifest", path)
        self._path = path
        self._name = printable(name)

    def check(self) -> None:
        """Looks at the first line, so that a manifest without a usable header is refused before any work starts.

        Raises:
            SourceError: it cannot be opened, or its header names no documents.
        """
        try:
            with open(self._path, "rb") as stream:
                if self._form(stream.peek(1)) == "csv":
                    read_header(iter(Records(stream)), name=self._name)
        except OSError as error:
            raise SourceError(f"{self._name} cannot be read: {error.strerror}") from error

    def __iter__(self) -> Iterator[Found]:
        """Reads row by row.

        Raises:
            BrokenSource: the manifest cannot be read on.
        """
        items = 0
        folder = os.path.dirname(self._path)
        try:
            with open(self._path, "rb") as stream:
                read = read_csv if self._form(stream.peek(1)) == "csv" else read_json_lines
                for found in read(Records(stream), name=self._name, folder=folder):
                    items += 1
                    yield found
        except OSError as error:
            why = f"{self._name} cannot be read on after {items} documents: {error.strerror}"
            raise BrokenSource(why, items=items) from error
        except SourceError as error:
            raise BrokenSource(str(error), items=items) from error

    def _form(self, beginning: bytes) -> Literal["csv", "ndjson"]:
        """By its name; one with another name is NDJSON when it begins like JSON."""
        name = self._path.lower()
        if name.endswith(EXTENSIONS):
            return "csv" if name.endswith(_CSV) else "ndjson"
        return "ndjson" if beginning.removeprefix(BOM)[:1] in (b"{", b'"') else "csv"
