"""What a store must do, cut by who calls it. The files beside this one do it.

    RegisterStore   sources: batches, listings, positions
    WorkStore       the run: what is pending, attempts
    BookStore       the ledger's writer: heads, first seen, commit
    ReadStore       people: accounts, entries, documents, dead letters, samples
    Store           all of them

A store belongs to one thread at a time; it may be handed over. Every method that writes is one transaction: when it
returns, it is on disk; when it raises, nothing happened. Errors: see `storage.errors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.documents.document import Document
from headrace.documents.entry import Entry, FirstSeen, Head
from headrace.documents.status import DocumentState, EntryKind


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents submitted together, in order.

    Attributes:
        batch_id: from 1, in the order of opening.
        book: the ledger its entries go to.
        key: what the caller calls it; a later run with the same key finds it again.
        today: calendar date (`YYYY-MM-DD`) that ages are counted from, the same on every resume.
        settings_json: how it was started, as the caller wrote it.
        state: `open` or `finished`.
        listed: whether all sources are listed, so that `accepted` is the final N.
        started_at, finished_at: Unix time in seconds; for people only.
    """

    batch_id: int
    book: str
    key: str
    today: str
    settings_json: str
    state: str = "open"
    listed: bool = False
    started_at: float = 0.0
    finished_at: float | None = None


@dataclass(frozen=True, slots=True)
class Registration:
    """One document to be registered: its name and what is known of it.

    Attributes:
        uri: printable text.
        path: as the operating system spells it; for kind `blob` the hex SHA-256 of a blob, here and in every `Document`
            that the store gives (`Blobs.path` says where that is: a workspace may be moved).
        kind: `file`, `archive-member`, `blob`.
        size_bytes, mtime_ns: as last seen; 0 when not known.
        external_id: the caller's own id of it (`{"id": ...}` in a manifest).
    """

    uri: str
    path: bytes
    kind: str = "file"
    size_bytes: int = 0
    mtime_ns: int = 0
    external_id: str | None = None


@dataclass(frozen=True, slots=True)
class Positions:
    """Where documents were put: `first` to `last`, both included; `last < first` when there were none."""

    first: int
    last: int
    skipped: int = 0

    @property
    def count(self) -> int:
        """How many."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounting identity of a batch, from counters that are kept with every transaction.

    `in_flight` is a counter of its own (up by each registration, down by each document that ended), so that `holds`
    can fail. `needs_review` and `rejected` count verdicts among the succeeded and partial.
    """

    accepted: int = 0
    succeeded: int = 0
    partial: int = 0
    duplicates: int = 0
    failed: int = 0
    in_flight: int = 0
    needs_review: int = 0
    rejected: int = 0

    @property
    def done(self) -> int:
        """How many have their entry."""
        return self.succeeded + self.partial + self.duplicates + self.failed

    @property
    def holds(self) -> bool:
        """accepted = done + in flight."""
        return self.accepted == self.done + self.in_flight


def counter_of(entry: Entry) -> str:
    """The counter of the accounting identity that an entry belongs to."""
    if entry.kind is EntryKind.FAILURE:
        return "failed"
    if entry.kind is EntryKind.DUPLICATE:
        return "duplicates"
    return "partial" if entry.state is DocumentState.PARTIAL else "succeeded"


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What was measured about one document; never part of the ledger.

    Attributes:
        elapsed_s: from start to result in the worker.
        pages: how many pages it had.
        stages_s: seconds per stage.
        observed: what was seen of failures, in words with the measured numbers.
    """

    elapsed_s: float = 0.0
    pages: int = 0
    stages_s: Mapping[str, float] = field(default_factory=dict)
    observed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """Everything the store knows of one document.

    Attributes:
        document: the reference.
        state: queued until its entry is committed.
        external_id: the caller's own id.
        last_failure: of the last charged attempt, with `attempt` and what was `observed`; it may have succeeded since.
        replay_of: id of the failed document this one runs again; None for most.
        telemetry: what was measured; None until it ended.
        entry: its entry; None while it is queued.
    """

    document: Document
    state: DocumentState
    external_id: str | None
    last_failure: dict[str, Any] | None
    replay_of: str | None
    telemetry: Telemetry | None
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A failed document kept with its reason.

    Attributes:
        number: in order of failing, from 1; the cursor for paging.
        document: the reference; its bytes are in the blob when there is one.
        failure: why it failed.
        blob_sha256: where its bytes were kept; None when they could not be read or were not kept.
        failed_at: Unix time in seconds.
        replayed_in: the batch that runs it again, by a replay or the same command; None while nobody asked.
    """

    number: int
    document: Document
    failure: dict[str, Any]
    blob_sha256: str | None
    failed_at: float
    replayed_in: int | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One point of a run's time series, for the report.

    Attributes:
        at_s: seconds since the run began (a resumed run goes on from where the last one was).
        rss_bytes: parent and workers together.
        window_used: submitted and not yet handed on.
        in_flight_bytes: bytes of the documents in the window.
        documents_done: since the batch began.
        documents_per_s: over the last interval.
    """

    at_s: float
    rss_bytes: int
    window_used: int
    in_flight_bytes: int
    documents_done: int
    documents_per_s: float


FILE = "file"
"""Kind of a document that lies where its path says."""


def same_name(kind: str, path: bytes, uri: str) -> str | bytes:
    """What two registrations of one document have in common, however its folder was spelled: its path, for a file."""
    return path if kind == FILE else uri


SAMPLES_LIMIT = 600
"""Samples kept per batch; when there would be more, one is left out."""

REPLAY_KEY = "replay:"
"""What the keys of replay batches begin with."""


def superfluous(times_s: Sequence[float]) -> int:
    """The index of the point of a full series to leave out: the one whose neighbours are closest to each other.

    So the points stay even over the whole time, however long it gets: of n gaps in a time T, none that is made here is
    longer than 2 T / n. Leaving out every second one would thin the beginning again and again until it vanished.
    """
    return min(range(1, len(times_s) - 1), key=lambda i: times_s[i + 1] - times_s[i - 1])


class RegisterStore(Protocol):
    """For sources: batches and the documents in them."""

    def open_batch(self, book: str, key: str, today: str, settings_json: str) -> Batch:
        """Starts a batch; the book is made when it is new."""

    def find_batch(self, key: str) -> Batch | None:
        """The latest batch with this key, open or finished."""

    def register(self, batch_id: int, rows: Sequence[Registration]) -> Positions:
        """Appends documents at the next positions. On disk on return: from then on they are accepted."""

    def stage_listing(self, batch_id: int, source_index: int, rows: Iterable[tuple[bytes, Registration]]) -> int:
        """Collects a source's names, in any order, with the key to sort each by; returns how many.

        Takes the iterable as it comes and keeps it on disk, not in memory. Not durable, and nothing is accepted yet: a
        listing that was not settled is gone after a crash and is made again. A second call begins anew.
        """

    def settle_listing(self, batch_id: int, source_index: int, *, skip_done_of_key: str | None = None) -> Positions:
        """Gives the staged names the next positions, ordered by sort key, in one transaction.

        Doing it again, after a crash or not, changes nothing and gives the same answer.

        Args:
            skip_done_of_key: leave out documents that an earlier batch with this key has finished with and whose
                `same_name`, size and mtime are the same. Failures that may succeed when run again are not left out.
                The dead letters of documents that are registered again are `replayed_in` this batch.
        """

    def listed(self, batch_id: int) -> dict[int, Positions]:
        """The settled sources, by index."""

    def finish_listing(self, batch_id: int) -> None:
        """No more documents will come: N is final."""

    def finish_batch(self, batch_id: int) -> None:
        """Marks the batch finished.

        Raises:
            BatchNotDone: documents are still in flight, or sources may still be listed.
        """

    def drop_batch(self, batch_id: int) -> None:
        """Removes a batch without documents, the newest of all: the next one gets its number.

        Raises:
            BatchNotDone: it has documents.
        """


class WorkStore(Protocol):
    """For the run: what is to be done."""

    def pending(self, batch_id: int, after_position: int = 0, limit: int = 1000) -> list[Document]:
        """The next queued documents in order of position."""

    def charge_attempt(self, document: Document, failure: Mapping[str, Any]) -> int:
        """Counts a failed attempt, on disk at once, so that no restart forgets it; returns the attempts so far."""


class BookStore(Protocol):
    """For the ledger's one writer."""

    def head(self, book: str) -> Head:
        """The last entry of the book; `Head(book)` when it is empty or new."""

    def first_seen(self, book: str, digests: Iterable[str]) -> dict[str, FirstSeen]:
        """For each of these hex SHA-256, of bytes or of a purchase, that the book has a receipt of: the first one."""

    def commit(
        self,
        entries: Sequence[Entry],
        telemetry: Sequence[Telemetry] = (),
        *,
        kept: Mapping[str, str] | None = None,
    ) -> None:
        """Writes entries of one book in one transaction, with all that follows: states, counters, head, dead letters.

        Args:
            entries: as `BookWriter.decide` gave them; they must follow the head.
            telemetry: one for each entry, or none at all.
            kept: document id to blob digest, for failed documents whose bytes were put into the blobs before.

        Raises:
            HeadMoved: the entries do not follow the head on disk: there is a second writer, or a group came twice.
            StorageFull: the disk is full; nothing was written, the same commit may be tried again.
        """


class ReadStore(Protocol):
    """For people and reports. All of these see one state between two transactions, also while a run writes."""

    def batches(
        self, *, unfinished: bool = False, key: str | None = None, key_starts: str = "", latest: int | None = None
    ) -> list[Batch]:
        """Batches by id. Each document that came to a service alone is a batch: ask for no more than is needed.

        Args:
            unfinished: only those that are not finished.
            key: only those that are called so.
            key_starts: only those whose key starts so.
            latest: only so many, those that were opened last.
        """

    def batch_count(self) -> int:
        """How many batches there are."""

    def batch(self, batch_id: int) -> Batch:
        """One batch; raises `UnknownBatch`."""

    def books(self) -> list[Head]:
        """The head of every book, by name."""

    def accounts(self, batch_id: int) -> Accounts:
        """The counters of a batch; costs the same for ten documents and for ten million."""

    def entries(
        self, *, book: str | None = None, batch_id: int | None = None, after_sequence: int = 0, limit: int = 256
    ) -> list[Entry]:
        """The next entries of a book, or of a batch, in order of sequence; empty at the end.

        Corrections and reviews are among those of a book, and left out of those of a batch.
        """

    def document(self, document_id: str) -> DocumentRecord | None:
        """One document by id."""

    def find(self, reference: str, limit: int = 20) -> list[DocumentRecord]:
        """Documents by id, voucher (`main-000017`), uri, last part of a uri, or bare voucher number (`17`).

        What is called so comes before what only ends so, then the latest first. A uri is looked for by reading all.
        """

    def names(self, limit: int) -> list[str]:
        """The uris of the latest documents, the latest first."""

    def slowest(self, batch_id: int, limit: int = 10) -> list[DocumentRecord]:
        """The documents that took longest, the slowest first."""

    def dead_letters(self, *, after_number: int = 0, limit: int = 100, replayed: bool = False) -> list[DeadLetter]:
        """The next failed documents that nobody has asked to run again (`replayed=True`: all), by number."""

    def dead_count(self) -> int:
        """How many dead letters wait."""

    def samples(self, batch_id: int) -> list[Sample]:
        """The time series of a batch, at most `SAMPLES_LIMIT` points."""


class Store(RegisterStore, WorkStore, BookStore, ReadStore, Protocol):
    """All of a store."""

    def replay(self, document_ids: Sequence[str] | None = None) -> list[Batch]:
        """Registers dead letters (None: all that wait) to be run again; returns the new batches, already listed.

        There is one for each batch that the failures are from, with its book, date and settings, and the key
        `REPLAY_KEY` + its number. The old failure stays where it is; the new document is another one with `replay_of`
        set. Where bytes were kept, its kind is `blob`, in place of the original path.

        Raises:
            UnknownDocument: an id that is no dead letter, or was replayed already; nothing was registered.
        """

    def add_sample(self, batch_id: int, sample: Sample) -> None:
        """Adds a point to the time series; when it is full, one is left out so that the rest stay even in time."""

    def close(self) -> None:
        """Gives the workspace back. Doing it twice does not harm."""
