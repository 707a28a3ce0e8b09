"""Brings search up to the ledger: texts of new and corrected receipts, then vectors, then the file of the index.

Each step begins with what the store says is missing, so it makes no difference where the last one was killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from headrace.documents.entry import Entry
from headrace.documents.status import EntryKind
from headrace.pipeline import Batching, Failure, Success
from headrace.search.embedder import Embedder, Vector
from headrace.search.embedding import GROUP, embedding_pipeline
from headrace.search.errors import EmbedderFailed
from headrace.search.receipt_text import TEXT_VERSION, searched
from headrace.search.vector_index import TAIL_MOST, as_bytes, save_index
from headrace.storage.sql_search import SearchReceipt, Unembedded
from headrace.storage.sqlite import SqliteStore

R = TypeVar("R")
_ENTRIES = 64  # a transaction; so few, because a run or a service waits for it
_TEXTS = 256
_NOT_THE_TEXTS = 8  # one that cannot be embedded costs itself; when so many in a row cannot, it is not the texts
_SHOWN = 5


@dataclass
class Progress:
    """How far an update is. `failures` has the first few reasons.

    Attributes:
        taken_in: receipts whose text was written, new or changed.
        to_embed: receipts without a vector when embedding began.
        embedded: vectors written.
        failed: receipts that got none; the next update tries them again.
        index_written: whether the file of the index is new.
    """

    taken_in: int = 0
    to_embed: int = 0
    embedded: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    index_written: bool = False


async def update(
    workspace: Path,
    embedder: Embedder,
    *,
    batching: Batching | None = None,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Takes in what the ledger has and search has not, while a run or a service may write.

    Cancelled or killed, it leaves whole transactions: the next one goes on. Entries that are committed while it runs
    may be left to the next.

    Args:
        workspace: with a ledger in it.
        embedder: makes the vectors; is not closed.
        batching: of the embed stage; see `embedding.token_batching`.
        tell: called after each transaction.

    Raises:
        WorkspaceBusy: another process does this.
        WorkspaceMissing, StoreUnavailable, StorageFull: of the store.
        EmbedderFailed: the embedder gives no vectors at all; what was written stays.
    """
    progress = Progress()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="headrace-search") as executor:
        thread = _StoreThread(executor)
        stores = await thread.call(partial(Stores.open, workspace))
        try:
            async for page in _texts(thread, stores):
                progress.taken_in += page
                tell(progress)
            counts = await thread.call(partial(stores.reading.search_counts, embedder.name, TEXT_VERSION))
            progress.to_embed = counts.receipts - counts.embedded
            await _embed(thread, stores, workspace, embedder, batching, progress, tell)
            progress.index_written |= await thread.call(partial(save_index, stores.reading, workspace, embedder.name))
        finally:
            await asyncio.shield(thread.call(stores.close))
    return progress


async def rebuild(workspace: Path, model: str) -> bool:
    """Makes the file of the index afresh from the stored vectors; False when there are none of this model.

    Raises:
        WorkspaceBusy, WorkspaceMissing, StoreUnavailable: of the store.
    """

    def build() -> bool:
        with closing(Stores.open(workspace)) as stores:
            return save_index(stores.reading, workspace, model, afresh=True)

    return await asyncio.to_thread(build)


class Stores(NamedTuple):
    """A store to write with, and one to read with: a transaction of the first keeps a run or a service waiting."""

    writing: SqliteStore
    reading: SqliteStore

    @classmethod
    def open(cls, workspace: Path) -> Self:
        """Opens both; raises what `SqliteStore.open_beside` does."""
        writing = SqliteStore.open_beside(workspace)
        try:
            return cls(writing, SqliteStore.read(workspace))
        except BaseException:
            writing.close()
            raise

    def close(self) -> None:
        """Closes both, and gives back the lock."""
        self.reading.close()
        self.writing.close()


class _StoreThread:
    """The one thread that has the stores: source and sink of the pipeline meet there and nowhere else."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor = executor

    async def call(self, step: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._executor, step)


async def _texts(thread: _StoreThread, stores: Stores) -> AsyncIterator[int]:
    """Takes in entries, a page at a time; gives how many receipts each had."""
    for head in await thread.call(stores.reading.books):
        while (taken_in := await thread.call(partial(take_in_page, stores, head.book))) is not None:
            yield taken_in


def take_in_page(stores: Stores, book: str) -> int | None:
    """Takes in the next entries of a book; returns how many receipts those were, None when there were no entries."""
    store = stores.reading
    page = store.entries(book=book, after_sequence=store.search_cursor(book, TEXT_VERSION), limit=_ENTRIES)
    if not page:
        return None
    amended = {_place(entry) for entry in page if entry.kind in (EntryKind.CORRECTION, EntryKind.REVIEW)}
    receipts = [searched([entry]) for entry in page if _place(entry) not in amended]
    # By outcome, whichever page that was on; its amendments are all read, also those of pages to come.
    for _, entries in groupby(store.amended(sorted(amended)), key=_place):
        receipts.append(searched(list(entries)))
    found: list[SearchReceipt] = [receipt for receipt in receipts if receipt]
    stores.writing.take_in(book, found, page[-1].sequence, TEXT_VERSION)
    return len(found)


def _place(entry: Entry) -> tuple[int, int]:
    return entry.batch_id, entry.position


async def _embed(
    thread: _StoreThread,
    stores: Stores,
    workspace: Path,
    embedder: Embedder,
    batching: Batching | None,
    progress: Progress,
    tell: Callable[[Progress], None],
) -> None:
    async def source() -> AsyncIterator[Unembedded]:
        after = 0
        next_page = partial(stores.reading.unembedded, embedder.name, limit=_TEXTS)
        while page := await thread.call(partial(next_page, after_number=after)):
            for text in page:
                yield text
            after = page[-1].number

    unsaved = failed_in_a_row = 0

    async def sink(outcomes: Sequence[Success[Unembedded, Vector] | Failure[Unembedded]]) -> None:
        nonlocal unsaved, failed_in_a_row
        vectors = [(one.item, as_bytes(one.value)) for one in outcomes if isinstance(one, Success)]
        failures = [one for one in outcomes if isinstance(one, Failure)]
        kept = await thread.call(partial(stores.writing.keep_vectors, embedder.name, vectors)) if vectors else 0
        progress.embedded += kept
        progress.failed += len(failures)
        progress.failures += [one.detail for one in failures[: _SHOWN - len(progress.failures)]]
        tell(progress)
        unsaved += kept
        if unsaved >= TAIL_MOST:  # more than a search would look through one by one
            progress.index_written |= await thread.call(partial(save_index, stores.reading, workspace, embedder.name))
            unsaved = 0
        failed_in_a_row = 0 if vectors else failed_in_a_row + len(failures)
        if failed_in_a_row >= _NOT_THE_TEXTS:
            raise EmbedderFailed(
                f"{embedder.name} gives no vectors: {failures[0].detail}; the next update goes on here"
            )

    pipeline = embedding_pipeline(embedder, batching=batching)
    await pipeline.run_to(source(), sink, max_items=GROUP, linger_s=0.2)
