"""What a run says of itself: a `Snapshot` while it works, a `RunSummary` at its end. Plain values, no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

SLOWEST_SHOWN, FAILURES_SHOWN = 5, 20
"""How many documents a summary names."""


class Phase(StrEnum):
    """What a run is doing."""

    LISTING = "listing"
    READING = "reading"
    DRAINING = "draining"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment.

    Attributes:
        phase: what it is doing.
        documents_done: ended, however they ended.
        documents_total: how many there are as far as is known; None before anything is known.
        total_is_final: whether the source has been read to its end, so that the total will not grow.
        pages: pages read so far.
        per_second: documents ended per second, of late.
        eta_s: how long the rest will take; None while nobody can tell.
        failures: documents that ended in a failure.
        duplicates: documents that were known already.
        window_used, window_limit: documents submitted and not yet handed on, and how many there may be.
        bytes_in_flight, byte_budget: what those have together, and may have.
        oldest_age_s: how long the oldest of them has been in flight.
        slowest_uri, slowest_age_s: the document that has been running longest; None when none runs.
        slowest_pages_done, slowest_pages: how far it is; 0 of 0 when it did not say.
        rss_bytes, rss_ceiling_bytes: of the whole tree.
        workers_busy, workers: how many read, of how many.
        restarts: workers started again, for whatever reason.
    """

    phase: Phase
    documents_done: int
    documents_total: int | None
    total_is_final: bool
    pages: int
    per_second: float
    eta_s: float | None
    failures: int
    duplicates: int
    window_used: int
    window_limit: int
    bytes_in_flight: int
    byte_budget: int
    oldest_age_s: float
    slowest_uri: str | None
    slowest_age_s: float
    rss_bytes: int
    rss_ceiling_bytes: int
    workers_busy: int
    workers: int
    restarts: int
    slowest_pages_done: int = 0
    slowest_pages: int = 0


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """One failure, as the summary shows it: `detail` is the ledger's sentence, `observed` has what was measured."""

    uri: str
    code: str
    detail: str
    observed: str = ""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run ended. The accounting identity: accepted = succeeded + partial + duplicates + failed + in flight.

    Attributes:
        batch_id, book: what was run, and where its entries went.
        accepted: documents that were counted in.
        succeeded, partial, duplicates, failed: how they ended; a partial one has a receipt with pages missing.
        in_flight: accepted and not ended: only when the run was interrupted.
        verdicts: receipts by verdict.
        order_ok: entries came in submission order, without a gap; None when nobody asked for order.
        first_voucher, last_voucher: numbers of the first and last entry of this batch; None when there is none.
        head_hash: of the newest entry of the book; "" when it is empty.
        elapsed_s, per_second, pages: of this run, without what earlier ones had done.
        peak_rss_bytes, rss_ceiling_bytes: of the whole tree.
        slowest: uri and seconds, slowest first; 5 at most.
        failures: 20 at most; `more_failures` says how many more there are.
        output: where the results are; None when they went to nobody, "-" for standard output.
        workspace: where the state is.
        interrupted: stopped before its end by a signal.
        left: documents accepted or listed that still wait; the same command goes on with them.
        resumed_from: documents that earlier runs of this batch had ended.
        reading_s: of `elapsed_s`, from the first document handed to a worker to the last entry committed.
        parent_cpu_s, workers_cpu_s: processor time of this run.
        known: names left out, as an earlier batch of the same sources has them and they are unchanged.
        known_failed: of those, dead letters that still wait.
    """

    batch_id: int
    book: str
    accepted: int
    succeeded: int
    partial: int
    duplicates: int
    failed: int
    in_flight: int
    order_ok: bool | None
    first_voucher: int | None
    last_voucher: int | None
    head_hash: str
    elapsed_s: float
    per_second: float
    pages: int
    peak_rss_bytes: int
    rss_ceiling_bytes: int
    output: str | None
    workspace: str
    verdicts: Mapping[str, int] = field(default_factory=dict)
    slowest: tuple[tuple[str, float], ...] = ()
    failures: tuple[FailedDocument, ...] = ()
    more_failures: int = 0
    interrupted: bool = False
    left: int = 0
    resumed_from: int = 0
    reading_s: float = 0.0
    parent_cpu_s: float = 0.0
    workers_cpu_s: float = 0.0
    known: int = 0
    known_failed: int = 0

    @property
    def accounted(self) -> bool:
        """Whether the accounting identity holds."""
        return self.accepted == self.succeeded + self.partial + self.duplicates + self.failed + self.in_flight


def together(first: RunSummary, second: RunSummary) -> RunSummary:
    """Two batches that one command ran one after the other, in one summary; number and head are those of the second."""
    counts = (
        "accepted",
        "succeeded",
        "partial",
        "duplicates",
        "failed",
        "in_flight",
        "left",
        "resumed_from",
        "known",
        "known_failed",
    )
    sums = {name: getattr(first, name) + getattr(second, name) for name in (*counts, "pages", "reading_s")}
    elapsed_s = first.elapsed_s + second.elapsed_s
    done = first.per_second * first.elapsed_s + second.per_second * second.elapsed_s
    failures = (*first.failures, *second.failures)[:FAILURES_SHOWN]
    same_book = first.book == second.book and first.first_voucher is not None
    return replace(
        second,
        **sums,
        elapsed_s=elapsed_s,
        per_second=done / elapsed_s if elapsed_s > 0 else 0.0,
        order_ok=None if second.order_ok is None else bool(first.order_ok and second.order_ok),
        first_voucher=first.first_voucher if same_book else second.first_voucher,
        peak_rss_bytes=max(first.peak_rss_bytes, second.peak_rss_bytes),
        verdicts={name: first.verdicts.get(name, 0) + count for name, count in second.verdicts.items()},
        slowest=tuple(sorted((*first.slowest, *second.slowest), key=lambda slow: -slow[1])[:SLOWEST_SHOWN]),
        failures=failures,
        more_failures=sums["failed"] - len(failures),
    )
