"""The score of a run on a drawn collection: what it read and how it ended, beside what was drawn."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from headrace.documents.status import EntryKind
from headrace.simulation.truth import Truth

FIELDS: Final = ("merchant", "date", "total", "tax", "currency", "items")

FLOORS: Final[Mapping[str, float]] = {
    "merchant": 0.80,
    "date": 0.90,
    "total": 0.90,
    "tax": 0.70,
    "currency": 0.90,
    "items": 0.50,
}
"""The least part of each field that must be read exactly for a run to count as good. Optical reading is not perfect, so
these are below 1; how documents end (receipt, duplicate, failure), their order and their number must be perfect.
One may always be wrong, however few there are."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as drawn. `field` is `outcome`, `order` or one of `FIELDS`."""

    file: str
    field: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.file}: {self.field} should be {self.expected}, is {self.found}"


@dataclass(slots=True)
class Tally:
    """How many were right, of how many."""

    right: int = 0
    total: int = 0

    @property
    def wrong(self) -> int:
        """How many were not right."""
        return self.total - self.right

    def may_be_wrong(self, floor: float) -> int:
        """How many may be wrong under a floor; one may, however few there are."""
        return max(1, math.floor((1 - floor) * self.total + 1e-9))

    @property
    def share(self) -> float:
        """0..1; 1 when there was nothing to get wrong."""
        return self.right / self.total if self.total else 1.0


@dataclass(slots=True)
class Score:
    """What `score` found.

    Attributes:
        outcomes: how many documents ended as drawn (with the right failure code, the right first one).
        fields: for each of `FIELDS`, how many were read exactly, of those that are printed.
        layouts: for each kind of receipt, how many totals were read exactly.
        in_order: whether the lines came in the order of the files.
        differences: everything that is not as drawn, in the order of the lines; at most six for one document.
    """

    outcomes: Tally = field(default_factory=Tally)
    fields: dict[str, Tally] = field(default_factory=lambda: {name: Tally() for name in FIELDS})
    layouts: dict[str, Tally] = field(default_factory=dict)
    in_order: bool = True
    differences: list[Difference] = field(default_factory=list)

    @property
    def below_floor(self) -> tuple[str, ...]:
        """The fields that were read worse than `FLOORS` asks."""
        return tuple(name for name in FIELDS if self.fields[name].wrong > self.fields[name].may_be_wrong(FLOORS[name]))

    @property
    def ended_as_drawn(self) -> bool:
        """Whether every document ended as it must, once, in order."""
        return self.in_order and self.outcomes.right == self.outcomes.total

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """The score as a table, a row for each field; the first row is the head."""
        rows = [("", "right", "of", "share", "floor"), _row("outcome", self.outcomes, 1.0)]
        rows += [_row(name, self.fields[name], FLOORS[name]) for name in FIELDS]
        return [*rows, ("order", "yes" if self.in_order else "NO", "", "", "yes")]

    def table(self) -> str:
        """The rows as text; no trailing newline."""
        rows = self.rows()
        widths = [max(len(row[at]) for row in rows) for at in range(5)]
        return "\n".join(
            "  ".join(cell.ljust(widths[0]) if at == 0 else cell.rjust(widths[at]) for at, cell in enumerate(row))
            for row in rows
        )


def _row(name: str, tally: Tally, floor: float) -> tuple[str, str, str, str, str]:
    if floor < 1 and tally.total:  # what a small collection is held to
        floor = min(floor, 1 - tally.may_be_wrong(floor) / tally.total)
    return (name, str(tally.right), str(tally.total), f"{tally.share:.1%}", f"{floor:.0%}")


def score(lines: Iterable[Mapping[str, Any]], truths: Sequence[Truth]) -> Score:
    """Compares the lines of a run's output with the truth.

    Amounts, days and currencies have to be equal. Merchants are compared without case, accents, punctuation and
    blanks: printers shout, and engines differ in how they spell an umlaut.

    Args:
        lines: parsed lines of the JSONL output, in its order; read once, not kept.
        truths: what was drawn, in the order of the files.
    """
    found, by_file = Score(), {truth.file: truth for truth in truths}
    places = {truth.file: place for place, truth in enumerate(truths)}
    seen: set[str] = set()
    last_place = -1
    for line in lines:
        file = _file_name(line)
        truth = by_file.get(file)
        if truth is None or file in seen:
            found.outcomes.total += 1
            what = "a second line" if truth else "a line for a file that was not drawn"
            found.differences.append(Difference(file, "outcome", "one line", what))
            continue
        seen.add(file)
        if places[file] < last_place:
            found.in_order = False
            found.differences.append(Difference(file, "order", "its place", "after a later file"))
        last_place = max(last_place, places[file])
        _score_outcome(found, truth, line)
        if truth.expected is EntryKind.RECEIPT:
            _score_fields(found, truth, line)
    for truth in truths:
        if truth.file not in seen:
            found.outcomes.total += 1
            found.differences.append(Difference(truth.file, "outcome", truth.expected, "no line at all"))
    return found


def _file_name(line: Mapping[str, Any]) -> str:
    return str(_at(line, "source", "uri") or "").rsplit("/", 1)[-1]


def _score_outcome(found: Score, truth: Truth, line: Mapping[str, Any]) -> None:
    kind, code = str(line.get("kind")), _at(line, "failure", "code")
    expected = truth.expected + (f" {' or '.join(truth.codes)}" if truth.codes else "")
    actual = f"{kind} {code}" if code else kind
    right = kind == truth.expected and (not truth.codes or code in truth.codes)
    if right and truth.duplicate_of:
        first = str(_at(line, "duplicate_of", "uri") or "nothing").rsplit("/", 1)[-1]
        right = first == truth.duplicate_of
        expected, actual = f"{expected} of {truth.duplicate_of}", f"{actual} of {first}"
    found.outcomes.total += 1
    found.outcomes.right += right
    if not right:
        found.differences.append(Difference(truth.file, "outcome", expected, actual))


def _score_fields(found: Score, truth: Truth, line: Mapping[str, Any]) -> None:
    items = line.get("line_items")
    pairs: dict[str, tuple[object, object]] = {
        "merchant": (truth.merchant, _at(line, "merchant", "name", "value")),
        "date": (truth.issue_date, _at(line, "issue_date", "value")),
        "total": (truth.total, _at(line, "payable_amount", "value")),
        "tax": (truth.tax, _at(line, "tax_amount", "value")),
        "currency": (truth.currency, _at(line, "currency", "value")),
        "items": (truth.items, len(items) if isinstance(items, list) else None),
    }
    for name, (expected, actual) in pairs.items():
        if expected is None:
            continue
        right = _same(expected, actual, exact=name != "merchant")
        found.fields[name].total += 1
        found.fields[name].right += right
        if name == "total" and truth.layout:
            layout = found.layouts.setdefault(truth.layout, Tally())
            layout.total += 1
            layout.right += right
        if not right:
            found.differences.append(Difference(truth.file, name, str(expected), str(actual or "missing")))


def _same(expected: object, actual: object, *, exact: bool) -> bool:
    if actual is None:
        return False
    if isinstance(expected, Decimal):
        try:
            return expected == Decimal(str(actual))
        except InvalidOperation:
            return False
    if exact:
        return str(expected) == str(actual)
    return plain_letters(str(expected)) == plain_letters(str(actual))


def plain_letters(text: str) -> str:
    """Letters and digits only, lower case, without marks: how merchants are compared."""
    decomposed = unicodedata.normalize("NFKD", text.casefold().replace("ł", "l"))
    return "".join(char for char in decomposed if char.isalnum())


def _at(line: Mapping[str, Any], *path: str) -> Any:
    value: Any = line
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value
