"""Names of documents go from the sources into the store: lazily, in order, resumable after any crash.

An ordered source (manifest, archive, standard input) is registered as it is read. What is in the store already is read
again and compared, name by name, before anything new is added: a list that changed since is not silently mixed in. An
unordered one (folder, glob) is staged in the store, sorted there on disk, and settled in one transaction.

A batch that runs a finished one again stages every source, so that the store can leave out what is done and unchanged;
there, a list on standard input is read to its end before its first document is.

Sources block: a file system hangs, nobody writes to a pipe. So they are iterated in a thread of their own, which is
left behind when it does not hear that the listing was stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from headrace.documents.document import document_id
from headrace.documents.errors import DocumentError
from headrace.flow import Closed, Ended, Receiver, Sender, channel
from headrace.ingest.accept import spool
from headrace.ingest.daemon_threads import in_daemon_thread
from headrace.ingest.database import DatabaseThread
from headrace.ingest.reading import UNREADABLE, unreadable
from headrace.ingest.sources import Found, Source, SourceError
from headrace.storage.blobs import Blobs
from headrace.storage.errors import StorageFull
from headrace.storage.store import Batch, Registration, Store

_LINGER_S = 0.05
_HEARS_STOP_S = 0.5
"""A thread that iterates a source looks between two names; one that takes longer than this is blocked."""


class SourceChanged(SourceError):
    """A list is not what it was when its batch was started."""


class Listing:
    """Registers the names of one batch and says how far it got.

    Attributes:
        registered: documents of the batch in the store.
        finished: no more will come in this run; `error` says whether all of them came.
        known: names left out, since an earlier batch of the same sources has them, unchanged.
        error: why the listing ended early; the documents before it are good.
    """

    def __init__(
        self,
        database: DatabaseThread,
        batch: Batch,
        sources: Sequence[Source],
        blobs: Blobs,
        *,
        read_ahead: int,
        skip_done: bool = False,
    ) -> None:
        """Prepares a listing.

        Args:
            database: where names go.
            batch: which batch they belong to.
            sources: in order.
            blobs: where the bytes of archive members go before the member is registered.
            read_ahead: names read and not yet registered, and names in one transaction, at most.
            skip_done: leave out what an earlier batch with the same key has finished and is unchanged.
        """
        self.registered = 0
        self.finished = False
        self.known = 0
        self.error: SourceError | StorageFull | None = None
        self._database = database
        self._batch = batch
        self._sources = sources
        self._blobs = blobs
        self._read_ahead = read_ahead
        self._skip_done = skip_done
        self._changed = asyncio.Event()
        self._stop = threading.Event()
        self._stopped = asyncio.Event()
        self._names: Receiver[Registration] | None = None

    async def more_than(self, registered: int) -> None:
        """Waits until more documents are registered, or the listing is over. Cancelled: nothing changes."""
        while self.registered <= registered and not self.finished:
            self._changed.clear()
            await self._changed.wait()

    def stop(self) -> None:
        """Takes no more names; what is registered stays registered."""
        self._stop.set()
        self._stopped.set()
        if self._names is not None:
            self._names.close()  # who waits for the next name sees the end of them
        self.finished = True
        self._changed.set()

    async def register(self) -> None:
        """Lists the sources one after another. A source that breaks off ends the listing; its documents go on."""
        batch_id = self._batch.batch_id
        settled = await self._database.call(lambda store: store.listed(batch_id))
        accounts = await self._database.call(lambda store: store.accounts(batch_id))
        self._advance(accounts.accepted)
        try:
            start = 1
            for index, source in enumerate(self._sources):
                if self._stop.is_set():
                    break
                end = settled[index].last + 1 if index in settled else None
                if end is None or source.key.startswith("stdin"):
                    await self._list(index, source, start, end)
                start = end or self.registered + 1
            if not self._stop.is_set():
                await self._database.call(lambda store: store.finish_listing(batch_id))
        except (SourceError, StorageFull) as error:
            self.error = error
        finally:
            self.finished = True
            self._changed.set()

    async def _list(self, index: int, source: Source, start: int, end: int | None) -> None:
        """Registers one source. Its documents begin at position `start`; `end` is one past them when it is settled."""
        if not source.ordered or self._skip_done:
            # Staging has a file of its own beside the database, so it does not get into the way of its thread.
            store = await self._database.call(lambda store: store)
            await self._unless_stopped(in_daemon_thread(partial(self._stage, source, index, store)))
        else:
            await self._register_in_order(source, start, end)
        if end is None and not self._stop.is_set():
            key = self._batch.key if self._skip_done else None
            places = await self._database.call(
                lambda store: store.settle_listing(self._batch.batch_id, index, skip_done_of_key=key)
            )
            self.known += places.skipped
            self._advance(max(self.registered, places.last))

    def _stage(self, source: Source, index: int, store: Store) -> None:
        """Hands all names to the store, which sorts them; an ordered source keeps its order by counting."""

        def rows() -> Iterator[tuple[bytes, Registration]]:
            for number, found in enumerate(source):
                if self._stop.is_set():
                    return
                yield found.sort_key or number.to_bytes(8, "big"), self._registration(found)

        store.stage_listing(self._batch.batch_id, index, rows())

    async def _register_in_order(self, source: Source, start: int, end: int | None) -> None:
        known_to = end or self.registered + 1
        ends: tuple[Sender[Registration], Receiver[Registration]] = channel(self._read_ahead)
        sender, receiver = ends
        reading = in_daemon_thread(partial(self._read_names, sender, source, known_to - start))
        position, self._names = start, receiver
        with receiver:
            while names := await _next(receiver, self._read_ahead):
                known, new = names[: max(0, known_to - position)], names[max(0, known_to - position) :]
                await self._database.call(partial(self._compare, known, position))
                if new and end is not None:
                    raise SourceChanged(f"{source.key} has more names than when {self._started()}")
                if new:
                    await self._database.call(partial(_register, self._batch.batch_id, new))
                    self._advance(position + len(names) - 1)
                position += len(names)
        await self._unless_stopped(reading)
        if position < known_to and not self._stop.is_set():
            raise SourceChanged(f"{source.key} has fewer names than when {self._started()}")

    async def _unless_stopped(self, work: asyncio.Future[None]) -> None:
        """Waits for a thread and raises what it raised; one that blocks when the listing is stopped is left behind."""
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            either: set[asyncio.Future[Any]] = {work, stopped}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({work}, timeout=_HEARS_STOP_S)
        finally:
            stopped.cancel()
        if work.done():
            work.result()

    def _read_names(self, sender: Sender[Registration], source: Source, known: int) -> None:
        """Runs in its own thread, since file systems and pipes block. Bytes of known members are not stored again."""
        with sender, contextlib.suppress(Closed):  # closed from the other end: the names are not wanted any more
            for number, found in enumerate(source):
                if self._stop.is_set():
                    return
                sender.send_blocking(self._registration(found, store_bytes=number >= known))

    def _registration(self, found: Found, *, store_bytes: bool = True) -> Registration:
        problem, path, size_bytes, mtime_ns = found.problem, found.path or b"", found.size_bytes, found.mtime_ns
        if found.content is not None and problem is None and store_bytes:
            try:
                path, sha256, size_bytes = spool(found, self._blobs)
                mtime_ns = _version(bytes.fromhex(sha256))
            except DocumentError as error:
                problem = error
        # What has a path is looked at again when its turn comes, and when it is replayed: it may be there by then.
        if problem is not None and found.path is None:
            path = unreadable(problem, found.kind)
            version = _version(hashlib.sha256(path).digest())
            return Registration(found.uri, path, UNREADABLE, 0, version, found.external_id)
        return Registration(found.uri, path, found.kind, size_bytes, mtime_ns, found.external_id)

    def _compare(self, names: Sequence[Registration], position: int, store: Store) -> None:
        for place, name in enumerate(names, position):
            record = store.document(document_id(self._batch.book, self._batch.batch_id, place))
            if record is None or record.document.uri != name.uri:
                was = record.document.uri if record else "nothing"
                raise SourceChanged(f"name {place} is now {name.uri} and was {was} when {self._started()}")

    def _started(self) -> str:
        return (
            f"batch {self._batch.batch_id} was started; give the same list to resume it, or --no-resume for a new batch"
        )

    def _advance(self, registered: int) -> None:
        self.registered = registered
        self._changed.set()


def _version(digest: bytes) -> int:
    """What stands for the age of something that has none, or whose age says little: the same for the same bytes."""
    return int.from_bytes(digest[:8], "big") >> 1


async def _next(receiver: Receiver[Registration], at_most: int) -> list[Registration]:
    try:
        return await receiver.recv_many(at_most, linger_s=_LINGER_S)
    except Ended:
        return []


def _register(batch_id: int, names: Sequence[Registration], store: Store) -> None:
    store.register(batch_id, names)
