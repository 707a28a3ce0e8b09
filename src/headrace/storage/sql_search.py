"""What search keeps, in SQL: texts of receipts, their vectors, and how far the entries were taken in.

Nothing here is the only copy of anything: texts come from entries, vectors from texts. So there is no step between two
transactions at which a killed process could lose something; what is missing is seen by the next one, and made.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Integer, TextClause, and_, column, func, or_, select, table, text, update
from sqlalchemy.dialects.sqlite import insert

from headrace.documents.entry import Entry
from headrace.storage.sql import SqlPart
from headrace.storage.sql_reading import as_entry, select_entries
from headrace.storage.tables import FULL_TEXT, books, embeddings, entries, search_progress, search_receipts

_words = table(FULL_TEXT, column("rowid", Integer), column("rank"))
_TERMS = "search_terms"

NUMBERS_PER_QUERY = 500  # SQLite takes a bounded number of parameters


class SearchReceipt(NamedTuple):
    """A receipt as it is searched. `total_1e4` is in ten-thousandths of the currency."""

    book: str
    sequence: int
    batch_id: int
    text: str
    text_sha256: bytes
    merchant: str | None
    merchant_letters: str | None
    issue_date: str | None
    total_1e4: int | None
    currency: str | None
    verdict: str | None


class Unembedded(NamedTuple):
    """A text that has no vector of the model."""

    number: int
    text: str
    text_sha256: bytes


class Embedded(NamedTuple):
    """A vector (float32, little-endian) of a text. `change` rises with every one that is written."""

    number: int
    change: int
    vector: bytes


class SearchCounts(NamedTuple):
    """How far search is behind the ledger.

    Attributes:
        entries_behind: entries that were not looked at yet; each may be a receipt, or be none.
        receipts: those that can be found by words.
        embedded: those of them that can be found by meaning, too.
        last_change: of all vectors; 0 without any.
    """

    entries_behind: int
    receipts: int
    embedded: int
    last_change: int


class SqlSearch(SqlPart):
    """Keeps and finds what search derives. One process writes it: see `SqliteStore.open_beside`."""

    def search_cursor(self, book: str, text_version: int) -> int:
        """The last entry of the book that was taken in by this version of the text; 0 when none was."""
        statement = (
            select(search_progress.c.sequence)
            .join(books)
            .where(books.c.name == book, search_progress.c.text_version == text_version)
        )
        with self._transaction() as connection:
            return connection.scalar(statement) or 0

    def amended(self, outcomes: Collection[tuple[int, int]]) -> list[Entry]:
        """The outcomes of these documents (batch, position), and all amendments of them, in the order of the book."""
        found: list[Entry] = []
        with self._transaction() as connection:
            for batch_id, position in outcomes:
                where = (entries.c.batch_id == batch_id, entries.c.position == position)
                for one in ("entries.amends = 0", "entries.amends = 1"):  # literals, for the partial indexes
                    rows = connection.execute(select_entries().where(*where, text(one)).order_by(entries.c.sequence))
                    found += [as_entry(row) for row in rows]
        return found

    def take_in(self, book: str, receipts: Sequence[SearchReceipt], sequence: int, text_version: int) -> None:
        """Writes receipts, new or changed, and that the book was looked at up to `sequence`; in one transaction.

        The vector of a receipt whose text is the same stays; one whose text has changed waits for another.
        """
        with self._transaction() as connection:
            book_id = self._book_id(book)
            for receipt in receipts:
                self._take_in(book_id, receipt)
            step = {"sequence": sequence, "text_version": text_version}
            connection.execute(
                insert(search_progress).values(book_id=book_id, **step).on_conflict_do_update(["book_id"], set_=step)
            )

    def _take_in(self, book_id: int | None, receipt: SearchReceipt) -> None:
        values = receipt._asdict() | {"book_id": book_id}
        del values["book"]
        connection = self._connection
        this = (search_receipts.c.book_id == book_id, search_receipts.c.sequence == receipt.sequence)
        old = connection.execute(select(search_receipts.c.number, search_receipts.c.text).where(*this)).one_or_none()
        if old is None:
            number = connection.execute(
                insert(search_receipts).values(values).returning(search_receipts.c.number)
            ).scalar_one()
        else:
            number = old.number
            if old.text != receipt.text:
                values["embedded_by"] = None
                # The index does not keep the text: it must be told what it is to forget.
                forget = f"INSERT INTO {FULL_TEXT}({FULL_TEXT}, rowid, text) VALUES ('delete', ?, ?)"
                connection.exec_driver_sql(forget, (number, old.text))
            connection.execute(update(search_receipts).where(search_receipts.c.number == number).values(values))
        if old is None or old.text != receipt.text:
            connection.exec_driver_sql(f"INSERT INTO {FULL_TEXT}(rowid, text) VALUES (?, ?)", (number, receipt.text))

    def unembedded(self, model: str, *, after_number: int = 0, limit: int = 256) -> list[Unembedded]:
        """The next receipts that have no vector of this model for their text, in the order of their numbers."""
        its = search_receipts.c
        statement = (
            select(its.number, its.text, its.text_sha256)
            .where(its.number > after_number, or_(its.embedded_by.is_(None), its.embedded_by != model))
            .order_by(its.number)
            .limit(limit)
        )
        with self._transaction() as connection:
            return [Unembedded(*row) for row in connection.execute(statement)]

    def keep_vectors(self, model: str, vectors: Sequence[tuple[Unembedded, bytes]]) -> int:
        """Writes vectors, in one transaction; leaves out those whose text was changed meanwhile. Returns how many."""
        kept = 0
        with self._transaction() as connection:
            change = connection.scalar(select(func.max(embeddings.c.change))) or 0
            for of, vector in vectors:
                its = and_(search_receipts.c.number == of.number, search_receipts.c.text_sha256 == of.text_sha256)
                if not connection.execute(update(search_receipts).where(its).values(embedded_by=model)).rowcount:
                    continue
                kept += 1
                row = {"model": model, "text_sha256": of.text_sha256, "change": change + kept, "vector": vector}
                statement = insert(embeddings).values(number=of.number, **row)
                connection.execute(statement.on_conflict_do_update(["number"], set_=row))
        return kept

    def vectors_since(self, model: str, change: int, *, limit: int = 1000) -> list[Embedded]:
        """The vectors of this model that were written after this change, in the order in which they were."""
        its = embeddings.c
        statement = (
            select(its.number, its.change, its.vector)
            .join(search_receipts, search_receipts.c.number == its.number)
            .where(its.change > change, its.model == model, _still_of(model))
            .order_by(its.change)
            .limit(limit)
        )
        with self._transaction() as connection:
            return [Embedded(*row) for row in connection.execute(statement)]

    def vectors_beyond(self, model: str, change: int) -> int:
        """How many vectors of this model were written after this change."""
        its = embeddings.c
        with self._transaction() as connection:
            return connection.scalar(select(func.count()).where(its.change > change, its.model == model)) or 0

    def vectors_of(self, model: str, numbers: Sequence[int]) -> list[Embedded]:
        """The vectors of this model of these receipts."""
        its = embeddings.c
        found: list[Embedded] = []
        with self._transaction() as connection:
            for start in range(0, len(numbers), NUMBERS_PER_QUERY):
                piece = numbers[start : start + NUMBERS_PER_QUERY]
                statement = (
                    select(its.number, its.change, its.vector)
                    .join(search_receipts, search_receipts.c.number == its.number)
                    .where(its.number.in_(piece), its.model == model, _still_of(model))
                )
                found += [Embedded(*row) for row in connection.execute(statement)]
        return found

    def receipts_with(self, words: Sequence[str]) -> list[int]:
        """How many receipts have each of these words; 0 also for what the full-text index has in another form."""
        made = f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{_TERMS} USING fts5vocab(main, {FULL_TEXT}, row)"
        counts = text(f"SELECT doc FROM temp.{_TERMS} WHERE term = :term")
        with self._transaction() as connection:
            connection.exec_driver_sql(made)
            return [connection.scalar(counts, {"term": as_term(word)}) or 0 for word in words]

    def matching_words(self, query: str, where: Sequence[Any], limit: int, *, newest: bool = False) -> list[int]:
        """The receipts that match a query of FTS5 and the conditions, the best by BM25 first, or the newest.

        BM25 looks at every receipt that matches, which takes about 0.7 microseconds for each; the newest do not.
        """
        match = text(f"{FULL_TEXT} MATCH :words").bindparams(words=query)
        order = _words.c.rowid.desc() if newest else _words.c.rank
        statement = select(_words.c.rowid).where(match).order_by(order).limit(limit)
        if where:
            statement = statement.join(search_receipts, search_receipts.c.number == _words.c.rowid).where(*where)
        with self._transaction() as connection:
            return list(connection.execute(statement).scalars())

    def matching(self, where: Sequence[Any], *, among: Sequence[int] | None = None, limit: int) -> list[int]:
        """The receipts for which the conditions hold: the newest, or those of a list."""
        number = search_receipts.c.number
        statement = select(number).where(*where).order_by(number.desc()).limit(limit)
        with self._transaction() as connection:
            if among is None:
                return list(connection.execute(statement).scalars())
            found: set[int] = set()
            for start in range(0, len(among), NUMBERS_PER_QUERY):
                piece = statement.where(number.in_(among[start : start + NUMBERS_PER_QUERY]))
                found.update(connection.execute(piece).scalars())
            return [one for one in among if one in found]

    def search_entries(self, numbers: Sequence[int]) -> list[tuple[SearchReceipt, Entry]]:
        """These receipts with their entries, in the order of the numbers; at most 500."""
        its = search_receipts.c
        columns = (its.sequence, its.batch_id, its.text, its.text_sha256, its.merchant, its.merchant_letters)
        more = (its.issue_date, its.total_1e4, its.currency, its.verdict)
        statement = (
            select(its.number, its.book_id, books.c.name, *columns, *more).join(books).where(its.number.in_(numbers))
        )
        found: dict[int, tuple[SearchReceipt, Entry]] = {}
        with self._transaction() as connection:
            for row in connection.execute(statement).all():
                entry = select_entries().where(entries.c.book_id == row[1], entries.c.sequence == row[3])
                found[row[0]] = SearchReceipt._make(row[2:]), as_entry(connection.execute(entry).one())
        return [found[number] for number in numbers if number in found]

    def search_counts(self, model: str, text_version: int) -> SearchCounts:
        """How far search is behind the ledger, in one look."""
        its = search_receipts.c
        taken = func.coalesce(search_progress.c.sequence, 0)
        same = and_(search_progress.c.book_id == books.c.id, search_progress.c.text_version == text_version)
        behind = (
            select(func.coalesce(func.sum(books.c.sequence - taken), 0))
            .select_from(books)
            .outerjoin(search_progress, same)
        )
        with self._transaction() as connection:
            return SearchCounts(
                int(connection.scalar(behind) or 0),
                connection.scalar(select(func.count()).select_from(search_receipts)) or 0,
                connection.scalar(select(func.count()).where(its.embedded_by == model)) or 0,
                connection.scalar(select(func.max(embeddings.c.change))) or 0,
            )


def as_term(word: str) -> str:
    """A word as the full-text index has it: small letters without marks."""
    plain = unicodedata.normalize("NFKD", word)
    return "".join(letter for letter in plain if not unicodedata.combining(letter)).lower()


def _still_of(model: str) -> TextClause:
    """The receipt's vector is of this model, and of its present text.

    The plus keeps SQLite from beginning with the index of models, in which nearly all receipts are.
    """
    return text("+search_receipts.embedded_by = :still_of").bindparams(still_of=model)
