"""Texts of drawn purchases, as search has them: many kinds of shop, ten countries, one line item to dozens."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from headrace.search.receipt_text import receipt_text
from headrace.simulation.countries import COUNTRIES
from headrace.simulation.purchase import LAYOUTS, buy


def drawn_receipts(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Receipts as JSON types, of purchases that follow from the seed."""
    dice = Random(seed)
    for number in range(count):
        country = dice.choice(COUNTRIES)
        bought = buy(dice.choice(LAYOUTS), country, number, dice)
        # A till prints one purchase a slip; large baskets are several slips' worth of goods.
        baskets = [bought, *(buy("supermarket", country, number, dice) for _ in range(dice.choice((0, 0, 0, 1, 3))))]
        yield {
            "merchant": {"name": {"value": bought.merchant}, "address": {"value": f"{country.street} {country.city}"}},
            "issue_date": {"value": bought.date.isoformat()},
            "payable_amount": {"value": str(bought.total)},
            "currency": {"value": country.currency},
            "line_items": [{"description": item.description} for basket in baskets for item in basket.items],
        }


def drawn_texts(count: int, seed: int = 7) -> list[str]:
    """The texts of drawn receipts."""
    return [receipt_text(receipt, f"{n:06d}.jpg") for n, receipt in enumerate(drawn_receipts(count, seed))]
