"""The main job on one page: names in, ledger entries out, in order.

    register ──> store ──> waiting_documents ──> workers ──> window ──> channel ──> write_ledger ──> output

Each arrow is bounded, and each step may die at any instant: what it had not finished is still `queued` in the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial

from headrace.documents.advice import MEANING
from headrace.documents.document import Document
from headrace.documents.entry import Entry
from headrace.documents.errors import WORKER_LOST, DocumentFailure
from headrace.documents.status import DocumentState
from headrace.execution import Failure, PoolClosed, Success
from headrace.execution.outcome import ATTEMPTS_EXHAUSTED, EXCEPTION
from headrace.flow import Ended, Receiver, Sender, channel
from headrace.ingest.daemon_threads import in_daemon_thread
from headrace.ingest.job import Job
from headrace.ingest.reading import Reading, source_kind
from headrace.ingest.sources.source import FILE
from headrace.ledger import Draft
from headrace.storage.sql import BLOB
from headrace.storage.store import Store, Telemetry

Outcome = Success[Document, Reading] | Failure[Document]


async def run_pipeline(job: Job) -> None:
    """Runs a batch to its end, or until `job.stop` is set and what runs has been drained.

    Cancelled: workers are killed, nothing half-written is committed; the batch resumes.
    """
    outcomes: tuple[Sender[Outcome], Receiver[Outcome]] = channel(job.settings.commit_batch)
    sender, receiver = outcomes
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(job.listing.register())
        tasks.create_task(recognise(job, sender))
        tasks.create_task(write_ledger(job, receiver))


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


async def recognise(job: Job, outcomes: Sender[Outcome]) -> None:
    """Documents go to the workers and come back in order, inside the window; failures take their place.

    Workers are started when there is a document, and have ended when this returns or is cancelled.
    """
    with outcomes, contextlib.suppress(PoolClosed):  # closed: the run was stopped before its workers were ready
        if await something_waits(job):
            async with job.pool:
                await read_documents(job, outcomes)


async def something_waits(job: Job) -> bool:
    """Waits for the first document to be read; False when there is none."""
    async for _ in waiting_documents(job):
        return True
    return False


async def read_documents(job: Job, outcomes: Sender[Outcome]) -> None:
    """The documents through the workers, one outcome each."""

    async def charge(document: Document, failure: Failure[Document]) -> None:
        told = document_failure(failure).as_dict() | {"attempt": failure.attempt, "observed": failure.detail}
        await job.database.call(lambda store: store.charge_attempt(document, told))

    results = job.pool.map(
        waiting_documents(job),
        window=job.bounds.window,
        byte_budget=job.bounds.byte_budget_bytes,
        weigh=lambda document: document.size_bytes,
        deadline_s=job.settings.document_timeout_s,
        ordered=job.settings.ordered,
        attempts=job.settings.attempts,
        attempts_of=lambda document: document.attempts,
        on_charge=charge,
        retriable={WORKER_LOST},
    )
    job.monitor.watch(results)
    async for outcome in results:
        await outcomes.send(outcome)


async def write_ledger(job: Job, outcomes: Receiver[Outcome]) -> None:
    """Groups of outcomes become entries: decided, committed in one transaction, then written to the output."""
    with outcomes:
        while True:
            try:
                group = await outcomes.recv_many(job.settings.commit_batch, linger_s=job.settings.commit_linger_s)
            except Ended:
                return
            await commit_group(job, group)


async def commit_group(job: Job, group: Sequence[Outcome]) -> list[Entry]:
    """One transaction of the ledger. A failed commit leaves the writer where it was, and raises."""
    drafts = [draft(outcome) for outcome in group]

    def commit(store: Store) -> list[Entry]:
        failed = [d.document for d in drafts if d.state is DocumentState.FAILED]
        kept = keep_bytes(job, failed)
        first_seen = store.first_seen(job.batch.book, {d.sha256 for d in drafts if d.sha256})
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
    """Copies the bytes of failed documents into the blobs, where there are bytes: a dead letter keeps its original."""
    kept = {}
    for document in failed:
        if document.kind == FILE and document.size_bytes:
            with contextlib.suppress(OSError):  # it is gone, unreadable, or there is no room: the reason is kept anyway
                kept[document.document_id] = job.blobs.put(document.path)[0]
    return kept
