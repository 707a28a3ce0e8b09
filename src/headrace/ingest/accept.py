"""Takes the bytes of an archive member into the blob store, so that the document outlives its archive."""

from __future__ import annotations

import os
from typing import NamedTuple

from headrace.ingest.sources import Found
from headrace.storage.blobs import Blobs


class Spooled(NamedTuple):
    """Where a member's bytes are now: an absolute path, their hex SHA-256, and how many they are."""

    path: bytes
    sha256: str
    size_bytes: int


def spool(found: Found, blobs: Blobs) -> Spooled:
    """Copies the content of what an archive found to the blob store; on disk when this returns.

    To be called before the source is asked for its next document. On any error nothing is kept.

    Raises:
        DocumentError: this member is broken, encrypted or too large; the source goes on.
        BrokenSource: the archive breaks off within this member; it and all after it are lost, those before are good.
        StorageFull: there is no room for the bytes.
        ValueError: what was found is no archive member, or its source has moved on.
    """
    if found.problem is not None:
        raise found.problem
    if found.content is None:
        raise ValueError(f"{found.uri} is no archive member: it is read where it lies")
    sha256, size_bytes = blobs.put(found.content)
    return Spooled(os.fsencode(os.path.abspath(blobs.path(sha256))), sha256, size_bytes)
