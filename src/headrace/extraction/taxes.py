"""Tax: the amount, its breakdown by rate, the net, and whether prices include it.

Tables of rates are found by arithmetic, not by their heads: in a row with the rate r, two amounts a and b where b is
r per cent of a are the taxable amount and the tax, in whatever order and language the columns stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from headrace.documents.receipt import TaxLine
from headrace.extraction.figures import Figure, RowNumbers, by_row
from headrace.extraction.labels import classify
from headrace.extraction.vocabulary import Kind

ZERO = Decimal(0)
HUNDRED = Decimal(100)
MAX_LINES = 12
# Rates of value added and sales taxes in use; a whole number outside of them in a rate column is something else.
_RATES = frozenset(
    Decimal(r)
    for r in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 27)
)


@dataclass(frozen=True, slots=True)
class Taxes:
    """What the receipt says about tax.

    Attributes:
        tax: the figure of the tax in all, and its value; the figure is None where lines were added up.
        net: the figure of the amount without tax.
        lines: by rate.
        included: prices include the tax; None where nothing tells.
        confirmed: net and tax add up to the total.
    """

    tax_value: Decimal | None
    tax_figure: Figure | None
    net_value: Decimal | None
    net_figure: Figure | None
    lines: tuple[TaxLine, ...]
    included: bool | None
    confirmed: bool
    others: tuple[tuple[Decimal, str], ...] = ()


def find_taxes(
    rows: Sequence[RowNumbers],
    figures: Sequence[Figure],
    total: Decimal | None,
    *,
    subtotal: Figure | None,
    items_sum: Decimal | None,
    whole_units: bool = False,
) -> Taxes:
    """The tax of the document, checked against its total where there is one; `whole_units` as for `find_totals`."""
    lines = _lines(rows, figures, total, whole_units)
    nets = [f for f in figures if f.kind is Kind.NET and f.amount.marked and f.value >= 0]
    nets += [
        f for f in figures if f.tax_table and f.kind in (Kind.TOTAL, Kind.TAX_TOTAL) and f.amount.marked and not f.last
    ]
    summed = _sum_of_lines(lines)
    parts = {line.tax_amount for line in lines} if len({line.rate for line in lines}) > 1 else set()
    candidates: list[tuple[float, Decimal, Figure | None]] = []
    for f in figures:
        if f.kind not in (Kind.TAX, Kind.TAX_TOTAL) or f.label is None or f.value < 0 or not _money(f, whole_units):
            continue
        score = (
            (4.0 if f.kind is Kind.TAX_TOTAL else 3.2)
            - (2.0 if not f.last else 0.0)
            - max(0.0, 0.5 - f.label.purity) * 4
        )
        if total is not None and total > 0:
            if f.value > total * Decimal("0.35"):
                score -= 5.0
            score += _fits(f.value, total, nets, subtotal, lines)
        if f.position != "right":
            score -= 0.8
        if f.kind is Kind.TAX and f.value in parts and f.value != summed:
            score -= 1.5  # the tax of one rate of several
        candidates.append((score, f.value, f))
    if summed is not None:
        printed = next(
            (
                f
                for f in figures
                if f.value == summed and f.amount.marked and (f.tax_table or f.kind in (Kind.TAX, Kind.TAX_TOTAL))
            ),
            None,
        )
        known = [c for c in candidates if c[1] == summed]
        score = 3.0 + (0.6 if len(lines) > 1 else 0.0) + (_fits(summed, total, nets, subtotal, ()) if total else 0.0)
        if not known:
            candidates.append((score, summed, printed))
        else:
            candidates.extend((c[0] + 1.0, c[1], c[2]) for c in known[:1])
    if not candidates or max(candidates, key=lambda c: c[0])[0] < 2.0:
        return Taxes(None, None, *_net(nets, None, total, subtotal), lines, None, False)
    _, value, figure = max(candidates, key=lambda c: (c[0], -abs(c[1])))
    net_value, net_figure = _net(nets, value, total, subtotal)
    confirmed = total is not None and net_value is not None and abs(net_value + value - total) <= Decimal("0.05")
    included = _included(value, total, subtotal, items_sum)
    others = {v: f"labelled as {f.kind}" for s, v, f in candidates if f is not None and v != value}
    return Taxes(value, figure, net_value, net_figure, lines, included, confirmed, tuple(others.items())[:6])


def _money(f: Figure, whole_units: bool) -> bool:
    """Whether it is an amount: where there are no cents, a bare `205` at the end of its row is one."""
    return f.amount.marked or (f.last and (whole_units or f.value == 0))


def _fits(
    tax: Decimal, total: Decimal | None, nets: Iterable[Figure], subtotal: Figure | None, lines: Iterable[TaxLine]
) -> float:
    """Points for a tax that agrees with the total, a net, a rate."""
    if total is None or tax <= 0:
        return 0.0
    points = 0.0
    cent = Decimal("0.05")
    if any(abs(n.value + tax - total) <= cent for n in nets):
        points += 1.5
    elif subtotal is not None and abs(subtotal.value + tax - total) <= cent:
        points += 1.2
    if any(abs((total * r / (HUNDRED + r)) - tax) <= Decimal("0.02") for r in _RATES if r > 0):
        points += 0.8
    if sum((line.tax_amount or ZERO for line in lines), ZERO) == tax:
        points += 1.0
    return points


def _net(
    nets: Sequence[Figure], tax: Decimal | None, total: Decimal | None, subtotal: Figure | None
) -> tuple[Decimal | None, Figure | None]:
    """The net amount: one that adds up with the tax before one that does not."""
    if tax is not None and total is not None and tax > 0:
        for f in [*nets, *([subtotal] if subtotal is not None else [])]:
            if abs(f.value + tax - total) <= Decimal("0.05"):
                return f.value, f
    plain = [f for f in nets if not f.tax_table and f.last and f.label is not None and f.label.purity >= 0.6]
    if len({f.value for f in plain}) == 1 and tax is None:
        return plain[0].value, plain[0]
    return None, None


def _included(tax: Decimal, total: Decimal | None, subtotal: Figure | None, items_sum: Decimal | None) -> bool | None:
    if total is None or tax == 0:
        return None
    for base in (subtotal.value if subtotal is not None else None, items_sum):
        if base is not None and abs(base - total) <= Decimal("0.05"):
            return True
        if base is not None and abs(base + tax - total) <= Decimal("0.05"):
            return False
    return None


def _sum_of_lines(lines: Sequence[TaxLine]) -> Decimal | None:
    amounts = [line.tax_amount for line in lines if line.tax_amount is not None]
    several = len({line.rate for line in lines if line.tax_amount is not None}) > 1
    return sum(amounts, ZERO) if several or any(line.taxable_amount is not None for line in lines) else None


def _lines(
    rows: Sequence[RowNumbers], figures: Sequence[Figure], total: Decimal | None, whole_units: bool
) -> tuple[TaxLine, ...]:
    """Rows that hold a rate and the amounts that go with it."""
    found: dict[tuple[Decimal, Decimal | None], TaxLine] = {}
    grouped = by_row(figures)
    for entry in rows:
        mine = [f for f in grouped.get(entry.row.index, []) if f.position == "right"]
        # Without cents, the amounts of a table need no mark either.
        money = [f.value for f in mine if (f.amount.marked or (whole_units and f.tax_table)) and f.value >= 0]
        if not money:
            continue
        percents = [_number(n.groups, n.marks) for n in entry.numbers if n.percent]
        rates = [r for r in percents if ZERO <= r <= 30]
        in_table = any(f.tax_table for f in mine)
        if not rates and in_table:
            rates = [f.value for f in mine if not f.amount.marked and f.value in _RATES]
        label = classify(entry.row.text)
        taxed = in_table or (label is not None and label.kind in (Kind.TAX, Kind.TAX_TOTAL, Kind.NET, Kind.GROSS))
        for rate in rates[:1]:
            pair = _pair(rate, money, total)
            if pair is not None and (taxed or len(money) >= 2):
                category = entry.row.text.split()[0][:3].strip("*:=@(") if entry.row.text[:1].isalpha() else None
                key = (rate, pair[0])
                code = category if category and category.isupper() and len(category) <= 2 else None
                found.setdefault(key, TaxLine(category=code, rate=rate, taxable_amount=pair[0], tax_amount=pair[1]))
            elif taxed and len(money) == 1 and label is not None and label.kind in (Kind.TAX, Kind.TAX_TOTAL):
                plausible = total is None or money[0] < total * Decimal("0.35")
                if plausible and not any(k[0] == rate for k in found):
                    found[(rate, None)] = TaxLine(rate=rate, tax_amount=money[0])
    complete = {k[0] for k in found if k[1] is not None}
    lines = [line for key, line in found.items() if key[1] is not None or key[0] not in complete]
    return tuple(sorted(lines, key=lambda line: -(line.rate or ZERO))[:MAX_LINES])


def _number(groups: Sequence[str], marks: Sequence[str]) -> Decimal:
    return Decimal(groups[0] + "." + groups[1]) if len(groups) == 2 and marks[0] in ".," else Decimal("".join(groups))


def _pair(rate: Decimal, money: Sequence[Decimal], total: Decimal | None) -> tuple[Decimal, Decimal] | None:
    """Taxable amount and tax among the amounts of a row, by the rate between them."""
    if rate == 0:
        zeros = [m for m in money if m == 0]
        bases = [m for m in money if m > 0]
        return (max(bases), ZERO) if zeros and bases else (ZERO, ZERO) if len(zeros) >= 2 else None
    for base in money:
        for tax in money:
            expected = base * rate / HUNDRED
            if tax is not base and 0 < tax < base and abs(expected - tax) <= max(Decimal("0.02"), expected / 200):
                return base, tax
    # Gross and tax, or gross and net: the third is worked out only where both are printed and fit.
    for gross in money:
        for other in money:
            inside = gross * rate / (HUNDRED + rate)
            if other is not gross and abs(inside - other) <= Decimal("0.02") and other > 0:
                return gross - other, other
            if (
                other is not gross
                and abs(gross - inside - other) <= Decimal("0.02")
                and other > 0
                and (total is None or gross <= total)
            ):
                return other, gross - other
    return (ZERO, ZERO) if len(money) >= 2 and not any(money) else None
