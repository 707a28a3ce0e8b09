"""The workspace that a command looks into: the same setting as a run's, wherever it was set."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headrace.documents.entry import Entry
    from headrace.storage.sqlite import SqliteStore
    from headrace.storage.store import ReadStore

PAGE_ENTRIES = 256
"""Entries in memory at once, however many there are."""

WorkspaceOption = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        metavar="DIR",
        help="The folder that holds the state of runs. [default: .headrace, or as configured]",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]


class NotWritten(Exception):
    """The output exists, or cannot be written."""

    exit_code = ExitCode.OUTPUT


class MissingPackage(Exception):
    """A package that this needs is not installed."""

    exit_code = ExitCode.MISSING


def workspace_folder(typed: str | None) -> Path:
    """Where the workspace is: typed, from the environment, the config file, or the default."""
    from headrace.ingest.settings import RunSettings

    return RunSettings.load({"workspace": typed}).workspace


def open_to_read(typed: str | None) -> SqliteStore:
    """The store to look into; a run may write to it meanwhile."""
    from headrace.storage.sqlite import SqliteStore

    return SqliteStore.read(workspace_folder(typed))


def entries_of(
    store: ReadStore, *, book: str | None = None, batch_id: int | None = None, until: int | None = None
) -> Iterator[Entry]:
    """The entries of a book or a batch in order, a page in memory at a time.

    Args:
        store: where they are.
        book, batch_id: one of them.
        until: the last voucher to give; what a run adds meanwhile is left out.
    """
    after = 0
    while page := store.entries(book=book, batch_id=batch_id, after_sequence=after, limit=PAGE_ENTRIES):
        for entry in page:
            if until is not None and entry.sequence > until:
                return
            yield entry
        after = page[-1].sequence


def write_json(value: Any, *, indent: int | None = 2) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(json.dumps(value, indent=indent, ensure_ascii=False) + "\n")
