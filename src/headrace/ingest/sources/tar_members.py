"""The members of a tar archive, read as one stream from front to back."""

from __future__ import annotations

import lzma
import os
import tarfile
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import IO, BinaryIO

from headrace.documents.document import printable
from headrace.ingest.sources import selection
from headrace.ingest.sources.compressed import open_compressed
from headrace.ingest.sources.member import PIECE_BYTES, MemberContent, member_uri, too_large
from headrace.ingest.sources.source import ARCHIVE_MEMBER, BrokenSource, Found

MAX_HEADER_BYTES = 1 << 18
"""The longest extended header (long names, attributes) that is read into memory."""

MAX_GLOBAL_FIELDS = 100
"""Fields that apply to all members after them; they are kept until the end."""

_EXTENDED = (
    tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK
)  # fmt: skip
_BREAKS = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError, RecursionError)


def read_tar(stream: BinaryIO, *, name: bytes, limit_bytes: int, skipped: Counter[str]) -> Generator[Found]:
    """The documents of a tar archive, packed or not, in the archive's order; nothing is kept of those that went by.

    Args:
        stream: the archive at its beginning; not closed.
        name: of the archive, as the user wrote it.
        limit_bytes: the largest member that is read.
        skipped: counts what is left out: links, devices, hidden names and what is no document.

    Raises:
        BrokenSource: the archive is cut off or broken; also from reading a member's content.
    """
    items = 0
    broke: BrokenSource | None = None

    def broken(error: BaseException) -> BrokenSource:
        why = str(error) or type(error).__name__
        return BrokenSource(f"{printable(name)} breaks off after {items} documents: {why}", items=items)

    def pieces(member: IO[bytes]) -> Iterator[bytes]:
        nonlocal broke
        try:
            while piece := member.read(PIECE_BYTES):
                yield piece
        except _BREAKS as error:
            broke = broken(error)
            raise broke from error

    try:
        beginning = stream.read(8)
        stream.seek(0)
        unpacked = open_compressed(stream, beginning)
        archive = tarfile.TarFile(fileobj=unpacked, tarinfo=_StrictTarInfo, encoding="utf-8", errors="surrogateescape")
    except _BREAKS as error:
        raise broken(error) from error
    while True:
        try:
            member = archive.next()
            archive.members = []  # type: ignore[attr-defined]  # tarfile remembers every member it has seen
            if member is None and unpacked.read(PIECE_BYTES).strip(b"\0"):
                raise tarfile.ReadError("more data follows its end mark; name joined archives one by one")
            if len(archive.pax_headers) > MAX_GLOBAL_FIELDS:
                raise tarfile.ReadError("it has too many global fields")
        except _BREAKS as error:
            raise broken(error) from error
        if member is None:
            return
        raw_name = os.fsencode(member.name)
        reason = selection.reason_to_skip_member(raw_name) if member.isreg() else selection.LINK_OR_DEVICE
        if member.isdir():
            continue
        if reason is not None:
            skipped[reason] += 1
            continue
        uri = member_uri(name, raw_name)
        mtime_ns = int(member.mtime * 1_000_000_000)
        content = archive.extractfile(member)
        if member.size > limit_bytes or content is None:
            problem = too_large(uri, limit_bytes)
            yield Found(uri, None, ARCHIVE_MEMBER, member.size, mtime_ns, problem=problem)
        else:
            reader = MemberContent(pieces(content), uri=uri, limit_bytes=limit_bytes)
            with closing(reader):
                yield Found(uri, None, ARCHIVE_MEMBER, member.size, mtime_ns, content=reader)
            if broke is not None:
                raise broke
        items += 1


class _StrictTarInfo(tarfile.TarInfo):
    """A header that says so when it is broken or missing: tarfile alone takes both for the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> _StrictTarInfo:
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # older than the stubs
            raise
        except tarfile.EmptyHeaderError:  # type: ignore[attr-defined]
            raise tarfile.ReadError("it has no end mark, as if it were cut off") from None
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(f"a header is broken ({error})") from None

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _StrictTarInfo:
        header = super().frombuf(buf, encoding, errors)
        if header.size < 0 or (header.type in _EXTENDED and header.size > MAX_HEADER_BYTES):
            raise tarfile.ReadError(f"a header says that {header.size} bytes follow")
        return header
