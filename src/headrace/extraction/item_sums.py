"""Which list of items the printed sums prove, and what one wrong line in it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from headrace.extraction.figures import Figure
from headrace.extraction.line_items import DISCOUNT_WORDS, Items
from headrace.extraction.vocabulary import Kind

ZERO = Decimal(0)
_SUMS = (Kind.SUBTOTAL, Kind.NET, Kind.GROSS, Kind.TOTAL, Kind.PAYABLE)


@dataclass(frozen=True, slots=True)
class PrintedSums:
    """The sums on the paper that items can make: `whole` those of all of them, `any` also those of a part."""

    whole: frozenset[Decimal] = frozenset()
    any: frozenset[Decimal] = frozenset()


def printed_sums(figures: Sequence[Figure], payable: Decimal | None, gross: Decimal | None) -> PrintedSums:
    """The total, the total less a tax that is added to the items; in part also subtotals and nets."""
    if payable is None:
        return PrintedSums()
    totals = {payable, gross if gross is not None else payable}
    taxes = {f.value for f in figures if f.kind in (Kind.TAX, Kind.TAX_TOTAL) and f.amount.marked and f.last}
    whole = totals | {total - tax for total in totals for tax in taxes if 0 < tax < total / 2}
    sums = {f.value for f in figures if f.kind in _SUMS and f.amount.marked and not f.tax_table and f.value > 0}
    return PrintedSums(frozenset(whole), frozenset(whole | sums))


def reconcile(items: Items, printed: PrintedSums) -> Items:
    """The list that the printed sums prove: as read, read on behind a sum between groups, or repaired in one place.

    A repair leaves out, or turns the sign of, the one item or end of the list without which the sum fits: a subtotal
    that slipped in, a deposit printed twice, a discount without its minus.
    """
    if items.total is None or items.total in printed.whole or not printed.any:
        return items
    for longer in items.further:
        # What only a discount adds is the whole bill's discount, and no item.
        bought = any((i.amount or ZERO) > 0 for i in longer.items[len(items.items) :])
        if bought and longer.total in printed.whole:
            return longer
    targets = printed.any
    if items.total in targets:
        return items
    rows = items.items
    amounts = [i.amount or ZERO for i in rows]
    for n, amount in enumerate(amounts):
        if amount and items.total - amount in targets and len(rows) > 1:
            return Items.of([i for m, i in enumerate(rows) if m != n])
    for n, amount in enumerate(amounts):
        if amount > 0 and items.total - 2 * amount in targets and DISCOUNT_WORDS.search(rows[n].description):
            turned = rows[n].model_copy(update={"amount": -amount})
            return Items.of([turned if m == n else i for m, i in enumerate(rows)])
    head, tail = sum(amounts[:2], ZERO), amounts[-1]
    for cut in range(2, len(rows)):
        tail += amounts[-cut]
        if items.total - head in targets:
            return Items.of(rows[cut:])
        if items.total - tail in targets:
            return Items.of(rows[:-cut])
        head += amounts[cut]
    return items
