"""The six kinds of receipt that are drawn: each one function that prints a purchase from top to bottom."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random

from headrace.simulation.lettering import Face
from headrace.simulation.paper import Paper
from headrace.simulation.purchase import Item, Purchase


def draw_slip(sale: Purchase, dice: Random) -> Paper:
    """A narrow thermal slip: few lines, paid in cash or by card."""
    paper = Paper(440, 24, 22, Face(0.92))
    _letterhead(paper, sale, scale=1.35)
    _when(paper, sale)
    paper.rule()
    for item in sale.items:
        paper.row(_counted(item), sale.country.number(item.amount))
    paper.rule()
    _totals(paper, sale)
    paper.gap()
    paper.centre(sale.words["thanks"], scale=0.85)
    return paper


def draw_supermarket(sale: Purchase, dice: Random) -> Paper:
    """A long slip with many items, a letter for each rate, a tax table and a barcode."""
    paper = Paper(560, 28, 23, Face(0.9, capitals=dice.random() < 0.4))
    paper.logo(dice.randrange(3))
    _letterhead(paper, sale, scale=1.5)
    paper.rule("solid")
    letters = {row.rate: "AB"[at] for at, row in enumerate(sale.tax_rows)}
    for item in sale.items:
        amount = sale.country.number(item.amount)
        paper.columns(
            [(item.description, "left", 0, 0.7), (amount, "right", 0.7, 0.93), (letters[item.rate], "right", 0.93, 1)]
        )
        if item.quantity > 1:
            paper.text(f"   {item.quantity} x {sale.country.number(item.unit_price)}")
    paper.rule()
    paper.row(f"{sale.words['items']}: {len(sale.items)}", "")
    _totals(paper, sale)
    paper.rule()
    _tax_table(paper, sale, letters)
    paper.rule()
    _when(paper, sale)
    paper.text(sale.words["cashier"], scale=0.85)
    paper.gap()
    paper.barcode("".join(str(dice.randrange(10)) for _ in range(12)))
    paper.centre(sale.words["thanks"], scale=0.85)
    return paper


def draw_restaurant(sale: Purchase, dice: Random) -> Paper:
    """A restaurant bill with a table, quantities, and a tip where the country gives one."""
    paper = Paper(600, 34, 25, Face(0.96))
    _letterhead(paper, sale, scale=1.6)
    paper.row(f"{sale.words['table']} {dice.randint(1, 28)}", f"{sale.words['bill']} {sale.number}")
    _when(paper, sale, number=False)
    paper.rule("solid")
    for item in sale.items:
        paper.columns(
            [
                (str(item.quantity), "left", 0, 0.08),
                (item.description, "left", 0.08, 0.72),
                (sale.country.number(item.amount), "right", 0.72, 1),
            ]
        )
    paper.rule("solid")
    _totals(paper, sale)
    paper.gap()
    paper.centre(sale.words["thanks"])
    return paper


def draw_hotel(sale: Purchase, dice: Random) -> Paper:
    """A hotel invoice on a wide sheet: a table of nights, and the totals on a second page where the file has pages."""
    paper = Paper(1100, 90, 27, Face())
    number, money = sale.country.number, sale.country.price
    paper.text(sale.merchant, scale=1.7, bold=True)
    paper.text(f"{sale.country.street}, {sale.country.city}", scale=0.9)
    paper.text(f"{sale.country.phone}    {sale.country.tax_id}", scale=0.9)
    paper.gap(1.5)
    paper.row(
        f"{sale.words['invoice']} {sale.number}", f"{sale.words['date']}: {sale.country.day(sale.date)}", bold=True
    )
    paper.row(sale.words["guest"], f"{sale.words['room']} {dice.randint(101, 612)}")
    paper.rule("solid")
    for item in sale.items:
        paper.columns(
            [
                (str(item.quantity), "left", 0, 0.06),
                (item.description, "left", 0.06, 0.6),
                (number(item.unit_price), "right", 0.6, 0.8),
                (number(item.amount), "right", 0.8, 1),
            ]
        )
    paper.rule("solid")
    paper.page_break()
    _tax_table(paper, sale, None)
    paper.rule("double")
    paper.row(sale.words["total"], money(sale.total), scale=1.3, bold=True)
    paper.gap()
    paper.row(sale.words["card"], money(sale.total))
    paper.gap(2)
    paper.centre(sale.words["thanks"])
    return paper


def draw_taxi(sale: Purchase, dice: Random) -> Paper:
    """A card slip from a taxi: no tax on it, much technical noise around the amount."""
    paper = Paper(420, 24, 22, Face(0.9, weight=0.3))
    _letterhead(paper, sale, scale=1.2)
    paper.centre(f"** {sale.words['copy']} **")
    paper.text(f"TID {dice.randrange(10**7, 10**8)}   AID A0000000031010", scale=0.8)
    paper.text(f"VISA **** **** **** {dice.randrange(1000, 10000)}", scale=0.9)
    paper.rule()
    paper.text(sale.words["from"])
    paper.text(sale.words["to"])
    for item in sale.items:
        paper.row(item.description, sale.country.number(item.amount))
    if not sale.country.tax_included:
        for row in sale.tax_rows:
            paper.row(f"{sale.country.tax} {_percent(sale, row.rate)}", sale.country.number(row.tax))
    paper.rule()
    paper.row(sale.words["total"], sale.country.price(sale.total), scale=1.3, bold=True)
    paper.gap()
    _when(paper, sale)
    paper.centre(f"{sale.words['approved']}  {dice.randrange(10**5, 10**6)}")
    return paper


def draw_fuel(sale: Purchase, dice: Random) -> Paper:
    """A fuel receipt: one item, litres times a price with three decimals."""
    paper = Paper(480, 26, 23, Face(0.94))
    paper.logo(dice.randrange(3))
    _letterhead(paper, sale, scale=1.3)
    _when(paper, sale)
    paper.rule("double")
    (fuel,) = sale.items
    digits = -int(fuel.unit_price.as_tuple().exponent)
    paper.row(f"{sale.words['pump']} {dice.randint(1, 9)}", "")
    paper.row(fuel.description, sale.country.number(fuel.amount), bold=True)
    paper.text(
        f"   {sale.country.number(fuel.quantity, 2)} {sale.words['litre']} x "
        f"{sale.country.number(fuel.unit_price, digits)}"
    )
    paper.rule("double")
    _totals(paper, sale)
    paper.gap()
    paper.centre(sale.words["thanks"], scale=0.85)
    return paper


DRAW: dict[str, Callable[[Purchase, Random], Paper]] = {
    "slip": draw_slip,
    "restaurant": draw_restaurant,
    "supermarket": draw_supermarket,
    "hotel": draw_hotel,
    "taxi": draw_taxi,
    "fuel": draw_fuel,
}


def _letterhead(paper: Paper, sale: Purchase, scale: float) -> None:
    paper.centre(sale.merchant, scale=scale, bold=True)
    paper.centre(sale.country.street, scale=0.9)
    paper.centre(sale.country.city, scale=0.9)
    paper.centre(sale.country.phone, scale=0.9)
    paper.centre(sale.country.tax_id, scale=0.9)
    paper.gap()


def _when(paper: Paper, sale: Purchase, *, number: bool = True) -> None:
    clock = sale.time.strftime("%I:%M %p" if sale.country.code == "US" else "%H:%M")
    paper.row(f"{sale.words['date']}: {sale.country.day(sale.date)}", clock)
    if number:
        paper.text(f"{sale.words['receipt']} {sale.number:06d}")


def _counted(item: Item) -> str:
    return item.description if item.quantity == 1 else f"{item.quantity} x {item.description}"


def _totals(paper: Paper, sale: Purchase) -> None:
    number, money = sale.country.number, sale.country.price
    if not sale.country.tax_included:
        paper.row(sale.words["subtotal"], number(sale.subtotal))
        for row in sale.tax_rows:
            paper.row(f"{sale.country.tax} {_percent(sale, row.rate)}", number(row.tax))
    elif sale.rounding:
        paper.row(sale.words["subtotal"], number(sale.gross))
    if sale.rounding:
        paper.row(sale.words["rounding"], number(sale.rounding))
    if sale.tip:
        paper.row(sale.words["total"], number(sale.gross), bold=True)
        paper.row(sale.words["tip"], number(sale.tip))
        paper.row(sale.words["paid"], money(sale.total), scale=1.25, bold=True)
    else:
        paper.row(sale.words["total"], money(sale.total), scale=1.25, bold=True)
    if sale.tendered is None:
        paper.row(sale.words["card"], number(sale.total))
    else:
        paper.row(sale.words["cash"], number(sale.tendered))
        paper.row(sale.words["change"], number(sale.tendered - sale.total))
    if sale.country.tax_included and len(sale.tax_rows) == 1:
        (row,) = sale.tax_rows
        paper.row(f"{sale.words['included']} {_percent(sale, row.rate)} {sale.country.tax}", number(row.tax))


def _tax_table(paper: Paper, sale: Purchase, letters: dict[Decimal, str] | None) -> None:
    number, included = sale.country.number, sale.country.tax_included
    if not included and letters is not None:
        return  # a till that adds the tax has printed it above the total
    columns = ((0.0, 0.34), (0.34, 0.56), (0.56, 0.78), (0.78, 1.0))
    head = (sale.country.tax, sale.words["net"], sale.country.tax, sale.words["gross"])
    rows = [head] + [
        (
            f"{letters[row.rate] if letters else ''} {_percent(sale, row.rate)}".strip(),
            number(row.net),
            number(row.tax),
            number(row.gross),
        )
        for row in sale.tax_rows
    ]
    for cells in rows:
        paper.columns([(text, "right" if at else "left", *columns[at]) for at, text in enumerate(cells)])


def _percent(sale: Purchase, rate: Decimal) -> str:
    return f"{format(rate.normalize(), 'f').replace('.', sale.country.decimal)}%"
