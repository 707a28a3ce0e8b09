"""The bytes of an archive member, handed over piece by piece and never past the limit."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.documents.document import printable
from headrace.documents.errors import PayloadTooLarge

PIECE_BYTES = 1 << 16


class MemberContent:
    """Reads the pieces of one member. Closed when the next member is asked for; reading then is a ValueError."""

    def __init__(self, pieces: Iterator[bytes], *, uri: str, limit_bytes: int) -> None:
        self._pieces = pieces
        self._rest = b""
        self._uri = uri
        self._limit_bytes = limit_bytes
        self._taken_bytes = 0
        self.closed = False

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes, all that are left when negative; b"" at the end.

        Raises:
            PayloadTooLarge: the member grew past the limit, whatever its header said (a bomb).
            DocumentError: this member is broken.
            BrokenSource: the archive breaks off here.
        """
        if self.closed:
            raise ValueError(f"{self._uri} can only be read before the next document is asked for")
        if size < 0:
            return b"".join(iter(lambda: self.read(PIECE_BYTES), b""))
        while not self._rest and size:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._taken_bytes += len(piece)
            if self._taken_bytes > self._limit_bytes:
                raise too_large(self._uri, self._limit_bytes)
            self._rest = piece
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def close(self) -> None:
        """Ends reading; the archive goes on to its next member."""
        self.closed = True
        self._rest = b""


def too_large(uri: str, limit_bytes: int) -> PayloadTooLarge:
    """The failure of a member that has more bytes than one document may have."""
    return PayloadTooLarge(f"{uri} has more than {limit_bytes} bytes, the limit for one document in an archive")


def member_uri(archive: bytes, member: bytes) -> str:
    """What a member is called: the archive's name, then its own."""
    return printable(archive + b"/" + member.removeprefix(b"./").lstrip(b"/"))
