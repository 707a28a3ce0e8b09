"""Archives: zip and tar files as sources, told apart by their first bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from typing import BinaryIO, Protocol

from headrace.documents.document import printable
from headrace.ingest.sources.compressed import BZIP2, GZIP, XZ, ZSTD, can_open
from headrace.ingest.sources.source import BrokenSource, Found, SourceError, source_key
from headrace.ingest.sources.tar_members import read_tar
from headrace.ingest.sources.zip_directory import DirectoryError, find_directory
from headrace.ingest.sources.zip_members import read_zip

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_BLOCK_BYTES = 512
_TAR_MAGIC_AT = 257


class Archive:
    """The documents in a zip or tar archive, in the archive's order.

    Args:
        path: the archive, absolute.
        name: as the user wrote it.
        max_member_bytes: the largest member that is read, unpacked; below 4 GiB.
    """

    ordered = True

    def __init__(self, path: bytes, name: bytes, *, max_member_bytes: int) -> None:
        self.key = source_key("archive", path)
        self._path = path
        self._name = name
        self._max_member_bytes = min(max_member_bytes, 0xFFFF_FFFE)
        self._skipped: Counter[str] = Counter()

    @property
    def skipped(self) -> Mapping[str, int]:
        """What the latest pass left out, by reason."""
        return dict(self._skipped)

    def check(self) -> None:
        """Looks at the first bytes, so that what is no archive is refused before any work starts.

        Raises:
            SourceError: it cannot be opened, is empty, is no archive, or one that this Python cannot unpack.
        """
        name = printable(self._name)
        try:
            with open(self._path, "rb") as stream:
                beginning = stream.read(_BLOCK_BYTES)
                reader = _reader(stream, beginning)
        except OSError as error:
            raise SourceError(f"{name} cannot be read: {error.strerror}") from error
        if not can_open(beginning):
            raise SourceError(
                f"{name} is packed with Zstandard, which needs Python 3.14; unpack it first: zstd -d {name}"
            )
        if reader is None:
            why = "is empty" if not beginning else "is neither a zip nor a tar archive, whatever its name says"
            raise SourceError(f"{name} {why}")

    def __iter__(self) -> Generator[Found]:
        """Reads member by member; a member's content is gone when the next is asked for.

        Raises:
            BrokenSource: the archive breaks off; the documents before are good.
        """
        self._skipped.clear()
        try:
            stream = open(self._path, "rb")  # noqa: SIM115  # closed below, also when the iteration is given up
        except OSError as error:
            raise BrokenSource(f"{printable(self._name)} cannot be opened: {error.strerror}", items=0) from error
        with stream:
            read = _reader(stream, stream.read(_BLOCK_BYTES))
            if read is None:
                raise BrokenSource(f"{printable(self._name)} is no archive any more", items=0)
            stream.seek(0)
            yield from read(stream, name=self._name, limit_bytes=self._max_member_bytes, skipped=self._skipped)


class _Reader(Protocol):
    def __call__(
        self, stream: BinaryIO, *, name: bytes, limit_bytes: int, skipped: Counter[str]
    ) -> Generator[Found]: ...


def _reader(stream: BinaryIO, beginning: bytes) -> _Reader | None:
    """What reads an archive that begins like this; None when it is none."""
    if beginning.startswith(_ZIP):
        return read_zip
    if beginning.startswith((GZIP, BZIP2, XZ, ZSTD)) or beginning[_TAR_MAGIC_AT:].startswith(b"ustar"):
        return read_tar
    if _is_old_tar(beginning):
        return read_tar
    try:
        return read_zip if find_directory(stream.fileno()) is not None else None  # behind a self-extractor
    except DirectoryError:
        return None


def _is_old_tar(block: bytes) -> bool:
    """A tar from before POSIX has no magic, but a checksum: the sum of its header with the sum's own field blank."""
    if len(block) < _BLOCK_BYTES:
        return False
    try:
        return int(block[148:156].split(b"\0")[0], 8) == sum(block) - sum(block[148:156]) + 8 * ord(" ")
    except ValueError:
        return not block.strip(b"\0")  # an empty archive: only its end mark
