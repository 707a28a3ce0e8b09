"""Sources as uploads: in their order, lazily, and with no list of all of them in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from headrace.client import Upload
from headrace.documents.errors import DocumentError
from headrace.ingest.daemon_threads import in_daemon_thread
from headrace.ingest.sources import Content, Found, Source, SourceError
from headrace.ingest.sources.source import ARCHIVE_MEMBER, found_file
from headrace.storage.staging import Staging
from headrace.storage.store import Registration

T = TypeVar("T")

_SMALL_BYTES = 1 << 18


class Uploads:
    """The documents of some sources. A context manager: its end removes what it had put aside on disk.

    Folders come unordered, and are sorted on disk. Members of archives can only be read before the next one is, so
    larger ones wait on disk until they were sent. Iterated by one thread at a time.

    Args:
        sources: in order.
        refuse: is given the name of a document that cannot be read at all, and why. It costs only itself.

    Attributes:
        broken: a source that broke off; the documents before it are good.
    """

    def __init__(self, sources: Sequence[Source], refuse: Callable[[str, str], None]) -> None:
        self._sources = sources
        self._refuse = refuse
        self._folder: Path | None = None
        self._given = 0
        self._waiting: dict[int, str] = {}  # bounded by the window of the client
        self.broken: SourceError | None = None

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-submit-"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._folder or "", ignore_errors=True)

    def __iter__(self) -> Iterator[Upload]:
        for source in self._sources:
            try:
                for found in source if source.ordered else self._sorted(source):
                    upload = self._upload(found)
                    if upload is not None:
                        self._given += 1
                        yield upload
            except SourceError as error:
                self.broken = error

    async def __aiter__(self) -> AsyncGenerator[Upload, None]:
        """The same for the loop. Whoever stops waiting leaves a thread behind that nobody waits for: pipes block."""
        iterator = iter(self)
        while (upload := await found_in_daemon_thread(lambda: next(iterator, None))) is not None:
            yield upload

    def release(self, index: int) -> None:
        """Document number `index`, from 1, was sent, or will not be."""
        if (path := self._waiting.pop(index, None)) is not None:
            os.unlink(path)

    def _upload(self, found: Found) -> Upload | None:
        problem = found.problem
        content: bytes | str = b""
        if found.content is not None and problem is None:
            try:
                content = self._unpacked(found.content)
            except DocumentError as error:
                problem = error
        elif found.path is not None:
            content = os.fsdecode(found.path)
        if problem is not None:
            self._refuse(found.uri, f"{problem.code}: {problem.detail}")
            return None
        return Upload(content, found.uri, found.external_id)

    def _sorted(self, source: Source) -> Iterator[Found]:
        assert self._folder is not None
        rows = ((f.sort_key or b"", Registration(f.uri, f.path or b"", f.kind, f.size_bytes)) for f in source)
        with Staging(self._folder / "names") as staging:
            staging.add_names(rows)
            for uri, path, *_ in staging.names():
                yield found_file(uri, path)

    def _unpacked(self, content: Content) -> bytes | str:
        first = b""
        while len(first) < _SMALL_BYTES and (piece := content.read(_SMALL_BYTES - len(first))):
            first += piece
        if len(first) < _SMALL_BYTES:
            return first
        assert self._folder is not None
        path = str(self._folder / str(self._given + 1))
        with open(path, "wb") as file:
            self._waiting[self._given + 1] = path
            file.write(first)
            while piece := content.read(_SMALL_BYTES):
                file.write(piece)
        return path


async def found_in_daemon_thread(look: Callable[[], T]) -> T:
    """What `look` gives, from a thread that is left behind when this is cancelled."""
    found: list[T] = []
    await in_daemon_thread(lambda: found.append(look()))
    return found[0]


def count_documents(sources: Sequence[Source], stopping: Callable[[], bool]) -> int | None:
    """How many there are, by a walk of its own; None when they cannot be counted, or would have to be unpacked."""
    total = 0
    try:
        for source in sources:
            for found in source:
                if stopping() or found.kind == ARCHIVE_MEMBER:
                    return None
                total += 1
    except SourceError:
        return None
    return total
