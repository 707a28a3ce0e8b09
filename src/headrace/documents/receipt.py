"""The receipt: the structured result read from a document. Names follow EN 16931 / UBL where a name exists there.

`ReceiptFields` is what extraction works out from text. `Receipt` adds whose it is. Both are immutable and versioned;
amounts are `Decimal` and become decimal strings in JSON; dates are calendar dates without a zone.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, model_serializer

from headrace.documents.text import Polygon

SCHEMA_VERSION = "1"

T = TypeVar("T")
Amount = Annotated[Decimal, PlainSerializer(lambda d: format(d, "f"), return_type=str, when_used="json")]
Confidence = Annotated[float, Field(ge=0, le=1)]
FieldSource = Literal["ocr", "text_layer", "derived", "rule", "human"]
FieldStatus = Literal["ok", "ambiguous", "missing", "conflict", "corrected"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Alternative(_Model, Generic[T]):
    """A reading that was not chosen, and why."""

    value: T
    confidence: Confidence = 0.0
    reason: str


class Extracted(_Model, Generic[T]):
    """One extracted value with its evidence: the field object of the schema.

    `derived` (worked out, not read) can never be `ok` on its own. Confidence is the share of such values that were
    right on labelled receipts, for the fields of `extraction.calibration`; an ordering of trust in 0..1 for others. A
    missing field is written short: value, status and, where they exist, its alternatives.
    """

    value: T | None = None
    raw_text: str | None = None
    confidence: Confidence = 0.0
    source: FieldSource | None = None
    page: int | None = None
    polygon: Polygon | None = None
    label_text: str | None = None
    alternatives: tuple[Alternative[T], ...] = ()
    status: FieldStatus = "missing"
    rule_id: str | None = None

    @model_serializer(mode="wrap")
    def _short_when_missing(self, handler: Any) -> dict[str, Any]:
        full: dict[str, Any] = handler(self)
        if self.value is None:
            short = {"value": None, "status": full["status"]}
            return short | ({"alternatives": full["alternatives"]} if self.alternatives else {})
        return full


TextField = Extracted[str]
AmountField = Extracted[Amount]
DateField = Extracted[dt.date]
TimeField = Extracted[dt.time]


class Merchant(_Model):
    """Who sold it."""

    name: TextField = TextField()
    address: TextField = TextField()
    phone: TextField = TextField()
    tax_id: TextField = TextField()
    website: TextField = TextField()


class TaxLine(_Model):
    """One rate of the tax breakdown. `rate` is a percentage: 19 means 19 %."""

    category: str | None = None
    rate: Amount | None = None
    taxable_amount: Amount | None = None
    tax_amount: Amount | None = None


class Payment(_Model):
    """One payment: the method as printed, the amount, the last four digits of a card."""

    method: str
    amount: Amount | None = None
    card_last4: str | None = None


class LineItem(_Model):
    """One line that was bought. `line` counts from 1; `unit_code` is UN/ECE recommendation 20."""

    line: int
    description: str
    product_code: str | None = None
    quantity: Amount | None = None
    unit_code: str | None = None
    unit_price: Amount | None = None
    discount_amount: Amount | None = None
    tax_rate: Amount | None = None
    amount: Amount | None = None
    page: int | None = None
    polygon: Polygon | None = None


class Check(_Model):
    """One arithmetic or policy check: what was expected, what was found, and the tolerance; never just "mismatch"."""

    id: str
    severity: Literal["error", "warn", "info"]
    passed: bool
    expected: str | None = None
    actual: str | None = None
    tolerance: str | None = None
    fields: tuple[str, ...] = ()
    message: str


class ReceiptFields(_Model):
    """What extraction reads from the text of a document, before it is known whose it is."""

    language: str | None = None
    document_type: Literal["receipt", "invoice", "credit_note", "card_slip", "other"] = "receipt"
    merchant: Merchant = Merchant()
    receipt_number: TextField = TextField()
    issue_date: DateField = DateField()
    issue_time: TimeField = TimeField()
    currency: TextField = TextField()
    tax_exclusive_amount: AmountField = AmountField()
    tax_amount: AmountField = AmountField()
    tax_inclusive_amount: AmountField = AmountField()
    tip_amount: AmountField = AmountField()
    discount_amount: AmountField = AmountField()
    rounding_amount: AmountField = AmountField()
    payable_amount: AmountField = AmountField()
    prepaid_amount: AmountField = AmountField()
    tendered_amount: AmountField = AmountField()
    change_amount: AmountField = AmountField()
    tax_breakdown: tuple[TaxLine, ...] = ()
    prices_include_tax: bool | None = None
    payments: tuple[Payment, ...] = ()
    line_items: tuple[LineItem, ...] = ()
    checks: tuple[Check, ...] = ()


class Source(_Model):
    """How the document came: `kind` is file, archive-member, or blob (the kept bytes of one that is run again)."""

    kind: str
    uri: str


class PageFailure(_Model):
    """A page that could not be read while others could; the document is then `partial`."""

    page: int
    code: str
    detail: str


class PageReading(_Model):
    """How the text of a page came about, so that evidence is never a changed picture without saying so.

    `engine` is its name, or `text_layer`. `variant` is the copy that the text was read from: the page as it was handed
    in (`original`), or one with faint print and shadows taken out (`flattened`). `effort` is `thorough` where the
    detector was shown the page larger, and `reason` says why it was looked at again. `rotation_applied` is by how many
    degrees clockwise the stored page was turned, and `rotation_reason` who said so. `picture_hash` is 64 bits in hex
    that are nearly the same for the same picture saved again.
    """

    page: int
    engine: str
    variant: Literal["original", "flattened"] = "original"
    effort: Literal["usual", "thorough"] = "usual"
    reason: str | None = None
    rotation_applied: Literal[0, 90, 180, 270] = 0
    rotation_reason: str | None = None
    picture_hash: str | None = None


class Processing(_Model):
    """How the result was made. Durations are measurements and no part of the ledger's hash."""

    pipeline_version: str
    engine: str
    models: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    page_failures: tuple[PageFailure, ...] = ()
    page_readings: tuple[PageReading, ...] = ()


class Receipt(ReceiptFields):
    """A receipt as it is kept and returned. The ledger adds `verdict`, `duplicate_of` and `ledger` when it commits."""

    schema_version: str = SCHEMA_VERSION
    document_id: str
    sha256: str
    source: Source
    pages: int
    processing: Processing
