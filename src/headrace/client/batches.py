"""Many documents into one batch: a window of them under way, verdicts in order, and nothing sent twice."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from headrace.client.answers import Batch, Document, Result
from headrace.client.errors import Problem, Rejected
from headrace.client.uploads import Prepared, Upload, in_thread, prepare

REFUSALS_SHOWN = 20
"""How many refusals a summary names."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one document of a batch.

    Attributes:
        index: its place among those that were given, from 1.
        name: what it is called.
        size_bytes: of its bytes; 0 when they could not be read.
        document_id, position: where it is; "" and 0 when it was not taken.
        known: the server had it already, and nothing was sent.
        problem: why it was not taken; None when it was.
    """

    index: int
    name: str
    size_bytes: int
    document_id: str = ""
    position: int = 0
    known: bool = False
    problem: Problem | None = None


@dataclass(slots=True)
class Submitted:
    """How sending a batch went. given = sent + known + refused.

    Attributes:
        batch: as it was closed.
        given: documents that there were.
        sent, sent_bytes: of those, what went over the line and was taken.
        known: what the server had already.
        refused: what was not taken; `refusals` has the first 20 of them.
    """

    batch: Batch
    given: int = 0
    sent: int = 0
    sent_bytes: int = 0
    known: int = 0
    refused: int = 0
    refusals: list[Verdict] = field(default_factory=list)

    def count(self, verdict: Verdict) -> None:
        """Adds one verdict."""
        self.given += 1
        if verdict.problem is not None:
            self.refused += 1
            if len(self.refusals) < REFUSALS_SHOWN:
                self.refusals.append(verdict)
        elif verdict.known:
            self.known += 1
        else:
            self.sent += 1
            self.sent_bytes += verdict.size_bytes


class Known:
    """What an interrupted batch has already: by name and bytes, in a temporary file, so that memory does not grow.

    A context manager; its end removes the file.
    """

    def __init__(self) -> None:
        # "" is SQLite's name for a file of its own that nobody else sees, and that is gone when it is closed.
        self._database = sqlite3.connect("", isolation_level=None)
        for statement in (
            "PRAGMA journal_mode=OFF",
            "PRAGMA synchronous=OFF",
            "CREATE TABLE known (name, sha256, document_id, position)",
            "CREATE INDEX known_by_bytes ON known (sha256, name)",
        ):
            self._database.execute(statement).fetchall()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    async def learn(self, results: AsyncIterator[Result]) -> None:
        """Takes down all results."""
        async for result in results:
            row = (result.name, result.sha256, result.document_id, result.position)
            self._database.execute("INSERT INTO known VALUES (?, ?, ?, ?)", row)

    def take(self, name: str, sha256: str) -> tuple[str, int] | None:
        """Id and position of a document with this name and these bytes, each once; None when there is none (left)."""
        look = "SELECT rowid, document_id, position FROM known WHERE (sha256, name) = (?, ?) ORDER BY position LIMIT 1"
        found = self._database.execute(look, (sha256, name)).fetchone()
        if found is None:
            return None
        self._database.execute("DELETE FROM known WHERE rowid = ?", found[:1])
        return str(found[1]), int(found[2])


class Sending:
    """Sends documents into an open batch.

    Args:
        send: sends one, with its idempotency key, however long that takes; raises Rejected when it is not taken.
        key: of the batch; the keys of its documents are made of it.
        window: how many may be given and not yet decided.
        in_order: send one after the other, so that their places in the batch are those in which they are given; the
            next ones are looked at meanwhile.
        known: what the batch has already; None when it is new.
        tell: is given each verdict, in the order of the documents.
    """

    def __init__(
        self,
        send: Callable[[Prepared, str], Awaitable[Document]],
        *,
        key: str,
        window: int,
        in_order: bool,
        known: Known | None,
        tell: Callable[[Verdict], None],
    ) -> None:
        self._send = send
        self._key = key
        self._window = window
        self._turn = asyncio.Semaphore(1 if in_order else window)  # first come, first served
        self._known = known
        self._tell = tell

    async def run(self, uploads: Iterable[Upload] | AsyncIterable[Upload]) -> None:
        """Sends all. When it is cancelled or fails, nothing is under way any more; the batch stays open.

        Raises:
            ClientError: what stops more than one document: no server, no permission, a batch that is closed.
        """
        under_way: deque[asyncio.Task[Verdict]] = deque()
        index = 0
        try:
            async with aclosing(_each(uploads)) as given:
                async for upload in given:
                    index += 1
                    while len(under_way) >= self._window or (under_way and under_way[0].done()):
                        self._tell(await under_way[0])
                        under_way.popleft()
                    under_way.append(await self._begin(index, upload))
            while under_way:
                self._tell(await under_way[0])
                under_way.popleft()
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def _begin(self, index: int, upload: Upload) -> asyncio.Task[Verdict]:
        try:
            prepared = await prepare(upload)
        except OSError as error:
            return _decided(Verdict(index, upload.shown_name, 0, problem=_unreadable(error)))
        if self._known is not None:
            place = self._known.take(prepared.name, prepared.sha256)
            if place is not None:
                return _decided(Verdict(index, prepared.name, prepared.size_bytes, *place, known=True))
        return asyncio.create_task(self._one(index, prepared))

    async def _one(self, index: int, prepared: Prepared) -> Verdict:
        try:
            async with self._turn:
                document = await self._send(prepared, document_key(self._key, prepared))
        except Rejected as error:
            return Verdict(index, prepared.name, prepared.size_bytes, problem=error.problem)
        except OSError as error:
            return Verdict(index, prepared.name, prepared.size_bytes, problem=_unreadable(error))
        return Verdict(index, prepared.name, prepared.size_bytes, document.document_id, document.position)


def document_key(batch_key: str, prepared: Prepared) -> str:
    """The idempotency key of a document of a batch: the same batch, name and bytes always give the same."""
    told = "\0".join((batch_key, prepared.upload.external_id or "", prepared.name, prepared.sha256))
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def _decided(verdict: Verdict) -> asyncio.Task[Verdict]:
    async def decided() -> Verdict:
        return verdict

    return asyncio.create_task(decided())


def _unreadable(error: OSError) -> Problem:
    return Problem(0, "unreadable-source", "It cannot be read here", error.strerror or str(error))


async def _each(uploads: Iterable[Upload] | AsyncIterable[Upload]) -> AsyncGenerator[Upload, None]:
    """The uploads; what comes from an ordinary iterator, say a folder, is fetched in a thread."""
    if isinstance(uploads, AsyncIterable):
        async for upload in uploads:
            yield upload
        return
    if isinstance(uploads, Sequence):
        for upload in uploads:
            yield upload
        return
    iterator = iter(uploads)
    while (upload_or_end := await in_thread(lambda: next(iterator, None))) is not None:
        yield upload_or_end
