"""`headrace index`: what search finds receipts by, brought up to date, made afresh, and how far it is."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.embedders import EndpointOption, ModelOption, embedder_for, model_name
from headrace.cli.exit_codes import ExitCode
from headrace.cli.formats import counted
from headrace.cli.help import PlainCommand, PlainGroup
from headrace.cli.workspace import JsonOption, WorkspaceOption, open_to_read, workspace_folder, write_json

if TYPE_CHECKING:
    from headrace.search.indexing import Progress

app = typer.Typer(
    cls=PlainGroup,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Index receipts for search, and see how far that is.",
)


@app.command("update", cls=PlainCommand)
def update(
    workspace: WorkspaceOption = None,
    endpoint: EndpointOption = None,
    model: ModelOption = None,
    sessions: Annotated[
        int | None,
        typer.Option(
            "--sessions",
            metavar="COUNT",
            min=1,
            help="Sessions of the model of this machine, one thread each. [default: one for each core]",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Index what the ledger has and search has not: new receipts, corrections, reviews, or all for another model.

    A run or a service may go on meanwhile. After Ctrl-C or kill -9 the same command goes on. Ends with exit code 3 when
    a receipt got no vector; it is found by its words, and tried again next time.
    """
    from headrace.search import update as bring_up

    folder = workspace_folder(workspace)
    embedder = embedder_for(endpoint, model, sessions=sessions)

    async def work() -> Progress:
        try:
            return await bring_up(folder, embedder, tell=_show)
        finally:
            await embedder.aclose()

    progress = asyncio.run(work())
    if sys.stderr.isatty():
        typer.echo("\r\x1b[K", err=True, nl=False)
    for failure in progress.failures:
        typer.echo(f"headrace: no vector: {failure}", err=True)
    if as_json:
        write_json({"model": embedder.name, **asdict(progress)})
    else:
        taken, embedded = (counted(n, "receipt", "receipts") for n in (progress.taken_in, progress.embedded))
        failed = f", {progress.failed:,} without a vector" if progress.failed else ""
        typer.echo(f"{taken} taken in, {embedded} embedded{failed}")
    return ExitCode.SOME_FAILED if progress.failed else ExitCode.OK


@app.command("rebuild", cls=PlainCommand)
def rebuild(workspace: WorkspaceOption = None, endpoint: EndpointOption = None, model: ModelOption = None) -> None:
    """Make the file of the vector index afresh from the stored vectors; nothing is embedded again."""
    from headrace.search import rebuild as build

    folder = workspace_folder(workspace)
    made = asyncio.run(build(folder, model_name(endpoint, model)))
    typer.echo("the index was made afresh" if made else "there are no vectors yet; headrace index update makes them")


@app.command("status", cls=PlainCommand)
def status(
    workspace: WorkspaceOption = None,
    endpoint: EndpointOption = None,
    model: ModelOption = None,
    as_json: JsonOption = False,
) -> None:
    """How far the index is behind the ledger."""
    from headrace.search.receipt_text import TEXT_VERSION
    from headrace.search.vector_index import index_file

    folder, name = workspace_folder(workspace), model_name(endpoint, model)
    with open_to_read(workspace) as store:
        counts = store.search_counts(name, TEXT_VERSION)
        told = index_file(folder, name)
        beyond = store.vectors_beyond(name, told.change if told else 0)
    if as_json:
        write_json(
            {
                "model": name,
                "entries_behind": counts.entries_behind,
                "receipts": counts.receipts,
                "embedded": counts.embedded,
                "in_index_file": told.count if told else 0,
                "beside_index_file": beyond,
                "index_file_bytes": told.size_bytes if told else 0,
            }
        )
        return
    typer.echo(f"model            {name}")
    typer.echo(f"receipts         {counts.receipts:,}, {counts.embedded:,} of them with a vector")
    typer.echo(f"in the index     {told.count if told else 0:,}, and {beyond:,} that are compared one by one")
    typer.echo(f"behind           {counted(counts.entries_behind, 'entry', 'entries')} of the ledger")


def _show(progress: Progress) -> None:
    if sys.stderr.isatty():
        done = f"\r\x1b[K{progress.taken_in:,} taken in, {progress.embedded:,} of {progress.to_embed:,} embedded"
        typer.echo(done, err=True, nl=False)
