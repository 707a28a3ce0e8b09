"""What is to be paid: candidates by tiers of their labels, exclusions, and arithmetic between the lines.

Every amount that could be the total gets points: for its label's tier, and for each way in which other printed amounts
add up to it (money given less change, net plus tax, the sum of the items). The best wins; the losers stay as
alternatives with the reason. Nothing is invented: without a labelled or confirmed amount the total is missing, and what
could be worked out is only an alternative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from headrace.extraction.candidates import TIERS, Candidate, add_proofs, by_kind, find_candidates
from headrace.extraction.currencies import meanings
from headrace.extraction.figures import Figure
from headrace.extraction.vocabulary import Kind

ZERO = Decimal(0)

_EXCLUDED = (
    Kind.TIP_SUGGESTION,
    Kind.COUNT,
    Kind.POINTS,
    Kind.SAVINGS,
    Kind.CARRIED,
    Kind.CHANGE,
    Kind.TAX_TOTAL,
    Kind.TAX,
    Kind.DISCOUNT,
    Kind.SERVICE,
    Kind.TIP,
    Kind.DEPOSIT,
    Kind.ROUNDING,
)
_BILL = (Kind.TOTAL, Kind.GROSS, Kind.PAYABLE, Kind.ROUNDED_TOTAL)
# Symbols that engines read as a digit: $ as 5 or 8, £ and € as 6 or 3, the yen sign as 4.
_SYMBOLS_LIKE_DIGITS = ("$", "€", "£", "¥", "US$", "NZ$")
LOWEST_SCORE = 2.0


@dataclass(frozen=True, slots=True)
class Loser:
    """A value that was not taken for the total."""

    value: Decimal
    confidence: float
    reason: str
    figure: Figure | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """What the summary of a receipt says. `payable` is None when no amount on the document is the total."""

    payable: Candidate | None
    gross: Decimal | None
    gross_figure: Figure | None
    losers: tuple[Loser, ...]
    runner_up: float
    tendered: Figure | None
    change: Figure | None
    rounding: Figure | None
    rounding_value: Decimal | None
    discount: Figure | None
    tip: Figure | None
    service: Figure | None
    subtotal: Figure | None
    deposit: Figure | None


def find_totals(
    figures: Sequence[Figure], items_sum: Decimal | None, currency: str | None, *, whole_units: bool
) -> Totals:
    """The summary of the document.

    Args:
        figures: all amounts with their labels.
        items_sum: the sum of the line items, where there are any.
        currency: for the tolerance of sums.
        whole_units: amounts on this document have no minor units, so that a bare `3500` can be money.
    """
    rounding, rounding_value, figures = _rounding(figures)
    change = _pick(figures, Kind.CHANGE)
    tendered = _tendered(figures, change)
    subtotal = _pick(figures, Kind.SUBTOTAL)
    candidates = find_candidates(figures, whole_units=whole_units)
    add_proofs(candidates, figures, items_sum, tendered, change, rounding_value, currency)
    ranked = sorted(candidates.values(), key=lambda c: (-c.score, -c.value))
    ranked = _glued_symbol(ranked, figures, tendered, change, items_sum)
    best = ranked[0] if ranked and ranked[0].score >= LOWEST_SCORE else None
    if best is not None and rounding_value and best.figure is not None:
        best = _after_rounding(best, candidates, rounding, rounding_value, tendered, change)
    tip = _pick(figures, Kind.TIP)
    gross, gross_figure = _gross(best, candidates, rounding_value, tip.value if tip else ZERO)
    losers = _losers(best, ranked, figures, items_sum, tendered, change)
    runner_up = next((c.score for c in ranked if best is not None and c.value != best.value), 0.0)
    return Totals(
        best,
        gross,
        gross_figure,
        losers,
        runner_up,
        tendered,
        change,
        rounding,
        rounding_value,
        _pick(figures, Kind.DISCOUNT),
        tip,
        _pick(figures, Kind.SERVICE),
        subtotal,
        _pick(figures, Kind.DEPOSIT),
    )


def _pick(figures: Sequence[Figure], kind: Kind) -> Figure | None:
    """The amount of this kind: the last one whose label says little else."""
    found = [f for f in by_kind(figures, kind) if f.last and f.label is not None and f.label.purity >= 0.45]
    return found[-1] if found else None


def _rounding(figures: Sequence[Figure]) -> tuple[Figure | None, Decimal | None, list[Figure]]:
    """The rounding, and the figures with "rounding 177.20" turned into what it is: a rounded total."""
    out: list[Figure] = []
    rounding: Figure | None = None
    for f in figures:
        if f.kind is Kind.ROUNDING and f.amount.marked and f.label is not None:
            if abs(f.value) < 1:
                rounding = f if f.last else rounding
            else:
                label = type(f.label)(Kind.ROUNDED_TOTAL, f.label.text, f.label.purity)
                f = Figure(f.amount, f.row, label, f.label_text, f.position, f.tax_table, f.order, f.last)
        out.append(f)
    return rounding, (rounding.value if rounding else None), out


def _tendered(figures: Sequence[Figure], change: Figure | None) -> Figure | None:
    """The money given: with a change, the cash line that stands nearest before it."""
    found = [f for f in by_kind(figures, Kind.TENDERED) if f.last and f.label is not None and f.label.purity >= 0.4]
    if not found:
        return None
    if change is not None:
        before = [f for f in found if f.row.index <= change.row.index and f.value >= change.value]
        if before:
            return max(before, key=lambda f: (f.value, f.row.index))
    return found[-1]


def _glued_symbol(
    ranked: list[Candidate],
    figures: Sequence[Figure],
    tendered: Figure | None,
    change: Figure | None,
    items_sum: Decimal | None,
) -> list[Candidate]:
    """`$8.50` is often read as `58.50`: where sums give it without its first digit, that is the amount."""
    if not ranked or ranked[0].figure is None or ranked[0].confirmed:
        return ranked
    best = ranked[0]
    figure = ranked[0].figure
    expected = {s for s in (items_sum,) if s}
    if tendered is not None and change is not None and change.value > 0:
        expected.add(tendered.value - change.value)
    expected |= {f.value for f in by_kind(figures, Kind.SUBTOTAL)}
    symbol_seen = any(
        (f.amount.number.currency or "") in _SYMBOLS_LIKE_DIGITS for f in figures if f.amount.number.currency
    )
    if not symbol_seen and len(expected) > 1:
        return ranked
    digits = "".join(figure.amount.number.groups)
    if len(digits) < 4 or digits[0] not in "58346" or best.value in expected:
        return ranked
    places = -int(best.value.as_tuple().exponent)
    without = Decimal(digits[1:]).scaleb(-max(places, 0))
    if without in expected and figure.amount.number.currency is None:
        fixed = Candidate(
            without, best.score + 0.5, best.figure, ["the first digit is a currency symbol: the sums fit without it"]
        )
        return [fixed, *ranked]
    return ranked


def _after_rounding(
    best: Candidate,
    candidates: dict[Decimal, Candidate],
    rounding: Figure | None,
    rounding_value: Decimal,
    tendered: Figure | None,
    change: Figure | None,
) -> Candidate:
    """Moves from the total before rounding to the one after it, where that one is printed or given by the cash."""
    for signed in (rounding_value, -rounding_value):
        after = best.value + signed
        other = candidates.get(after)
        if other is not None and other.figure is not None and best.figure is not None and rounding is not None:
            printed_after = other.figure.row.index >= rounding.row.index > best.figure.row.index
            if printed_after and other.figure.kind in (Kind.TOTAL, Kind.GROSS, Kind.PAYABLE, Kind.ROUNDED_TOTAL):
                return other
    if rounding is None or best.figure is None or best.figure.row.index > rounding.row.index:
        return best
    if tendered is None or change is None:
        return best
    given = tendered.value - change.value
    if given != best.value and abs(given - best.value) == abs(rounding_value):
        return Candidate(given, best.score, None, ["total and rounding", "money given less change"])
    return best


def _gross(
    best: Candidate | None, candidates: dict[Decimal, Candidate], rounding: Decimal | None, tip: Decimal
) -> tuple[Decimal | None, Figure | None]:
    """The total before tip and rounding, with the amount it was read from (None where it is worked out)."""
    if best is None:
        return None, None
    bill = candidates.get(best.value - tip) if tip > 0 else None
    if bill is not None and bill.figure is not None and bill.figure.kind in _BILL:
        return bill.value, bill.figure
    if not rounding:
        return best.value, best.figure
    for signed in (rounding, -rounding):
        before = candidates.get(best.value - signed)
        if before is not None and before.figure is not None and before.figure.kind in TIERS:
            return before.value, before.figure
    return best.value - rounding, None


def _losers(
    best: Candidate | None,
    ranked: Sequence[Candidate],
    figures: Sequence[Figure],
    items_sum: Decimal | None,
    tendered: Figure | None,
    change: Figure | None,
) -> tuple[Loser, ...]:
    """Everything that was not taken, strongest first: each value once, with what its label says or how it came out."""
    out: dict[Decimal, Loser] = {}
    taken = best.value if best else None
    for c in ranked:
        if c.value != taken and c.figure is not None and c.figure.label is not None:
            label = c.figure.label
            out.setdefault(
                c.value,
                Loser(
                    c.value, max(0.05, min(0.6, c.score / 15)), f"labelled as {label.kind}: '{label.text}'", c.figure
                ),
            )
    for f in figures:
        if f.label is not None and f.label.kind in _EXCLUDED and f.value != taken and f.label.purity >= 0.4 and f.last:
            out.setdefault(f.value, Loser(f.value, 0.02, f"excluded, {f.label.kind}: '{f.label.text}'", f))
    if best is None:
        if tendered is not None and change is not None and tendered.value > change.value:
            value = tendered.value - change.value
            out[value] = Loser(value, 0.5, "derived: money given less change")
        if items_sum:
            out.setdefault(items_sum, Loser(items_sum, 0.3, "derived: sum of the items read"))
    elif best.figure is not None:
        paid = meanings(best.figure.amount.number.currency)
        for f in figures:
            other = meanings(f.amount.number.currency)
            if paid and len(other) == 1 and other[0] not in paid and f.amount.marked and not f.tax_table:
                out.setdefault(
                    f.value, Loser(f.value, 0.05, f"printed in {other[0]}: a conversion, or not of this sale", f)
                )
        for value, reason in best.figure.amount.others:
            out.setdefault(value, Loser(value, 0.3, reason, best.figure))
    return tuple(sorted(out.values(), key=lambda o: (-o.confidence, o.value)))[:12]
