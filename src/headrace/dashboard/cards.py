"""Cards: one document each, as a person wants to see it. Every text on them comes from outside and is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.dashboard.insights import field_value, payable
from headrace.dashboard.markup import Html, join, tag
from headrace.dashboard.thumbnails import Thumbnail
from headrace.documents.advice import ADVICE
from headrace.documents.entry import Entry
from headrace.documents.status import DocumentState, EntryKind, Verdict

# Which fields are shown, and drawn over the picture: class of the box, label, path in the receipt.
SHOWN_FIELDS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("merchant", "Merchant", ("merchant", "name")),
    ("date", "Date", ("issue_date",)),
    ("tax", "Tax", ("tax_amount",)),
    ("total", "Total", ("payable_amount",)),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is known about the documents from elsewhere: the truth of drawn receipts, or a reference of your own.

    Attributes:
        table: rows of the score; the first is the head.
        notes: for a file name, what it is ("US restaurant, thermal fading").
        differences: for a file name, what was read differently, in words.
    """

    table: Sequence[Sequence[str]] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    differences: Mapping[str, Sequence[str]] = field(default_factory=dict)


def card(entry: Entry, picture: Thumbnail | str | None, comparison: Comparison | None) -> Html:
    """One document. `picture` in words says why there is none; None where none was asked for."""
    name = entry.uri.rsplit("/", 1)[-1]
    told: list[Html | None] = [_head(entry)]
    if isinstance(picture, Thumbnail):
        told.append(_figure(entry, picture))
    elif picture is not None:
        told.append(tag("p", f"No picture: {picture}.", class_="no-picture"))
    told.append(_BODY[entry.kind](entry))
    if comparison is not None:
        told.append(_compared(name, comparison))
    told.append(tag("footer", tag("code", entry.uri)))
    return tag(
        "article",
        *told,
        class_="card",
        id=entry.voucher,
        data_show=" ".join(_groups(entry)),
        data_find=_searchable(entry),
    )


def page_of(entry: Entry) -> int:
    """Which page the picture shows: the one with the total, or else the first."""
    receipt = entry.receipt or {}
    for _, _, path in reversed(SHOWN_FIELDS):
        page = _field(receipt, path).get("page")
        if isinstance(page, int) and page > 0:
            return page
    return 1


def rotation_of(entry: Entry, page: int) -> int | None:
    """By how many degrees the page was turned clockwise before it was read; None when the receipt does not say."""
    readings = ((entry.receipt or {}).get("processing") or {}).get("page_readings") or ()
    degrees = next((r.get("rotation_applied") for r in readings if r.get("page") == page), None)
    return degrees if isinstance(degrees, int) else None


def priority(entry: Entry) -> int:
    """What is shown first when there is no room for all: 0 failures, 1 for review, 2 duplicates, 3 the rest."""
    if entry.kind is EntryKind.FAILURE:
        return 0
    if entry.kind is EntryKind.DUPLICATE:
        return 2
    return 1 if entry.verdict in (Verdict.NEEDS_REVIEW, Verdict.REJECTED) else 3


def _head(entry: Entry) -> Html:
    style, label = _badge(entry)
    partial = tag("span", "pages missing", class_="badge review") if entry.state is DocumentState.PARTIAL else None
    return tag(
        "header",
        tag("a", entry.voucher, href=f"#{entry.voucher}", class_="voucher"),
        partial,
        tag("span", label, class_=f"badge {style}"),
    )


def _badge(entry: Entry) -> tuple[str, str]:
    if entry.kind is EntryKind.FAILURE:
        return "failed", "failed"
    return {
        Verdict.ACCEPTED: ("ok", "accepted"),
        Verdict.NEEDS_REVIEW: ("review", "needs review"),
        Verdict.REJECTED: ("failed", "rejected"),
        Verdict.DUPLICATE: ("duplicate", "duplicate"),
    }.get(entry.verdict or Verdict.ACCEPTED, ("ok", "accepted"))


def _groups(entry: Entry) -> list[str]:
    """The filters that show this card."""
    style, _ = _badge(entry)
    return [style] if entry.verdict is not Verdict.REJECTED else ["review", "rejected"]


def _searchable(entry: Entry) -> str:
    receipt = entry.receipt or {}
    words = [entry.voucher, entry.uri, entry.document_id, (entry.failure or {}).get("code")]
    words += [field_value(receipt, *path) for _, _, path in SHOWN_FIELDS] + [field_value(receipt, "currency")]
    return " ".join(str(word) for word in words if word is not None).casefold()


def _figure(entry: Entry, picture: Thumbnail) -> Html:
    receipt, page = entry.receipt or {}, page_of(entry)
    boxes = []
    for style, label, path in SHOWN_FIELDS:
        found = _field(receipt, path)
        points = _points(found.get("polygon"), picture.shown)
        if points and found.get("page", 1) == page:
            boxes.append(tag("polygon", tag("title", label), points=points, class_=f"box {style}"))
    pages = receipt.get("pages")
    several = f"page {page} of {pages}" if isinstance(pages, int) and pages > 1 else None
    cut = "upper part" if picture.shown < 1 else None
    caption = ", ".join(part for part in (several, cut) if part)
    return tag(
        "figure",
        tag(
            "div",
            tag(
                "img",
                src=f"data:image/jpeg;base64,{picture.jpeg}",
                width=picture.width,
                height=picture.height,
                alt=f"Page {page} of {entry.uri}",
                loading="lazy",
            ),
            tag("svg", *boxes, viewBox="0 0 1 1", preserveAspectRatio="none", aria_hidden="true"),
            class_="page",
        ),
        tag("figcaption", caption) if caption else None,
        tabindex=0,
        role="button",
        aria_label="Enlarge the page",
    )


def _points(polygon: object, shown: float) -> str | None:
    """The corners for SVG, a little apart from the letters; None for what is no polygon or not in the picture."""
    try:
        corners = [(float(x), float(y) / shown) for x, y in polygon]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        return None
    if len(corners) != 4 or not all(-0.1 <= x <= 1.1 and -0.1 <= y <= 1.02 for x, y in corners):
        return None
    return " ".join(f"{x:.4f},{y:.4f}" for x, y in corners)


def _receipt_body(entry: Entry) -> Html:
    receipt = entry.receipt or {}
    currency = field_value(receipt, "currency")
    amount = payable(receipt)
    merchant = field_value(receipt, "merchant", "name")
    rows: list[Html | None] = [
        tag(
            "h3",
            str(merchant) if merchant else "merchant not read",
            class_="f-merchant" + ("" if merchant else " missing"),
        ),
        tag(
            "p",
            tag("span", f"{amount:,}" if amount is not None else "total not read"),
            tag("small", str(currency)) if currency else None,
            class_="amount f-total" + ("" if amount is not None else " missing"),
        ),
    ]
    facts = []
    for style, label, path in SHOWN_FIELDS[1:3]:
        facts.append(_fact(style, label, _field(receipt, path)))
    items = receipt.get("line_items")
    if isinstance(items, list) and items:
        facts.append(tag("div", tag("dt", "Items"), tag("dd", str(len(items)))))
    confidence = _field(receipt, ("payable_amount",)).get("confidence")
    if isinstance(confidence, int | float) and amount is not None:
        facts.append(tag("div", tag("dt", "Confidence"), tag("dd", f"{confidence:.2f}")))
    rows.append(tag("dl", join(facts)))
    rows.append(_failed_checks([*receipt.get("checks", []), *entry.policy_checks]))
    return join(rows)


def _fact(style: str, label: str, found: Mapping[str, Any]) -> Html:
    value, status = found.get("value"), found.get("status")
    doubtful = status in ("ambiguous", "conflict")
    return tag(
        "div",
        tag("dt", label),
        tag("dd", str(value) if value is not None else "–", " ?" if doubtful else None),
        class_=f"f-{style}",
        title=f"{label}: {status}" if doubtful else None,
    )


def _failed_checks(checks: Sequence[Mapping[str, Any]]) -> Html | None:
    rows = []
    for check in checks:
        if check.get("passed"):
            continue
        numbers = ""
        if check.get("expected") is not None and check.get("actual") is not None:
            numbers = f" (expected {check['expected']}, found {check['actual']})"
        message = str(check.get("message") or check.get("id"))
        rows.append(tag("li", message + ("" if str(check.get("actual")) in message else numbers)))
    return tag("ul", join(rows[:8]), class_="checks") if rows else None


def _failure_body(entry: Entry) -> Html:
    failure = entry.failure or {}
    code = str(failure.get("code") or "unknown")
    where = f"{failure.get('stage')}, page {failure['page']}" if failure.get("page") else failure.get("stage")
    return join(
        [
            tag("h3", code, class_="code"),
            tag("p", str(failure.get("detail") or "")),
            tag("p", _sentence(ADVICE.get(code, "look at it by hand")), class_="advice"),
            tag("p", where, class_="quiet") if where else None,
            tag("p", tag("code", f"headrace dead replay {entry.document_id}"), class_="quiet")
            if failure.get("retriable")
            else None,
        ]
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _duplicate_body(entry: Entry) -> Html:
    first = entry.duplicate_of or {}
    voucher = f"{entry.book}-{int(first.get('sequence') or 0):06d}"
    evidence = first.get("evidence") or []
    return join(
        [
            tag("h3", "Seen before"),
            tag(
                "p",
                "The same as ",
                tag("a", voucher, href=f"#{voucher}"),
                " ",
                tag("code", str(first.get("uri") or "")),
            ),
            tag("ul", join(tag("li", str(reason)) for reason in evidence[:4]), class_="evidence"),
        ]
    )


_BODY: Final = {
    EntryKind.RECEIPT: _receipt_body,
    EntryKind.FAILURE: _failure_body,
    EntryKind.DUPLICATE: _duplicate_body,
}


def _compared(name: str, comparison: Comparison) -> Html:
    differences = comparison.differences.get(name, ())
    note = comparison.notes.get(name)
    if differences:
        verdict = tag("ul", join(tag("li", difference) for difference in differences), class_="differences")
    elif note is not None:
        verdict = tag("p", "as drawn", class_="as-drawn")
    else:
        return Html("")
    return tag("section", tag("p", note, class_="quiet") if note else None, verdict, class_="compared")


def _field(receipt: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, Any]:
    found: Any = receipt
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
