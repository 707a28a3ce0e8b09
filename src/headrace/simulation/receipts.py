"""A collection of drawn receipts with its truth: what `headrace demo` runs, and what a change is measured on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

from headrace.documents.status import EntryKind
from headrace.simulation.countries import COUNTRIES
from headrace.simulation.finishes import FINISHES, SHEET_FINISHES
from headrace.simulation.hostile import HOSTILES, Hostile
from headrace.simulation.layouts import DRAW
from headrace.simulation.purchase import LAYOUTS, Purchase, buy
from headrace.simulation.truth import Truth, write_truths

BLOCK = 60  # every block of this many files has each kind of hostile file once, and one duplicate
_DUPLICATE = "duplicate"


def draw_collection(folder: Path, count: int = 60, seed: int = 7) -> list[Truth]:
    """Draws `receipt-1.jpg` ... into the folder, and writes `truth.jsonl` beside the folder, not into it.

    The same count and seed give the same bytes with the same versions of Pillow, pillow-heif and numpy.

    Args:
        folder: made when it is not there.
        count: how many files; 1 or more.
        seed: which collection.

    Returns:
        The truth about each file, in the natural order of the names.

    Raises:
        ValueError: count is below 1.
        FileExistsError: there is something in the folder; nothing is drawn over it.
    """
    if count < 1:
        raise ValueError(f"count must be 1 or more, not {count}")
    folder.mkdir(parents=True, exist_ok=True)
    if next(folder.iterdir(), None) is not None:
        raise FileExistsError(f"{folder} is not empty; choose another folder or empty it")
    truths = []
    for truth, data in _draw(count, seed):
        (folder / truth.file).write_bytes(data)
        truths.append(truth)
    write_truths(folder.parent / "truth.jsonl", truths)
    return truths


def _draw(count: int, seed: int) -> Iterator[tuple[Truth, bytes]]:
    sold: set[tuple[object, ...]] = set()
    regular = 0  # counts the good ones, so that every house, finish and country comes in turn
    first_good: tuple[Truth, bytes] | None = None  # of this block: what the duplicate repeats
    for number in range(1, count + 1):
        at = (number - 1) % BLOCK
        kinds = _hostile_places(min(BLOCK, count - (number - 1 - at)))
        first_good = None if at == 0 else first_good
        kind = kinds.get(at)
        if kind == _DUPLICATE and first_good is not None:
            original, data = first_good
            suffix = Path(original.file).suffix
            yield (
                replace(
                    original,
                    file=f"receipt-{number}{suffix}",
                    expected=EntryKind.DUPLICATE,
                    duplicate_of=original.file,
                    wear="exact duplicate",
                ),
                data,
            )
        elif isinstance(kind, Hostile):
            yield _hostile(kind, number, seed, sold)
        else:
            truth, data = _good(regular, number, seed, sold)
            regular += 1
            first_good = first_good or (truth, data)
            yield truth, data


def _hostile_places(size: int) -> dict[int, Hostile | str]:
    """Which hostile file stands where in a block of this size: at most one of seven, spread evenly, none first."""
    kinds: list[Hostile | str] = [*HOSTILES[:2], _DUPLICATE, *HOSTILES[2:]]
    kinds = kinds[: size // 7]
    return {(at + 1) * size // (len(kinds) + 1): kind for at, kind in enumerate(kinds)}


def _good(regular: int, number: int, seed: int, sold: set[tuple[object, ...]]) -> tuple[Truth, bytes]:
    turn = regular // len(COUNTRIES)
    country = COUNTRIES[regular % len(COUNTRIES)]
    layout = LAYOUTS[(turn + regular % len(COUNTRIES)) % len(LAYOUTS)]
    finishes = SHEET_FINISHES if layout == "hotel" else FINISHES
    finish = finishes[(turn if layout == "hotel" else regular) % len(finishes)]
    dice, noise = Random(f"{seed}/{number}"), np.random.default_rng([seed, number])
    sale = _unlike_any(layout, regular % len(COUNTRIES), number, dice, sold)
    data = finish.make(DRAW[layout](sale, dice), dice, noise)
    return (
        Truth(
            file=f"receipt-{number}{finish.suffix}",
            country=country.code,
            layout=layout,
            wear=f"{finish.name} {finish.suffix}",
            merchant=sale.merchant,
            issue_date=sale.date,
            total=sale.total,
            # A card slip shows no tax where prices include it.
            tax=None if layout == "taxi" and country.tax_included else sale.tax,
            currency=country.currency,
            items=len(sale.items),
        ),
        data,
    )


def _hostile(kind: Hostile, number: int, seed: int, sold: set[tuple[object, ...]]) -> tuple[Truth, bytes]:
    dice, noise = Random(f"{seed}/{number}"), np.random.default_rng([seed, number])
    sale = _unlike_any("supermarket", number % len(COUNTRIES), number, dice, sold)
    truth = Truth(
        file=f"receipt-{number}{kind.suffix}",
        expected=kind.expected,
        codes=kind.codes,
        wear=kind.name,
    )
    if kind.expected is EntryKind.RECEIPT:  # what is left of a cut picture is its head
        truth = replace(truth, country=sale.country.code, layout="supermarket", merchant=sale.merchant)
    return truth, kind.make(DRAW["supermarket"](sale, dice), dice, noise)


def _unlike_any(layout: str, country: int, number: int, dice: Random, sold: set[tuple[object, ...]]) -> Purchase:
    """A purchase that no other receipt of the collection could be taken for."""
    while True:
        sale = buy(layout, COUNTRIES[country], number, dice)
        key = (sale.merchant, sale.date, sale.total)
        if key not in sold:
            sold.add(key)
            return sale
