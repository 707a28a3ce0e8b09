"""Opens everything a run needs, runs it, and closes it again: signals, resume, output, summary."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import hashlib
import json
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from headrace.documents.document import Document
from headrace.execution import WorkerPool, WorkerStartFailed
from headrace.ingest.bounds import Bounds
from headrace.ingest.catch_up import Stand, catch_up, stands_at
from headrace.ingest.confirmed import confirmed_merchants
from headrace.ingest.database import DatabaseThread
from headrace.ingest.job import Job
from headrace.ingest.listing import Listing
from headrace.ingest.monitor import Monitor
from headrace.ingest.output import JsonLines, OutputError
from headrace.ingest.pipeline import run_pipeline
from headrace.ingest.reading import ReadDocuments, Reading
from headrace.ingest.settings import RunSettings
from headrace.ingest.snapshot import Phase, RunSummary, Snapshot, together
from headrace.ingest.sources import Source, SourceError
from headrace.ingest.summarise import summarise
from headrace.ingest.worker_starts import WorkersUnavailable
from headrace.ledger import BookWriter, Policy
from headrace.ocr.registry import available_engines, thread_environment
from headrace.storage.blobs import Blobs
from headrace.storage.errors import StorageFull, StoreError
from headrace.storage.sqlite import CACHE_BYTES, SqliteStore
from headrace.storage.store import REPLAY_KEY, Batch, Store

_PAGE = 256
_LAST_WRITES_S = 5.0


@dataclass(frozen=True, slots=True)
class Run:
    """What is asked for.

    Attributes:
        settings, bounds: how.
        sources: what, in order.
        output: a path, or `-` for standard output.
        overwrite: start the output file afresh.
        resume: go on with an unfinished batch of the same sources, and leave out what a finished one has done.
        replay: instead of sources, run the batches of replayed dead letters that wait, oldest first.
        library_warnings: let libraries in the workers print their warnings to standard error.
    """

    settings: RunSettings
    bounds: Bounds
    sources: Sequence[Source]
    output: str = "-"
    overwrite: bool = False
    resume: bool = True
    replay: bool = False
    library_warnings: bool = False


class WorkspaceUnusable(Exception):
    """The workspace cannot be made, or not be written."""

    exit_code: ClassVar[int] = 5


class EngineMissing(Exception):
    """The engine needs something that this installation does not have."""

    exit_code: ClassVar[int] = 6


class NothingToReplay(SourceError):
    """No dead letter was registered to be run again."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: its summary, and why it ended early, if it did.

    Attributes:
        summary: what was done, in numbers.
        error: a source broke off, or storage is full; what came before it is in the ledger.
        signal: the signal that stopped it.
    """

    summary: RunSummary
    error: Exception | None = None
    signal: signal.Signals | None = None

    @property
    def stopped(self) -> bool:
        """Whether something is left to do that only another command will do."""
        return self.error is not None or self.summary.interrupted


async def run_batch(run: Run, on_snapshot: Callable[[Snapshot], None] | None = None) -> Ended:
    """Runs a batch to its end, or until a signal; every document it accepted has one entry, or waits in the store.

    Raises:
        EngineMissing, WorkspaceBusy, WorkspaceUnusable, OutputError, PolicyError, MerchantsFileError, SourceError:
            before any work starts.
        WorkersUnavailable: no worker could be started, or they died again and again before they did anything.
        BrokenPipeError: whoever read standard output has gone; the ledger has all that was read by then.
    """
    settings = run.settings
    require_engine(settings.engine)
    policy = Policy.load(settings.policy) if settings.policy else Policy()
    output = JsonLines(run.output, overwrite=run.overwrite)
    database = DatabaseThread(open_workspace(settings.workspace))
    try:
        ended = await _run_one(run, policy, output, database, on_snapshot)
        while run.replay and not ended.stopped and await database.call(lambda store: bool(replays(store))):
            next_ended = await _run_one(run, policy, output, database, on_snapshot)
            ended = replace(next_ended, summary=together(ended.summary, next_ended.summary))
        return ended
    finally:
        await asyncio.to_thread(database.close)
        output.close()


async def _run_one(
    run: Run,
    policy: Policy,
    output: JsonLines,
    database: DatabaseThread,
    on_snapshot: Callable[[Snapshot], None] | None,
) -> Ended:
    settings, bounds = run.settings, run.bounds
    blobs = Blobs(settings.workspace / "blobs", limit_bytes=settings.blob_bytes)
    batch, again, stand = await database.call(partial(open_batch, run, output))
    await catch_up(output, batch, stand, database)
    before = await database.call(lambda store: store.accounts(batch.batch_id))
    samples = await database.call(lambda store: store.samples(batch.batch_id))
    head = await database.call(lambda store: store.head(batch.book))
    today = dt.date.fromisoformat(batch.today)
    job = Job(
        settings=settings,
        bounds=bounds,
        batch=batch,
        database=database,
        blobs=blobs,
        listing=Listing(database, batch, run.sources, blobs, read_ahead=bounds.read_ahead, skip_done=again),
        pool=worker_pool(settings, bounds, today, library_warnings=run.library_warnings),
        writer=BookWriter(batch.book, head, policy, today),
        output=output,
        monitor=Monitor(batch, bounds, before, on_snapshot, samples[-1].at_s if samples else 0.0),
    )
    stopped, error = await _until_end_or_signal(job)
    summary = await database.call(partial(summarise, job, before.done))
    return Ended(summary, error, stopped if summary.interrupted else None)


def require_engine(name: str) -> None:
    """Looks whether an engine can be made here, before workers die of it.

    Raises:
        EngineMissing: says what to install.
    """
    for status in available_engines():
        if status.name == name and not status.available:
            raise EngineMissing(f"the engine {name} is not available: {status.detail}")


def open_workspace(workspace: Path, cache_bytes: int = CACHE_BYTES) -> SqliteStore:
    """The store of a workspace, to write, with so much of a page cache.

    Raises:
        WorkspaceUnusable: the folder cannot be made or written, or the disk is full.
        StoreError: see `SqliteStore.open`.
    """
    try:
        return SqliteStore.open(workspace, cache_bytes=cache_bytes)
    except OSError as error:  # a full disk is one
        raise WorkspaceUnusable(f"the workspace {workspace} cannot be used: {error.strerror}") from error


def worker_pool(
    settings: RunSettings, bounds: Bounds, today: dt.date, *, library_warnings: bool = False
) -> WorkerPool[Document, Reading]:
    """The workers: engine and limits go in, threads inside libraries are switched off before those are loaded.

    Raises:
        MerchantsFileError: before any worker is started.
    """
    merchants = confirmed_merchants(settings.merchants) if settings.merchants else ()
    limits = {
        "max_pixels": settings.max_pixels,
        "max_bytes": bounds.page_bytes or None,  # an engine that decodes nothing counts with nothing
        "max_pages": settings.max_pages,
        "page_timeout_s": bounds.page_timeout_s,
        # A little before the kill, so that the pages which are read by then are kept.
        "document_timeout_s": settings.document_timeout_s * 0.9,
    }
    return WorkerPool(
        ReadDocuments(settings.engine, limits, settings.max_document_bytes, today, merchants),
        workers=bounds.workers,
        environment=thread_environment() | ({} if library_warnings else {"PYTHONWARNINGS": "ignore"}),
        memory_limit_bytes=bounds.worker_ceiling_bytes,
        recycle_rss_bytes=bounds.worker_recycle_rss_bytes,
        recycle_after=bounds.worker_recycle_after,
    )


def open_batch(run: Run, output: JsonLines, store: Store) -> tuple[Batch, bool, Stand]:
    """The batch to work on, whether it runs a finished one again, and where the output stands.

    When it does, what is done and unchanged is left out. The output is looked at first: one that is refused leaves no
    batch behind.

    Raises:
        NothingToReplay: no replayed dead letter waits.
        OutputError: the output is not ours, or stands at an entry of another ledger or of other sources.
    """
    if run.replay:
        if not (waiting := replays(store)):
            raise NothingToReplay("nothing to replay: name dead letters first, with headrace dead replay")
        return waiting[0], False, stands_at(output, waiting[0].key, store)
    key = batch_key(run.settings.book, run.sources)
    stand = stands_at(output, key, store)
    last = store.find_batch(key) if run.resume else None
    if last is not None and last.state != "finished":
        return last, bool(json.loads(last.settings_json).get("again")), stand
    again = last is not None
    # The day of the person who runs it, by the clock on the wall: receipts are dated by such clocks, too.
    today = dt.date.today().isoformat()  # noqa: DTZ011
    told = {
        "engine": run.settings.engine,
        "sources": [source.key for source in run.sources][:_PAGE],
        "again": again,
        "bounds": {
            "workers": run.bounds.workers,
            "window": run.bounds.window,
            "byte_budget_bytes": run.bounds.byte_budget_bytes,
            "tree_ceiling_bytes": run.bounds.tree_ceiling_bytes,
        },
    }
    return store.open_batch(run.settings.book, key, today, json.dumps(told)), again, stand


def replays(store: Store) -> list[Batch]:
    """The batches of replayed dead letters that wait or were interrupted, oldest first."""
    return store.batches(unfinished=True, key_starts=REPLAY_KEY)


def batch_key(book: str, sources: Sequence[Source]) -> str:
    """The same sources in the same order, for the same book, are the same work."""
    return hashlib.sha256("\n".join([book, *(source.key for source in sources)]).encode()).hexdigest()


async def _until_end_or_signal(job: Job) -> tuple[signal.Signals | None, Exception | None]:
    """Runs the pipeline. The first signal drains it by the deadline, the second ends it now.

    Shutdown in three steps: close (no more names, no more documents), drain (what runs is finished and committed),
    abandon (at the deadline workers are killed; their documents stay queued).

    Returns:
        The signal that stopped it, and why it ended early: what a person can mend, such as a full disk. Anything else
        is raised.
    """
    work = asyncio.create_task(run_pipeline(job), name="pipeline")
    watch = asyncio.create_task(job.monitor.run(job.pool, job.listing, job.database), name="monitor")
    received: list[signal.Signals] = []
    drains: set[asyncio.Task[None]] = set()
    abandoned = False
    error: Exception | None = None

    def on_signal(number: signal.Signals) -> None:
        received.append(number)
        if len(received) == 1:
            stop()
        else:
            abandon()

    def stop() -> None:
        job.listing.stop()
        job.monitor.phase = Phase.DRAINING
        drains.add(asyncio.create_task(drain()))

    async def drain() -> None:
        await job.pool.drain(job.settings.drain_deadline_s)
        # What is finished is being committed and written: only a reader who does not read can hold that up.
        await asyncio.wait({work}, timeout=_LAST_WRITES_S)
        abandon()

    def abandon() -> None:
        nonlocal abandoned
        abandoned = abandoned or not work.done()
        work.cancel()

    if job.settings.fail_fast:
        job.monitor.on_failure = stop
    with _signals(on_signal):
        try:
            await work
        except asyncio.CancelledError:
            if not abandoned:
                raise
        except ExceptionGroup as group:
            first = first_error(group)
            assert isinstance(first, Exception)  # as all of an ExceptionGroup are
            error = first
            if isinstance(error, WorkerStartFailed) and not error.raised:  # what a factory raises is a bug of ours
                raise WorkersUnavailable.because(error) from group
            if not isinstance(error, StorageFull | StoreError | OutputError):
                raise error from group
        finally:
            watch.cancel()
            await asyncio.gather(watch, *drains, return_exceptions=True)
    # Stopped at its very end, it is complete all the same: then nobody has to give the command again.
    job.monitor.phase = Phase.DRAINING if abandoned or (drains and not await _complete(job)) else Phase.DONE
    job.monitor.snapshot(job.pool, job.listing)
    return (received[0] if received else None), error or job.listing.error


async def _complete(job: Job) -> bool:
    """Whether every document of the sources has its entry."""
    batch_id = job.batch.batch_id
    return await job.database.call(
        lambda store: store.batch(batch_id).listed and not store.accounts(batch_id).in_flight
    )


def first_error(error: BaseException) -> BaseException:
    """What went wrong first; the rest of a group was ended by it."""
    return first_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


@contextlib.contextmanager
def _signals(on_signal: Callable[[signal.Signals], None]) -> Iterator[None]:
    loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
