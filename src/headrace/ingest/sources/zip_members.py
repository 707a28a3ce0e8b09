"""The members of a zip archive. Its directory is read as a stream, entry by entry, and never held in memory.

stream-unzip does the unpacking, one member at a time. It is handed a local header made from the directory, which knows
what a local header may leave open (sizes, checksum), and so a broken or encrypted member costs only itself. An archive
without a directory was cut off: it is read from its front, as far as it goes.
"""

from __future__ import annotations

import os
import stat
import struct
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import BinaryIO

from stream_unzip import (
    IntegrityError,
    TruncatedDataError,
    UncompressError,
    UnexpectedSignatureError,
    UnsupportedFeatureError,
    UnzipError,
    stream_unzip,
)

from headrace.documents.document import printable
from headrace.documents.errors import CorruptDocument, DocumentError, EncryptedDocument, UnsupportedMediaType
from headrace.ingest.sources import selection
from headrace.ingest.sources.member import PIECE_BYTES, MemberContent, member_uri, too_large
from headrace.ingest.sources.source import ARCHIVE_MEMBER, BrokenSource, Found
from headrace.ingest.sources.zip_directory import DirectoryError, Entry, find_directory, read_entries

_LOCAL = struct.Struct("<4s5H3L2H")
_LOCAL_SIGNATURE, _END_SIGNATURE = b"PK\x03\x04", b"PK\x05\x06"
_METHODS = {0: "stored", 8: "deflate", 9: "deflate64", 12: "bzip2"}
_WORDS: tuple[tuple[type[Exception], str], ...] = (  # the first that fits
    (IntegrityError, "its checksum or size is not what the archive says"),
    (TruncatedDataError, "it ends too early"),
    (UncompressError, "its packed bytes are broken"),
    (UnsupportedFeatureError, "it is packed in a way that headrace does not read, or its header is broken"),
    (UnexpectedSignatureError, "what follows is no member of a zip archive"),
)
_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13


def read_zip(stream: BinaryIO, *, name: bytes, limit_bytes: int, skipped: Counter[str]) -> Generator[Found]:
    """The documents of a zip archive, in the order of its directory.

    Args:
        stream: the archive, a real file; not closed.
        name: of the archive, as the user wrote it.
        limit_bytes: the largest member that is read, unpacked.
        skipped: counts what is left out: links, hidden names and what is no document.

    Raises:
        BrokenSource: the directory is broken, or missing because the archive was cut off.
    """
    file = stream.fileno()
    items = 0
    try:
        directory = find_directory(file)
        if directory is None:
            yield from _read_cut_off(stream, name=name, limit_bytes=limit_bytes, skipped=skipped)
            return
        for entry in read_entries(file, directory):
            if entry.is_folder:
                continue
            reason = _reason_to_skip(entry)
            if reason is not None:
                skipped[reason] += 1
                continue
            uri = member_uri(name, entry.name)
            problem, data_offset = _look_at(file, entry, uri, limit_bytes)
            if problem is not None:
                yield Found(uri, None, ARCHIVE_MEMBER, entry.size_bytes, problem=problem)
            else:
                pieces = _unpack(file, entry, data_offset, uri)
                content = MemberContent(pieces, uri=uri, limit_bytes=limit_bytes)
                with closing(content):
                    yield Found(uri, None, ARCHIVE_MEMBER, entry.size_bytes, content=content)
            items += 1
    except (DirectoryError, OSError) as error:
        why = f"{printable(name)} breaks off after {items} documents: {error}"
        raise BrokenSource(why, items=items) from error


def _reason_to_skip(entry: Entry) -> str | None:
    if stat.S_IFMT(entry.unix_mode) not in (0, stat.S_IFREG):
        return selection.LINK_OR_DEVICE
    return selection.reason_to_skip_member(entry.name)


def _look_at(file: int, entry: Entry, uri: str, limit_bytes: int) -> tuple[DocumentError | None, int]:
    """What keeps the member from being read, if anything; and where its data begins."""
    if entry.flags & _ENCRYPTED:
        return EncryptedDocument(f"{uri} needs a password; unpack the archive and name its folder"), 0
    if entry.method not in _METHODS:
        known = ", ".join(_METHODS.values())
        return UnsupportedMediaType(f"{uri} is packed by zip method {entry.method}; headrace unpacks {known}"), 0
    if entry.size_bytes > limit_bytes:
        return too_large(uri, limit_bytes), 0
    header = os.pread(file, _LOCAL.size, entry.offset)
    if len(header) < _LOCAL.size or not header.startswith(_LOCAL_SIGNATURE) or entry.packed_bytes > 0xFFFF_FFFE:
        return CorruptDocument(f"{uri} is not where the archive's directory says"), 0
    *_, name_bytes, extra_bytes = _LOCAL.unpack(header)
    return None, entry.offset + _LOCAL.size + name_bytes + extra_bytes


def _unpack(file: int, entry: Entry, data_offset: int, uri: str) -> Iterator[bytes]:
    """The member's bytes, with size and checksum proven at the end."""

    def archive_of_one() -> Iterator[bytes]:
        sizes = (entry.crc32, entry.packed_bytes, entry.size_bytes)
        yield _LOCAL.pack(_LOCAL_SIGNATURE, 20, 0, entry.method, 0, 0, *sizes, 0, 0)
        position, end = data_offset, data_offset + entry.packed_bytes
        while position < end and (piece := os.pread(file, min(PIECE_BYTES, end - position), position)):
            position += len(piece)
            yield piece
        yield _END_SIGNATURE

    try:
        for _, _, pieces in stream_unzip(archive_of_one(), chunk_size=PIECE_BYTES):
            yield from pieces
    except (UnzipError, ValueError, OSError) as error:
        raise CorruptDocument(f"{uri} cannot be unpacked: {_say(error)}") from error


def _read_cut_off(stream: BinaryIO, *, name: bytes, limit_bytes: int, skipped: Counter[str]) -> Generator[Found]:
    """The members from the front of an archive that has no directory, up to where it breaks off; then BrokenSource."""
    items = 0
    broke: BrokenSource | None = None

    def broken(why: str) -> BrokenSource:
        return BrokenSource(f"{printable(name)} is cut off after {items} documents: {why}", items=items)

    def guarded(pieces: Iterator[bytes], uri: str) -> Iterator[bytes]:
        nonlocal broke
        try:
            for piece in pieces:  # noqa: UP028  # yield from would close the pieces that are still to be passed over
                yield piece
        except IntegrityError as error:
            raise CorruptDocument(f"{uri} cannot be unpacked: {_say(error)}") from error
        except (UnzipError, ValueError, OSError) as error:
            broke = broken(_say(error))
            raise broke from error

    stream.seek(0)
    try:
        for raw_name, size, pieces in stream_unzip(iter(lambda: stream.read(PIECE_BYTES), b"")):
            reason = selection.reason_to_skip_member(raw_name)
            if raw_name.endswith(b"/") or reason is not None:
                if reason is not None:
                    skipped[reason] += 1
                for _ in pieces:
                    pass
                continue
            uri = member_uri(name, raw_name)
            content = MemberContent(guarded(pieces, uri), uri=uri, limit_bytes=limit_bytes)
            with closing(content):
                yield Found(uri, None, ARCHIVE_MEMBER, size or 0, content=content)
            if broke is not None:
                raise broke
            for _ in pieces:  # what nobody read stands between here and the next member
                pass
            items += 1
    except (UnzipError, ValueError, OSError) as error:
        raise broken(_say(error)) from error
    raise broken("its directory is missing")


def _say(error: Exception) -> str:
    """What is wrong, in plain words; stream-unzip says it in the name of the exception, with numbers for an expert."""
    if not isinstance(error, UnzipError):
        return str(error)
    return next((words for kind, words in _WORDS if isinstance(error, kind)), "its content is broken")
