"""`headrace run SOURCE...`: the main job."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import run_options

if TYPE_CHECKING:
    from headrace.ingest.runtime import Ended
    from headrace.ingest.settings import RunSettings
    from headrace.ingest.snapshot import RunSummary
    from headrace.ingest.sources import Source

OUTPUT, SHOWN = "Output", "What is shown"


@run_options
def run(
    given: Mapping[str, object],
    config: Path | None,
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            help="Folders, globs, files, CSV or NDJSON manifests, zip or tar archives, or - for names on stdin.",
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where the JSONL goes; - is standard output.", rich_help_panel=OUTPUT
        ),
    ] = "-",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start the output file afresh.", rich_help_panel=OUTPUT)
    ] = False,
    summary_json: Annotated[
        Path | None,
        typer.Option("--summary-json", metavar="FILE", help="Write the summary as JSON, too.", rich_help_panel=OUTPUT),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume/--no-resume",
            help="Go on with an unfinished batch of the same sources, and leave "
            "out what a finished one has done. [default: resume]",
            show_default=False,
            rich_help_panel="Ledger and state",
        ),
    ] = True,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Run what `headrace dead replay` has registered, instead of sources.",
            rich_help_panel="Ledger and state",
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only list and count what would be read; nothing is written.", rich_help_panel=OUTPUT
        ),
    ] = False,
    no_progress: Annotated[
        bool, typer.Option("--no-progress", help="Show no progress, only the summary.", rich_help_panel=SHOWN)
    ] = False,
    json_logs: Annotated[
        bool,
        typer.Option(
            "--json-logs", help="Progress and summary as JSON lines on standard error.", rich_help_panel=SHOWN
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show only errors.", rich_help_panel=SHOWN)] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            help="Show the traceback of a bug, and warnings of libraries.",
            rich_help_panel=SHOWN,
        ),
    ] = 0,
) -> int:
    """Read documents and write their receipts to the ledger, in order, each exactly once.

    The same command goes on after Ctrl-C, kill -9 or a full disk. Ctrl-C once finishes what is being read, twice stops.
    """  # fmt: skip
    from headrace.execution.memory import return_memory_promptly

    return_memory_promptly()
    from headrace.cli.formats import counted
    from headrace.cli.progress import Progress, choose_display
    from headrace.cli.summary import exit_code
    from headrace.flow.machine import Machine
    from headrace.flow.sizing import readable_bytes
    from headrace.ingest.bounds import derive
    from headrace.ingest.engine_costs import ENGINE_COSTS
    from headrace.ingest.runtime import Run, run_batch
    from headrace.ingest.settings import RunSettings
    from headrace.ingest.sources import parse_sources

    if bool(sources) == replay:
        raise typer.BadParameter("name at least one SOURCE" if not replay else "--replay takes no SOURCE")
    if not output:
        raise typer.BadParameter("it names no file; - is standard output", param_hint="-o")
    settings = RunSettings.load(given, config=config)
    parsed = (
        parse_sources(
            sources or [],
            stdin=standard_input() if "-" in (sources or ()) else io.BytesIO(),
            workspace=settings.workspace,
            max_member_bytes=settings.max_document_bytes,
        )
        if sources
        else []
    )
    if dry_run:
        return list_only(parsed)
    bounds = derive(settings, Machine.read(), ENGINE_COSTS[settings.engine])
    ceiling = bounds.tree_ceiling_bytes
    progress = Progress(
        choose_display(
            quiet=quiet,
            no_progress=no_progress,
            json_logs=json_logs,
            results_on_terminal=output == "-" and sys.stdout is not None and sys.stdout.isatty(),
        )
    )
    with progress:
        if not quiet:
            progress.note(
                f"{counted(bounds.workers, 'worker')}, window {bounds.window}, RSS ceiling {readable_bytes(ceiling)} "
                f"({ceiling} bytes); headrace plan shows why"
            )
            if settings.engine == "null":
                progress.note("the null engine reads nothing: its entries are empty; keep it in a workspace of its own")
        job = Run(
            settings,
            bounds,
            parsed,
            output=output,
            overwrite=overwrite,
            resume=resume,
            replay=replay,
            library_warnings=verbose > 0,
        )
        ended = asyncio.run(run_batch(job, progress.update))
    if summary_json:
        write_summary(summary_json, ended.summary)
    if not quiet:
        show(ended, settings, parsed, progress, json_logs=json_logs)
    if ended.error is not None:
        typer.echo(f"headrace: {getattr(ended.error, 'strerror', None) or ended.error}", err=True)
        return getattr(ended.error, "exit_code", ExitCode.OUTPUT)
    if settings.fail_fast and ended.signal is None:  # that it stopped is what was asked for; the failure counts
        return exit_code(replace(ended.summary, interrupted=False), strict=settings.strict)
    return exit_code(ended.summary, ended.signal, strict=settings.strict)


def standard_input() -> BinaryIO:
    """A reader of its own for descriptor 0.

    A thread may be left waiting for the next name. Were it inside `sys.stdin`, Python could not close that at its end,
    and would abort the process.
    """
    try:
        return open(0, "rb", closefd=False)
    except OSError as error:
        raise typer.BadParameter(f"standard input cannot be read: {error.strerror}") from error


def write_summary(path: Path, summary: RunSummary) -> None:
    """Writes the summary as JSON.

    Raises:
        OutputError: the file cannot be written.
    """
    from headrace.ingest.output import OutputError

    try:
        path.write_text(json.dumps(asdict(summary), indent=1))
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def show(ended: Ended, settings: RunSettings, sources: list[Source], progress: object, *, json_logs: bool) -> None:
    """The summary, and what the sources left out."""
    from headrace.cli.console import message_console
    from headrace.cli.summary import render

    if json_logs:
        sys.stderr.write(json.dumps({"event": "summary", **asdict(ended.summary)}) + "\n")
        return
    render(message_console(), ended.summary)
    for source in sources:
        for reason, count in source.skipped.items():
            typer.echo(f"{source.key}: {count} left out: {reason}", err=True)


def list_only(sources: list[Source]) -> int:
    """`--dry-run`: counts the documents of each source, with what is left out and what cannot be read."""
    for source in sources:
        count = size_bytes = problems = 0
        for found in source:
            count += 1
            size_bytes += found.size_bytes
            problems += found.problem is not None
        typer.echo(f"{source.key}: {count} documents, {size_bytes} bytes, {problems} that cannot be read")
        for reason, left_out in source.skipped.items():
            typer.echo(f"  {left_out} left out: {reason}")
    return ExitCode.OK
