"""`headrace submit URL SOURCE...`: hands documents to a service, and brings their results back."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import math
import signal
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headrace.cli.submit_job import Ended, Job
    from headrace.ingest.sources import Source

BATCH, RESULTS, SHOWN = "Batch", "Results", "What is shown"


def submit(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the service is: http://127.0.0.1:8080")],
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="Folders, globs, files, CSV or NDJSON manifests, zip or tar archives, or - for names on stdin.",
        ),
    ],
    service_class: Annotated[
        Literal["interactive", "batch", "background"],
        typer.Option("--class", help="How urgent they are.", rich_help_panel=BATCH),
    ] = "batch",
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="NAME",
            help="Your own name for the batch; the same name goes on with it. [default: made of the sources]",
            show_default=False,
            rich_help_panel=BATCH,
        ),
    ] = None,
    in_flight: Annotated[
        int,
        typer.Option(
            "--in-flight",
            metavar="COUNT",
            min=1,
            max=256,
            help="How many are sent at once. 1 keeps their order; more is faster, and neighbours may change places.",
            rich_help_panel=BATCH,
        ),
    ] = 1,
    patience: Annotated[
        str,
        typer.Option(
            "--patience",
            metavar="DURATION",
            help="How long one document may be refused before the command ends. A lost service gets about 15 s.",
            rich_help_panel=BATCH,
        ),
    ] = "10min",
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Write the results as they come, in order.", rich_help_panel=RESULTS),
    ] = False,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where the JSONL goes; - is standard output.",
            rich_help_panel=RESULTS,
        ),
    ] = "-",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start the output file afresh.", rich_help_panel=RESULTS)
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
        int, typer.Option("--verbose", "-v", count=True, help="Show the traceback of a bug.", rich_help_panel=SHOWN)
    ] = 0,
) -> int:
    """Hand documents to a service as one batch, in order, each exactly once, and bring their results back.

    The same command goes on after Ctrl-C: what the service has is not sent again. An API key is read from the
    environment, HEADRACE_API_KEY. Waits as long as the service asks it to.
    """  # fmt: skip
    from headrace.cli.run import standard_input
    from headrace.cli.submit_job import Job
    from headrace.ingest.sources import parse_sources

    if output != "-" and not follow:
        raise typer.BadParameter("results are written with --follow", param_hint="-o")
    if not output:
        raise typer.BadParameter("it names no file; - is standard output", param_hint="-o")
    if key is not None and not (0 < len(key) <= 255 and key.isascii() and key.isprintable()):
        raise typer.BadParameter("it is 1 to 255 printable ASCII characters", param_hint="--key")
    parsed = parse_sources(sources, stdin=standard_input() if "-" in sources else io.BytesIO())
    job = Job(
        url,
        parsed,
        service_class=service_class,
        key=key or _key(parsed, service_class),
        in_flight=in_flight,
        patience_s=_duration_s(patience),
        output=output if follow else None,
        overwrite=overwrite,
        display=_display(quiet=quiet, no_progress=no_progress, json_logs=json_logs, prints=follow and output == "-"),
        countable="-" not in sources,
    )
    return _told(asyncio.run(_until_signal(job)), quiet=quiet, json_logs=json_logs, follow=follow)


async def _until_signal(job: Job) -> Ended:
    """Runs the job; the first SIGINT or SIGTERM ends it, and leaves the batch open."""
    loop = asyncio.get_running_loop()
    work = asyncio.create_task(job.run())

    def stop(number: signal.Signals) -> None:
        job.ended.signal = number
        work.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        await work
    except asyncio.CancelledError:
        if job.ended.signal is None:
            raise
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
    return job.ended


def _told(ended: Ended, *, quiet: bool, json_logs: bool, follow: bool) -> int:
    """Says how it ended, and gives the exit code."""
    if json_logs and not quiet:
        typer.echo(json.dumps(ended.as_dict()), err=True)
    for line in ended.lines() if not (quiet or json_logs) else ():
        typer.echo(f"headrace: {line}", err=True)
    for line in ended.errors():
        typer.echo(f"headrace: {line}", err=True)
    if ended.address and not follow and ended.signal is None and ended.error is None:
        typer.echo(ended.address)
    if ended.signal is not None:
        return ExitCode.SIGINT if ended.signal is signal.SIGINT else ExitCode.SIGTERM
    return ended.exit_code()


def _key(sources: list[Source], service_class: str) -> str:
    """The same sources and class give the same batch."""
    told = "\0".join((service_class, *(source.key for source in sources)))
    return f"submit-{hashlib.sha256(told.encode()).hexdigest()[:32]}"


def _duration_s(text: str) -> float:
    from headrace.ingest.values import parse_duration

    try:
        value = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--patience") from error
    if not 0 < value < math.inf:
        raise typer.BadParameter("it is more than 0", param_hint="--patience")
    return value


def _display(*, quiet: bool, no_progress: bool, json_logs: bool, prints: bool) -> str:
    import sys

    from headrace.cli.progress import choose_display

    on_terminal = prints and sys.stdout is not None and sys.stdout.isatty()
    return choose_display(quiet=quiet, no_progress=no_progress, json_logs=json_logs, results_on_terminal=on_terminal)
