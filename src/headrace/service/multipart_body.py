"""`multipart/form-data` read as a stream: one file after the other, none of them in memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field

from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from headrace.service.limits import Body
from headrace.service.problems import Problem, malformed
from headrace.service.request_headers import display_name

_HEADERS_OF_A_PART = 8


@dataclass
class Part:
    """One file of a multipart body. Its bytes can be read until the next part is asked for.

    Attributes:
        name: of the form's field.
        filename: for display only.
        pieces: the bytes.
        ended: whether they have all been read.
    """

    name: str
    filename: str
    pieces: AsyncIterator[bytes]
    ended: bool = field(default=False)


def boundary_of(content_type: str) -> str:
    """The boundary of a multipart body.

    Raises:
        Problem: 400, there is none.
    """
    _, options = parse_options_header(content_type)
    boundary: str = options.get("boundary", "")
    if not boundary or not boundary.isascii() or len(boundary) > 70:
        raise malformed("/headers/Content-Type", "multipart/form-data needs a boundary of 1 to 70 ASCII characters")
    return boundary


async def read_parts(body: Body, boundary: str, *, most: int) -> AsyncIterator[Part]:
    """The parts of a body, each to be read before the next one; what is left of one is skipped.

    Args:
        body: the body; its own limit holds for all parts together.
        boundary: from the Content-Type.
        most: how many parts there may be.

    Raises:
        Problem: 400, it is no multipart body or breaks off; 413, too many parts or too long a header.
    """
    limits = body.limits
    parser = PushMultipartParser(
        boundary,
        max_header_size=limits.part_header_bytes,
        max_header_count=_HEADERS_OF_A_PART,
        max_segment_count=most,
        header_charset="latin-1",  # takes any byte: a name is for display, and no reason to lose a document
    )
    events = _events(body, parser, most)

    async def pieces(part: Part) -> AsyncIterator[bytes]:
        while not part.ended:
            event = await anext(events)
            if event is None:
                part.ended = True
            elif not isinstance(event, MultipartSegment) and event:
                yield bytes(event)

    try:
        async for event in events:
            if not isinstance(event, MultipartSegment):
                continue
            part = Part(event.name, display_name(_in_utf8(event.filename or "")), _nothing())
            part.pieces = pieces(part)
            yield part
            async for _ in pieces(part):
                pass
    finally:
        await events.aclose()


def _in_utf8(name: str) -> str:
    """A name that was read as Latin-1: as UTF-8 where its bytes are that, else as it is."""
    try:
        return name.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return name


async def _events(
    body: Body, parser: PushMultipartParser, most: int
) -> AsyncGenerator[MultipartSegment | bytearray | bytes | None, None]:
    # Here, and not around the loop above: whoever reads the pieces of a part is to see these errors, too.
    try:
        async for piece in body:
            for event in parser.parse(piece):
                yield event
        for event in parser.parse(b""):
            yield event
    except MultipartError as error:
        if error.http_status == 413:
            detail = f"{error}: at most {most} parts, and {body.limits.part_header_bytes} bytes a header"
            raise Problem("payload-too-large", detail, headers={"Connection": "close"}, limit=most) from error
        raise malformed("", f"this is no complete multipart body: {error}") from error


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
