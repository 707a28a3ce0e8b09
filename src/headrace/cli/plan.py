"""`headrace plan`: every bound of a run before it starts, where it comes from, and the sum behind it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.options import run_options

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.flow.machine import Machine
    from headrace.ingest.bounds import Bounds
    from headrace.ingest.engine_costs import EngineCost
    from headrace.ingest.settings import RunSettings

TITLES = {
    "workers": "workers",
    "window": "window",
    "read_ahead": "read-ahead",
    "byte_budget_bytes": "byte budget",
    "memory_limit_bytes": "memory limit",
    "parent_ceiling_bytes": "RSS ceiling, parent",
    "worker_ceiling_bytes": "RSS ceiling, one worker",
    "tree_ceiling_bytes": "RSS ceiling, all",
    "page_bytes": "memory to decode a page",
    "worker_recycle_rss_bytes": "worker is replaced above",
    "worker_recycle_after": "worker is replaced after",
    "page_timeout_s": "page timeout",
    "documents_per_s": "throughput, expected",
    "usual_delay_s": "delay, usual",
    "worst_delay_s": "delay, promised",
}
_SETTING = {"worker_ceiling_bytes": "worker_memory_limit_bytes"}  # where a bound is set under another name


@run_options
def plan(
    given: Mapping[str, object],
    config: Path | None,
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE", help="As for run; they are not read: the bounds do not depend on them."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Show every bound of a run, and the sum behind it, before it starts.

    Takes the options of run. Ends with exit code 9 when the run could take more memory than there is.
    """
    from headrace.flow.machine import Machine
    from headrace.ingest.bounds import derive
    from headrace.ingest.engine_costs import ENGINE_COSTS
    from headrace.ingest.settings import RunSettings

    settings = RunSettings.load(given, config=config)
    machine, cost = Machine.read(), ENGINE_COSTS[settings.engine]
    bounds = derive(settings, machine, cost)
    if as_json:
        json.dump(as_data(settings, machine, cost, bounds), sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    from headrace.cli.console import output_console

    render(output_console(), settings, machine, cost, bounds)


def as_data(settings: RunSettings, machine: Machine, cost: EngineCost, bounds: Bounds) -> dict[str, Any]:
    """The plan as plain JSON types."""
    from dataclasses import asdict

    return {
        "engine": asdict(cost),
        "machine": {"cores": asdict(machine.cores), "memory_bytes": asdict(machine.memory_bytes)},
        "bounds": {name: asdict(bound) | {"origin": _origin(settings, name)} for name, bound in bounds.sums.items()},
        "settings": {
            name: {"value": getattr(settings, name), "unit": option.unit, "origin": str(settings.origin(name))}
            for name, option in _other_bounds(bounds)
        },
    }


def render(console: Console, settings: RunSettings, machine: Machine, cost: EngineCost, bounds: Bounds) -> None:
    """Prints the plan: what there is, the bounds with their sums, the other limits, and what to expect."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from headrace.cli.formats import duration, quantity, readable_bytes, readable_rate, share_bar
    from headrace.ingest.values import readable_number

    console.print(Text.assemble("Engine ", (cost.engine, "bold"), f" on {machine.cores.value} cores "), end="")
    console.print(Text(f"({machine.cores.because})", style="dim"))

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    table.add_column("Bound", no_wrap=True)
    table.add_column("Value", justify="right", no_wrap=True, style="bold")
    table.add_column("From", overflow="fold")
    table.add_column("Because", overflow="fold", style="dim")
    for name, bound in bounds.sums.items():
        origin = _origin(settings, name)
        table.add_row(TITLES[name], quantity(bound.value, bound.unit), Text(origin), Text(bound.because))
    console.print(table)

    limits = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    limits.add_column("Limit", no_wrap=True)
    limits.add_column("Value", justify="right", no_wrap=True, style="bold")
    limits.add_column("From", overflow="fold")
    limits.add_column("Means", overflow="fold", style="dim")
    for name, option in _other_bounds(bounds):
        value = f"{readable_number(option, getattr(settings, name))} {option.unit.replace('bytes', '')}".rstrip()
        limits.add_row(
            option.flag.lstrip("-").replace("-", " "), value, Text(str(settings.origin(name))), option.sentence
        )
    console.print(limits)

    bar = share_bar(bounds.tree_ceiling_bytes, bounds.memory_limit_bytes, 20)
    ceiling, limit = readable_bytes(bounds.tree_ceiling_bytes), readable_bytes(bounds.memory_limit_bytes)
    console.print(Text.assemble("Memory   ", (f"at most {ceiling}", "bold"), f" of {limit}  {bar}"))
    per_s = readable_rate(bounds.documents_per_s)
    console.print(
        Text.assemble(
            "Speed    ", (f"about {per_s} documents/s", "bold"), " expected (estimate) at one page a document"
        )
    )
    usual, worst = duration(bounds.usual_delay_s), duration(bounds.worst_delay_s)
    console.print(
        Text.assemble(
            "Delay    ", (f"about {usual}", "bold"), f" expected (estimate) in the window, never more than {worst}"
        )
    )


def _origin(settings: RunSettings, name: str) -> str:
    from headrace.ingest.options import OPTIONS

    setting = _SETTING.get(name, name)
    return str(settings.origin(setting)) if setting in OPTIONS else "derived"


def _other_bounds(bounds: Bounds) -> list[tuple[str, Any]]:
    """Settings that limit something and need no sum: they are what they were set to."""
    from headrace.ingest.options import OPTIONS, Kind

    shown = set(bounds.sums) | set(_SETTING.values())
    numbers = (Kind.COUNT, Kind.SIZE, Kind.DURATION)
    return [(name, option) for name, option in OPTIONS.items() if option.kind in numbers and name not in shown]
