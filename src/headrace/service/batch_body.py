"""A whole batch in one body: its items, one after the other, read only as fast as somebody takes them.

    tar (packed or not)      members in the archive's order
    multipart                files in their order
    NDJSON, CSV              rows of a manifest: `data:` addresses carry their bytes; others are not fetched

An item is a name and the pieces of its bytes, or what is wrong with it; one bad item costs only itself.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import csv
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import BinaryIO, cast
from urllib.parse import unquote_to_bytes

from headrace.ingest.sources.member import PIECE_BYTES
from headrace.ingest.sources.source import BrokenSource, Content, Found
from headrace.ingest.sources.tar_members import read_tar
from headrace.service.limits import Body
from headrace.service.multipart_body import boundary_of, read_parts
from headrace.service.problems import Problem, problem_of
from headrace.service.request_headers import display_name

TAR_TYPES = ("application/x-tar", "application/x-gtar", "application/tar", "application/gzip", "application/x-gzip")
NDJSON_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl")
CSV_TYPES = ("text/csv",)
MULTIPART = "multipart/form-data"
BATCH_TYPES = (*TAR_TYPES, *NDJSON_TYPES, *CSV_TYPES, MULTIPART)

_TAR = b"tar"
_LOCATIONS = ("uri", "path", "file")


@dataclass(frozen=True, slots=True)
class Item:
    """One document of a batch.

    Attributes:
        name: for display only.
        pieces: its bytes, to be read before the next item; None when there is a problem.
        size_bytes: as declared; None when it is not known before they were read.
        external_id: the caller's own id.
        problem: why it cannot be taken.
    """

    name: str
    pieces: AsyncIterator[bytes] | None = None
    size_bytes: int | None = None
    external_id: str | None = None
    problem: Problem | None = None


def media_type_of(content_type: str) -> str:
    """The media type without its parameters.

    Raises:
        Problem: 415, no batch comes as this.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in BATCH_TYPES:
        detail = f"a batch is {', '.join((TAR_TYPES[0], NDJSON_TYPES[0], CSV_TYPES[0], MULTIPART))}"
        raise Problem("unsupported-media-type", detail, headers={"Accept": ", ".join(BATCH_TYPES)})
    return kind


def read_items(body: Body, content_type: str, *, item_bytes: int, threads: Executor) -> AsyncGenerator[Item, None]:
    """The items of a body.

    Args:
        body: guarded; its own limit is for all items together.
        content_type: says how to read it.
        item_bytes: the largest document.
        threads: where archives are unpacked; one thread is used for as long as a piece of the body is asked for.

    Raises:
        Problem: 415 at once; from the iteration: 400, 413, 422 when the body breaks off.
    """
    kind = media_type_of(content_type)
    if kind in TAR_TYPES:
        return _tar_items(body, item_bytes, threads)
    if kind == MULTIPART:
        return _multipart_items(body, boundary_of(content_type))
    return _rows(body, is_csv=kind in CSV_TYPES)


async def _multipart_items(body: Body, boundary: str) -> AsyncGenerator[Item, None]:
    async for part in read_parts(body, boundary, most=body.limits.batch_documents):
        if part.filename or part.name == "file":
            yield Item(part.filename, part.pieces)


# Archives


async def _tar_items(body: Body, item_bytes: int, threads: Executor) -> AsyncGenerator[Item, None]:
    loop = asyncio.get_running_loop()
    stream = _Blocking(body, loop)
    members = read_tar(cast(BinaryIO, stream), name=_TAR, limit_bytes=item_bytes, skipped=Counter())
    try:
        while True:
            try:
                found = await loop.run_in_executor(threads, _next, members)
            except BrokenSource as error:
                raise _breaks_off(stream, error) from error
            if found is None:
                return
            name = display_name(found.uri.removeprefix("tar/"))
            if found.problem is not None or found.content is None:
                yield Item(name, problem=problem_of(found.problem) if found.problem else None)
            else:
                yield Item(name, _pieces(stream, found.content, loop, threads), found.size_bytes)
    finally:
        stream.abort()
        await loop.run_in_executor(threads, _close, members)


def _close(members: Generator[Found]) -> None:
    with contextlib.suppress(ValueError):  # it is still being woken up by `abort`, and ends by itself
        members.close()


def _next(members: Generator[Found]) -> Found | None:
    return next(members, None)


async def _pieces(
    stream: _Blocking, content: Content, loop: asyncio.AbstractEventLoop, threads: Executor
) -> AsyncIterator[bytes]:
    while True:
        try:
            piece = await loop.run_in_executor(threads, content.read, PIECE_BYTES)
        except BrokenSource as error:
            raise _breaks_off(stream, error) from error
        if not piece:
            return
        yield piece


def _breaks_off(stream: _Blocking, error: BrokenSource) -> Exception:
    # What the body itself raised is the reason; the archive only saw that it ended.
    return stream.error or Problem("batch-rejected", str(error))


class _Blocking:
    """The body as a thread reads it: blocks the thread, never the loop. Goes forward, and back to its first bytes."""

    def __init__(self, body: Body, loop: asyncio.AbstractEventLoop) -> None:
        self._pieces = body.__aiter__()
        self._loop = loop
        self._buffer = bytearray()
        self._beginning: bytes | None = b""
        self._position = 0
        self._pending: Future[bytes] | None = None
        self._aborted = False
        self.error: Exception | None = None

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as were asked for, fewer only at the end."""
        if size < 0:
            raise ValueError("a stream without end is read piece by piece")
        while len(self._buffer) < size and (piece := self._more()):
            self._buffer += piece
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        self._position += len(taken)
        if self._beginning is not None:
            self._beginning = self._beginning + taken if self._position <= PIECE_BYTES else None
        return taken

    def tell(self) -> int:
        """The place in the body."""
        return self._position

    def seekable(self) -> bool:
        """Forward, and back to the beginning while it is held."""
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Goes to a place."""
        if whence == 0 and offset == 0 and self._beginning is not None:
            self._buffer[:0] = self._beginning
            self._position, self._beginning = 0, b""
        elif whence != 0 or offset < self._position:
            raise OSError("a body is read forward only")
        while self._position < offset and self.read(min(PIECE_BYTES, offset - self._position)):
            pass
        return self._position

    def abort(self) -> None:
        """Frees the thread that waits for the next piece. From the loop."""
        self._aborted = True
        if self._pending is not None:
            self._pending.cancel()

    def _more(self) -> bytes:
        if self._aborted:
            raise OSError("nobody reads this any more")
        self._pending = asyncio.run_coroutine_threadsafe(self._next_piece(), self._loop)
        if self._aborted:
            self._pending.cancel()
        try:
            return self._pending.result()
        except Exception as error:
            self.error = error
            raise OSError(str(error)) from error
        finally:
            self._pending = None

    async def _next_piece(self) -> bytes:
        return await anext(self._pieces, b"")


# Manifests


async def _rows(body: Body, *, is_csv: bool) -> AsyncGenerator[Item, None]:
    columns: dict[str, int] | None = None
    number = 0
    async for line in _lines(body):
        number += 1
        name = f"line {number}"
        if line is None:
            yield _bad(name, number, f"has more than {body.limits.manifest_line_bytes} bytes")
            continue
        text = line.decode("utf-8", "replace").strip()
        if not text:
            continue
        try:
            if not is_csv:
                yield _item(name, number, *_of_json(text))
            elif columns is None:
                columns = _header(text)
            else:
                yield _item(name, number, *_of_csv(text, columns))
        except ValueError as error:
            if is_csv and columns is None:
                raise Problem("bad-manifest-line", f"the header {error}", errors=[_at(number, str(error))]) from error
            yield _bad(name, number, str(error))


async def _lines(body: Body) -> AsyncIterator[bytes | None]:
    """The lines of a body; None for one that is too long, of which nothing is kept."""
    most, rest, too_long = body.limits.manifest_line_bytes, b"", False
    async for piece in body:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield None if too_long or len(line) > most else line
            too_long = False
        if len(rest) > most:
            too_long, rest = True, b""
    if rest or too_long:
        yield None if too_long else rest


def _of_json(text: str) -> tuple[str, str | None]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("is no JSON") from None
    if isinstance(row, str):
        return row, None
    if not isinstance(row, dict):
        raise ValueError('is neither an object like {"id": "7", "uri": "..."} nor a string')
    uri = next((row[name] for name in _LOCATIONS if row.get(name) is not None), None)
    external_id = row.get("id")
    if not isinstance(uri, str) or not uri:
        raise ValueError("has no uri that is a string")
    if isinstance(external_id, bool) or not isinstance(external_id, str | int | None):
        raise ValueError("has an id that is neither a string nor a whole number")
    return uri, None if external_id is None else display_name(str(external_id))


def _header(text: str) -> dict[str, int]:
    columns = {name.strip().lower(): n for n, name in enumerate(_fields(text.removeprefix("\ufeff")))}
    if not columns.keys() & set(_LOCATIONS):
        raise ValueError("has no column uri")
    return columns


def _of_csv(text: str, columns: dict[str, int]) -> tuple[str, str | None]:
    row = _fields(text)
    uri = next((row[columns[name]] for name in _LOCATIONS if name in columns and columns[name] < len(row)), "")
    if not uri:
        raise ValueError("has no uri")
    has_id = "id" in columns and columns["id"] < len(row)
    return uri, (display_name(row[columns["id"]]) or None) if has_id else None


def _fields(text: str) -> list[str]:
    try:
        return next(iter(csv.reader([text], strict=True)))
    except csv.Error as error:
        raise ValueError(f"is no row of CSV: {error}") from None


def _item(name: str, number: int, uri: str, external_id: str | None) -> Item:
    if uri[:5].lower() != "data:":
        problem = Problem(
            "source-url-forbidden",
            "addresses in a manifest are not fetched: send the bytes, or a data: address",
            errors=[_at(number, "this address is not fetched")],
        )
        return Item(display_name(uri), external_id=external_id, problem=problem)
    kind, comma, data = uri[5:].partition(",")
    try:
        if not comma:
            raise ValueError("has no comma")
        content = base64.b64decode(data, validate=True) if kind.endswith(";base64") else unquote_to_bytes(data)
    except (binascii.Error, ValueError):
        return _bad(name, number, "is a data: address that cannot be decoded", external_id)
    return Item(name, _one(content), len(content), external_id)


def _bad(name: str, number: int, wrong: str, external_id: str | None = None) -> Item:
    problem = Problem("bad-manifest-line", f"line {number} {wrong}", errors=[_at(number, wrong)])
    return Item(name, external_id=external_id, problem=problem)


def _at(number: int, wrong: str) -> dict[str, str]:
    return {"pointer": f"/{number - 1}", "detail": wrong}


async def _one(content: bytes) -> AsyncIterator[bytes]:
    yield content
