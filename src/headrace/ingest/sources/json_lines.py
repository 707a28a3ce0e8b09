"""NDJSON: one document a line, `{"id": ..., "uri": ...}` or only its path as a JSON string."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from headrace.documents.errors import BadManifestLine
from headrace.ingest.sources.locations import bad_line, found_at
from headrace.ingest.sources.records import RECORD_BYTES
from headrace.ingest.sources.source import Found

LOCATION_NAMES = ("uri", "path", "file")
TOO_LONG = f"has more than {RECORD_BYTES} bytes"


def read_json_lines(lines: Iterable[bytes | None], *, name: str, folder: bytes) -> Iterator[Found]:
    """The documents that the lines name; a line that names none is a problem of its own. Blank lines are skipped.

    Args:
        lines: without their newline; None for one that is too long.
        name: what the lines come from, for uris of bad lines.
        folder: what relative paths are relative to.
    """
    for number, line in enumerate(lines, 1):
        if line is None:
            yield bad_line(name, number, TOO_LONG)
        elif line.strip():
            yield found_in_json(line, name=name, number=number, folder=folder)


def found_in_json(line: bytes, *, name: str, number: int, folder: bytes) -> Found:
    """The document that one line of NDJSON names, or the problem of the line."""
    try:
        # Bytes that are not UTF-8 are part of a file's name: they are kept.
        location, external_id = _parse(line.decode("utf-8", "surrogateescape"))
    except BadManifestLine as error:
        return bad_line(name, number, error.detail)
    return found_at(location, folder, external_id=external_id)


def _parse(text: str) -> tuple[str, str | None]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadManifestLine(f"is no JSON: {error}") from None
    if isinstance(row, str):
        return row, None
    if not isinstance(row, dict):
        raise BadManifestLine('is neither an object like {"id": "7", "uri": "a.jpg"} nor a string')
    location = next((row[n] for n in LOCATION_NAMES if row.get(n) is not None), None)
    if not isinstance(location, str) or not location:
        raise BadManifestLine("has no uri, path or file that is a string")
    external_id = row.get("id")
    if isinstance(external_id, bool) or not isinstance(external_id, str | int | None):
        raise BadManifestLine("has an id that is neither a string nor a whole number")
    return location, None if external_id is None else storable(str(external_id))


def storable(external_id: str) -> str:
    """The id as it was given; only what no database and no UTF-8 file can hold is escaped."""
    return external_id.encode("utf-8", "backslashreplace").decode()
