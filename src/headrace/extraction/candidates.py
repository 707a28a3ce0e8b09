"""The amounts that could be the total, and the points that speak for each: its label's tier, and the sums that fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from headrace.documents.money import CASH_ROUNDING, tolerance
from headrace.extraction.figures import Figure
from headrace.extraction.vocabulary import Kind

ZERO = Decimal(0)

TIERS: dict[Kind, float] = {
    Kind.ROUNDED_TOTAL: 7.0,
    Kind.PAYABLE: 6.0,
    Kind.GROSS: 5.6,
    Kind.TOTAL: 5.0,
    Kind.PAID: 3.2,
    Kind.CARD: 2.6,
    Kind.AMOUNT: 2.2,
    Kind.SUBTOTAL: 1.2,
    Kind.TENDERED: 0.8,
    Kind.NET: 0.3,
}


@dataclass(slots=True)
class Candidate:
    """One value that could be the total, and what speaks for it."""

    value: Decimal
    score: float
    figure: Figure | None
    proofs: list[str] = field(default_factory=list)

    @property
    def confirmed(self) -> bool:
        """Other printed amounts add up to it."""
        return bool(self.proofs)


def by_kind(figures: Iterable[Figure], kind: Kind) -> list[Figure]:
    """The money amounts whose label says this kind, tax tables left out."""
    return [f for f in figures if f.kind is kind and f.amount.marked and not f.tax_table]


def find_candidates(figures: Sequence[Figure], *, whole_units: bool) -> dict[Decimal, Candidate]:
    """Every labelled amount that could be the total, by value, with the points of its best place."""
    candidates: dict[Decimal, Candidate] = {}
    last_total_page = max(
        (f.row.page for f in figures if f.kind in (Kind.PAYABLE, Kind.TOTAL, Kind.GROSS) and f.amount.marked), default=0
    )
    heights = sorted(f.row.height for f in figures)
    usual = heights[len(heights) // 2] if heights else 0.0
    seen: dict[Decimal, set[tuple[Kind, int]]] = {}
    for f in figures:
        if f.label is None or f.label.kind not in TIERS:
            continue
        if not f.amount.marked and not (f.last and f.order == 0 and len(f.amount.number.groups[0]) <= 7):
            continue
        score = TIERS[f.label.kind]
        if not f.amount.marked:
            score -= 0.5 if whole_units else 2.5
        if not f.last:
            score -= 1.5
        if f.position != "right":
            score -= 0.8
        if f.label.purity < 0.5:
            score -= 4.0 * (0.5 - f.label.purity)
        if f.tax_table:
            score -= 4.0
        if f.row.page < last_total_page:
            score -= 3.0
        if f.value <= 0:
            score -= 1.5 if f.value < 0 else 4.0
        if f.amount.number.repaired:
            score -= 0.3
        if usual and f.row.height > 1.5 * usual and f.label.kind in (Kind.TOTAL, Kind.PAYABLE):
            score += 0.4
        known = candidates.get(f.value)
        if known is None:
            candidates[f.value] = Candidate(f.value, score, f)
        elif score > known.score:
            known.score, known.figure = score, f
        seen.setdefault(f.value, set()).add((f.label.kind, f.row.index))
    for value, places in seen.items():
        rows = {row for _, row in places}
        candidates[value].score += 0.5 * min(3, len(rows) - 1)
    return candidates


def add_proofs(
    candidates: dict[Decimal, Candidate],
    figures: Sequence[Figure],
    items_sum: Decimal | None,
    tendered: Figure | None,
    change: Figure | None,
    rounding: Decimal | None,
    currency: str | None,
) -> None:
    """Adds to each candidate the points of the sums that come out at it."""
    cent = tolerance(1)
    taxes = {
        f.value for f in figures if f.kind in (Kind.TAX, Kind.TAX_TOTAL) and f.amount.marked and f.last and f.value > 0
    }
    nets = {f.value for f in figures if f.kind in (Kind.NET, Kind.SUBTOTAL) and f.amount.marked and f.value > 0}
    services = {f.value for f in by_kind(figures, Kind.SERVICE)} | {ZERO}
    discounts = {abs(f.value) for f in by_kind(figures, Kind.DISCOUNT)} | {ZERO}
    subtotals = {f.value for f in by_kind(figures, Kind.SUBTOTAL)}
    tips = {f.value for f in by_kind(figures, Kind.TIP)} - {ZERO}
    tip_row = max((f.row.index for f in by_kind(figures, Kind.TIP)), default=0)
    paid = {f.value for f in by_kind(figures, Kind.CARD)}
    given = tendered.value - change.value if tendered is not None and change is not None else None
    if given is not None and given > 0 and given not in candidates:
        printed = next((f for f in figures if f.value == given and f.amount.marked and not f.tax_table), None)
        if printed is not None:
            candidates[given] = Candidate(given, 1.5, printed)
    _add_unlabelled_sum(candidates, figures)
    _before_additions(candidates, figures, rounding or ZERO)
    for value, c in candidates.items():
        if value <= 0:
            continue
        if given is not None and given == value:
            c.score += 3.0 if change is not None and change.value != 0 else 1.0
            c.proofs.append("money given less change")
        elif given is not None and change is not None and change.value > 0 and given > 0:
            c.score -= (
                2.5
                if tendered is not None and tendered.value == value
                else 0.5
                if abs(given - value) <= CASH_ROUNDING["MYR"]
                else 1.5
            )
        elif tendered is not None and change is None and value == tendered.value and value == items_sum:
            c.score += 1.2
            c.proofs.append("the money given")
        if any(abs(n + t - value) <= 2 * cent and n != value for n in nets for t in taxes):
            c.score += 1.2
            c.proofs.append("net plus tax")
        elif any(
            abs(s + v + t - d + (rounding or ZERO) - value) <= 2 * cent and value != s
            for s in subtotals
            for v in services
            for d in discounts
            for t in ({ZERO} | taxes)
        ):
            c.score += 1.0
            c.proofs.append("subtotal with service, tax and discount")
        if (
            items_sum is not None
            and items_sum > 0
            and abs(items_sum - value) <= cent + CASH_ROUNDING.get(currency or "", ZERO)
        ):
            c.score += 1.0
            c.proofs.append("sum of the items")
        other_words = c.figure is not None and c.figure.label is not None and c.figure.label.purity < 1
        if items_sum is not None and value * 2 < items_sum and other_words and not c.proofs and discounts == {ZERO}:
            c.score -= 2.5  # "total" of something else: less than half of the goods, and nothing was taken off
        if value in paid and c.figure is not None and c.figure.kind is not Kind.CARD:
            c.score += 1.0
            c.proofs.append("the card payment")
        if rounding and (value - rounding in candidates or value + abs(rounding) in candidates):
            c.score += 0.8
        if tips and any(s + t == value for s in candidates for t in tips):
            # Printed below the tip, it is what was paid, whatever adds up to the bill above.
            below = c.figure is not None and c.figure.row.index > tip_row
            c.score += 4.0 if below else 1.5
            c.proofs.append("bill plus tip")


def _add_unlabelled_sum(candidates: dict[Decimal, Candidate], figures: Sequence[Figure]) -> None:
    """An amount whose label is lost, below a subtotal and a tax that add up to it, could be the total."""
    subtotals = by_kind(figures, Kind.SUBTOTAL)
    for tax in by_kind(figures, Kind.TAX):
        for subtotal in subtotals[-3:]:
            value = subtotal.value + tax.value
            if tax.value <= 0 or value in candidates or tax.row.index <= subtotal.row.index:
                continue
            below = (f for f in figures if f.value == value and f.amount.marked and f.row.index > tax.row.index)
            if (printed := next((f for f in below if not f.tax_table and f.label is None), None)) is not None:
                candidates[value] = Candidate(value, 2.0, printed)


def _before_additions(candidates: dict[Decimal, Candidate], figures: Sequence[Figure], rounding: Decimal) -> None:
    """A total to which tax or service is added below it, or from which a discount goes, is not the last word."""
    added = [
        (f.row.index, -abs(f.value) if f.kind is Kind.DISCOUNT else f.value)
        for f in figures
        if f.kind in (Kind.TAX, Kind.TAX_TOTAL, Kind.SERVICE, Kind.DISCOUNT)
        and f.amount.marked
        and f.value != 0
        and not f.tax_table
    ][:12]
    for first in list(candidates.values()):
        if first.figure is None or first.figure.kind not in (Kind.TOTAL, Kind.GROSS, Kind.PAYABLE):
            continue
        row = first.figure.row.index
        later = [amount for index, amount in added if index > row]
        for amount in {*later, sum(later, ZERO)} - {ZERO}:
            last = candidates.get(first.value + amount + rounding) or candidates.get(first.value + amount)
            if last is not None and last.figure is not None and last.figure.row.index > row and last is not first:
                first.score -= 1.5
                last.score += 0.8
                last.proofs.append("the total above it with what is added between")
                break
