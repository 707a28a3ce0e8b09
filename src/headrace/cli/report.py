"""`headrace report`: any run, finished or going on, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.exit_codes import ExitCode


class CannotWrite(Exception):
    """The report cannot be written where it was asked for."""

    exit_code = ExitCode.OUTPUT


class NoBatch(Exception):
    """There is no batch to report on."""

    exit_code = ExitCode.USAGE


def report(
    workspace: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the run keeps its state. [default: .headrace]")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file; what was there is replaced.")
    ] = Path("report.html"),
    batch: Annotated[int | None, typer.Option(min=1, metavar="N", help="Which batch. [default: the latest]")] = None,
) -> int:
    """Write a run as one HTML page that needs no network: proofs, charts, and a card for each document.

    It only reads the workspace, so it may be called while a run is going on. The path is printed.
    """
    from headrace.dashboard.report import NothingToReport, write_report
    from headrace.ingest.settings import RunSettings

    folder = RunSettings.load({"workspace": workspace}).workspace
    try:
        path = write_report(folder, output, batch_id=batch)
    except NothingToReport as error:
        raise NoBatch(str(error)) from error
    except OSError as error:
        raise CannotWrite(f"cannot write {output}: {error.strerror or error}") from error
    typer.echo(str(path))
    return ExitCode.OK
