"""A store in memory: the same behaviour without a disk, for tests and for pipelines that need no past.

It grows with the documents it is given: the one part of headrace without a bound, and never used by `run` or `serve`.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Any

from headrace.documents.document import Document, document_id
from headrace.documents.entry import Entry, FirstSeen, Head, is_voucher_number, parse_voucher
from headrace.documents.status import DocumentState, EntryKind, Verdict
from headrace.storage.errors import BatchNotDone, HeadMoved, UnknownBatch, UnknownDocument
from headrace.storage.store import (
    REPLAY_KEY,
    SAMPLES_LIMIT,
    Accounts,
    Batch,
    DeadLetter,
    DocumentRecord,
    Positions,
    Registration,
    Sample,
    Telemetry,
    counter_of,
    same_name,
    superfluous,
)


@dataclass
class _Document:
    name: Registration
    replay_of: str | None = None
    state: DocumentState = DocumentState.QUEUED
    attempts: int = 0
    last_failure: dict[str, Any] | None = None
    telemetry: Telemetry | None = None
    entry: Entry | None = None


@dataclass
class _Batch:
    batch: Batch
    documents: list[_Document] = field(default_factory=list)
    listings: dict[int, Positions] = field(default_factory=dict)
    accounts: Accounts = field(default_factory=Accounts)
    samples: list[Sample] = field(default_factory=list)


class MemoryStore:
    """A `Store` that forgets."""

    def __init__(self) -> None:
        self._batches: list[_Batch] = []
        self._heads: dict[str, Head] = {}
        self._books: dict[str, list[Entry]] = {}
        self._first_seen: dict[tuple[str, str], FirstSeen] = {}
        self._dead: list[DeadLetter] = []
        self._staged: dict[tuple[int, int], list[tuple[bytes, Registration]]] = {}

    def open_batch(self, book: str, key: str, today: str, settings_json: str) -> Batch:
        """See `RegisterStore.open_batch`."""
        self._heads.setdefault(book, Head(book))
        self._books.setdefault(book, [])
        batch = Batch(len(self._batches) + 1, book, key, today, settings_json, started_at=time.time())
        self._batches.append(_Batch(batch))
        return batch

    def find_batch(self, key: str) -> Batch | None:
        """See `RegisterStore.find_batch`."""
        return next((b.batch for b in reversed(self._batches) if b.batch.key == key), None)

    def register(self, batch_id: int, rows: Sequence[Registration]) -> Positions:
        """See `RegisterStore.register`."""
        return self._append(batch_id, [_Document(row) for row in rows])

    def _append(self, batch_id: int, documents: list[_Document]) -> Positions:
        of = self._of(batch_id)
        if of.batch.listed:
            raise ValueError(f"batch {batch_id} is listed: no more documents can be added")
        first = len(of.documents) + 1
        of.documents += documents
        accounts = of.accounts
        of.accounts = replace(
            accounts, accepted=accounts.accepted + len(documents), in_flight=accounts.in_flight + len(documents)
        )
        return Positions(first, len(of.documents))

    def stage_listing(self, batch_id: int, source_index: int, rows: Iterable[tuple[bytes, Registration]]) -> int:
        """See `RegisterStore.stage_listing`."""
        self._staged.pop((batch_id, source_index), None)
        staged = list(rows)
        self._staged[batch_id, source_index] = staged
        return len(staged)

    def settle_listing(self, batch_id: int, source_index: int, *, skip_done_of_key: str | None = None) -> Positions:
        """See `RegisterStore.settle_listing`."""
        of = self._of(batch_id)
        staged = self._staged.pop((batch_id, source_index), [])
        if source_index not in of.listings:
            done = set() if skip_done_of_key is None else set(self._done_before(batch_id, skip_done_of_key))
            names = [name for _, name in sorted(staged, key=lambda row: row[0])]
            new = [_Document(name) for name in names if _seen_as(name) not in done]
            if skip_done_of_key is not None:
                self._take_again(batch_id, skip_done_of_key, {_seen_as(document.name)[0] for document in new})
            added = self._append(batch_id, new)
            of.listings[source_index] = replace(added, skipped=len(names) - len(new))
        return of.listings[source_index]

    def _take_again(self, batch_id: int, key: str, names: set[str | bytes]) -> None:
        for index, letter in enumerate(self._dead):
            of = self._of(letter.document.batch_id)
            seen_as = _seen_as(of.documents[letter.document.position - 1].name)[0]
            if of.batch.key == key and of.batch.batch_id < batch_id and letter.replayed_in is None and seen_as in names:
                self._dead[index] = replace(letter, replayed_in=batch_id)

    def _done_before(self, batch_id: int, key: str) -> Iterator[tuple[str | bytes, int, int]]:
        by_the_same = {None, *(of.batch.batch_id for of in self._batches if of.batch.key == key)}
        again = {
            d.document.document_id for d in self._dead if d.failure.get("retriable") and d.replayed_in in by_the_same
        }
        for of in self._batches[: batch_id - 1]:
            for position, document in enumerate(of.documents, 1):
                done = document.state is not DocumentState.QUEUED and document.name.mtime_ns != 0
                if (
                    of.batch.key == key
                    and done
                    and document_id(of.batch.book, of.batch.batch_id, position) not in again
                ):
                    yield _seen_as(document.name)

    def listed(self, batch_id: int) -> dict[int, Positions]:
        """See `RegisterStore.listed`."""
        return dict(self._of(batch_id).listings)

    def finish_listing(self, batch_id: int) -> None:
        """See `RegisterStore.finish_listing`."""
        of = self._of(batch_id)
        of.batch = replace(of.batch, listed=True)

    def finish_batch(self, batch_id: int) -> None:
        """See `RegisterStore.finish_batch`."""
        of = self._of(batch_id)
        if not of.batch.listed or of.accounts.in_flight:
            raise BatchNotDone(f"batch {batch_id} is not done: {of.accounts.in_flight} documents in flight")
        if of.batch.state != "finished":
            of.batch = replace(of.batch, state="finished", finished_at=time.time())

    def drop_batch(self, batch_id: int) -> None:
        """See `RegisterStore.drop_batch`."""
        if self._of(batch_id).documents or batch_id != len(self._batches):
            raise BatchNotDone(f"batch {batch_id} has documents, or is not the newest")
        self._batches.pop()

    def pending(self, batch_id: int, after_position: int = 0, limit: int = 1000) -> list[Document]:
        """See `WorkStore.pending`."""
        of = self._of(batch_id)
        queued = [
            position
            for position, document in enumerate(of.documents, 1)
            if position > after_position and document.state is DocumentState.QUEUED
        ]
        return [self._document(of, position) for position in queued[:limit]]

    def charge_attempt(self, document: Document, failure: Mapping[str, Any]) -> int:
        """See `WorkStore.charge_attempt`."""
        try:
            known = self._of(document.batch_id).documents[document.position - 1]
        except (UnknownBatch, IndexError) as error:
            raise UnknownDocument(f"there is no document {document.document_id}") from error
        known.attempts += 1
        known.last_failure = dict(failure)
        return known.attempts

    def head(self, book: str) -> Head:
        """See `BookStore.head`."""
        return self._heads.get(book, Head(book))

    def first_seen(self, book: str, digests: Iterable[str]) -> dict[str, FirstSeen]:
        """See `BookStore.first_seen`."""
        return {digest: self._first_seen[book, digest] for digest in digests if (book, digest) in self._first_seen}

    def commit(
        self,
        entries: Sequence[Entry],
        telemetry: Sequence[Telemetry] = (),
        *,
        kept: Mapping[str, str] | None = None,
    ) -> None:
        """See `BookStore.commit`."""
        if telemetry and len(telemetry) != len(entries):
            raise ValueError(f"{len(telemetry)} measurements for {len(entries)} entries")
        with self._all_or_nothing():
            measurements: Sequence[Telemetry | None] = telemetry or [None] * len(entries)
            for entry, measured in zip(entries, measurements, strict=True):
                self._commit(entry, measured, (kept or {}).get(entry.document_id))

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        before = copy.deepcopy((self._batches, self._heads, self._books, self._first_seen, self._dead))
        try:
            yield
        except BaseException:
            self._batches, self._heads, self._books, self._first_seen, self._dead = before
            raise

    def _commit(self, entry: Entry, measured: Telemetry | None, blob: str | None) -> None:
        head = self.head(entry.book)
        if (entry.sequence, entry.prev_hash) != (head.sequence + 1, head.entry_hash):
            raise HeadMoved(f"entry {entry.voucher} does not follow {head.sequence}")
        of = self._of(entry.batch_id)
        document = of.documents[entry.position - 1] if entry.position <= len(of.documents) else None
        if document is None or document.entry is not None:
            raise HeadMoved(f"the document of {entry.voucher} has ended before, or does not exist")
        self._heads[entry.book] = Head(entry.book, entry.sequence, entry.entry_hash)
        self._books[entry.book].append(entry)
        seen = FirstSeen(entry.document_id, entry.sequence, entry.uri)
        self._first_seen |= {(entry.book, digest): seen for digest in entry.known_by}
        changes = {counter_of(entry): 1, "in_flight": -1}
        if entry.verdict in (Verdict.NEEDS_REVIEW, Verdict.REJECTED):
            changes[str(entry.verdict)] = 1
        counts = {f.name: getattr(of.accounts, f.name) + changes.get(f.name, 0) for f in fields(Accounts)}
        of.accounts = Accounts(**counts)
        if entry.kind is EntryKind.FAILURE and entry.state is not DocumentState.CANCELLED:
            letter = DeadLetter(
                len(self._dead) + 1,
                self._document(of, entry.position),
                dict(entry.failure or {}),
                blob,
                time.time(),
                None,
            )
            self._dead.append(letter)
        document.entry, document.state, document.telemetry = entry, entry.state, measured

    def batches(
        self, *, unfinished: bool = False, key: str | None = None, key_starts: str = "", latest: int | None = None
    ) -> list[Batch]:
        """See `ReadStore.batches`."""
        found = [
            of.batch
            for of in self._batches
            if not (unfinished and of.batch.state == "finished")
            and key in (None, of.batch.key)
            and of.batch.key.startswith(key_starts)
        ]
        return found if latest is None else found[max(0, len(found) - latest) :]

    def batch_count(self) -> int:
        """See `ReadStore.batch_count`."""
        return len(self._batches)

    def batch(self, batch_id: int) -> Batch:
        """See `ReadStore.batch`."""
        return self._of(batch_id).batch

    def books(self) -> list[Head]:
        """See `ReadStore.books`."""
        return [self._heads[name] for name in sorted(self._heads)]

    def accounts(self, batch_id: int) -> Accounts:
        """See `ReadStore.accounts`."""
        return self._of(batch_id).accounts

    def entries(
        self, *, book: str | None = None, batch_id: int | None = None, after_sequence: int = 0, limit: int = 256
    ) -> list[Entry]:
        """See `ReadStore.entries`."""
        if book is None and batch_id is None:
            raise ValueError("entries of which book or batch?")
        of_book = self._books.get(book if batch_id is None else self._of(batch_id).batch.book, [])  # type: ignore[arg-type]
        following = of_book[after_sequence:]
        return [entry for entry in following if batch_id is None or entry.batch_id == batch_id][:limit]

    def document(self, document_id: str) -> DocumentRecord | None:
        """See `ReadStore.document`."""
        place = self._locate(document_id)
        return self._record(*place) if place else None

    def find(self, reference: str, limit: int = 20) -> list[DocumentRecord]:
        """See `ReadStore.find`."""
        place = self._locate(reference)
        book, sequence = parse_voucher(reference) or ("", 0)
        if place is None and 0 < sequence <= self.head(book).sequence:
            entry = self._books[book][sequence - 1]
            place = entry.batch_id, entry.position
        if place:
            return [self._record(*place)]
        places = [
            (document.name.uri != reference, of.batch.batch_id, position)
            for of in reversed(self._batches)
            for position, document in enumerate(of.documents, 1)
            if f"/{document.name.uri}".endswith(f"/{reference}")
        ]
        places.sort(key=lambda place: place[0])
        if not places and is_voucher_number(reference):
            of_number = (entries[int(reference) - 1 : int(reference)] for _, entries in sorted(self._books.items()))
            places = [(False, entry.batch_id, entry.position) for found in of_number for entry in found]
        return [self._record(*place[1:]) for place in places[:limit]]

    def names(self, limit: int) -> list[str]:
        """See `ReadStore.names`."""
        latest = (document.name.uri for of in reversed(self._batches) for document in reversed(of.documents))
        return list(islice(latest, limit))

    def slowest(self, batch_id: int, limit: int = 10) -> list[DocumentRecord]:
        """See `ReadStore.slowest`."""
        took = [
            (-document.telemetry.elapsed_s, position)
            for position, document in enumerate(self._of(batch_id).documents, 1)
            if document.telemetry
        ]
        return [self._record(batch_id, position) for _, position in sorted(took)[:limit]]

    def dead_letters(self, *, after_number: int = 0, limit: int = 100, replayed: bool = False) -> list[DeadLetter]:
        """See `ReadStore.dead_letters`."""
        following = self._dead[after_number:]
        return [letter for letter in following if replayed or letter.replayed_in is None][:limit]

    def dead_count(self) -> int:
        """See `ReadStore.dead_count`."""
        return sum(letter.replayed_in is None for letter in self._dead)

    def samples(self, batch_id: int) -> list[Sample]:
        """See `ReadStore.samples`."""
        return list(self._of(batch_id).samples)

    def add_sample(self, batch_id: int, sample: Sample) -> None:
        """See `Store.add_sample`."""
        of = self._of(batch_id)
        of.samples.append(sample)
        if len(of.samples) > SAMPLES_LIMIT:
            del of.samples[superfluous([point.at_s for point in of.samples])]

    def replay(self, document_ids: Sequence[str] | None = None) -> list[Batch]:
        """See `Store.replay`."""
        waiting = {letter.document.document_id: letter for letter in self._dead if letter.replayed_in is None}
        if document_ids is not None:
            unknown = [wanted for wanted in document_ids if wanted not in waiting]
            if unknown:
                raise UnknownDocument(f"{unknown[0]} is no dead letter, or was replayed already")
            waiting = {wanted: waiting[wanted] for wanted in document_ids}
        opened = []
        for source in sorted({letter.document.batch_id for letter in waiting.values()}):
            chosen = [letter for letter in waiting.values() if letter.document.batch_id == source]
            opened.append(self._replay_batch(source, sorted(chosen, key=lambda letter: letter.document.position)))
        return opened

    def _replay_batch(self, source: int, letters: list[DeadLetter]) -> Batch:
        old = self._of(source)
        new = self.open_batch(old.batch.book, f"{REPLAY_KEY}{source}", old.batch.today, old.batch.settings_json)
        documents = []
        for letter in letters:
            name = old.documents[letter.document.position - 1].name
            if letter.blob_sha256:
                name = replace(name, kind="blob", path=letter.blob_sha256.encode())
            documents.append(_Document(name, replay_of=letter.document.document_id))
            self._dead[letter.number - 1] = replace(letter, replayed_in=new.batch_id)
        self._append(new.batch_id, documents)
        self.finish_listing(new.batch_id)
        return self.batch(new.batch_id)

    def close(self) -> None:
        """See `Store.close`."""

    def _of(self, batch_id: int) -> _Batch:
        if not 1 <= batch_id <= len(self._batches):
            raise UnknownBatch(f"there is no batch {batch_id}")
        return self._batches[batch_id - 1]

    def _locate(self, wanted: str) -> tuple[int, int] | None:
        for of in self._batches:
            for position in range(1, len(of.documents) + 1):
                if document_id(of.batch.book, of.batch.batch_id, position) == wanted:
                    return of.batch.batch_id, position
        return None

    def _document(self, of: _Batch, position: int) -> Document:
        document = of.documents[position - 1]
        name, batch = document.name, of.batch
        name_id = document_id(batch.book, batch.batch_id, position)
        return Document(
            name_id, batch.batch_id, position, name.uri, name.path, name.kind, name.size_bytes, document.attempts
        )

    def _record(self, batch_id: int, position: int) -> DocumentRecord:
        of = self._of(batch_id)
        document = of.documents[position - 1]
        return DocumentRecord(
            self._document(of, position),
            document.state,
            document.name.external_id,
            document.last_failure,
            document.replay_of,
            document.telemetry,
            document.entry,
        )


def _seen_as(name: Registration) -> tuple[str | bytes, int, int]:
    return same_name(name.kind, name.path, name.uri), name.size_bytes, name.mtime_ns
