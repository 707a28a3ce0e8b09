"""`headrace doctor`: what is installed, which engines and formats work, and how this machine scales."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from headrace.cli.checks import Check

SECONDS_PER_ROUND = 0.8


def doctor(
    workspace: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The workspace to look at. [default: as set]", show_default=False),
    ] = None,
    scaling: Annotated[
        bool, typer.Option("--scaling/--no-scaling", help="Run the self-test of workers; takes about two seconds.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> int:
    """What is installed, which engines and formats work, and how this machine scales over workers.

    Ends with 0 when a run would work, with 6 when something is missing, with 1 when something is broken.
    """
    checks = examine(workspace, with_scaling=scaling)
    if as_json:
        from dataclasses import asdict

        found = list(checks)
        code = exit_code(found)
        json.dump({"ok": code == ExitCode.OK, "checks": [asdict(check) for check in found]}, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return code
    return show(checks, next_step=_next_step(workspace))


def _next_step(workspace: Path | None) -> str:
    """What to type next: a run where there is a workspace already, else the demo."""
    from headrace.ingest.settings import RunSettings, SettingsError

    try:
        folder = workspace or RunSettings.load({}).workspace
    except SettingsError:
        return "headrace demo"
    return "headrace run" if (folder / "headrace.db").is_file() else "headrace demo"


def examine(workspace: Path | None, *, with_scaling: bool) -> Iterator[Check]:
    """All checks, one after the other, each when it is asked for."""
    from headrace.cli import checks
    from headrace.flow.machine import Machine
    from headrace.ingest.settings import RunSettings, SettingsError

    machine = Machine.read()
    yield from checks.machine_checks(machine)
    try:
        settings = RunSettings.load({"workspace": workspace})
    except SettingsError as error:
        advice = "headrace config show --origin says where each value comes from"
        yield checks.Check("Machine", "settings", checks.State.BROKEN, str(error), advice)
        settings = RunSettings()
    yield from checks.engine_checks(settings.engine)
    yield from checks.format_checks()
    yield from checks.store_checks(workspace or settings.workspace)
    if with_scaling:
        yield checks.scaling_check(machine.cores.value, SECONDS_PER_ROUND)


def exit_code(checks: Iterable[Check]) -> int:
    """0 when a run would work; what is missing comes before what is broken, as it is the likelier reason."""
    from headrace.cli.checks import State

    states = {check.state for check in checks}
    if State.MISSING in states:
        return ExitCode.MISSING
    return ExitCode.BUG if State.BROKEN in states else ExitCode.OK


def show(checks: Iterable[Check], next_step: str = "headrace demo") -> int:
    """Prints the checks as they come, each group under its heading, and says at the end whether a run would work."""
    from rich.text import Text

    from headrace.cli.checks import State
    from headrace.cli.console import output_console

    looks = {
        State.OK: ("✓", "green"),
        State.NOTE: ("!", "yellow"),
        State.OPTIONAL: ("-", "dim"),
        State.MISSING: ("✗", "bold red"),
        State.BROKEN: ("✗", "bold red"),
    }
    console, found, group = output_console(), [], ""
    for check in checks:
        if check.group != group:
            group = check.group
            console.print(Text(f"{group}", style="bold"))
        mark, style = looks[check.state]
        console.print(Text.assemble((f"  {mark} ", style), (f"{check.name:<17}", ""), (check.detail, "dim")))
        if check.advice:
            console.print(Text.assemble("      ", (check.advice, "cyan")))
        found.append(check)
    code = exit_code(found)
    if code == ExitCode.OK:
        console.print(Text.assemble(("All is well. ", "bold green"), f"Next: {next_step}"))
    else:
        wrong = sum(check.state in (State.MISSING, State.BROKEN) for check in found)
        console.print(Text.assemble((f"{wrong} to repair", "bold red"), ": what to do stands under each"))
    return code
