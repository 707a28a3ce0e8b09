"""From the line to the workers and into the ledger: the same pipeline as `run`, fed without end.

    line ──lease (durable)──> stage `read` ──> line.ready ──> decided and committed ──> permit ended, waiters woken

A lease is on disk before a document is begun, so that a restart knows what was worked on. Its fence rises each time:
who comes with an older one writes nothing. Entry, state, event and the end of the lease are one transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import itertools
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.documents.document import Document
from headrace.documents.entry import Entry
from headrace.documents.status import DocumentState, EntryKind
from headrace.execution import Failure, PoolClosed, WorkerPool
from headrace.execution.process import End
from headrace.flow import Closed, Permit
from headrace.ingest.bounds import Bounds
from headrace.ingest.pipeline import READ, Outcome, charged, draft, reading_stage, telemetry
from headrace.ingest.reading import Reading
from headrace.ingest.settings import RunSettings
from headrace.ledger import BookWriter, Draft, Policy
from headrace.pipeline import Pipeline, Run
from headrace.service.ends import CANCELLED, cancelled, digest_of, draft_of, lost
from headrace.service.group_commit import GroupCommit
from headrace.service.line import Held, Line, Stand
from headrace.service.progress import Underway
from headrace.service.tallies import Tallies
from headrace.storage.blobs import Blobs
from headrace.storage.errors import LeaseLost, StorageFull, StoreUnavailable
from headrace.storage.sql_service import Waits
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import Telemetry

RESTARTS_AT_MOST = 5
"""A document that was worked on when the service ended so often is not begun again: it may be what ends it."""

AHEAD_S = 0.25
"""How much work the pool has in hand beyond what runs: the class order is decided no earlier than this."""

_AGAIN_S = 0.25  # after a full disk
_OUTAGES = (StorageFull, StoreUnavailable)


@dataclass(frozen=True, slots=True)
class Committed:
    """What became of a group: its entries, in the order of the group, and the batches that are finished with it."""

    entries: list[Entry]
    finished: list[int]


def look_ahead(bounds: Bounds) -> int:
    """How many documents the pool may have: two for each worker, or a quarter of a second of work."""
    return max(2 * bounds.workers, min(bounds.window, int(bounds.documents_per_s * AHEAD_S)))


class Dispatcher:
    """Feeds the workers and commits what they find. Belongs to one event loop.

    Args:
        store: used in the database thread only, by what is given to `commits`.
        commits: the database thread.
        pool: open while `run` runs.
        line: who waits.
        place: sees to it that the bytes with a digest are at their path.
        on_committed: told of each group, in the loop.
        underway: told how far the documents are that are read.

    Attributes:
        tallies: what was measured of what is committed.
        outcomes: entries committed since the start, by state; duplicates by that name.
        problem: why nothing is committed now; "" when it goes on.
    """

    def __init__(
        self,
        settings: RunSettings,
        bounds: Bounds,
        policy: Policy,
        *,
        store: SqliteStore,
        commits: GroupCommit,
        blobs: Blobs,
        pool: WorkerPool[Document, Reading],
        line: Line,
        place: Callable[[str], Awaitable[None]],
        on_committed: Callable[[Committed], None],
        underway: Underway,
    ) -> None:
        self._settings = settings
        self._bounds = bounds
        self._policy = policy
        self._store = store
        self._commits = commits
        self._blobs = blobs
        self._pool = pool
        self._line = line
        self._place = place
        self._on_committed = on_committed
        self._underway = underway
        self.tallies = Tallies()
        self._ahead = look_ahead(bounds)
        self._run: Run[Document, Reading] | None = None
        self._more = asyncio.Event()
        self._ready = asyncio.Event()
        self._room = asyncio.Event()
        self._no_more_outcomes = False
        self._stopping = False
        self._keeping: set[asyncio.Task[None]] = set()  # bounded by the permits
        self.killed = 0
        self.outcomes: Counter[str] = Counter()
        self.problem = ""

    # Coming in

    def add(self, waits: Waits, permit: Permit, waited_s: float = 0.0) -> None:
        """One that was accepted, now or before a restart. Its permit ends with its entry."""
        held = self._line.add(waits, permit, waited_s)
        if held.cancelled_by is not None:
            self._keep(held)
            self._settle(held, cancelled(held), Telemetry())
        elif waits.restarts > RESTARTS_AT_MOST:
            detail = f"the service ended {waits.restarts} times while it was worked on"
            self._keep(held)
            self._settle(held, lost(held), Telemetry(observed=(detail,)))
        else:
            self._more.set()

    async def cancel(self, document_id: str, who: str) -> bool:
        """Ends a document that has no entry; durable on return. False when it has one.

        One that is in a worker is ended with its worker; others that were sent there are read again, uncharged.
        """
        held = self._line.get(document_id)
        if held is None or not await self._commits.run(self._ask_to_end, (held, who)):
            return False
        if held.stand in (Stand.WAITING, Stand.BEHIND):
            self._keep(held)
            self._settle(held, cancelled(held), Telemetry())
        elif held.stand is Stand.WORKING:
            self._kill(held)
        return True

    def _kill(self, held: Held) -> None:
        if self._run is None:
            return
        with contextlib.suppress(KeyError):
            for running in self._run.map_statistics(READ).running:
                if running.item.document_id == held.document.document_id:
                    for worker in self._pool.live:
                        if worker.pid == running.worker:
                            worker.kill(End(CANCELLED, "it was cancelled"))

    # Working

    async def run(self) -> None:
        """Reads and commits until it is stopped and what was begun is committed.

        Cancelled: workers are killed, nothing half-written is committed; what was leased stays so until it is given
        back, or taken over by the next start.
        """
        stage = replace(
            reading_stage(self._settings, self._bounds, self._pool, self._charge),
            ordered=False,
            window=self._ahead,
            capacity=1,
            on_progress=self._on_progress,
        )
        pipeline = Pipeline[Document, Reading]([stage], ready=self._settings.commit_batch)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._commit_all(), name="commit")
            try:
                self._run = pipeline.run(self._documents())
                if self._stopping:
                    return
                async with self._run as outcomes:
                    async for outcome in outcomes:
                        self._take(outcome)
                        while len(self._line.ready) >= 2 * self._settings.commit_batch:
                            self._room.clear()
                            await self._room.wait()
            except PoolClosed:
                if not self._stopping:
                    raise
            finally:
                self._no_more_outcomes = True
                self._ready.set()

    async def stop(self, deadline_s: float) -> None:
        """Begins nothing more; what runs is finished, or killed at the deadline. `run` returns when that is committed.

        A second call with a shorter deadline shortens it.
        """
        self._stopping = True
        self._more.set()
        report = await self._pool.drain(deadline_s)
        self.killed += report.killed

    async def _documents(self) -> AsyncIterator[Document]:
        """The next documents, leased, for ever: a few at a time, so that those who come later may still overtake."""
        few = max(1, self._ahead // 4)
        while not self._stopping:
            taken = self._line.take(few)
            if not taken:
                self._more.clear()
                await self._more.wait()
                continue
            try:
                await asyncio.gather(*[self._place(digest_of(held)) for held in taken])
                await self._commits.run(self._lease_all, taken)
            except _OUTAGES as error:
                for held in reversed(taken):
                    self._line.put_back(held)
                await self._outage(error)
                continue
            except LeaseLost:
                await self._drop_lost(taken)
                continue
            self.problem = ""
            for held in taken:
                held.fence += 1
            for held in taken:
                if held.cancelled_by is None:
                    yield replace(held.document, path=os.fsencode(self._blobs.path(held.document.path.decode())))
                else:
                    self._settle(held, cancelled(held), Telemetry())

    def _on_progress(self, document: Document, done: int, total: int) -> None:
        held = self._line.get(document.document_id)
        if held is None or held.stand is not Stand.WORKING:
            return
        if held.cancelled_by is not None:  # asked for when it was in a worker's hands and not begun
            self._kill(held)
        else:
            self._underway.told(held.document, str(held.client), done, total)

    def _take(self, outcome: Outcome) -> None:
        self._underway.gone(outcome.item.document_id)
        held = self._line.get(outcome.item.document_id)
        if held is None or held.stand is not Stand.WORKING:
            return
        if held.cancelled_by is None and isinstance(outcome, Failure) and outcome.code == CANCELLED:
            # Its worker had gone on to it in the moment when the one before it was cancelled.
            self._line.put_back(held)
            self._more.set()
            return
        self._settle(held, draft(outcome), telemetry(outcome))

    def _keep(self, held: Held) -> None:
        """A document that nobody will read gets its file, too: its original is kept."""
        task = asyncio.get_running_loop().create_task(self._place_quietly(digest_of(held)))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    async def _place_quietly(self, sha256: str) -> None:
        with contextlib.suppress(*_OUTAGES, Closed):  # it stays in the log, for the next start
            await self._place(sha256)

    def _settle(self, held: Held, its: Draft, measured: Telemetry) -> None:
        self._line.settle(held, its, measured)
        self._ready.set()

    async def _charge(self, document: Document, failure: Failure[Document]) -> None:
        self._underway.gone(document.document_id)
        held = self._line.get(document.document_id)
        if held is not None:
            held.document = replace(held.document, attempts=failure.attempt)
        await self._commits.run(self._charge_all, (document, charged(failure)))

    async def _outage(self, error: Exception) -> None:
        self.problem = str(error)
        await asyncio.sleep(_AGAIN_S)

    # Committing

    async def _commit_all(self) -> None:
        """Commits what is ready, a group at a time, in order; waits out an outage."""
        line = self._line
        while True:
            if not line.ready:
                if self._no_more_outcomes:
                    return
                self._ready.clear()
                await self._ready.wait()
                continue
            group = list(itertools.islice(line.ready, self._settings.commit_batch))
            try:
                committed = await self._commits.run(self._commit_one_group, group)
            except _OUTAGES as error:
                if self._stopping and self._no_more_outcomes:
                    return  # it stays queued
                await self._outage(error)
                continue
            except LeaseLost:
                await self._drop_late(group)
                continue
            self.problem = ""
            for held, entry in zip(group, committed.entries, strict=True):
                line.ready.popleft()
                line.gone(held)
                self.outcomes["duplicate" if entry.kind is EntryKind.DUPLICATE else str(entry.state)] += 1
                held.permit.done()
            self.tallies.add(held.telemetry for held in group)
            self._on_committed(committed)
            self._room.set()
            self._more.set()

    async def _drop_lost(self, taken: Sequence[Held]) -> None:
        """Somebody else has some of these: the others wait again."""
        ours = await self._commits.run(self._look_whose, taken)
        for held, is_ours in reversed(list(zip(taken, ours, strict=True))):
            if is_ours:
                self._line.put_back(held)
            else:
                self._line.gone(held)
                held.permit.ignore()
        self._ready.set()

    async def _drop_late(self, group: Sequence[Held]) -> None:
        """Somebody else has ended, or has, some of these: our outcome of them is dropped."""
        late = [not ours for ours in await self._commits.run(self._look_whose, group)]
        for held, is_late in zip(group, late, strict=True):
            self._line.ready.popleft()
            if is_late:
                self._line.gone(held)
                held.permit.ignore()
        for held, is_late in reversed(list(zip(group, late, strict=True))):
            if not is_late:
                self._line.ready.appendleft(held)

    # In the database thread

    def _lease_all(self, groups: Sequence[Sequence[Held]]) -> list[None]:
        taken = [held for group in groups for held in group]
        self._store.lease([(held.document, held.fence, str(held.client)) for held in taken])
        return [None] * len(groups)

    def _ask_to_end(self, asked: Sequence[tuple[Held, str]]) -> list[bool]:
        answers = []
        for held, who in asked:
            taken = self._store.ask_to_end(held.document, who)
            if taken:
                held.cancelled_by = who
            answers.append(taken)
        return answers

    def _charge_all(self, charges: Sequence[tuple[Document, dict[str, Any]]]) -> list[int]:
        return [self._store.charge_attempt(document, told) for document, told in charges]

    def _look_whose(self, groups: Sequence[Sequence[Held]]) -> list[list[bool]]:
        return [self._store.still_held([(held.document, held.fence) for held in group]) for group in groups]

    def _commit_one_group(self, groups: Sequence[Sequence[Held]]) -> list[Committed]:
        return [self._commit(group) for group in groups]

    def _commit(self, group: Sequence[Held]) -> Committed:
        entries: list[Entry] = []
        finished: list[int] = []
        for (book, today), of_day in itertools.groupby(group, lambda held: (held.book, held.document.today)):
            part = list(of_day)
            drafts = [draft_of(held) for held in part]
            writer = BookWriter(book, self._store.head(book), self._policy, dt.date.fromisoformat(today))
            first_seen = self._store.first_seen(book, {digest for d in drafts for digest in d.digests})
            made = writer.decide(drafts, first_seen)
            failed = {d.document.document_id for d in drafts if d.state is DocumentState.FAILED}
            finished += self._store.end(
                made,
                [held.telemetry for held in part],
                [(held.fence, str(held.client)) for held in part],
                kept={h.document.document_id: digest_of(h) for h in part if h.document.document_id in failed},
            )
            entries += made
        return Committed(entries, finished)
