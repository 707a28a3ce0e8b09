"""`headrace show`: everything about one document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.workspace import JsonOption, WorkspaceOption, open_to_read, write_json

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.storage.store import DocumentRecord

_FIELDS = (
    ("Merchant", "merchant.name"),
    ("Address", "merchant.address"),
    ("Phone", "merchant.phone"),
    ("Tax id", "merchant.tax_id"),
    ("Receipt number", "receipt_number"),
    ("Date", "issue_date"),
    ("Time", "issue_time"),
    ("Currency", "currency"),
    ("Net", "tax_exclusive_amount"),
    ("Tax", "tax_amount"),
    ("Total", "tax_inclusive_amount"),
    ("Tip", "tip_amount"),
    ("Discount", "discount_amount"),
    ("Rounding", "rounding_amount"),
    ("Payable", "payable_amount"),
    ("Prepaid", "prepaid_amount"),
    ("Tendered", "tendered_amount"),
    ("Change", "change_amount"),
)
_ALWAYS = ("Merchant", "Date", "Total")
_NAMES_COMPARED = 2000  # the latest; comparing takes about 10 microseconds each


def show(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="ID|VOUCHER|NAME", help="A document id, a voucher like main-000017 or 17, a path, or its last part."
        ),
    ],
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Everything about one document: its receipt or failure, its checks, its place in the ledger.

    A name that came several times shows the latest; the others are named.
    """
    from headrace.storage.errors import UnknownDocument

    with open_to_read(workspace) as store:
        found = store.find(reference)
        meant = [] if found else did_you_mean(reference, store.names(_NAMES_COMPARED))
    if not found:
        hint = f"; did you mean {' or '.join(meant)}?" if meant else ""
        raise UnknownDocument(f"no document has the id, voucher or name {reference!r}{hint}")
    if as_json:
        write_json(as_data(found[0]))
        return
    from headrace.cli.console import output_console

    render(output_console(), found[0])
    for other in found[1:]:
        place = other.entry.voucher if other.entry else f"batch {other.document.batch_id}, not done"
        typer.echo(f"also: {other.document.document_id} ({place})", err=True)


def did_you_mean(reference: str, uris: Sequence[str], limit: int = 3) -> list[str]:
    """The last parts of these uris that look most like the reference."""
    from difflib import get_close_matches

    names = list(dict.fromkeys(uri.rsplit("/", 1)[-1] for uri in uris))
    return get_close_matches(reference.rsplit("/", 1)[-1], names, limit, cutoff=0.7)


def as_data(found: DocumentRecord) -> dict[str, Any]:
    """The document as JSON types: the record that run and export write, and what the store knows beside it."""
    document = found.document
    return {
        **(found.entry.record() if found.entry else {}),
        "document_id": document.document_id,
        "status": str(found.state),
        "store": {
            "batch_id": document.batch_id,
            "position": document.position,
            "uri": document.uri,
            "kind": document.kind,
            "external_id": found.external_id,
            "attempts": document.attempts,
            "last_failure": found.last_failure,
            "replay_of": found.replay_of,
            "telemetry": asdict(found.telemetry) if found.telemetry else None,
        },
    }


def render(console: Console, found: DocumentRecord) -> None:
    """Prints what a person wants to know, and nothing that a document could use to move the cursor."""
    from headrace.ledger.anomalies import alone

    entry, document = found.entry, found.document
    rows: list[tuple[str, str]] = [
        ("Document", f"{document.document_id}, {document.position} of batch {document.batch_id}"),
        ("State", str(found.state) + (f", verdict {entry.verdict}" if entry and entry.verdict else "")),
    ]
    if entry and entry.review_reasons:
        rows += [("Because", reason) for reason in entry.review_reasons]
    if found.external_id:
        rows.append(("Your id", found.external_id))
    if found.replay_of:
        rows.append(("Runs again", found.replay_of))
    if entry and entry.duplicate_of:
        first = entry.duplicate_of
        sure = entry.receipt is None
        rows.append(("Duplicate of" if sure else "Like", f"{entry.book}-{first['sequence']:06d}, {first['uri']}"))
        rows += [("Because", "; ".join(first["evidence"]))] if sure else []
    failure = entry.failure if entry else found.last_failure
    if failure:
        page = f", page {failure['page']}" if failure.get("page") else ""
        rows.append(("Failure", f"{failure['code']} ({failure.get('stage')}{page}): {failure.get('detail')}"))
    if document.attempts:
        rows.append(("Attempts", f"{document.attempts} charged"))
    observed = found.telemetry.observed if found.telemetry else ()
    if not entry and found.last_failure and found.last_failure.get("observed"):
        observed = (f"attempt {found.last_failure['attempt']}: {found.last_failure['observed']}",)
    rows += [("Observed", seen) for seen in observed]
    if found.telemetry:
        pages = found.telemetry.pages
        rows.append(("Took", f"{found.telemetry.elapsed_s:.2f} s for {pages} {'page' if pages == 1 else 'pages'}"))
    if entry and entry.receipt:
        rows += [("Noticed", found.reason) for found in alone(entry.sequence, entry.receipt)]
    if entry:
        rows.append(("Voucher", f"{entry.voucher}, {entry.kind}"))
        rows.append(("SHA-256", entry.sha256 or "not read"))
        rows.append(("Entry hash", entry.entry_hash))
        rows.append(("Follows", entry.prev_hash))
    _heading(console, document.uri)
    _print_pairs(console, rows)
    if entry and entry.receipt:
        _render_receipt(console, entry.receipt)
        _render_checks(console, [*entry.receipt.get("checks", ()), *entry.policy_checks])


def _heading(console: Console, uri: str) -> None:
    console.print(_text(uri, "bold"))


def _print_pairs(console: Console, rows: list[tuple[str, str]]) -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, _text(value))
    console.print(table)


def _render_receipt(console: Console, receipt: Mapping[str, Any]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("Field", no_wrap=True)
    table.add_column("Value", style="bold", overflow="fold")
    table.add_column("Status", no_wrap=True)
    table.add_column("Confidence", justify="right", no_wrap=True)
    table.add_column("Printed as", overflow="fold", style="dim")
    for name, field in _read_fields(receipt):
        trust = f"{field['confidence']:.2f}" if field.get("confidence") is not None else ""
        others = "".join(f", or {other['value']}" for other in field.get("alternatives", ())[:2])
        value = "" if field.get("value") is None else str(field["value"])
        status = str(field.get("status", ""))
        table.add_row(
            name,
            _text(value + others),
            _text(status, "" if status == "ok" else "yellow"),
            trust,
            _text(field.get("raw_text") or ""),
        )
    console.print(table)
    for item in receipt.get("line_items", ()):
        quantity = f"{item['quantity']} x " if item.get("quantity") else ""
        console.print(_text(f"  {item['line']:>3}  {quantity}{item['description']}  {item.get('amount') or ''}"))


def _read_fields(receipt: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, place in _FIELDS:
        node: Any = receipt
        for key in place.split("."):
            node = (node or {}).get(key)
        if node and (node.get("value") is not None or node.get("status") != "missing" or name in _ALWAYS):
            yield name, node


def _render_checks(console: Console, checks: list[Mapping[str, Any]]) -> None:
    for check in checks:
        is_error = check.get("severity") == "error"
        failed = (f"failed ({check.get('severity')})", "red" if is_error else "yellow")
        mark, style = ("passed", "green") if check["passed"] else failed
        told = [f"{name} {check[name]}" for name in ("expected", "actual", "tolerance") if check.get(name)]
        detail = f" ({', '.join(told)})" if told and not check["passed"] else ""
        line = _text(f"{mark}  ", style)
        line.append_text(_text(f"{check['id']}: {check['message']}{detail}"))
        console.print(line)


def _text(value: object, style: str = "") -> Any:
    from rich.text import Text

    from headrace.documents.document import printable

    return Text(printable(str(value)), style=style)
