"""Field objects: a value with its evidence, as the schema wants it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from headrace.documents.receipt import Alternative, AmountField, FieldSource, TextField
from headrace.documents.text import TextSource
from headrace.extraction.figures import Figure
from headrace.extraction.identifiers import FoundText
from headrace.extraction.rows import Row


def source_of(row: Row) -> FieldSource:
    """Whether the row was recognised or stood in the document's own text."""
    return "text_layer" if row.source is TextSource.TEXT_LAYER else "ocr"


def trust(confidence: float, row: Row) -> float:
    """A rule's confidence, lowered by what the engine thought of the text: a score under 0.9 weighs in."""
    return round(max(0.01, min(0.99, confidence * min(1.0, 0.55 + row.confidence / 2))), 3)


def alternatives(found: Sequence[tuple[Any, float, str]]) -> tuple[Alternative[Any], ...]:
    """Readings that were not chosen: value, confidence, reason."""
    return tuple(Alternative(value=v, confidence=round(c, 3), reason=r) for v, c, r in found)


def amount_field(
    value: Decimal | None,
    figure: Figure | None,
    confidence: float,
    rule: str,
    others: Sequence[tuple[Decimal, float, str]] = (),
    *,
    ambiguous: bool = False,
) -> AmountField:
    """An amount as it was read; without a figure it was worked out, and is never `ok` on its own."""
    if value is None:
        return AmountField(alternatives=alternatives(others))
    if figure is None:
        return AmountField(
            value=value,
            confidence=min(confidence, 0.6),
            source="derived",
            status="ambiguous",
            alternatives=alternatives(others),
            rule_id=rule,
        )
    number = figure.amount.number
    return AmountField(
        value=value,
        raw_text=number.raw,
        confidence=trust(confidence, figure.row),
        source=source_of(figure.row),
        page=figure.row.page,
        polygon=figure.polygon,
        label_text=figure.label_text or None,
        alternatives=alternatives(others),
        status="ambiguous" if ambiguous else "ok",
        rule_id=rule,
    )


def plain_amount(figure: Figure | None, rule: str) -> AmountField:
    """An amount that its label alone decides."""
    if figure is None:
        return AmountField()
    others = [(v, 0.2, r) for v, r in figure.amount.others]
    return amount_field(
        figure.value,
        figure,
        0.8 if figure.position == "right" else 0.6,
        rule,
        others,
        ambiguous=figure.amount.ambiguous,
    )


def text_field(found: FoundText | None, rule: str, confidence: float) -> TextField:
    """A text found by a pattern; without a label it is trusted less."""
    if found is None:
        return TextField()
    row = found.row
    return TextField(
        value=found.value,
        raw_text=found.raw,
        confidence=trust(confidence if found.label else confidence - 0.2, row),
        source=source_of(row),
        page=row.page,
        polygon=row.polygon(found.start, found.end),
        label_text=found.label,
        status="ok",
        rule_id=rule,
    )
