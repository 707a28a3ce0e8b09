"""`headrace status`: how far the batches of a workspace are, and whether they add up."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.workspace import JsonOption, WorkspaceOption, open_to_read, write_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from headrace.documents.entry import Head
    from headrace.storage.store import Accounts, Batch

_LATEST = 20
_TABLE_COLUMNS = 108  # what the table needs; a narrower terminal gets two lines for each batch


def status(
    workspace: WorkspaceOption = None,
    every: Annotated[bool, typer.Option("--all", help=f"All batches, not only the latest {_LATEST}.")] = False,
    as_json: JsonOption = False,
) -> None:
    """How far the batches of a workspace are, whether they add up, and what waits. A run may go on meanwhile."""
    with open_to_read(workspace) as store:
        batches = store.batches(latest=None if every else _LATEST)
        left_out = 0 if every else store.batch_count() - len(batches)
        shown = [(batch, store.accounts(batch.batch_id)) for batch in batches]
        books, dead = store.books(), store.dead_count()
    if as_json:
        write_json(
            {
                "batches": [_data(batch, accounts) for batch, accounts in shown],
                "batches_left_out": left_out,
                "books": [asdict(head) for head in books],
                "dead_letters": dead,
            }
        )
        return
    render(shown, books, dead, left_out)


def _data(batch: Batch, accounts: Accounts) -> dict[str, Any]:
    return {
        **{name: value for name, value in asdict(batch).items() if name != "settings_json"},
        **asdict(accounts),
        "done": accounts.done,
        "holds": accounts.holds,
    }


def _sources(batch: Batch) -> str:
    """What the batch was started with, where its settings say so; else its key."""
    try:
        told = json.loads(batch.settings_json).get("sources")
    except (ValueError, AttributeError):
        told = None
    is_replay = batch.key.startswith("replay:")
    return ", ".join(map(str, told)) if told and isinstance(told, list) and not is_replay else batch.key


def render(shown: list[tuple[Batch, Accounts]], books: list[Head], dead: int, left_out: int) -> None:
    """Prints a line for each batch with its accounting identity, then the heads of the books and the dead letters."""
    from rich.text import Text

    from headrace.cli.console import output_console
    from headrace.cli.formats import counted, number

    console = output_console()
    if not shown:
        console.print("No batch in this workspace yet; headrace run starts one.")
        return
    (_print_table if console.width >= _TABLE_COLUMNS else _print_lines)(console, shown)
    if left_out:
        console.print(f"{number(left_out)} earlier batches are left out; --all shows them", style="dim")
    for head in books:
        console.print(Text(f"Book {head.book}: {counted(head.sequence, 'entry', 'entries')}, head {head.entry_hash}"))
    if dead:
        letters = "1 dead letter waits" if dead == 1 else f"{number(dead)} dead letters wait"
        console.print(f"{letters}: headrace dead list")


def _print_lines(console: Console, shown: list[tuple[Batch, Accounts]]) -> None:
    from rich.text import Text

    from headrace.cli.formats import number, shorten

    for batch, accounts in shown:
        done = f"{number(accounts.done)}/{number(accounts.accepted)}" + ("" if batch.listed else "+")
        counts = {
            "succeeded": accounts.succeeded,
            "partial": accounts.partial,
            "duplicate" if accounts.duplicates == 1 else "duplicates": accounts.duplicates,
            "failed": accounts.failed,
            "in flight": accounts.in_flight,
        }
        told = ", ".join(f"{number(count)} {name}" for name, count in counts.items() if count)
        console.print(Text(f"Batch {batch.batch_id}, {batch.state}: {done} done ({told or 'empty'})"))
        if not accounts.holds:
            console.print(Text("  the counters do NOT add up", style="bold red"))
        console.print(Text(f"  {shorten(_sources(batch), console.width - 2)}", style="dim"))


def _print_table(console: Console, shown: list[tuple[Batch, Accounts]]) -> None:
    from headrace.cli.formats import columns, shorten
    from headrace.documents.document import printable

    sources = [printable(_sources(batch)) for batch, _ in shown]
    others = console.measure(_table(shown, [""] * len(shown))).maximum
    if console.is_terminal:
        room = max(len("Sources"), console.width - others + len("Sources"))
        sources = [shorten(told, room) for told in sources]
    else:
        # What goes into a pipe is read by programs: a path stands there whole, however long.
        console.width = others + max(columns(told) for told in sources)
    console.print(_table(shown, sources))


def _table(shown: list[tuple[Batch, Accounts]], sources: list[str]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from headrace.cli.formats import number

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("Batch", "Done", "Succeeded", "Partial", "Duplicates", "Failed", "In flight"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("State", "Adds up"):
        table.add_column(name, no_wrap=True)
    table.add_column("Sources", no_wrap=True, style="dim")
    for (batch, accounts), told in zip(shown, sources, strict=True):
        total = number(accounts.accepted) + ("" if batch.listed else "+")
        counts = (accounts.succeeded, accounts.partial, accounts.duplicates, accounts.failed, accounts.in_flight)
        table.add_row(
            str(batch.batch_id),
            f"{number(accounts.done)}/{total}",
            *(number(count) for count in counts),
            batch.state,
            Text("yes") if accounts.holds else Text("NO", style="bold red"),
            Text(told),
        )
    return table
