"""The truth about a drawn document: what is printed on it, and how its run must end."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from headrace.documents.status import EntryKind


@dataclass(frozen=True, slots=True)
class Truth:
    """What one file of a drawn collection holds. A field that is None is not printed, or cannot be read: not scored.

    Attributes:
        file: its name in the folder.
        expected: the kind of ledger entry that it must end in.
        codes: the failure codes that are right, when a failure is expected.
        duplicate_of: the file whose bytes it repeats.
        country, layout, wear: how it was drawn (ISO 3166 code, kind of receipt, recipe of effects and file format).
        merchant: the name as printed.
        issue_date: the day it was issued.
        total: the amount payable, with tip and rounding.
        tax: all tax in it.
        currency: ISO 4217.
        items: number of lines that were bought.
    """

    file: str
    expected: EntryKind = EntryKind.RECEIPT
    codes: tuple[str, ...] = ()
    duplicate_of: str | None = None
    country: str | None = None
    layout: str | None = None
    wear: str | None = None
    merchant: str | None = None
    issue_date: dt.date | None = None
    total: Decimal | None = None
    tax: Decimal | None = None
    currency: str | None = None
    items: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """The truth as plain JSON types; amounts as decimal strings."""
        plain = asdict(self)
        for key, value in plain.items():
            if isinstance(value, (Decimal, dt.date)):
                plain[key] = str(value)
        return plain


def write_truths(path: Path, truths: Iterable[Truth]) -> None:
    """Writes one truth a line."""
    with path.open("w", encoding="utf-8") as out:
        for truth in truths:
            out.write(json.dumps(truth.as_dict(), ensure_ascii=False) + "\n")


def read_truths(path: Path) -> Iterator[Truth]:
    """Reads what `write_truths` wrote.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is no truth; says which line.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                plain = json.loads(line)
                for key, kind in (("total", Decimal), ("tax", Decimal), ("issue_date", dt.date.fromisoformat)):
                    plain[key] = None if plain[key] is None else kind(plain[key])
                truth = Truth(**plain | {"expected": EntryKind(plain["expected"]), "codes": tuple(plain["codes"])})
            except (KeyError, TypeError, ArithmeticError, ValueError) as error:
                raise ValueError(f"{path}:{number}: not a truth of a drawn collection: {error}") from error
            yield truth
