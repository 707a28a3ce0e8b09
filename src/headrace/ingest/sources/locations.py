"""What a manifest or the standard input calls a document, made into a path on this machine."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote_to_bytes

from headrace.documents.document import printable
from headrace.documents.errors import BadManifestLine, DocumentError, SourceUrlForbidden
from headrace.ingest.sources.source import Found, found_file

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PASSWORD = re.compile(r"(?<=://)[^/@]*@")


def scheme_of(location: str) -> str | None:
    """The scheme of an address (`https`), lower case; None for a plain path."""
    match = _SCHEME.match(location)
    return match.group(1).lower() if match else None


def without_password(location: str) -> str:
    """The address as it may be shown: user and password are cut out."""
    return _PASSWORD.sub("", location) if scheme_of(location) else location


def local_path(location: str, folder: bytes) -> bytes:
    """The absolute path that a plain path or a `file://` address means.

    Args:
        location: as written; bytes that were not UTF-8 are kept by surrogateescape.
        folder: what relative paths are relative to.

    Raises:
        SourceUrlForbidden: an address that is not on this machine.
        BadManifestLine: no path on any machine.
    """
    scheme = scheme_of(location)
    if scheme is None:
        try:
            path = os.fsencode(location)
        except UnicodeEncodeError:
            raise BadManifestLine(f"{printable_text(location)} has characters that no path can have") from None
    else:
        host, slash, rest = location.partition("://")[2].partition("/")
        if scheme != "file" or host.lower() not in ("", "localhost") or not slash:
            raise SourceUrlForbidden(
                f"{printable_text(without_password(location))} is not read: headrace run takes files of this machine;"
                " download it and name the file"
            )
        path = b"/" + unquote_to_bytes(rest.encode("utf-8", "surrogateescape"))
    if not path or b"\0" in path:
        raise BadManifestLine("a path is not empty and has no NUL byte")
    return os.path.join(folder, path)


def printable_text(text: str) -> str:
    """Any string as printable text, also one that JSON escapes made and that no path could be."""
    return printable(text.encode("utf-8", "surrogateescape") if _encodable(text) else ascii(text)[1:-1])


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def found_at(location: str, folder: bytes, *, external_id: str | None = None) -> Found:
    """The document that a row or a line names, or its problem."""
    try:
        path = local_path(location, folder)
    except DocumentError as problem:
        return Found(printable_text(without_password(location)), None, external_id=external_id, problem=problem)
    return found_file(printable_text(location), path, external_id=external_id)


def bad_line(name: str, number: int, why: str) -> Found:
    """The failure of a line that names no document, called by its place."""
    return Found(f"{name}:{number}", None, problem=BadManifestLine(f"line {number} of {name} {why}"))
