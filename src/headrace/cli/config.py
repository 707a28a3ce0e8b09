"""`headrace config`: what is set, where each value comes from, and a config file to start from."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.help import PlainCommand, PlainGroup
from headrace.cli.options import run_options
from headrace.ingest.options import OPTIONS, Kind, Option, variable
from headrace.ingest.values import readable_number

app = typer.Typer(
    cls=PlainGroup,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Show the settings and where each comes from. Command line > environment > config file > default.",
)


@app.command("show", cls=PlainCommand)
@run_options
def show(
    given: Mapping[str, object],
    config: Path | None,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Show every setting as a run would take it. Takes the options of run.

    What is `auto` is derived when a run starts: headrace plan shows the number and the sum behind it.
    """
    from headrace.ingest.settings import RunSettings

    settings = RunSettings.load(given, config=config)
    if as_json:
        values = settings.model_dump(mode="json")
        origins = {name: str(settings.origin(name)) for name in OPTIONS}
        data = {name: {"value": values[name], "origin": origins[name]} for name in OPTIONS} if origin else values
        json.dump(data, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from headrace.cli.console import output_console

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("Setting", no_wrap=True)
    table.add_column("Value", justify="right", style="bold", overflow="fold")
    table.add_column("Unit", style="dim")
    if origin:
        table.add_column("From", overflow="fold")
    for name, option in OPTIONS.items():
        unit = "" if option.kind is Kind.SIZE else option.unit
        row: list[str | Text] = [name, Text(readable_number(option, getattr(settings, name))), unit]
        table.add_row(*row, *([Text(str(settings.origin(name)))] if origin else []))
    output_console().print(table)


@app.command("example", cls=PlainCommand)
def example() -> None:
    """Print a commented config file with every setting.

    To start from: headrace config example > headrace.toml
    """
    typer.echo(example_file(), nl=False)


def example_file() -> str:
    """A commented `headrace.toml`. Everything is commented out, so it changes nothing as it stands."""
    lines = [
        "# Settings of headrace. Command line > environment (HEADRACE_*) > this file > default.",
        "# Sizes are written 512MB or 1GiB, durations 90, 500ms or 2m. Paths start from this file's folder.",
        "# What is auto is worked out from the cores and the memory: `headrace plan` shows the sums.",
    ]
    section = ""
    for option in OPTIONS.values():
        if option.section != section:
            section = option.section
            lines += ["", f"# ---- {section} ----"]
        unit = f" [{option.unit}]" if option.unit else ""
        lines += ["", f"# {option.sentence}{unit}", f"# Also {option.flag} and {variable(option.name)}."]
        lines.append(f"#{option.name} = {_toml(option)}")
    return "\n".join(lines) + "\n"


_FILES = {"policy": "policy.toml", "merchants": "merchants.jsonl"}


def _toml(option: Option) -> str:
    if option.default is None:
        return json.dumps(_FILES[option.name]) if option.kind is Kind.FILE else '"auto"'
    if isinstance(option.default, bool):
        return "true" if option.default else "false"
    if option.kind is Kind.SIZE:
        return f'"{readable_number(option, option.default)}"'
    if isinstance(option.default, str):
        return json.dumps(option.default)
    return f"{option.default:_}" if isinstance(option.default, int) else f"{option.default:g}"
