"""Whole receipts as headrace.simulation draws them, with what they say, and the fields a worker reads from a file."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from random import Random

from PIL import Image

from headrace.documents.receipt import ReceiptFields
from headrace.ingest.reading import read_fields
from headrace.ocr.engine import Engine
from headrace.ocr.limits import ReadLimits
from headrace.ocr.read import DocumentText
from headrace.simulation.countries import COUNTRIES
from headrace.simulation.layouts import DRAW
from headrace.simulation.purchase import Purchase, buy

TODAY = dt.date(2026, 12, 1)


def drawn_sale(layout: str, country: int = 0, seed: int = 1) -> tuple[Purchase, Image.Image]:
    """A sale, and its receipt as a clean gray image."""
    dice = Random(seed)
    sale = buy(layout, COUNTRIES[country], seed, dice)
    return sale, DRAW[layout](sale, dice).draw()


def fields_of(path: Path | str, engine: Engine, limits: ReadLimits | None = None) -> tuple[DocumentText, ReceiptFields]:
    """What a worker makes of this file."""
    return read_fields(str(path), engine, limits or ReadLimits(), TODAY)


def told(fields: ReceiptFields) -> dict[str, object]:
    """Everything that was read, without the evidence."""
    names = ("payable_amount", "tax_amount", "issue_date", "issue_time", "currency", "receipt_number")
    return {
        **{name: getattr(fields, name).value for name in names},
        "merchant": fields.merchant.name.value,
        "address": fields.merchant.address.value,
        "items": [(item.description, item.amount) for item in fields.line_items],
    }
