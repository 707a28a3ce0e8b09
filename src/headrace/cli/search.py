"""`headrace search`: receipts by words and by meaning."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.embedders import EndpointOption, ModelOption, embedder_for
from headrace.cli.workspace import JsonOption, WorkspaceOption, workspace_folder, write_json

if TYPE_CHECKING:
    from headrace.documents.status import Verdict
    from headrace.search.search import Found, Hit


def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help="What to look for.")],
    after: Annotated[str | None, typer.Option("--after", metavar="DATE", help="Dated on this day or later.")] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="DATE", help="Dated on this day or earlier.")
    ] = None,
    min_total: Annotated[
        str | None, typer.Option("--min-total", metavar="AMOUNT", help="Of this amount or more, whatever the currency.")
    ] = None,
    max_total: Annotated[
        str | None, typer.Option("--max-total", metavar="AMOUNT", help="Of this amount or less, whatever the currency.")
    ] = None,
    currency: Annotated[str | None, typer.Option("--currency", metavar="CODE", help="Such as EUR.")] = None,
    merchant: Annotated[
        str | None, typer.Option("--merchant", metavar="TEXT", help="A part of the merchant's name.")
    ] = None,
    verdict: Annotated[
        str | None,
        typer.Option("--verdict", metavar="NAME", help="accepted, needs_review or rejected; with reviews applied."),
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", metavar="NUMBER", help="Only this batch; see status.")] = None,
    book: Annotated[str | None, typer.Option("--book", metavar="NAME", help="Only this book. [default: all]")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="COUNT", help="How many at most, up to 100.")] = 10,
    workspace: WorkspaceOption = None,
    endpoint: EndpointOption = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find receipts by their words and by their meaning, the best first.

    Looks in what `headrace index update` has indexed, and says on standard error what is not. A run or a service may
    go on meanwhile. Dates are those of the receipts, as 2026-01-31.
    """
    from headrace.search import Filters, Search

    filters = Filters(
        after=_date(after, "--after"),
        before=_date(before, "--before"),
        min_total=_amount(min_total, "--min-total"),
        max_total=_amount(max_total, "--max-total"),
        currency=currency,
        merchant=merchant,
        verdict=_verdict(verdict),
        batch=batch,
        book=book,
    )
    with Search.open(workspace_folder(workspace), embedder=embedder_for(endpoint, model, sessions=1)) as opened:
        found = opened.find_blocking(" ".join(words), filters=filters, limit=limit)
    if as_json:
        write_json(_data(found))
    else:
        for hit in found.hits:
            _tell(hit)
        if not found.hits:
            typer.echo("nothing was found", err=True)
    for lacking in found.lacking:
        typer.echo(f"headrace: {lacking}; headrace index update changes that", err=True)


def _tell(hit: Hit) -> None:
    total = f"{hit.total} {hit.currency or ''}".strip() if hit.total is not None else "-"
    merchant = _safe(hit.merchant or "-")
    typer.echo(f"{hit.entry.voucher}  {hit.issue_date or '-':10}  {total:>14}  {merchant}  {_safe(hit.entry.uri)}")


def _data(found: Found) -> dict[str, Any]:
    return {
        "hits": [
            {
                "voucher": hit.entry.voucher,
                "document_id": hit.entry.document_id,
                "uri": hit.entry.uri,
                "batch_id": hit.entry.batch_id,
                "merchant": hit.merchant,
                "issue_date": hit.issue_date,
                "total": str(hit.total) if hit.total is not None else None,
                "currency": hit.currency,
                "verdict": hit.verdict,
                "by": list(hit.by),
                "similarity": hit.similarity,
                "score": hit.score,
            }
            for hit in found.hits
        ],
        "complete": found.complete,
        "entries_behind": found.entries_behind,
        "without_vector": found.without_vector,
    }


def _safe(text: str) -> str:
    """Without what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _date(typed: str | None, option: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(typed) if typed is not None else None
    except ValueError:
        raise typer.BadParameter(f"a date is written as 2026-01-31, not {typed!r}", param_hint=option) from None


def _amount(typed: str | None, option: str) -> Decimal | None:
    try:
        amount = Decimal(typed) if typed is not None else None
    except InvalidOperation:
        amount = Decimal("NaN")
    if amount is not None and not amount.is_finite():
        raise typer.BadParameter(f"an amount is written as 12.50, not {typed!r}", param_hint=option)
    return amount


def _verdict(typed: str | None) -> Verdict | None:
    from headrace.documents.status import Verdict

    if typed is None:
        return None
    searched = [verdict for verdict in Verdict if verdict is not Verdict.DUPLICATE]  # a duplicate has no receipt
    if typed not in searched:
        raise typer.BadParameter(f"one of {', '.join(searched)}, not {typed!r}", param_hint="--verdict")
    return Verdict(typed)
