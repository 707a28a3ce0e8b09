"""The end of a run in numbers, from the store's counters and what the monitor saw."""

from __future__ import annotations

import resource

from headrace.documents.entry import Entry
from headrace.documents.status import Verdict
from headrace.ingest.job import Job
from headrace.ingest.snapshot import Phase, RunSummary
from headrace.storage.store import Batch, Store

_PAGE = 256


def summarise(job: Job, done_before: int, store: Store) -> RunSummary:
    """The end of a run in numbers. Marks the batch finished when nothing is left of it; one without documents goes."""
    accounts, monitor = store.accounts(job.batch.batch_id), job.monitor
    if accounts.in_flight == 0 and store.batch(job.batch.batch_id).listed:
        newest = store.batches(latest=1)[-1].batch_id == job.batch.batch_id
        (store.drop_batch if newest and not accounts.accepted else store.finish_batch)(job.batch.batch_id)
    first = store.entries(batch_id=job.batch.batch_id, limit=1)
    head = store.head(job.batch.book)
    elapsed_s = monitor.elapsed_s
    return RunSummary(
        batch_id=job.batch.batch_id,
        book=job.batch.book,
        accepted=accounts.accepted,
        succeeded=accounts.succeeded,
        partial=accounts.partial,
        duplicates=accounts.duplicates,
        failed=accounts.failed,
        in_flight=accounts.in_flight,
        order_ok=monitor.order_ok if job.settings.ordered else None,
        first_voucher=first[0].sequence if first else None,
        last_voucher=monitor.last_sequence or (last_sequence(first[0], head.sequence, store) if first else None),
        head_hash=head.entry_hash,
        elapsed_s=elapsed_s,
        per_second=(accounts.done - done_before) / elapsed_s if elapsed_s > 0 else 0.0,
        pages=monitor.pages,
        peak_rss_bytes=monitor.peak_rss_bytes,
        rss_ceiling_bytes=job.bounds.tree_ceiling_bytes,
        output=job.output.target,
        workspace=str(job.settings.workspace),
        verdicts={
            Verdict.ACCEPTED: accounts.succeeded + accounts.partial - accounts.needs_review - accounts.rejected,
            Verdict.NEEDS_REVIEW: accounts.needs_review,
            Verdict.REJECTED: accounts.rejected,
        },
        slowest=monitor.slowest,
        failures=tuple(monitor.failures),
        more_failures=max(0, accounts.failed - len(monitor.failures)),
        interrupted=monitor.phase is Phase.DRAINING,
        left=accounts.in_flight,
        resumed_from=done_before,
        reading_s=monitor.reading_s,
        parent_cpu_s=_cpu_s(resource.RUSAGE_SELF),
        workers_cpu_s=_cpu_s(resource.RUSAGE_CHILDREN),
        known=job.listing.known,
        known_failed=_waiting_dead_letters(job.batch, store) if job.listing.known else 0,
    )


def last_sequence(first: Entry, head: int, store: Store) -> int:
    """The voucher number of the last entry of a batch, by its first one and the head of the book: by halving."""
    low, high = first.sequence, head
    while low < high:
        middle = (low + high + 1) // 2
        found = store.entries(batch_id=first.batch_id, after_sequence=middle - 1, limit=1)
        low, high = (found[0].sequence, high) if found else (low, middle - 1)
    return low


def _waiting_dead_letters(batch: Batch, store: Store) -> int:
    """How many documents of earlier batches with this key failed, and were not run again."""
    earlier = {other.batch_id for other in store.batches(key=batch.key) if other.batch_id < batch.batch_id}
    count = after = 0
    while page := store.dead_letters(after_number=after, limit=_PAGE):
        count += sum(letter.document.batch_id in earlier for letter in page)
        after = page[-1].number
    return count


def _cpu_s(whose: int) -> float:
    usage = resource.getrusage(whose)
    return usage.ru_utime + usage.ru_stime
