"""What was bought: rows with an amount in the right column, their names (often on other rows), and quantity x price.

An item is anchored by its amount. Its name stands in the same row, or alone in the row before, or alone in the row
after; which of the two is a habit of the till, so the document decides it once. Quantity and unit price are the two
numbers whose product is the amount: no column heads are needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from headrace.documents.receipt import LineItem
from headrace.extraction.figures import Figure, by_row
from headrace.extraction.labels import classify
from headrace.extraction.rows import Row, fold
from headrace.extraction.vocabulary import Kind

ZERO = Decimal(0)
MAX_ITEMS = 2000
_END = {
    Kind.SUBTOTAL, Kind.TOTAL, Kind.PAYABLE, Kind.GROSS, Kind.NET, Kind.TENDERED, Kind.CHANGE, Kind.ROUNDED_TOTAL, Kind.ROUNDING,
    Kind.TAX_TOTAL, Kind.CARD, Kind.PAID, Kind.COUNT, Kind.SAVINGS, Kind.POINTS, Kind.TIP, Kind.TIP_SUGGESTION, Kind.CARRIED,
}  # fmt: skip
_HEAD = re.compile(
    r"\b(?:qty|0ty|quantity|item|items|description|desc|descriptions|price|u/?price|s/price|amount|amt|unit|code|artikel|menge|preis|prix|pu|qte|qtite|produit|precio|importe|"
    r"cant|articulo|unidades|prezzo|aantal|prijs|bedrag|rsp|u\.?p|total|disc|don gia|t\.?tien|sl|tax)\b"
)
_NAME = re.compile(r"[^\W\d_]{2,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_NOT_NAME = re.compile(r"(?i)^\W*(?:x|rm|sr|zr|zrl|srl|os|nos?|pcs?|stk|szt|gab|un|kg|st|ea|each|\d+)\W*$")
_WEIGHT = re.compile(r"(?i)(\d+[.,]\d{1,3})\s?(kg|k9|g|lb|1b|ltr|l)\b")
_UNITS = {
    "kg": "KGM",
    "k9": "KGM",
    "g": "GRM",
    "lb": "LBR",
    "1b": "LBR",
    "l": "LTR",
    "ltr": "LTR",
}  # UN/ECE recommendation 20
_TIMES = re.compile(
    r"(?i)(\d+(?:[.,]\d+)?)\s*(?:stk|st|szt|gab|pcs?|nos?|un|pc|ea|個|点)?\.?\s*(?:[x@*]|\bX\b)\s*(?:単|单)?\s*(?:RM|EUR|\$|€|£|¥)?\s*(\d+(?:[.,]\d+)?)?"
)
_CODE = re.compile(r"(?<![\w.,])(\d{6,14})(?![\w.,])")
_DISCOUNT = re.compile(
    r"(?i)\bdisc|rabat|opust|remise|descuento|sconto|korting|promo|coupon|\boff\b|less|割引|値引|gutschein|знижка|скидка|atl|at1"
)


@dataclass(frozen=True, slots=True)
class Items:
    """The line items and their sum (None where there are none)."""

    items: tuple[LineItem, ...]
    total: Decimal | None
    first_row: int
    last_row: int


@dataclass(slots=True)
class _Anchor:
    """A row with an item's amount, while its name is looked for."""

    row: Row
    amount: Figure
    name: str
    numbers: list[Figure]


def find_items(rows: Sequence[Row], figures: Sequence[Figure], head_end: int, *, whole_units: bool) -> Items:
    """The line items between the head of the receipt and its first summary row.

    Args:
        rows: the whole document.
        figures: its amounts.
        head_end: the first row that can hold an item.
        whole_units: amounts have no minor units here, so bare numbers in the right column are money.
    """
    start, stop = _zone(rows, figures, head_end)
    grouped = by_row([f for f in figures if f.position == "right"])
    anchors: list[_Anchor] = []
    loose: list[tuple[int, str, Row]] = []
    for row in rows[start:stop]:
        mine = grouped.get(row.index, [])
        money = [f for f in mine if (f.amount.marked or (whole_units and f.last)) and not f.amount.number.measured]
        right = money[-1] if money else None
        if right is not None and not _is_detail(row, right, mine, anchors):
            anchors.append(_Anchor(row, right, _name_in(row, mine), mine))
        elif right is None and _NAME.search(row.text):
            loose.append((row.index, row.text, row))
        elif anchors and right is not None:
            anchors[-1].numbers.extend(mine)
        elif right is not None:
            loose.append((row.index, row.text, row))
    if not anchors:
        return Items((), None, start, stop)
    _give_names(anchors, loose, start)
    items = []
    for anchor in anchors[:MAX_ITEMS]:
        item = _item(anchor, len(items) + 1)
        if item is not None:
            items.append(item)
    total = sum((i.amount for i in items if i.amount is not None), ZERO) if items else None
    return Items(tuple(items), total, start, stop)


def _zone(rows: Sequence[Row], figures: Sequence[Figure], head_end: int) -> tuple[int, int]:
    """From behind the column heads (or the head) to the first row of the summary."""
    start = head_end
    for row in rows[: min(len(rows), head_end + 12)]:
        heads = set(_HEAD.findall(fold(row.text)))
        if len(heads) >= 2 and not any(c.isdigit() for c in row.text):
            start = row.index + 1
    stop = len(rows)
    for f in figures:
        if f.row.index < start or f.label is None or f.row.index >= stop:
            continue
        if f.label.kind in _END and f.label.purity >= 0.6 and (f.amount.marked or f.label.kind is not Kind.COUNT):
            stop = f.row.index
    for row in rows[start:stop]:
        label = classify(row.text) if len(row.text) < 30 else None
        if (
            label
            and label.kind in (Kind.SUBTOTAL, Kind.TOTAL, Kind.PAYABLE, Kind.GROSS)
            and label.purity >= 0.85
            and row.index > start
        ):
            stop = row.index
            break
    return start, stop


def _name_in(row: Row, figures: Sequence[Figure]) -> str:
    """The words of the row before its first amount of money, without codes and quantities."""
    text = row.text
    money = [f for f in figures if f.amount.marked]
    cut = money[0].amount.number.start if money else len(text)
    before = _TIMES.sub(" ", text[:cut]) if _TIMES.search(text[:cut]) else text[:cut]
    words = [w for w in before.split() if not _NOT_NAME.match(w) and not _CODE.fullmatch(w)]
    name = " ".join(words).strip(" *:-=@.,|")
    return name if _NAME.search(name) else ""


def _is_detail(row: Row, right: Figure, figures: Sequence[Figure], anchors: Sequence[_Anchor]) -> bool:
    """True for a row like `2 Stk x 1,49` that only explains the amount of the row before."""
    if not anchors:
        return False
    before = anchors[-1]
    times = _TIMES.search(row.text) or _WEIGHT.search(row.text)
    if times is None or right.amount.number.negative:
        return False
    numbers = [f.value for f in figures if f.value > 0]
    if len(numbers) == 2 and before.name and abs(numbers[0] * numbers[1] - before.amount.value) <= Decimal("0.02"):
        return True
    return (
        len(numbers) == 2
        and before.name != ""
        and before.row.index == row.index - 1
        and abs(numbers[0] * numbers[1]) == abs(before.amount.value)
    )


def _give_names(anchors: Sequence[_Anchor], loose: Sequence[tuple[int, str, Row]], start: int) -> None:
    """Gives rows of words without an amount to the nameless amounts beside them, and the rest to the item above."""
    nameless = [a for a in anchors if not a.name]
    free = {index: text for index, text, _ in loose}
    if not free:
        return
    above = sum(1 for a in nameless if a.row.index - 1 in free)
    below = sum(1 for a in nameless if a.row.index + 1 in free)
    first_is_words = bool(loose) and loose[0][0] < anchors[0].row.index
    steps = (-1, 1) if above > below or (above == below and first_is_words) else (1, -1)
    for anchor in nameless:
        for step in steps:
            at = anchor.row.index + step
            if at in free:
                anchor.name = _plain_name(free.pop(at))
                # A name broken over two rows: the row before it belongs to it when nobody else can own it.
                if step == -1 and at - 1 in free and not any(a.row.index == at - 2 and not a.name for a in anchors):
                    owner = next((a for a in anchors if a.row.index == at - 2), None)
                    if owner is None or steps[0] == -1:
                        anchor.name = f"{_plain_name(free.pop(at - 1))} {anchor.name}"
                break


def _plain_name(text: str) -> str:
    words = [w for w in text.split() if not _CODE.fullmatch(w)]
    return " ".join(words).strip(" *:-=@|") or text


def _item(anchor: _Anchor, line: int) -> LineItem | None:
    amount = anchor.amount.value
    code = _CODE.search(anchor.row.text)
    name = anchor.name or (f"item {code[1]}" if code else "")
    if not name:
        return None
    if (
        amount > 0
        and _DISCOUNT.search(name)
        and anchor.amount.label is not None
        and anchor.amount.label.kind is Kind.DISCOUNT
    ):
        amount = -amount
    quantity, price = _quantity(anchor, amount)
    unit = None
    if (weight := _WEIGHT.search(anchor.row.text)) and quantity is not None and "." in f"{quantity}":
        unit = _UNITS.get(weight[2].lower())
    return LineItem(
        line=line, description=name[:200], product_code=code[1] if code else None, quantity=quantity, unit_code=unit,
        unit_price=price, amount=amount, page=anchor.row.page, polygon=anchor.row.polygon(),
    )  # fmt: skip


def _quantity(anchor: _Anchor, amount: Decimal) -> tuple[Decimal | None, Decimal | None]:
    """Quantity and unit price: the first two numbers whose product is the amount."""
    values = [f.value for f in anchor.numbers if f is not anchor.amount and f.value > 0][:8]
    tolerance = Decimal("0.02")
    for i, quantity in enumerate(values):
        for j, price in enumerate(values):
            if i != j and abs(quantity * price - abs(amount)) <= tolerance and (quantity <= price or i < j):
                return (
                    (quantity, price)
                    if quantity == quantity.to_integral() or price != price.to_integral()
                    else (price, quantity)
                )
    for value in values:
        if value == abs(amount) and (value != value.to_integral() or len(values) > 1):
            return Decimal(1), value
    times = _TIMES.search(anchor.row.text)
    if times and abs(amount) > 0:
        count = Decimal(times[1].replace(",", "."))
        if count == 1:
            return count, abs(amount)
    return None, None


def renumbered(items: Sequence[LineItem]) -> tuple[LineItem, ...]:
    """The items with their places counted from 1."""
    return tuple(item.model_copy(update={"line": n}) for n, item in enumerate(items, 1))


def without(items: Items, amounts: Sequence[Decimal]) -> Items:
    """The items without those whose amount is one of these (a total that slipped into the zone)."""
    kept = renumbered([i for i in items.items if i.amount not in amounts])
    total = sum((i.amount for i in kept if i.amount is not None), ZERO) if kept else None
    return replace(items, items=kept, total=total)
