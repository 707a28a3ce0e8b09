"""`headrace export`: the ledger as JSONL, CSV or Parquet, however long it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.workspace import MissingPackage, NotWritten, WorkspaceOption, entries_of, open_to_read

if TYPE_CHECKING:
    from headrace.documents.entry import Entry
    from headrace.storage.store import ReadStore


class Format(StrEnum):
    """What the output is."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class DamagedEntry(Exception):
    """An entry whose content is no entry any more."""

    exit_code = ExitCode.SOME_FAILED


def export(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where it goes; - is standard output.")
    ] = "-",
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            metavar="jsonl|csv|parquet",
            help="What it is written as. [default: as the file is called, else jsonl]",
            show_default=False,
        ),
    ] = None,
    workspace: WorkspaceOption = None,
    book: Annotated[str | None, typer.Option("--book", metavar="NAME", help="Only this book. [default: all]")] = None,
    batch: Annotated[int | None, typer.Option("--batch", metavar="NUMBER", help="Only this batch; see status.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file when it exists.")] = False,
) -> None:
    """Write entries as JSONL, CSV or Parquet, in the order of their vouchers.

    A file appears whole or not at all. CSV is safe to open in a spreadsheet: text that looks like a formula gets an
    apostrophe in front. What a run commits meanwhile is left out.
    """
    if book is not None and batch is not None:
        raise typer.BadParameter("a batch belongs to one book: give only one of them", param_hint="--book, --batch")
    form = form or _by_name(output)
    write = _writer(form)
    if form is Format.PARQUET and output == "-" and sys.stdout.isatty():
        raise typer.BadParameter("Parquet is not for a terminal; use -o FILE", param_hint="--output")
    with open_to_read(workspace) as store:
        entries = chosen(store, book, batch)
        if output == "-":
            count = write(entries, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        else:
            with whole_file(Path(output), overwrite=overwrite) as file:
                count = write(entries, file)
    typer.echo(f"{count:,} {'entry' if count == 1 else 'entries'} written", err=True)


def chosen(store: ReadStore, book: str | None, batch: int | None) -> Iterator[Entry]:
    """The entries that were asked for, up to the heads of now."""
    return _undamaged(_chosen(store, book, batch))


def _undamaged(entries: Iterable[Entry]) -> Iterator[Entry]:
    for entry in entries:
        if not entry.body:
            raise DamagedEntry(f"{entry.voucher} is damaged and cannot be read; headrace verify says more")
        yield entry


def _chosen(store: ReadStore, book: str | None, batch: int | None) -> Iterator[Entry]:
    heads = {head.book: head for head in store.books()}
    if batch is not None:
        of = store.batch(batch)
        return entries_of(store, batch_id=batch, until=heads[of.book].sequence)
    if book is not None and book not in heads:
        raise typer.BadParameter(f"there is no book {book!r} in this workspace", param_hint="--book")
    names = [book] if book is not None else list(heads)
    return (entry for name in names for entry in entries_of(store, book=name, until=heads[name].sequence))


def write_jsonl(entries: Iterable[Entry], file: BinaryIO) -> int:
    """Writes one entry a line, as `headrace run` does; returns the lines."""
    count = 0
    for entry in entries:
        file.write(entry.json_line())
        count += 1
    return count


def _by_name(output: str) -> Format:
    suffix = Path(output).suffix.removeprefix(".").lower()
    return Format(suffix) if suffix in set(Format) else Format.JSONL


def _writer(form: Format) -> Callable[[Iterable[Entry], BinaryIO], int]:
    if form is Format.JSONL:
        return write_jsonl
    from headrace.cli.tabular import write_csv, write_parquet

    if form is Format.CSV:
        return write_csv
    try:
        import pyarrow  # noqa: F401 - before the output is touched
    except ModuleNotFoundError as error:
        raise MissingPackage("Parquet needs pyarrow: pip install 'headrace[parquet]'") from error
    return write_parquet


@contextmanager
def whole_file(path: Path, *, overwrite: bool) -> Iterator[BinaryIO]:
    """A file that gets its name when all is written and synced; on any error nothing of it stays.

    Raises:
        NotWritten: it exists (and `overwrite` is False), or cannot be written.
    """
    if path.exists() and not path.is_file():
        # A pipe or a device has no half state to hide.
        with _explained(path), path.open("wb") as file:
            yield file
        return
    if path.exists() and not overwrite:
        raise NotWritten(f"{path} exists; choose another -o, or --overwrite")
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with _explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if not overwrite and path.exists():
                raise FileExistsError(path)  # it came meanwhile
            partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise NotWritten(f"{path} exists; choose another -o, or --overwrite") from error
    except OSError as error:
        if getattr(error, "exit_code", None) is not None:
            raise  # of the store
        raise NotWritten(f"cannot write {path}: {error.strerror or error}") from error
