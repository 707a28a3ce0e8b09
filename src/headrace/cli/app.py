"""The command line: `headrace COMMAND`. Commands are loaded when they are called, so that the rest costs nothing.

Nothing here may import what takes long (numpy, SQLAlchemy, pydantic, Rich): `headrace --help` answers at once.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command as command_of

from headrace import __version__
from headrace.cli.exit_codes import ExitCode
from headrace.cli.help import PlainCommand, heading
from headrace.cli.standard_error import keep_harmless


@dataclass(frozen=True, slots=True)
class Command:
    """Where a command is written, and what it does in one line."""

    module: str
    attribute: str
    section: str
    sentence: str


WORK, LOOK, SETUP = "Work", "Look at what came out", "Set up"

COMMANDS = {
    "run": Command("run", "run", WORK, "Read documents and write their receipts to the ledger."),
    "demo": Command("demo", "demo", WORK, "Draw receipts, run them, score the result and show a report."),
    "serve": Command("serve", "serve", WORK, "Take documents over HTTP, durable before they are accepted."),
    "embed-serve": Command("embed_serve", "embed_serve", WORK, "Embed texts over HTTP, as OpenAI's API has it."),
    "submit": Command("submit", "submit", WORK, "Hand documents to a service, and bring their results back."),
    "plan": Command("plan", "plan", WORK, "Show every bound of a run, and the sum behind it, beforehand."),
    "status": Command("status", "status", LOOK, "How far the batches of a workspace are."),
    "show": Command("show", "show", LOOK, "Everything about one document."),
    "dead": Command("dead", "app", LOOK, "List documents that failed, and run them again."),
    "search": Command("search", "search", LOOK, "Find receipts by their words and by their meaning."),
    "index": Command("index", "app", LOOK, "Index receipts for search, and see how far that is."),
    "export": Command("export", "export", LOOK, "Write entries as JSONL, CSV or Parquet."),
    "verify": Command("verify", "verify", LOOK, "Recompute the hash chain and name the first entry that is wrong."),
    "report": Command("report", "report", LOOK, "Write a run as one HTML page."),
    "doctor": Command("doctor", "doctor", SETUP, "What is installed, what works, and how this machine scales."),
    "config": Command("config", "app", SETUP, "Show the settings and where each comes from."),
}


class NotInstalled(Exception):
    """A command needs something that this installation does not have."""

    exit_code = ExitCode.MISSING


class LazyCommands(TyperGroup):
    """The commands of the table; each is imported when it is called, and breaks nothing but itself."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, loaded now; None when there is none of this name."""
        return _load(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is meant, or a usage error that names the nearest."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else f" There are: {', '.join(COMMANDS)}."
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        """The `--help` of `headrace` itself, not given unless it is given.

        Typer 0.29 leaves that open, and loads pydantic to close it before every command, even for `run --help`.
        """
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The options and the list of commands; `main` answers `--version`."""
        rows = [("--version", "Show the version and end."), ("--help", "Show this message and end.")]
        with formatter.section(heading("Options")):
            formatter.write_dl(rows)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list of commands from the table, without loading one."""
        for section in dict.fromkeys(command.section for command in COMMANDS.values()):
            rows = [(name, command.sentence) for name, command in COMMANDS.items() if command.section == section]
            with formatter.section(heading(section)):
                formatter.write_dl(rows)


app = typer.Typer(
    cls=LazyCommands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Start with: headrace demo",
)


@app.callback()
def headrace() -> None:
    """Turns any flood of receipts into an ordered, checked ledger: memory flat, order kept, nothing accepted lost."""


def main(args: Sequence[str] | None = None) -> int:
    """Runs a command and says how it ended.

    Args:
        args: without the program's name; None takes those of the process.

    Returns:
        The exit code, one of `exit_codes.ExitCode`. Nothing but `SystemExit` of a command leaves here.
    """
    args = list(sys.argv[1:] if args is None else args)
    keep_harmless()
    if hasattr(sys.stdout, "reconfigure"):
        # A file name that is no text must not stop a run of 53,000 documents where it is printed.
        sys.stdout.reconfigure(errors="backslashreplace")
    if args[:1] == ["--version"]:
        typer.echo(f"headrace {__version__}")
        return ExitCode.OK
    try:
        result = command_of(app)(args=args, prog_name="headrace", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return ExitCode.SIGINT
    except typer.Abort:
        return ExitCode.SIGINT
    except BrokenPipeError:
        return _nobody_reads()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # Typer's way to say the same
            return _nobody_reads()
        raise
    except Exception as error:
        return _explain(error, verbose=_is_verbose(args))
    return int(result) if isinstance(result, int) else ExitCode.OK


def _nobody_reads() -> int:
    """Whoever read our output has had enough. What Python would still flush at exit goes nowhere, quietly."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return ExitCode.OUTPUT


def _load(name: str) -> Any:
    command = COMMANDS[name]
    module = f"{__package__}.{command.module}"
    try:
        found = getattr(import_module(module), command.attribute)
    except ModuleNotFoundError as error:
        if error.name == module:
            raise NotInstalled(f"'headrace {name}' is not part of this installation") from error
        if error.name and error.name.split(".")[0] == "headrace":
            raise  # a part of ours that is gone is a bug
        raise NotInstalled(f"'headrace {name}' needs {error.name}: pip install 'headrace[all]'") from error
    if isinstance(found, typer.Typer):
        group = found
    else:
        group = typer.Typer(add_completion=False, rich_markup_mode=None)
        group.command(name, cls=PlainCommand)(found)
    loaded = command_of(group)
    loaded.name = name
    return loaded


def _explain(error: Exception, *, verbose: bool) -> int:
    """Says what was wrong; an error that carries an exit code knows itself what to tell a person."""
    code = getattr(error, "exit_code", None)
    show = getattr(error, "show", None)
    if isinstance(code, int) and callable(show):  # a usage error: shows the usage, too
        show()
        return code
    if isinstance(code, int):
        for line in str(error).splitlines() or [type(error).__name__]:
            typer.echo(f"headrace: {line}", err=True)
        return code
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        typer.echo(f"headrace: {error.strerror}: raise ulimit -n or lower --workers", err=True)
        return ExitCode.UNSAFE_CONFIG
    _report_bug(error, verbose=verbose)
    return ExitCode.BUG


def _report_bug(error: Exception, *, verbose: bool) -> None:
    import tempfile
    import traceback

    trace = "".join(traceback.format_exception(error))
    if verbose:
        typer.echo(trace, err=True, nl=False)
        where = "the traceback is above"
    else:
        try:
            with tempfile.NamedTemporaryFile("w", prefix="headrace-bug-", suffix=".txt", delete=False) as file:
                file.write(f"headrace {__version__}\nheadrace {' '.join(sys.argv[1:])}\n\n{trace}")
            where = f"the traceback is in {file.name}"
        except OSError:
            where = "-v shows the traceback"
    lines = str(error).splitlines()
    what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    typer.echo(f"headrace: this is a bug in headrace ({what}); {where}", err=True)


def _is_verbose(args: Sequence[str]) -> bool:
    options = args[: args.index("--")] if "--" in args else args
    return any(option in ("-v", "-vv", "--verbose") for option in options)


def exit_with_code() -> NoReturn:
    """The process's end, for `python -m headrace`."""
    sys.exit(main())
