"""What a run looks like from outside: counted as entries are committed, sampled while they are read."""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.documents.entry import Entry
from headrace.documents.status import EntryKind
from headrace.execution.memory import ResidentMemory
from headrace.ingest.bounds import Bounds
from headrace.ingest.database import DatabaseThread
from headrace.ingest.listing import Listing
from headrace.ingest.snapshot import FAILURES_SHOWN, SLOWEST_SHOWN, FailedDocument, Phase, Snapshot
from headrace.storage.store import Accounts, Batch, Sample, Store

if TYPE_CHECKING:
    from headrace.execution import Failure, Success, WorkerPool
    from headrace.execution.statistics import MapStatistics

_LOOK_EVERY_S = 0.25
"""RSS has no signal to wait for; four looks a second cost about 0.1 % of a core and miss only short peaks."""

_SAMPLE_EVERY_S = 1.0
_RATE_OVER_SAMPLES = 30


class Monitor:
    """Counts and samples one run. Everything it keeps is bounded."""

    def __init__(
        self,
        batch: Batch,
        bounds: Bounds,
        before: Accounts,
        on_snapshot: Callable[[Snapshot], None] | None = None,
        samples_before_s: float = 0.0,
    ) -> None:
        """Starts counting.

        Args:
            batch, bounds: what is run.
            before: what earlier runs of this batch had done.
            on_snapshot: called in the event loop, at most four times a second; must not block.
            samples_before_s: how long earlier runs took, so that the time series goes on.
        """
        self.phase = Phase.LISTING
        self.pages = 0
        self.peak_rss_bytes = 0
        self.order_ok = True
        self.failures: deque[FailedDocument] = deque(maxlen=FAILURES_SHOWN)
        self.failed = before.failed
        self.duplicates = before.duplicates
        self.done = before.done
        self.first_sequence: int | None = None
        self.last_sequence: int | None = None
        self.on_failure: Callable[[], None] | None = None
        self._batch = batch
        self._bounds = bounds
        self._before = before
        self._on_snapshot = on_snapshot
        self._started = time.monotonic()
        self._reading_since = self._started
        self.reading_s = 0.0
        self._offset_s = samples_before_s
        self._last_position = 0
        self._slowest: list[tuple[float, str]] = []
        self._rates: deque[tuple[float, int]] = deque([(self._started, self.done)], maxlen=_RATE_OVER_SAMPLES)
        self._flight: Callable[[], MapStatistics[Any]] | None = None
        self._own_memory = ResidentMemory()

    @property
    def elapsed_s(self) -> float:
        """Seconds since this run began."""
        return time.monotonic() - self._started

    @property
    def slowest(self) -> tuple[tuple[str, float], ...]:
        """The slowest documents of this run: uri and seconds, slowest first."""
        return tuple((uri, seconds) for seconds, uri in sorted(self._slowest, reverse=True))

    def watch(self, flight: Callable[[], MapStatistics[Any]]) -> None:
        """From now on this says which documents are in flight."""
        self._flight = flight
        self._reading_since = time.monotonic()
        self.phase = Phase.READING

    def committed(self, entries: Sequence[Entry], group: Sequence[Success[Any, Any] | Failure[Any]]) -> None:
        """Counts entries that are on disk, with the outcomes they were made of."""
        self.reading_s = time.monotonic() - self._reading_since
        for entry, outcome in zip(entries, group, strict=True):
            self.done += 1
            if entry.position <= self._last_position:
                self.order_ok = False
            if self.last_sequence is not None and entry.sequence != self.last_sequence + 1:
                self.order_ok = False
            self._last_position, self.last_sequence = entry.position, entry.sequence
            self.first_sequence = self.first_sequence or entry.sequence
            self.pages += getattr(getattr(outcome, "value", None), "pages", 0)
            if entry.kind is EntryKind.DUPLICATE:
                self.duplicates += 1
            if entry.kind is EntryKind.FAILURE:
                self.failed += 1
                failure = entry.failure or {}
                if self.on_failure is not None:
                    stop, self.on_failure = self.on_failure, None
                    stop()
                told = failure.get("code", ""), failure.get("detail", ""), _observed(outcome)
                self.failures.append(FailedDocument(entry.uri, *told))
            timed = (outcome.elapsed_s, entry.uri)
            if len(self._slowest) < SLOWEST_SHOWN:
                heapq.heappush(self._slowest, timed)
            else:
                heapq.heappushpop(self._slowest, timed)

    def snapshot(self, pool: WorkerPool[Any, Any], listing: Listing) -> Snapshot:
        """The run at this moment."""
        workers = pool.statistics()
        rss_bytes = workers.rss_bytes + (self._own_memory.read() or 0)
        self.peak_rss_bytes = max(self.peak_rss_bytes, rss_bytes)
        flight = self._flight() if self._flight else None
        running = max(flight.running, key=lambda r: r.since_s, default=None) if flight else None
        total = listing.registered if listing.registered or listing.finished else None
        per_second = self._recent_rate()
        left = (total or 0) - self.done
        return Snapshot(
            phase=self.phase,
            documents_done=self.done,
            documents_total=total,
            total_is_final=listing.finished and listing.error is None,
            pages=self.pages,
            per_second=per_second,
            eta_s=left / per_second if per_second > 0 and listing.finished else None,
            failures=self.failed,
            duplicates=self.duplicates,
            window_used=flight.window_used if flight else 0,
            window_limit=self._bounds.window,
            bytes_in_flight=flight.weight if flight else 0,
            byte_budget=self._bounds.byte_budget_bytes,
            oldest_age_s=flight.oldest_age_s if flight else 0.0,
            slowest_uri=running.item.uri if running else None,
            slowest_age_s=running.since_s if running else 0.0,
            rss_bytes=rss_bytes,
            rss_ceiling_bytes=self._bounds.tree_ceiling_bytes,
            workers_busy=len(flight.running) if flight else 0,
            workers=self._bounds.workers,
            restarts=sum(workers.restarts.values()),
            slowest_pages_done=running.done if running else 0,
            slowest_pages=running.total if running else 0,
        )

    async def run(self, pool: WorkerPool[Any, Any], listing: Listing, database: DatabaseThread) -> None:
        """Looks and samples until cancelled; leaves nothing behind."""
        next_sample = self._started
        while True:
            now = time.monotonic()
            snapshot = self.snapshot(pool, listing)
            if now >= next_sample:
                next_sample = now + _SAMPLE_EVERY_S
                self._rates.append((now, self.done))
                await database.call(partial(self._add, self._sample(snapshot)))
            if self._on_snapshot:
                self._on_snapshot(snapshot)
            await asyncio.sleep(_LOOK_EVERY_S)

    def _add(self, sample: Sample, store: Store) -> None:
        store.add_sample(self._batch.batch_id, sample)

    def _sample(self, snapshot: Snapshot) -> Sample:
        return Sample(
            at_s=self._offset_s + self.elapsed_s,
            rss_bytes=snapshot.rss_bytes,
            window_used=snapshot.window_used,
            in_flight_bytes=snapshot.bytes_in_flight,
            documents_done=snapshot.documents_done,
            documents_per_s=snapshot.per_second,
        )

    def _recent_rate(self) -> float:
        (then, done_then), now = self._rates[0], time.monotonic()
        return (self.done - done_then) / (now - then) if now > then else 0.0


def _observed(outcome: Success[Any, Any] | Failure[Any]) -> str:
    """What was seen of a failure, with the numbers that no ledger entry has."""
    seen = getattr(outcome, "detail", None) or "; ".join(getattr(getattr(outcome, "value", None), "observed", ()))
    return str(seen)
