"""The main job on one page: names in, ledger entries out, in order.

    register ──> store ──> waiting_documents ──> stage `read`: workers, window ──> commit_group: ledger ──> output

Each arrow is bounded, and each step may die at any instant: what it had not finished is still `queued` in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from headrace.documents.advice import MEANING
from headrace.documents.document import Document
from headrace.documents.entry import Entry
from headrace.documents.errors import WORKER_LOST, DocumentError, DocumentFailure
from headrace.documents.status import DocumentState
from headrace.execution import Failure, PoolClosed, Success, WorkerPool
from headrace.execution.outcome import ATTEMPTS_EXHAUSTED, EXCEPTION
from headrace.ingest.bounds import Bounds
from headrace.ingest.daemon_threads import in_daemon_thread
from headrace.ingest.job import Job
from headrace.ingest.reading import Reading, source_kind
from headrace.ingest.settings import RunSettings
from headrace.ingest.sources.member import PIECE_BYTES, MemberContent
from headrace.ingest.sources.source import FILE
from headrace.ledger import Draft
from headrace.ocr.media import open_source
from headrace.pipeline import Pipeline, Stage
from headrace.storage.sql import BLOB
from headrace.storage.store import Store, Telemetry

READ = "read"
Outcome = Success[Document, Reading] | Failure[Document]


async def run_pipeline(job: Job) -> None:
    """Runs a batch to its end, or until `job.pool` is drained and what it finished is committed.

    Cancelled: workers are killed, nothing half-written is committed; the batch resumes.
    """
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(job.listing.register())
        tasks.create_task(read_and_commit(job))


async def read_and_commit(job: Job) -> None:
    """Documents go to the workers and come back in order, inside the window, to be committed in groups.

    Workers are started when there is a document, and have ended when this returns or is cancelled. When the pool is
    drained, what runs, and what comes before it in the order, is still committed; the rest stays queued in the store.
    """
    settings = job.settings
    with contextlib.suppress(PoolClosed):  # closed: the run was stopped before its workers were ready
        if await something_waits(job):
            async with job.pool:
                pipeline = Pipeline[Document, Reading]([reading(job)], ready=settings.commit_batch)
                run = pipeline.run(waiting_documents(job))
                job.monitor.watch(partial(run.map_statistics, READ))
                commit = partial(commit_group, job)
                await run.run_to(commit, max_items=settings.commit_batch, linger_s=settings.commit_linger_s)


async def waiting_documents(job: Job) -> AsyncIterator[Document]:
    """The batch's documents in order, read from the store a page at a time, as names are still being registered."""
    batch_id, limit, position = job.batch.batch_id, job.bounds.read_ahead, 0
    while True:
        registered = job.listing.registered
        page = await job.database.call(partial(_pending, batch_id, position, limit))
        for document in page:
            yield located(job, document)
        if page:
            position = page[-1].position
        elif job.listing.finished:
            return
        else:
            await job.listing.more_than(registered)


def located(job: Job, document: Document) -> Document:
    """The document with the path its bytes are at: a replayed one is read from the blob that was kept."""
    if document.kind != BLOB:
        return document
    return replace(document, path=os.fsencode(job.blobs.path(document.path.decode())))


def _pending(batch_id: int, after: int, limit: int, store: Store) -> list[Document]:
    return store.pending(batch_id, after, limit)


async def something_waits(job: Job) -> bool:
    """Waits for the first document to be read; False when there is none."""
    async for _ in waiting_documents(job):
        return True
    return False


def reading(job: Job) -> Stage:
    """The stage of a run; a charge is on disk before the document is read again."""

    async def charge(document: Document, failure: Failure[Document]) -> None:
        await job.database.call(lambda store: store.charge_attempt(document, charged(failure)))

    return reading_stage(job.settings, job.bounds, job.pool, charge)


def charged(failure: Failure[Document]) -> dict[str, Any]:
    """What is kept of a failed attempt: the failure, which attempt it was, and what was seen."""
    return document_failure(failure).as_dict() | {"attempt": failure.attempt, "observed": failure.detail}


def reading_stage(
    settings: RunSettings,
    bounds: Bounds,
    pool: WorkerPool[Document, Reading],
    charge: Callable[[Document, Failure[Document]], Awaitable[None]],
) -> Stage:
    """The stage that reads documents: in worker processes, each document charged for what it does to its worker."""
    return Stage(
        name=READ,
        pool=pool,
        streamed=True,
        window=bounds.window,
        byte_budget=bounds.byte_budget_bytes,
        weigh=lambda document: document.size_bytes,
        deadline_s=settings.document_timeout_s,
        ordered=settings.ordered,
        attempts=settings.attempts,
        attempts_of=lambda document: document.attempts,
        on_charge=charge,
        retriable={WORKER_LOST},
    )


async def commit_group(job: Job, group: Sequence[Outcome]) -> list[Entry]:
    """A group of outcomes becomes entries: decided, committed in one transaction, then written to the output.

    A failed commit leaves the writer where it was, and raises: that ends the run before the next group.
    """
    drafts = [draft(outcome) for outcome in group]

    def commit(store: Store) -> list[Entry]:
        failed = [d.document for d in drafts if d.state is DocumentState.FAILED]
        kept = keep_bytes(job, failed)
        first_seen = store.first_seen(job.batch.book, {digest for d in drafts for digest in d.digests})
        entries = job.writer.decide(drafts, first_seen)
        store.commit(entries, [telemetry(outcome) for outcome in group], kept=kept)
        job.writer.committed(entries)
        return entries

    entries = await job.database.call(commit)
    if job.output.may_block:
        await in_daemon_thread(partial(job.output.write, entries))
    else:
        job.output.write(entries)
    job.monitor.committed(entries, group)
    return entries


def draft(outcome: Outcome) -> Draft:
    """What the ledger decides on: the worker's reading, or what the pool saw of its end."""
    document = replace(outcome.item, kind=source_kind(outcome.item))
    if isinstance(outcome, Failure):
        failure = document_failure(outcome).as_dict()
        return Draft(document, None, 0, state=DocumentState.FAILED, failure=failure)
    reading = outcome.value
    return Draft(
        document,
        reading.sha256 or None,
        reading.size_bytes,
        reading.receipt,
        reading.state,
        reading.failure.as_dict() if reading.failure else None,
    )


def document_failure(failure: Failure[Document]) -> DocumentFailure:
    """The pool's view of a failure in the words of documents: it happened while executing, seen from outside.

    It goes into the ledger, so nothing in it may differ from run to run: one sentence for each code. What was seen
    (the signal, the memory, which attempt it was: a worker that somebody killed costs one, too) is `telemetry`.
    """
    # Attempts are used up before the first one only when --attempts was lowered since: what used them up counts.
    code = WORKER_LOST if failure.code == ATTEMPTS_EXHAUSTED else failure.code
    detail = MEANING.get(code, MEANING[EXCEPTION])
    return DocumentFailure(code, "execute", detail, None, retriable=code == WORKER_LOST)


def telemetry(outcome: Outcome) -> Telemetry:
    """What was measured; it is kept beside the entry, never inside it."""
    if isinstance(outcome, Failure):
        return Telemetry(outcome.elapsed_s, observed=(f"attempt {outcome.attempt}: {outcome.detail}",))
    reading = outcome.value
    stages_s = {stage: ms / 1000 for stage, ms in reading.durations_ms.items()}
    return Telemetry(outcome.elapsed_s, reading.pages, stages_s, reading.observed)


def keep_bytes(job: Job, failed: Sequence[Document]) -> dict[str, str]:
    """Copies the bytes of failed documents into the blobs, where there are bytes: a dead letter keeps its original.

    What is no regular file any more, or larger than a document may be, is left where it is; the reason is kept anyway.
    """
    kept = {}
    for document in failed:
        if document.kind == FILE and document.size_bytes:
            with contextlib.suppress(OSError, DocumentError), open_source(document.path) as file:
                pieces = iter(partial(file.read, PIECE_BYTES), b"")
                limit_bytes = job.settings.max_document_bytes
                content = MemberContent(pieces, uri=document.uri, limit_bytes=limit_bytes)
                kept[document.document_id] = job.blobs.put(content)[0]
    return kept
