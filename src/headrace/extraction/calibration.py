"""What a confidence means: of a hundred values with 0.9, about ninety are right, as counted on labelled receipts.

Rules give each value a raw score, which is an ordering only. A curve for each field turns it into the share of values
with such a score that were right. The curves are data, `calibration.json`, written by `bench/calibration.py`; they rise
all along, so that what was trusted more stays trusted more. Fields that nobody labelled keep their raw score.
"""

from __future__ import annotations

import functools
import json
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from headrace.documents.receipt import ReceiptFields

FIELDS = ("merchant.name", "merchant.address", "issue_date", "currency", "tax_amount", "payable_amount")
"""The fields whose confidence is a probability; the total before rounding takes the curve of the payable amount."""

LOWEST, HIGHEST = 0.02, 0.99
_FILE = "calibration.json"


@dataclass(frozen=True, slots=True)
class Curve:
    """From raw score to the share that was right: straight from nothing to its first knot and on, level after its last.

    Attributes:
        knots: (raw score, share right), both rising.
        count: how many labelled values it was fitted on.
    """

    knots: tuple[tuple[float, float], ...]
    count: int

    def at(self, raw: float) -> float:
        """The share right among values with this raw score, 0..1."""
        if raw <= 0:
            return 0.0
        after = bisect_left(self.knots, (raw,))
        if after == len(self.knots):
            return self.knots[-1][1]
        (x0, y0), (x1, y1) = self.knots[after - 1] if after else (0.0, 0.0), self.knots[after]
        return min(y1, y0 + (y1 - y0) * (raw - x0) / (x1 - x0))  # rounding may carry it over the knot

    @classmethod
    def fit(cls, seen: Iterable[tuple[float, bool]], *, least: int = 25) -> Curve:
        """The rising curve nearest to what was seen (isotonic regression by pooling adjacent violators).

        Blocks of fewer than `least` values join a neighbour, and each counts half a right and half a wrong one more
        than it has: twenty out of twenty are no proof of certainty. (Ayer et al., 1955: "An empirical distribution
        function for sampling with incomplete information".)

        Raises:
            ValueError: nothing was seen.
        """
        same: dict[float, list[float]] = {}  # values with one score belong together: count, right, sum of the scores
        for raw, right in seen:
            group = same.setdefault(raw, [0.0, 0.0, 0.0])
            group[:] = [group[0] + 1, group[1] + right, group[2] + raw]
        if not same:
            raise ValueError("a curve needs at least one value whose truth is known")
        blocks: list[list[float]] = []
        for _, block in sorted(same.items()):
            blocks.append(block)
            while len(blocks) > 1 and (blocks[-2][0] < least or _falls(blocks[-2], blocks[-1])):
                _join_last(blocks)
        while len(blocks) > 1 and (blocks[-1][0] < least or _falls(blocks[-2], blocks[-1])):
            _join_last(blocks)
        knots: dict[float, float] = {}
        lowest = min(same)
        for count, hits, scores in blocks:
            share = min(HIGHEST, max(LOWEST, (hits + 0.5) / (count + 1)))
            knots[round(scores / count, 4)] = round(max(share, max(knots.values(), default=0.0)), 4)
        knots.setdefault(round(lowest, 4), min(knots.values()))  # level down to the lowest that was seen
        return cls(tuple(sorted(knots.items())), int(sum(block[0] for block in blocks)))


def _falls(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether the later block has no larger share than the one before it."""
    return before[1] * after[0] >= after[1] * before[0]


def _join_last(blocks: list[list[float]]) -> None:
    after, before = blocks.pop(), blocks.pop()
    blocks.append([a + b for a, b in zip(before, after, strict=True)])


def calibrated(fields: ReceiptFields, curves: Mapping[str, Curve] | None = None) -> ReceiptFields:
    """The fields with confidences that are shares; `curves` as they come with headrace when not given."""
    known = shipped_curves() if curves is None else curves
    if not known:
        return fields
    changed: dict[str, Any] = {}
    merchant: dict[str, Any] = {}
    for name, curve in known.items():
        place, _, inner = name.partition(".")
        field = getattr(getattr(fields, place), inner) if inner else getattr(fields, place)
        if field.value is not None:
            (merchant if inner else changed)[inner or place] = _with(field, curve)
    total = known.get("payable_amount")
    if total is not None and fields.tax_inclusive_amount.value is not None:
        changed["tax_inclusive_amount"] = _with(fields.tax_inclusive_amount, total)
    if merchant:
        changed["merchant"] = fields.merchant.model_copy(update=merchant)
    return fields.model_copy(update=changed)


def _with(field: Any, curve: Curve) -> Any:
    share = curve.at(field.confidence)
    if field.status != "ok":  # in doubt by a rule of its own, and too rare to be counted: never trusted more
        share = min(share, field.confidence)
    return field.model_copy(update={"confidence": round(share, 3)})


@functools.cache
def shipped_curves() -> Mapping[str, Curve]:
    """The curves that come with headrace; read once."""
    told = json.loads((files("headrace.extraction") / _FILE).read_text(encoding="utf-8"))
    return {
        name: Curve(tuple((raw, share) for raw, share in curve["knots"]), curve["count"])
        for name, curve in told["fields"].items()
    }
