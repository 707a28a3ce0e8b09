"""`headrace dead`: documents that failed, with their reasons, and running them again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.help import PlainCommand, PlainGroup
from headrace.cli.workspace import (
    PAGE_ENTRIES,
    JsonOption,
    WorkspaceOption,
    open_to_read,
    workspace_folder,
    write_json,
)

if TYPE_CHECKING:
    from headrace.storage.store import DeadLetter, ReadStore

app = typer.Typer(
    cls=PlainGroup,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List documents that failed, and run them again.",
)


@app.command("list", cls=PlainCommand)
def list_letters(
    workspace: WorkspaceOption = None,
    replayed: Annotated[bool, typer.Option("--all", help="Those that were run again, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output.")] = False,
) -> None:
    """List failed documents that nobody has run again yet, with their reasons."""
    with open_to_read(workspace) as store:
        if as_json:
            for letter in _letters(store, replayed):
                write_json(_data(letter), indent=None)
            return
        count = 0
        for letter in _letters(store, replayed):
            count += 1
            again = f" (run again in batch {letter.replayed_in})" if letter.replayed_in else ""
            failure = letter.failure
            page = f", page {failure['page']}" if failure.get("page") else ""
            typer.echo(f"{letter.document.document_id}  {failure['code']}{page}  {_safe(letter.document.uri)}{again}")
            typer.echo(f"    {_safe(failure.get('detail') or '')}")
        if not count:
            typer.echo("no dead letters", err=True)


@app.command("replay", cls=PlainCommand)
def replay(
    documents: Annotated[
        list[str] | None, typer.Argument(metavar="ID...", help="Documents, by their id; see dead list.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All that wait.")] = False,
    workspace: WorkspaceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Register failed documents to be run again, and say the command that runs them.

    The old failure stays in the ledger; the document gets a new id and a new entry.
    """
    from headrace.storage.sqlite import SqliteStore

    if bool(documents) == every:
        raise typer.BadParameter("name the documents, or --all", param_hint="ID...")
    folder = workspace_folder(workspace)
    with SqliteStore.open(folder, create=False) as store:
        batches = store.replay(documents)
        registered = [(batch, store.accounts(batch.batch_id).accepted) for batch in batches]
    if as_json:
        write_json([{"batch_id": b.batch_id, "book": b.book, "key": b.key, "documents": n} for b, n in registered])
    elif not registered:
        typer.echo("no dead letters wait", err=True)
    for batch, count in [] if as_json else registered:
        typer.echo(f"batch {batch.batch_id}: {count} {'document' if count == 1 else 'documents'} to run again")
    if registered:
        typer.echo(
            f"run them: headrace run --replay --workspace {shlex.quote(str(folder))} -o replayed.jsonl", err=True
        )
        typer.echo("(-o may also be the output that has the failures: their new lines are appended)", err=True)


def _letters(store: ReadStore, replayed: bool) -> Iterator[DeadLetter]:
    """All dead letters in order, a page in memory at a time."""
    after = 0
    while page := store.dead_letters(after_number=after, limit=PAGE_ENTRIES, replayed=replayed):
        yield from page
        after = page[-1].number


def _safe(text: str) -> str:
    from headrace.documents.document import printable

    return printable(text)


def _data(letter: DeadLetter) -> dict[str, Any]:
    return {
        "number": letter.number,
        "document_id": letter.document.document_id,
        "batch_id": letter.document.batch_id,
        "position": letter.document.position,
        "uri": letter.document.uri,
        "attempts": letter.document.attempts,
        "failure": letter.failure,
        "blob_sha256": letter.blob_sha256,
        "failed_at": letter.failed_at,
        "replayed_in": letter.replayed_in,
    }
