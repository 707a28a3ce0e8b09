"""CSV manifests: a header with a column uri, path or file, perhaps an id, and one document a row."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.ingest.sources.json_lines import LOCATION_NAMES, TOO_LONG, storable
from headrace.ingest.sources.locations import bad_line, found_at
from headrace.ingest.sources.records import RECORD_BYTES
from headrace.ingest.sources.source import Found, SourceError

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Header:
    """What the first row says: how fields are separated, how many there are, which one is what."""

    delimiter: str
    columns: int
    location: int
    external_id: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """One row, which may span lines inside quotes: the line it starts on, and its fields or what is wrong with it."""

    line: int
    fields: tuple[str, ...] = ()
    wrong: str | None = None


def read_csv(lines: Iterable[bytes | None], *, name: str, folder: bytes) -> Iterator[Found]:
    """The documents that the rows name; a row that names none is a problem of its own. Empty rows are skipped.

    Raises:
        SourceError: the header names no column with the documents.
    """
    rest = iter(lines)
    header = read_header(rest, name=name)
    if header is None:
        return
    for row in _rows(rest, header.delimiter, first_line=2):
        if row.wrong is not None:
            yield bad_line(name, row.line, row.wrong)
        elif any(row.fields):
            yield _found(row, header, name=name, folder=folder)


def read_header(lines: Iterator[bytes | None], *, name: str) -> Header | None:
    """Takes the first line and works out columns and delimiter (comma, semicolon or tab); None when nothing is there.

    Raises:
        SourceError: there is no column uri, path or file, or the file is no UTF-8 text.
    """
    try:
        first = next(lines)
    except StopIteration:
        return None
    if first is not None and first.startswith(_UTF16):
        raise SourceError(f"{name} is UTF-16 text; save it as UTF-8 (in a spreadsheet: CSV UTF-8)")
    best: Header | None = None
    for delimiter in ",;\t":
        row = next(_rows(iter([first]), delimiter, first_line=1))
        names = [field.strip().lower() for field in row.fields]
        location = next((names.index(n) for n in LOCATION_NAMES if n in names), None)
        if location is not None and (best is None or len(names) > best.columns):
            best = Header(delimiter, len(names), location, names.index("id") if "id" in names else None)
    if best is None:
        raise SourceError(
            f"{name} has no column uri, path or file in its first line ({(first or b'')[:80]!r}); add a header: id,path"
        )
    return best


def _found(row: Row, header: Header, *, name: str, folder: bytes) -> Found:
    if any(row.fields[header.columns :]):
        why = f"has {len(row.fields)} fields under {header.columns} columns; quote what contains {header.delimiter!r}"
        return bad_line(name, row.line, why)
    fields = row.fields + ("",) * (header.columns - len(row.fields))
    location = fields[header.location]
    if not location:
        return bad_line(name, row.line, "names no document")
    external_id = fields[header.external_id] if header.external_id is not None else ""
    return found_at(location, folder, external_id=storable(external_id) or None)


def _rows(lines: Iterator[bytes | None], delimiter: str, *, first_line: int) -> Iterator[Row]:
    """Reads one row after the other.

    A quote that is never closed would swallow the rest of the file. So a row that does not end within RECORD_BYTES, or
    ends wrong, costs its first line only: the lines after it are put back and read again.
    """
    numbered = enumerate(lines, first_line)
    put_back: deque[tuple[int, bytes | None]] = deque()  # holds at most RECORD_BYTES and one line
    while True:
        taken: list[tuple[int, bytes | None]] = []

        def take(taken: list[tuple[int, bytes | None]] = taken) -> Iterator[str]:
            size = 0
            while size <= RECORD_BYTES:
                line = put_back.popleft() if put_back else next(numbered, None)
                if line is None:
                    return
                taken.append(line)
                if line[1] is None:
                    return
                size += len(line[1]) + 1
                yield line[1].decode("utf-8", "surrogateescape") + "\n"

        try:
            fields = next(csv.reader(take(), delimiter=delimiter, strict=True), None)
        except csv.Error as error:
            put_back.extendleft(reversed(taken[1:]))
            why = "a quote is opened and not closed" if "unexpected end" in str(error) else str(error)
            yield Row(taken[0][0], wrong=f"is no CSV row: {why}")
            continue
        if fields is not None:
            yield Row(taken[0][0], tuple(fields))
        elif not taken:
            return
        else:
            yield Row(taken[0][0], wrong=TOO_LONG)
