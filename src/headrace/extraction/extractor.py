"""From the text of a document to the fields of a receipt. Pure and deterministic: the same text gives the same fields.

Rules give a raw score, an ordering of trust in 0..1: a value that arithmetic confirms is above 0.9, one whose label
says so plainly about 0.8, one that had rivals or a weak label about 0.5, and a derived or ambiguous one below that. The
engine's own score lowers it, never raises it. `calibration` then turns it into the share of such values that are right.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from headrace.documents.receipt import (
    Alternative,
    AmountField,
    DateField,
    Merchant,
    ReceiptFields,
    TextField,
    TimeField,
)
from headrace.documents.text import PageText
from headrace.extraction import merchants
from headrace.extraction.addresses import AddressRow, address_rows, how_sure, join_address
from headrace.extraction.calibration import Curve, calibrated
from headrace.extraction.candidates import Candidate
from headrace.extraction.checks import check
from headrace.extraction.currencies import CurrencyEvidence, marks_in, meanings, weigh
from headrace.extraction.date_forms import FoundDate, find_dates
from headrace.extraction.dates import ChosenDate, choose_date, choose_time
from headrace.extraction.directory import Directory
from headrace.extraction.fields import alternatives, amount_field, plain_amount, source_of, text_field, trust
from headrace.extraction.figures import Figure, convention_of, figures_of, numbers_of
from headrace.extraction.identifiers import find_receipt_number, find_tax_id
from headrace.extraction.item_sums import printed_sums, reconcile
from headrace.extraction.line_items import find_items
from headrace.extraction.origin import countries, language
from headrace.extraction.payments import find_payments
from headrace.extraction.rows import Row, rows_of
from headrace.extraction.sheets import one_receipt, without_overlap
from headrace.extraction.spelling import put_right, reads_local
from headrace.extraction.taxes import Taxes, find_taxes
from headrace.extraction.totals import Totals, find_totals
from headrace.extraction.vocabulary import Kind

MAX_ROWS = 6000  # rows beyond this are not looked at: a receipt of 2,000 items has three rows for each


def extract(
    pages: Sequence[PageText],
    *,
    today: dt.date,
    directory: Directory | None = None,
    curves: Mapping[str, Curve] | None = None,
) -> ReceiptFields:
    """The fields of the receipt that stands on these pages.

    Args:
        pages: the text of all pages, rows in reading order.
        today: dates after it are never chosen.
        directory: of confirmed merchants, where there is one.
        curves: turn raw scores into confidences; those that come with headrace when not given, none when empty.

    Returns:
        What was read, with evidence; a field that is not on the document is `missing`, never guessed.
    """
    rows = without_overlap(rows_of(pages))[:MAX_ROWS]
    if not rows:
        empty = ReceiptFields()
        return empty.model_copy(update={"checks": check(empty, today=today)})
    spoken = language(rows)
    origin = countries(rows, spoken)
    dates = [found for row in rows for found in find_dates(row.text, row.index)]
    numbers = numbers_of(rows, dates)
    first_guess = weigh(_currency_marks(rows, [], None), origin)
    likely = first_guess[0].code if first_guess and first_guess[0].score >= 1.0 else None
    convention = convention_of(numbers, likely)
    figures = figures_of(numbers, convention)
    whole_units = convention.minor == 0

    head_end = merchants.end_of_head(_money_rows(figures), len(rows))
    items = find_items(rows, figures, {d.row for d in dates}, whole_units=whole_units)
    totals = find_totals(figures, items.total, likely, whole_units=whole_units)
    payable = totals.payable.value if totals.payable else None
    items = reconcile(items, printed_sums(figures, payable, totals.gross))
    taxes = find_taxes(
        numbers, figures, totals.gross, subtotal=totals.subtotal, items_sum=items.total, whole_units=whole_units
    )
    chosen = choose_date(dates, rows, origin, spoken, today)

    merchant = _merchant(rows, head_end, local=reads_local(origin))
    fields = ReceiptFields(
        language=spoken,
        document_type=_document_type(rows, payable),
        merchant=directory.applied(merchant) if directory is not None else merchant,
        receipt_number=text_field(
            find_receipt_number(rows, [(d.row, d.start, d.end) for d in dates]), "number.label", 0.75
        ),
        issue_date=_date(chosen, rows),
        issue_time=_time(rows, chosen.found),
        currency=_currency(rows, figures, totals.payable, origin),
        tax_exclusive_amount=amount_field(
            taxes.net_value, taxes.net_figure, 0.95 if taxes.confirmed else 0.7, "net.label"
        ),
        tax_amount=_tax(taxes),
        tax_inclusive_amount=_gross(totals),
        tip_amount=plain_amount(totals.tip, "tip.label"),
        discount_amount=plain_amount(totals.discount, "discount.label"),
        rounding_amount=plain_amount(totals.rounding, "rounding.label"),
        payable_amount=_payable(totals),
        prepaid_amount=plain_amount(totals.deposit, "prepaid.label"),
        tendered_amount=plain_amount(totals.tendered, "tendered.label"),
        change_amount=plain_amount(totals.change, "change.label"),
        tax_breakdown=taxes.lines,
        prices_include_tax=taxes.included,
        payments=find_payments(rows, figures, payable, totals.tendered),
        line_items=items.items,
    )
    fields = calibrated(fields, curves)
    service = totals.service.value if totals.service else Decimal(0)
    return fields.model_copy(
        update={"checks": (*check(fields, today=today, service=service), *one_receipt(rows, figures))}
    )


def _money_rows(figures: Sequence[Figure]) -> list[int]:
    return sorted({f.row.index for f in figures if f.amount.marked and len(f.amount.number.groups) > 1})


def _payable(totals: Totals) -> AmountField:
    """What is to be paid, its trust by proofs and rivals."""
    best = totals.payable
    others = [(o.value, o.confidence, o.reason) for o in totals.losers]
    if best is None:
        return AmountField(alternatives=alternatives(others))
    strong = best.figure is not None and best.figure.kind in (Kind.TOTAL, Kind.PAYABLE, Kind.GROSS, Kind.ROUNDED_TOTAL)
    confidence = 0.8 if strong else 0.5
    if best.confirmed:
        confidence = 0.96 if len(best.proofs) > 1 or "money given less change" in best.proofs else 0.92
        if best.figure is not None and best.figure.label is None:
            confidence = 0.8  # only the sums speak for it
    elif best.score - totals.runner_up < 1.0:
        confidence -= 0.2
    ambiguous = (best.figure is not None and best.figure.amount.ambiguous) or (not strong and not best.confirmed)
    if best.figure is None:
        # Printed nowhere, but total plus rounding and money given less change both come out at it.
        return amount_field(best.value, None, 0.6, "total.rounded", others)
    tier = (best.figure.kind or Kind.AMOUNT).name.lower().replace("_", "-")
    rule = f"total.{tier}.confirmed" if best.confirmed else f"total.{tier}"
    field = amount_field(best.value, best.figure, 0.4 if ambiguous else confidence, rule, others, ambiguous=ambiguous)
    if not ambiguous and not best.confirmed and _cash_disagrees(totals, best.value):
        return field.model_copy(update={"status": "conflict", "confidence": min(field.confidence, 0.4)})
    return field


def _cash_disagrees(totals: Totals, payable: Decimal) -> bool:
    """Money given less change is printed, and comes out elsewhere by more than a rounding."""
    if totals.tendered is None or totals.change is None:
        return False
    given = totals.tendered.value - totals.change.value
    return given > 0 and abs(given - payable) > Decimal("0.05")


def _gross(totals: Totals) -> AmountField:
    if totals.payable is None:
        return _payable(totals)
    if totals.gross == totals.payable.value:
        return _payable(totals)
    confidence = 0.9 if totals.payable.confirmed else 0.7
    return amount_field(totals.gross, totals.gross_figure, confidence, "total.before-rounding")


def _tax(taxes: Taxes) -> AmountField:
    others = [(v, 0.2, r) for v, r in taxes.others]
    if taxes.tax_value is not None and taxes.tax_figure is None and taxes.confirmed:
        # The lines by rate add up, and with the net to the total: worked out, but not on its own.
        return AmountField(
            value=taxes.tax_value,
            confidence=0.8,
            source="derived",
            status="ok",
            rule_id="tax.lines",
            alternatives=alternatives(others),
        )
    return amount_field(
        taxes.tax_value,
        taxes.tax_figure,
        0.93 if taxes.confirmed else 0.75,
        "tax.label" if taxes.tax_figure else "tax.lines",
        others,
    )


def _merchant(rows: Sequence[Row], head_end: int, *, local: bool) -> Merchant:
    names = merchants.name_candidates(rows, head_end)
    best = names[0] if names and names[0].score >= merchants.LOWEST_SCORE else None
    others = alternatives(
        [(n.value, max(0.05, min(0.5, n.score / 12)), "another row of the head") for n in names if n is not best][:4]
    )
    name = TextField(alternatives=others)
    spelt = put_right(best.value, local=local) if best is not None else ""
    if best is not None and spelt != best.value:
        others = (Alternative(value=best.value, confidence=0.3, reason="the letters as the engine read them"), *others)
    if best is not None:
        row = best.rows[0]
        confidence = trust(merchants.how_sure(names) * row.confidence, row)
        name = TextField(
            value=spelt,
            raw_text=best.raw,
            confidence=confidence,
            source=source_of(row),
            page=row.page,
            polygon=best.polygon,
            alternatives=others,
            status="ok",
            rule_id=best.rule,
        )
    where = address_rows(rows, best.rows[-1].index if best else -1, local=local)
    if not where and best is not None:
        # Some print the brand and the address first, and who runs the shop below them.
        where = address_rows(rows[: best.rows[0].index], -1, local=local)
    return Merchant(
        name=name,
        address=_address(where),
        phone=text_field(merchants.find_phone(rows), "phone.label", 0.75),
        tax_id=text_field(find_tax_id(rows), "tax-id.label", 0.8),
        website=text_field(merchants.find_website(rows), "website", 0.75),
    )


def _address(where: Sequence[AddressRow]) -> TextField:
    if not where:
        return TextField()
    corners = [entry.row.polygon() for entry in where]
    left, right = min(p[0][0] for p in corners), max(p[2][0] for p in corners)
    top, bottom = min(p[0][1] for p in corners), max(p[2][1] for p in corners)
    first, worst = where[0].row, min((entry.row for entry in where), key=lambda r: r.confidence)
    return TextField(
        value=join_address(where),
        raw_text=" / ".join(entry.row.text for entry in where),
        confidence=trust(how_sure(where) * worst.confidence, worst),
        source=source_of(first),
        page=first.page,
        polygon=((left, top), (right, top), (right, bottom), (left, bottom)),
        status="ok",
        rule_id="address.head",
    )


def _date(chosen: ChosenDate, rows: Sequence[Row]) -> DateField:
    others = alternatives(chosen.others)
    if chosen.value is None or chosen.found is None:
        return DateField(alternatives=others)
    row = rows[chosen.found.row]
    label = row.text[: chosen.found.start].strip(" :.-")[-24:] or None
    rule = "date.fixed" if chosen.found.fixed else "date.ordered"
    return DateField(
        value=chosen.value,
        raw_text=chosen.found.raw,
        confidence=trust(chosen.confidence, row),
        source=source_of(row),
        page=row.page,
        polygon=row.polygon(chosen.found.start, chosen.found.end),
        label_text=label,
        alternatives=others,
        status="ambiguous" if chosen.ambiguous else "ok",
        rule_id=rule,
    )


def _time(rows: Sequence[Row], found: FoundDate | None) -> TimeField:
    time = choose_time(rows, found)
    if time is None:
        return TimeField()
    value, row, start, end, confidence = time
    return TimeField(
        value=value,
        raw_text=row.text[start:end].strip(),
        confidence=trust(confidence, row),
        source=source_of(row),
        page=row.page,
        polygon=row.polygon(start, end),
        status="ok",
        rule_id="time.beside-date" if confidence > 0.7 else "time.label",
    )


def _currency_marks(
    rows: Sequence[Row], figures: Sequence[Figure], payable: Candidate | None
) -> list[tuple[str, int, float]]:
    """Printed codes and symbols with their weight: beside an amount, in a heading, and most in the total's row."""
    total_rows = {f.row.index for f in figures if f.kind in (Kind.TOTAL, Kind.PAYABLE, Kind.GROSS, Kind.ROUNDED_TOTAL)}
    if payable is not None and payable.figure is not None:
        total_rows.add(payable.figure.row.index)
    out = []
    for row in rows:
        for start, end, raw in marks_in(row.text):
            near = row.text[max(0, start - 4) : start] + row.text[end : end + 4]
            weight = 1.0 if any(c.isdigit() for c in near) else 0.6
            if row.index in total_rows:
                weight *= 2.0
            out.append((raw, row.index, weight))
    return out


def _currency(
    rows: Sequence[Row], figures: Sequence[Figure], payable: Candidate | None, origin: dict[str, tuple[float, str]]
) -> TextField:
    """The currency by evidence, the total's row first; without any it stays open."""
    marks = _currency_marks(rows, figures, payable)
    evidence = weigh(marks, origin)
    if payable is not None and payable.figure is not None:
        glued = meanings(payable.figure.amount.number.currency)
        evidence = sorted(evidence, key=lambda e: (not (len(glued) == 1 and e.code in glued), -e.score, e.code))
    others = alternatives([(e.code, min(0.5, e.score / 10), e.reason) for e in evidence[1:5]])
    if not evidence:
        return TextField()
    best = evidence[0]
    if best.score < 1.0 or (best.reason.startswith("'") and "can mean" in best.reason):
        return TextField(alternatives=alternatives([(e.code, min(0.4, e.score / 5), e.reason) for e in evidence[:5]]))
    return _currency_field(best, rows, others, close=len(evidence) > 1 and evidence[1].score > 0.8 * best.score)


def _currency_field(
    best: CurrencyEvidence, rows: Sequence[Row], others: tuple[Alternative[Any], ...], *, close: bool
) -> TextField:
    printed = best.row is not None
    confidence = (0.95 if best.score >= 4 else 0.85) if printed else min(0.75, 0.4 + 0.15 * best.score)
    row = rows[best.row] if best.row is not None else None
    return TextField(
        value=best.code,
        raw_text=best.raw if printed else None,
        confidence=round(confidence - (0.3 if close else 0.0), 3),
        source=source_of(row) if row is not None else "rule",
        page=row.page if row is not None else None,
        polygon=row.polygon() if row is not None else None,
        label_text=best.reason,
        alternatives=others,
        status="ambiguous" if close else "ok",
        rule_id="currency.printed" if printed else "currency.country",
    )


def _document_type(rows: Sequence[Row], payable: Decimal | None) -> Any:
    text = " ".join(row.text.casefold() for row in rows[:40])
    if (
        (payable is not None and payable < 0)
        or ("credit note" in text and "tax invoice/credit note" not in text)
        or "gutschrift" in text
    ):
        return "credit_note"
    if (
        "factuurnummer" in text
        or "rechnungsnummer" in text
        or ("invoice" in text and "tax invoice" not in text and "due date" in text)
    ):
        return "invoice"
    return "receipt"
