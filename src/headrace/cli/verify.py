"""`headrace verify`: recomputes the hash chain of every book and the counters of every batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.formats import counted
from headrace.cli.workspace import JsonOption, WorkspaceOption, entries_of, open_to_read, write_json

if TYPE_CHECKING:
    from headrace.documents.entry import Entry, Head
    from headrace.ledger.chain import Verification
    from headrace.storage.store import ReadStore


def verify(
    workspace: WorkspaceOption = None,
    book: Annotated[str | None, typer.Option("--book", metavar="NAME", help="Only this book. [default: all]")] = None,
    as_json: JsonOption = False,
) -> int:
    """Recompute the hash chain and name the first entry that is wrong.

    Ends with exit code 0 only when every entry is as it was written and none is missing; with 3 when not. A run may go
    on meanwhile. Note the head hash elsewhere: it proves later that nobody rewrote the whole book.
    """
    with open_to_read(workspace) as store:
        heads = [head for head in store.books() if book in (None, head.book)]
        if book is not None and not heads:
            raise typer.BadParameter(f"there is no book {book!r} in this workspace", param_hint="--book")
        found = [check_book(store, head) for head in heads]
        complaints = [complaint for head in heads for complaint in check_counters(store, head.book)]
    if as_json:
        write_json({"holds": _good(found, complaints), "books": [_data(f) for f in found], "counters": complaints})
    else:
        for verification in found:
            _tell(verification)
        for complaint in complaints:
            typer.echo(f"headrace: {complaint}", err=True)
        if not found:
            typer.echo("no book in this workspace: nothing to verify", err=True)
    return ExitCode.OK if _good(found, complaints) else ExitCode.SOME_FAILED


def check_book(store: ReadStore, head: Head) -> Verification:
    """Recomputes the chain of a book up to its head, a page of entries in memory at a time."""
    from headrace.ledger import chain

    found = chain.verify(entries_of(store, book=head.book, until=head.sequence), head)
    if found.holds and (stray := _beyond(store, head.book)):
        reason = "it stands behind the book's recorded head"
        fault = chain.Fault(stray.sequence, stray.voucher, stray.document_id, stray.uri, reason)
        return chain.Verification(found.count, found.head, fault)
    if found.fault and not found.fault.uri and (known := store.find(found.fault.document_id, 1)):
        # Content that cannot be read any more does not say whose it is; the documents do.
        fault = chain.Fault(**{**asdict(found.fault), "uri": known[0].document.uri})
        return chain.Verification(found.count, found.head, fault)
    return found


def _beyond(store: ReadStore, book: str) -> Entry | None:
    """An entry behind the recorded head that is not simply newer than our look at the head."""
    while True:
        (head,) = (head for head in store.books() if head.book == book)
        stray = store.entries(book=book, after_sequence=head.sequence, limit=1)
        if not stray or head in store.books():
            return stray[0] if stray else None


def check_counters(store: ReadStore, book: str) -> Iterator[str]:
    """Compares the counters of each batch that has ended with its entries."""
    for batch in store.batches():
        if batch.book != book:
            continue
        accounts = store.accounts(batch.batch_id)
        if not accounts.holds:
            yield f"batch {batch.batch_id}: {accounts.accepted} accepted, but {accounts.done} + {accounts.in_flight}"
        elif batch.state == "finished":
            counted = count(entries_of(store, batch_id=batch.batch_id))
            told = {name: getattr(accounts, name) for name in ("succeeded", "partial", "duplicates", "failed")}
            if wrong := {name: (value, counted[name]) for name, value in told.items() if value != counted[name]}:
                yield f"batch {batch.batch_id}: the counters differ from the entries: {wrong}"


def count(entries: Iterable[Entry]) -> Counter[str]:
    """How many entries belong to each counter of the accounting identity."""
    from headrace.storage.store import counter_of

    return Counter(counter_of(entry) for entry in entries)


def _good(found: list[Verification], complaints: list[str]) -> bool:
    return not complaints and all(verification.holds for verification in found)


def _tell(found: Verification) -> None:
    fault = found.fault
    entries = counted(found.count, "entry", "entries")
    if fault is None:
        typer.echo(f"{found.head.book}: the chain holds, {entries}, head {found.head.entry_hash}")
        return
    good = f"{entries} before it {'is' if found.count == 1 else 'are'} good"
    typer.echo(f"{found.head.book}: the chain is broken at {fault.voucher}; {good}")
    typer.echo(f"headrace: {fault.voucher}: {fault.reason}", err=True)
    if fault.document_id:
        typer.echo(f"headrace: document {fault.document_id}, {fault.uri}", err=True)


def _data(found: Verification) -> dict[str, Any]:
    return {"book": found.head.book, "holds": found.holds, **asdict(found)}
