"""One read API over a workspace, finished or still running: what the report, the web pages and the metrics show.

store -> gather() -> Insights        one pass over the entries of a batch, memory bounded whatever their number
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from headrace.documents.entry import Entry, Head
from headrace.documents.status import EntryKind, Verdict
from headrace.ledger.anomalies import Anomaly, FirstDigits, Watch
from headrace.ledger.chain import Verification, verify
from headrace.storage.store import Accounts, Batch, ReadStore, Sample

PAGE: Final = 256
_BATCHES_NAMED = 100
MERCHANTS_LIMIT: Final = 5_000
"""Merchants counted by name per batch; names that come after so many others are summed up as `OTHERS`."""
MONTHS_LIMIT: Final = 600
"""Months counted (currency and month); a batch of misread dates must not fill the memory either."""
CODES_LIMIT: Final = 100
ANOMALIES_LIMIT: Final = 200
OTHERS: Final = "(others)"


@dataclass(slots=True)
class Spend:
    """Money of one currency: accepted receipts and those to be reviewed, without duplicates and rejected ones.

    Attributes:
        total: the sum of the payable amounts.
        not_reviewed: the part of it from receipts that need review.
        count: how many receipts are in it.
        months: `YYYY-MM` or "" (no date) to the sum.
        merchants: name as read to (sum, count).
    """

    total: Decimal = Decimal(0)
    not_reviewed: Decimal = Decimal(0)
    count: int = 0
    months: dict[str, Decimal] = field(default_factory=dict)
    merchants: dict[str, tuple[Decimal, int]] = field(default_factory=dict)

    def top_merchants(self, limit: int = 5) -> list[tuple[str, Decimal, int]]:
        """The names with the largest sums, `OTHERS` never among them."""
        named = ((name, total, count) for name, (total, count) in self.merchants.items() if name != OTHERS)
        return sorted(named, key=lambda row: (-row[1], row[0]))[:limit]


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The bounds that a run was started with, where its batch says so; None where it does not."""

    rss_bytes: int | None = None
    window: int | None = None
    in_flight_bytes: int | None = None
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class Slow:
    """One of the documents that took longest."""

    uri: str
    document_id: str
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Insights:
    """What is known of one batch at one moment.

    Attributes:
        batch, accounts: as the store keeps them.
        batch_ids: the latest batches of the workspace, the oldest of them first.
        batch_count: how many batches it has.
        dead_letters: how many wait in the workspace, of any batch.
        engine: what read the documents; "" when the batch does not say.
        chain: the check of the whole book, up to the head it had when this was gathered.
        in_order: whether the entries come in the order of submission.
        kinds, verdicts: how the documents ended, and what the policy says of the receipts.
        failures: by code.
        failed_checks: by id, over all receipts.
        spend: by currency; amounts without one are under "".
        slowest: the slowest first.
        samples: the time series, oldest first.
        ceilings: what the bounds were.
        anomalies: the first `ANOMALIES_LIMIT` things worth a look in this batch, in its order, seen against the whole
            book before them.
        anomaly_counts: all of them, by kind.
        first_digits: Benford's law on the totals of the whole book.
    """

    batch: Batch
    accounts: Accounts
    batch_ids: tuple[int, ...]
    batch_count: int
    dead_letters: int
    engine: str
    chain: Verification
    in_order: bool
    first_voucher: int | None
    last_voucher: int | None
    kinds: Mapping[EntryKind, int]
    verdicts: Mapping[Verdict, int]
    failures: Mapping[str, int]
    failed_checks: Mapping[str, int]
    spend: Mapping[str, Spend]
    slowest: tuple[Slow, ...]
    samples: tuple[Sample, ...]
    ceilings: Ceilings
    anomalies: tuple[Anomaly, ...]
    anomaly_counts: Mapping[str, int]
    first_digits: FirstDigits

    @property
    def peak_rss_bytes(self) -> int:
        """The highest sample; 0 without samples."""
        return max((sample.rss_bytes for sample in self.samples), default=0)

    @property
    def elapsed_s(self) -> float:
        """Until the last sample."""
        return self.samples[-1].at_s if self.samples else 0.0


def latest_batch(store: ReadStore) -> Batch | None:
    """The batch that was opened last; None in a workspace without any."""
    batches = store.batches(latest=1)
    return batches[-1] if batches else None


def entries_of(store: ReadStore, batch_id: int, after_sequence: int = 0) -> Iterator[Entry]:
    """The entries of a batch in order, a page in memory at a time."""
    while page := store.entries(batch_id=batch_id, after_sequence=after_sequence, limit=PAGE):
        yield from page
        after_sequence = page[-1].sequence


def verify_book(store: ReadStore, book: str) -> Verification:
    """Recomputes the chain of a book up to the head it has now; entries that come meanwhile are left out."""
    head = _head(store, book)
    return verify(_book(store, head), head)


def gather(store: ReadStore, batch_id: int) -> Insights:
    """Reads all there is to know about a batch.

    Costs one pass over the batch and one over its book (for the chain). Memory does not grow with their length.

    Raises:
        UnknownBatch: there is no such batch.
    """
    batch = store.batch(batch_id)
    count = _Counting()
    for entry in entries_of(store, batch_id):
        count.add(entry)
    engine, ceilings = _settings(batch.settings_json)
    head, watched = _head(store, batch.book), _Watched(batch_id)
    chain = verify(watched.passing(_book(store, head)), head)
    return Insights(
        batch=batch,
        accounts=store.accounts(batch_id),
        batch_ids=tuple(other.batch_id for other in store.batches(latest=_BATCHES_NAMED)),
        batch_count=store.batch_count(),
        dead_letters=store.dead_count(),
        engine=engine,
        chain=chain,
        in_order=count.in_order,
        first_voucher=count.first,
        last_voucher=count.last,
        kinds=count.kinds,
        verdicts=count.verdicts,
        failures=count.failures,
        failed_checks=count.failed_checks,
        spend=dict(sorted(count.spend.items(), key=lambda pair: (-pair[1].count, pair[0]))),
        slowest=tuple(
            Slow(record.document.uri, record.document.document_id, record.telemetry.elapsed_s)
            for record in store.slowest(batch_id)
            if record.telemetry
        ),
        samples=tuple(store.samples(batch_id)),
        ceilings=ceilings,
        anomalies=tuple(watched.found),
        anomaly_counts=watched.counts,
        first_digits=watched.watch.first_digits(),
    )


class _Watched:
    """Looks for anomalies in the entries of a book as they pass, and keeps those of one batch."""

    def __init__(self, batch_id: int) -> None:
        self.watch = Watch()
        self.found: list[Anomaly] = []
        self.counts: Counter[str] = Counter()
        self._batch_id = batch_id

    def passing(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """The same entries."""
        for entry in entries:
            if entry.kind is EntryKind.RECEIPT and entry.receipt is not None:
                seen = self.watch.see(entry.sequence, entry.receipt)
                if entry.batch_id == self._batch_id:
                    self.counts.update(anomaly.kind for anomaly in seen)
                    self.found += seen[: ANOMALIES_LIMIT - len(self.found)]
            yield entry


class _Counting:
    """Counts entries as they pass; everything that could grow has a limit."""

    def __init__(self) -> None:
        self.in_order = True
        self.first: int | None = None
        self.last: int | None = None
        self.kinds: Counter[EntryKind] = Counter()
        self.verdicts: Counter[Verdict] = Counter()
        self.failures: Counter[str] = Counter()
        self.failed_checks: Counter[str] = Counter()
        self.spend: defaultdict[str, Spend] = defaultdict(Spend)
        self._last_position = 0
        self._merchants = self._months = 0

    def add(self, entry: Entry) -> None:
        """Counts one entry."""
        self.in_order = self.in_order and entry.position > self._last_position
        self._last_position, self.last = entry.position, entry.sequence
        self.first = self.first or entry.sequence
        self.kinds[entry.kind] += 1
        if entry.verdict:
            self.verdicts[entry.verdict] += 1
        if entry.kind is EntryKind.FAILURE:
            self._count(self.failures, str((entry.failure or {}).get("code")))
        receipt = entry.receipt
        if receipt is None:
            return
        for check in [*receipt.get("checks", []), *entry.policy_checks]:
            if not check.get("passed"):
                self._count(self.failed_checks, str(check.get("id")))
        if entry.verdict is not Verdict.REJECTED:
            self._spent(receipt, needs_review=entry.verdict is Verdict.NEEDS_REVIEW)

    def _count(self, counter: Counter[str], name: str) -> None:
        counter[name if name in counter or len(counter) < CODES_LIMIT else OTHERS] += 1

    def _spent(self, receipt: Mapping[str, Any], *, needs_review: bool) -> None:
        amount = payable(receipt)
        if amount is None:
            return
        currency = str(field_value(receipt, "currency") or "")
        if currency not in self.spend and len(self.spend) >= CODES_LIMIT:
            currency = OTHERS
        spend = self.spend[currency]
        spend.total += amount
        spend.not_reviewed += amount if needs_review else Decimal(0)
        spend.count += 1
        month = str(field_value(receipt, "issue_date") or "")[:7]
        if month not in spend.months:
            month = month if self._months < MONTHS_LIMIT else OTHERS
            self._months += month not in spend.months
        spend.months[month] = spend.months.get(month, Decimal(0)) + amount
        name = str(field_value(receipt, "merchant", "name") or "")
        if name not in spend.merchants:
            name = name if self._merchants < MERCHANTS_LIMIT else OTHERS
            self._merchants += name not in spend.merchants
        total, times = spend.merchants.get(name, (Decimal(0), 0))
        spend.merchants[name] = (total + amount, times + 1)


def field_value(receipt: Mapping[str, Any], *path: str) -> Any:
    """The value of a field object of a receipt in JSON; None when it is missing."""
    found: Any = receipt
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found.get("value") if isinstance(found, Mapping) else None


def payable(receipt: Mapping[str, Any]) -> Decimal | None:
    """The amount payable, or the gross total where no other is printed; None when neither was read."""
    for name in ("payable_amount", "tax_inclusive_amount"):
        value = field_value(receipt, name)
        if value is not None:
            try:
                return Decimal(str(value))
            except InvalidOperation:
                continue
    return None


def _head(store: ReadStore, book: str) -> Head:
    return next((head for head in store.books() if head.book == book), Head(book))


def _book(store: ReadStore, head: Head) -> Iterator[Entry]:
    after = 0
    while after < head.sequence:
        page = store.entries(book=head.book, after_sequence=after, limit=PAGE)
        if not page:
            return
        for entry in page:
            if entry.sequence > head.sequence:
                return
            yield entry
        after = page[-1].sequence


def _settings(settings_json: str) -> tuple[str, Ceilings]:
    """Engine and bounds as the run wrote them; a batch of somebody else may say nothing."""
    try:
        told = json.loads(settings_json)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        return "", Ceilings()
    bounds = told.get("bounds")
    bounds = bounds if isinstance(bounds, dict) else {}

    def number(name: str) -> int | None:
        value = bounds.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    return str(told.get("engine") or ""), Ceilings(
        number("tree_ceiling_bytes"), number("window"), number("byte_budget_bytes"), number("workers")
    )
