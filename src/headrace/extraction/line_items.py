# ruff: noqa: E501 - the tables of patterns read better unbroken
"""What was bought: rows with an amount in the right column, their names (often on other rows), and quantity x price.

An item is anchored by its amount. Its name stands in the same row, or alone in the row before, or alone in the row
after; which of the two is a habit of the till, so the document decides it once. Quantity and unit price are the two
numbers whose product is the amount: no column heads are needed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from headrace.documents.receipt import LineItem
from headrace.extraction.figures import Figure, by_row
from headrace.extraction.labels import classify
from headrace.extraction.rows import Row, fold
from headrace.extraction.vocabulary import Kind

ZERO = Decimal(0)
MAX_ITEMS = 2000
MAX_FURTHER = 6
_END = {
    Kind.SUBTOTAL,
    Kind.TOTAL,
    Kind.PAYABLE,
    Kind.GROSS,
    Kind.NET,
    Kind.TENDERED,
    Kind.CHANGE,
    Kind.ROUNDED_TOTAL,
    Kind.ROUNDING,
    Kind.TAX_TOTAL,
    Kind.TAX,
    Kind.SERVICE,
    Kind.CARD,
    Kind.PAID,
    Kind.COUNT,
    Kind.SAVINGS,
    Kind.POINTS,
    Kind.TIP,
    Kind.TIP_SUGGESTION,
    Kind.CARRIED,
}
_SUMMARY = (Kind.SUBTOTAL, Kind.TOTAL, Kind.PAYABLE, Kind.GROSS)
_HEADLIKE = re.compile(
    r"(?i)\b(?:tax inv|invoice|receipt|cashier|date|time|tel|gst|paragon|table|order|terminal|member|customer|staff|server|nip|kasa|kasjer)\b|:"
)
_HEAD = re.compile(
    r"\b(?:qty|0ty|quantity|item|items|description|desc|descriptions|price|u/?price|s/price|amount|amt|unit|code|artikel|menge|preis|prix|pu|qte|qtite|produit|precio|importe|"
    r"cant|articulo|unidades|prezzo|aantal|prijs|bedrag|rsp|u\.?p|total|disc|don gia|t\.?tien|sl|tax)\b"
)
_NAME = re.compile(r"[^\W\d_]{2,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
_WORD_LIKE = re.compile(rf"{_NAME.pattern}|[^\W\d_]\S*\d|\d\S*[^\W\d_]")  # also "10'2X3", which names a plank
_PER_UNIT = re.compile(
    r"(?i)\s*(?:RM|EUR|PLN|zł|[$€£])?\s*/\s*(?:l|ltr|lit[re]{2}|kg|k9|100|lb|gal|h|st|stk|szt|unit)\b"
)
_PRICE_ALONE = re.compile(r"[^\W\d_]{2}.*@\s*(?:RM|[$€£])?\s*$")
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
DISCOUNT_WORDS = re.compile(
    r"(?i)\bdisc|rabat|opust|remise|descuento|sconto|korting|promo|coupon|\boff\b|less|割引|値引|gutschein|знижка|скидка|atl|at1"
)


@dataclass(frozen=True, slots=True)
class Items:
    """The line items and their sum (None where there are none).

    `further` is the same list read on behind its first, second... summary row: invoices print sums between groups of
    items. Which one it is, the printed sums tell (`reconcile`).
    """

    items: tuple[LineItem, ...]
    total: Decimal | None
    further: tuple[Items, ...] = ()

    @classmethod
    def of(cls, items: Sequence[LineItem]) -> Items:
        """These items, numbered from 1, with their sum."""
        kept = tuple(i if i.line == n else i.model_copy(update={"line": n}) for n, i in enumerate(items, 1))
        return cls(kept, sum((i.amount for i in kept if i.amount is not None), ZERO) if kept else None)


@dataclass(slots=True)
class _Anchor:
    """A row with an item's amount, while its name is looked for."""

    row: Row
    amount: Figure
    name: str
    numbers: list[Figure]

    @property
    def is_explained(self) -> bool:
        """It lacks a name, and a quantity and a price make its amount: a row of digits behind it is its name."""
        return not self.name and _quantity(self, self.amount.value)[0] is not None


@dataclass(frozen=True, slots=True)
class _Words:
    """A row that is no item itself, and its amounts."""

    text: str
    figures: Sequence[Figure]

    def name_of(self, anchor: _Anchor) -> str:
        """The row as this item's name; where it ends in the price of one, the price goes to the item's numbers."""
        price = next((f for f in reversed(self.figures) if f.amount.marked and f.value > 0), None)
        if price is not None and not self.text[price.amount.number.end :].strip():
            counts = [f.value for f in anchor.numbers if f is not anchor.amount]
            if any(n * price.value == abs(anchor.amount.value) for n in (Decimal(1), *counts)):
                anchor.numbers.append(price)
                return _plain_name(self.text[: price.amount.number.start])
        return _plain_name(self.text)


def find_items(rows: Sequence[Row], figures: Sequence[Figure], dated: Collection[int], *, whole_units: bool) -> Items:
    """The line items between the head of the receipt and its first summary row.

    Args:
        rows: the whole document.
        figures: its amounts.
        dated: rows that hold a date: they belong to the head.
        whole_units: amounts have no minor units here, so bare numbers in the right column are money.
    """
    grouped = by_row([f for f in figures if f.position == "right"])
    money: dict[int, Figure] = {}
    for row in rows:
        if row.index not in dated and (right := _money(grouped.get(row.index, []), whole_units)) is not None:
            money[row.index] = right
    start, stops = _zone(rows, figures, grouped, money)
    ends = frozenset(stops)
    lists = []
    for stop in stops[: 1 + MAX_FURTHER]:
        inside = [r for r in rows[start:stop] if r.index not in ends]
        lists.append(_listed(inside, grouped, money, dated))
    first, *more = lists or [Items((), None)]
    further = {len(i.items): i for i in more if len(i.items) > len(first.items)}
    return Items(first.items, first.total, tuple(further.values()))


def _listed(
    rows: Sequence[Row], grouped: dict[int, list[Figure]], money: dict[int, Figure], dated: Collection[int]
) -> Items:
    """The items of these rows."""
    column = _right_column([money[r.index] for r in rows if r.index in money])
    anchors: list[_Anchor] = []
    loose: dict[int, _Words] = {}
    for row in rows:
        mine = grouped.get(row.index, [])
        right = money.get(row.index)
        if right is not None and (right.polygon[1][0] < column - 0.12 or _is_price(row, right)):
            right = None
        if right is not None and not _is_detail(row, mine, anchors):
            anchors.append(_Anchor(row, right, _name_in(row, mine), list(mine)))
        elif anchors and (right is not None or (_TIMES.search(row.text) and mine and not anchors[-1].is_explained)):
            anchors[-1].numbers.extend(mine)
        elif _WORD_LIKE.search(row.text) and row.index not in dated:
            loose[row.index] = _Words(row.text, mine)
    if not anchors:
        return Items((), None)
    _give_names(anchors, loose)
    anchors = _without_prices(anchors)
    return Items.of([_item(anchor, n) for n, anchor in enumerate(anchors[:MAX_ITEMS], 1)])


def _money(figures: Sequence[Figure], whole_units: bool) -> Figure | None:
    """The last amount of a row that is money: with minor units, a currency, or bare where the currency has none."""
    found = None
    for f in figures:
        number = f.amount.number
        if number.measured or number.percent or _PER_UNIT.match(f.row.text, number.end):
            continue
        printed = f.amount.marked and (number.currency is not None or number.dash or len(number.groups) > 1)
        if printed or (whole_units and f.last and len(number.groups[0]) <= 6 and f.polygon[0][0] > 0.45):
            found = f
    return found


def _right_column(amounts: Sequence[Figure]) -> float:
    """Where the column of amounts ends: the median right edge of the right half of them."""
    edges = sorted(f.polygon[1][0] for f in amounts)
    return edges[(3 * len(edges)) // 4] if edges else 1.0


def _zone(
    rows: Sequence[Row], figures: Sequence[Figure], grouped: dict[int, list[Figure]], money: dict[int, Figure]
) -> tuple[int, list[int]]:
    """From behind the column heads, or from the first amount and its name, to each row of the summary."""
    ends = set()
    for f in figures:
        if f.label is None or f.label.kind not in _END or f.label.purity < 0.6 or f.position != "right":
            continue
        counted = f.label.kind is Kind.COUNT
        if counted and f.amount.marked and not f.label.text.startswith(("total", "ttl", "tot")):
            continue  # "ARTICLE 12.50": an item
        if f.row.index in money or (counted and f.label.purity >= 0.8 and len(f.row.text) < 40):
            ends.add(f.row.index)
    for row in rows:
        label = classify(row.text) if len(row.text) < 30 else None
        if label and label.kind in _SUMMARY and label.purity >= 0.85:
            ends.add(row.index)
    first = next((i for i in money if i not in ends and (i > 0 or _NAME.search(rows[0].text))), None)
    if first is None:
        return 0, []
    stops = sorted(i for i in ends if i > first) or [len(rows)]
    heads = [r.index for r in rows[:first] if len(set(_HEAD.findall(fold(r.text)))) >= 2 and r.index not in money]
    if heads and first - heads[-1] <= 6:
        return heads[-1] + 1, stops
    start = first
    while start > 0 and first - start < 2 and start - 1 not in ends and start - 1 not in money:
        text = rows[start - 1].text
        if not _NAME.search(text) or _HEADLIKE.search(text):
            break
        start -= 1
    return start, stops


def _name_in(row: Row, figures: Sequence[Figure]) -> str:
    """The words of the row before its first amount of money, without codes and quantities."""
    text = row.text
    money = [f for f in figures if f.amount.marked]
    cut = money[0].amount.number.start if money else len(text)
    before = _TIMES.sub(" ", text[:cut]) if _TIMES.search(text[:cut]) else text[:cut]
    words = [w for w in before.split() if not _NOT_NAME.match(w) and not _CODE.fullmatch(w)]
    name = " ".join(words).strip(" *:-=@.,|")
    return name if _NAME.search(name) else ""


def _is_price(row: Row, right: Figure) -> bool:
    """True where the last amount is announced as a price, in one piece with its `@`, behind a name."""
    start = right.amount.number.start
    return _PRICE_ALONE.search(row.text[:start]) is not None and "@" in row.cell_at(start).text


def _is_detail(row: Row, figures: Sequence[Figure], anchors: Sequence[_Anchor]) -> bool:
    """True for a row like `2 Stk x 1,49` that only explains the amount of the row before."""
    if not anchors or anchors[-1].row.index != row.index - 1 or not anchors[-1].name:
        return False
    if _TIMES.search(row.text) is None and _WEIGHT.search(row.text) is None:
        return False
    numbers = [f.value for f in figures if f.value > 0]
    amount = abs(anchors[-1].amount.value)
    return len(numbers) <= 2 and any(
        abs(a * b - amount) <= Decimal("0.02") for a in numbers for b in numbers if a is not b
    )


def _give_names(anchors: Sequence[_Anchor], loose: Mapping[int, _Words]) -> None:
    """Gives rows of words without an amount to the nameless amounts beside them, and the rest to the item above."""
    nameless = [a for a in anchors if not a.name]
    free = dict(loose)
    if not free:
        return
    above = sum(1 for a in nameless if a.row.index - 1 in free)
    below = sum(1 for a in nameless if a.row.index + 1 in free)
    first_is_words = min(loose) < anchors[0].row.index
    steps = (-1, 1) if above > below or (above == below and first_is_words) else (1, -1)
    for anchor in nameless:
        for step in steps:
            at = anchor.row.index + step
            if at in free:
                anchor.name = free.pop(at).name_of(anchor)
                # A name broken over two rows: the row before it belongs to it when nobody else can own it.
                if step == -1 and at - 1 in free and not any(a.row.index == at - 2 and not a.name for a in anchors):
                    owner = next((a for a in anchors if a.row.index == at - 2), None)
                    if owner is None or steps[0] == -1:
                        anchor.name = f"{_plain_name(free.pop(at - 1).text)} {anchor.name}"
                break


def _without_prices(anchors: Sequence[_Anchor]) -> list[_Anchor]:
    """Joins "NAME 63.00" with "code *4 252.00" below it: the price of one, and the amount of so many."""
    kept: list[_Anchor] = []
    for anchor in anchors:
        before = kept[-1] if kept else None
        if before is not None and before.row.index == anchor.row.index - 1 and before.name and not anchor.name:
            price, counts = before.amount.value, [f.value for f in anchor.numbers if f is not anchor.amount]
            if price > 0 and any(n * price == anchor.amount.value for n in counts):
                anchor.name, anchor.numbers = before.name, [*anchor.numbers, before.amount]
                kept[-1] = anchor
                continue
        kept.append(anchor)
    return kept


def _plain_name(text: str) -> str:
    words = [w for w in text.split() if not _CODE.fullmatch(w)]
    return " ".join(words).strip(" *:-=@|") or text


def _item(anchor: _Anchor, line: int) -> LineItem:
    amount = anchor.amount.value
    code = _CODE.search(anchor.row.text)
    name = anchor.name or (f"item {code[1]}" if code else anchor.row.text)
    if (
        amount > 0
        and DISCOUNT_WORDS.search(name)
        and anchor.amount.label is not None
        and anchor.amount.label.kind is Kind.DISCOUNT
    ):
        amount = -amount
    quantity, price = _quantity(anchor, amount)
    if quantity is not None and any(f.value == -quantity and not f.amount.marked for f in anchor.numbers):
        quantity, amount = -quantity, -abs(amount)  # "-5 x 1.25": taken back, whether or not the amount says so
    unit = None
    if (weight := _WEIGHT.search(anchor.row.text)) and quantity is not None and "." in f"{quantity}":
        unit = _UNITS.get(weight[2].lower())
    return LineItem(
        line=line,
        description=name[:200],
        product_code=code[1] if code else None,
        quantity=quantity,
        unit_code=unit,
        unit_price=price,
        amount=amount,
        page=anchor.row.page,
        polygon=anchor.row.polygon(),
    )


def _quantity(anchor: _Anchor, amount: Decimal) -> tuple[Decimal | None, Decimal | None]:
    """Quantity and unit price: the first two numbers whose product is the amount."""
    values = [abs(f.value) for f in anchor.numbers if f is not anchor.amount and f.value != 0][:8]
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
