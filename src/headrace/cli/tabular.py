"""Entries as rows of a table: one set of columns for CSV and Parquet, and cells that no spreadsheet executes."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from headrace.documents.entry import Entry

AMOUNT_DIGITS, AMOUNT_DECIMALS = 38, 9
ROW_GROUP_ROWS = 1024
"""Rows that a Parquet file holds back in memory before it writes them."""

_STARTS_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


class Kind(Enum):
    """What a column holds."""

    TEXT = "text"
    COUNT = "count"
    AMOUNT = "amount"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, what it holds, and where its value is in an entry."""

    name: str
    kind: Kind
    value: Callable[[Entry], Any]


def _ledger(name: str) -> Callable[[Entry], Any]:
    return lambda entry: getattr(entry, name)


def _field(place: str) -> Callable[[Entry], Any]:
    keys = (*place.split("."), "value")
    return lambda entry: _dig(entry.receipt, keys)


def _part(attribute: str, key: str) -> Callable[[Entry], Any]:
    return lambda entry: _dig(getattr(entry, attribute), (key,))


def _dig(node: Any, keys: Iterable[str]) -> Any:
    for key in keys:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def _failed_checks(entry: Entry) -> str | None:
    checks = [*(_dig(entry.receipt, ("checks",)) or ()), *entry.policy_checks]
    return "; ".join(check["id"] for check in checks if not check["passed"]) or None


COLUMNS = (
    Column("voucher", Kind.TEXT, _ledger("voucher")),
    Column("book", Kind.TEXT, _ledger("book")),
    Column("sequence", Kind.COUNT, _ledger("sequence")),
    Column("batch_id", Kind.COUNT, _ledger("batch_id")),
    Column("position", Kind.COUNT, _ledger("position")),
    Column("document_id", Kind.TEXT, _ledger("document_id")),
    Column("uri", Kind.TEXT, _ledger("uri")),
    Column("kind", Kind.TEXT, _ledger("kind")),
    Column("status", Kind.TEXT, _ledger("state")),
    Column("verdict", Kind.TEXT, _ledger("verdict")),
    Column("document_type", Kind.TEXT, lambda entry: _dig(entry.receipt, ("document_type",))),
    Column("merchant", Kind.TEXT, _field("merchant.name")),
    Column("merchant_tax_id", Kind.TEXT, _field("merchant.tax_id")),
    Column("receipt_number", Kind.TEXT, _field("receipt_number")),
    Column("issue_date", Kind.DATE, _field("issue_date")),
    Column("issue_time", Kind.TEXT, _field("issue_time")),
    Column("currency", Kind.TEXT, _field("currency")),
    Column("tax_exclusive_amount", Kind.AMOUNT, _field("tax_exclusive_amount")),
    Column("tax_amount", Kind.AMOUNT, _field("tax_amount")),
    Column("tax_inclusive_amount", Kind.AMOUNT, _field("tax_inclusive_amount")),
    Column("tip_amount", Kind.AMOUNT, _field("tip_amount")),
    Column("discount_amount", Kind.AMOUNT, _field("discount_amount")),
    Column("rounding_amount", Kind.AMOUNT, _field("rounding_amount")),
    Column("payable_amount", Kind.AMOUNT, _field("payable_amount")),
    Column("pages", Kind.COUNT, lambda entry: _dig(entry.receipt, ("pages",))),
    Column("failed_checks", Kind.TEXT, _failed_checks),
    Column("review_reasons", Kind.TEXT, lambda entry: "; ".join(entry.review_reasons) or None),
    Column("duplicate_of", Kind.TEXT, _part("duplicate_of", "document_id")),
    Column("duplicate_of_voucher", Kind.TEXT, _ledger("duplicate_of_voucher")),
    Column("failure_code", Kind.TEXT, _part("failure", "code")),
    Column("failure_detail", Kind.TEXT, _part("failure", "detail")),
    Column("sha256", Kind.TEXT, _ledger("sha256")),
    Column("entry_hash", Kind.TEXT, _ledger("entry_hash")),
)


def amount(value: Any) -> Decimal | None:
    """A finite decimal; None for anything else."""
    try:
        number = Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        return None
    return number if number.is_finite() else None


def safe_text(text: str) -> str:
    """Text as a cell that a spreadsheet shows and never computes: an apostrophe in front disarms a formula.

    Blanks and control marks before the formula do not hide it: some programs skip them.
    """
    start = text.lstrip(" \t\r\n\v\f\0\ufeff\u00a0")
    return "'" + text if start.startswith(_STARTS_FORMULA) or text[:1] in ("\t", "\r", "\n", "\0") else text


def csv_cell(kind: Kind, value: Any) -> str:
    """A value as a CSV cell. Numbers stay numbers, the negative ones too; all else is text."""
    if value is None:
        return ""
    if kind is Kind.COUNT:
        return str(int(value))
    if kind is Kind.AMOUNT and (number := amount(value)) is not None:
        return f"{number:f}"
    return safe_text(str(value))


def write_csv(entries: Iterable[Entry], file: BinaryIO) -> int:
    """Writes CSV (RFC 4180, UTF-8 with the mark that makes spreadsheets see it); returns the rows."""
    text = io.TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="")
    try:
        text.write("\ufeff")
        writer = csv.writer(text)
        writer.writerow([column.name for column in COLUMNS])
        count = 0
        for entry in entries:
            writer.writerow([csv_cell(column.kind, column.value(entry)) for column in COLUMNS])
            count += 1
        text.flush()
    finally:
        text.detach()  # the file stays open: it is the caller's
    return count


def write_parquet(entries: Iterable[Entry], file: BinaryIO) -> int:
    """Writes Parquet, one row group after the other; returns the rows.

    Amounts are exact decimals, dates are dates. What does not fit (a total of 40 digits) is null, never rounded.

    Raises:
        ModuleNotFoundError: pyarrow is not installed.
    """
    import pyarrow
    from pyarrow import parquet

    types = {
        Kind.TEXT: pyarrow.string(),
        Kind.COUNT: pyarrow.int64(),
        Kind.AMOUNT: pyarrow.decimal128(AMOUNT_DIGITS, AMOUNT_DECIMALS),
        Kind.DATE: pyarrow.date32(),
    }
    schema = pyarrow.schema([(column.name, types[column.kind]) for column in COLUMNS])
    count = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _groups(entries):
            values = [[parquet_value(c.kind, c.value(entry)) for entry in group] for c in COLUMNS]
            writer.write_table(pyarrow.table(values, schema=schema))
            count += len(group)
    return count


def parquet_value(kind: Kind, value: Any) -> Any:
    """A value as Parquet's types have it."""
    if value is None:
        return None
    if kind is Kind.COUNT:
        return int(value)
    if kind is Kind.AMOUNT:
        number = amount(value)
        return number if number is not None and _fits(number) else None
    if kind is Kind.DATE:
        try:
            return dt.date.fromisoformat(str(value))
        except ValueError:
            return None
    return str(value).encode("utf-8", "backslashreplace").decode()


def _fits(number: Decimal) -> bool:
    exponent = number.as_tuple().exponent
    return (
        isinstance(exponent, int)
        and exponent >= -AMOUNT_DECIMALS
        and (number.adjusted() < AMOUNT_DIGITS - AMOUNT_DECIMALS)
    )


def _groups(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    from itertools import islice

    entries = iter(entries)
    while group := list(islice(entries, ROW_GROUP_ROWS)):
        yield group
