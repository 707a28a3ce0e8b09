"""What a search is narrowed by."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import and_, select

from headrace.documents.status import Verdict
from headrace.ledger.reading import letters
from headrace.search.errors import BadQuery
from headrace.search.receipt_text import ten_thousandths
from headrace.storage.tables import books, entries, search_receipts, submissions


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """All of these must hold; a receipt that lacks the value does not pass.

    Attributes:
        after, before: the date of the receipt, both days included.
        min_total, max_total: what was to be paid, in the currency of the receipt, both included.
        currency: ISO 4217, such as EUR.
        merchant: a part of the name, without regard to case, blanks and punctuation.
        verdict: with reviews applied.
        batch: the number of a batch, as `headrace status` has it.
        book: the name of a book.
        client: only what this client of the service handed in; what came by `headrace run` is nobody's.
    """

    after: dt.date | None = None
    before: dt.date | None = None
    min_total: Decimal | None = None
    max_total: Decimal | None = None
    currency: str | None = None
    merchant: str | None = None
    verdict: Verdict | None = None
    batch: int | None = None
    book: str | None = None
    client: str | None = None

    def conditions(self) -> list[Any]:
        """As SQL conditions on `search_receipts`.

        Raises:
            BadQuery: a range that nothing is in, an amount that is none, a merchant without a letter.
        """
        its = search_receipts.c
        if self.after and self.before and self.after > self.before:
            raise BadQuery(f"no day is on or after {self.after} and on or before {self.before}")
        if self.min_total is not None and self.max_total is not None and self.min_total > self.max_total:
            raise BadQuery(f"no amount is {self.min_total} or more and {self.max_total} or less")
        conditions: list[Any] = []
        if self.after:
            conditions.append(its.issue_date >= self.after.isoformat())
        if self.before:
            conditions.append(its.issue_date <= self.before.isoformat())
        if self.min_total is not None:
            conditions.append(its.total_1e4 >= _scaled(self.min_total))
        if self.max_total is not None:
            conditions.append(its.total_1e4 <= _scaled(self.max_total))
        if self.currency:
            conditions.append(its.currency == self.currency.upper())
        if self.merchant:
            if not letters(self.merchant):
                raise BadQuery(f"a merchant has letters, and {self.merchant!r} has none")
            conditions.append(its.merchant_letters.contains(letters(self.merchant), autoescape=True))
        if self.verdict:
            conditions.append(its.verdict == str(self.verdict))
        if self.batch is not None:
            conditions.append(its.batch_id == self.batch)
        if self.book is not None:
            conditions.append(
                its.book_id.in_(books.select().with_only_columns(books.c.id).where(books.c.name == self.book))
            )
        if self.client is not None:
            conditions.append(_handed_in_by(self.client))
        return conditions


def _handed_in_by(client: str) -> Any:
    """By document and not by batch: only the submission says whose a document is."""
    entry, its = entries.c, submissions.c
    document = and_(its.batch_id == entry.batch_id, its.position == entry.position)
    return (
        select(entry.sequence)
        .join_from(entries, submissions, document)
        .where(entry.book_id == search_receipts.c.book_id, entry.sequence == search_receipts.c.sequence)
        .where(its.client == client)
        .correlate(search_receipts)
        .exists()
    )


def _scaled(amount: Decimal) -> int:
    scaled = ten_thousandths(amount)
    if scaled is None:
        raise BadQuery(f"{amount} is no amount")
    return scaled
