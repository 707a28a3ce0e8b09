"""The options of a run, for every command that takes them: one for each setting of `ingest.options.OPTIONS`.

    @run_options
    def plan(given: Mapping[str, object], config: Path | None, as_json: ... = False) -> None: ...

What was typed reaches the command as `given`, by the name of the setting and as it was written; `RunSettings.load`
parses it. So there is one parser and one wording of errors for command line, environment and file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from headrace.ingest.options import OPTIONS, Kind, Option
from headrace.ingest.values import readable_number

Result = TypeVar("Result")

_METAVARS = {
    Kind.COUNT: "COUNT",
    Kind.SIZE: "SIZE",
    Kind.DURATION: "DURATION",
    Kind.NAME: "NAME",
    Kind.FILE: "PATH",
    Kind.FLAG: None,
}


def run_options(command: Callable[..., Result]) -> Callable[..., Result]:
    """Gives a command one option per setting, and `--config`. It must take `given` and `config` by name."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name not in ("given", "config")]
    config = inspect.Parameter(
        "config",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            Path | None,
            typer.Option(
                "--config",
                metavar="PATH",
                help="The config file. [default: headrace.toml of this folder, where there is one]",
                show_default=False,
                rich_help_panel="Ledger and state",
            ),
        ],
    )
    added = [*(_parameter(option) for option in OPTIONS.values()), config]
    own_by_name = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]

    @wraps(command)
    def with_options(**typed: Any) -> Result:
        given = {name: typed.pop(name) for name in OPTIONS if name in typed}
        return command(given={name: raw for name, raw in given.items() if raw is not None}, **typed)

    # Typer reads the signature, and the annotations for what it did not find there.
    parameters = [*own_by_name, *added]
    with_options.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_options


def _parameter(option: Option) -> inspect.Parameter:
    kind: Any = bool if option.kind is Kind.FLAG else str
    declared = typer.Option(
        option.flag,
        metavar=_METAVARS[option.kind],
        help=f"{option.sentence} [{_default(option)}]",
        show_default=False,
        rich_help_panel=option.section,
    )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, declared],
    )


def _default(option: Option) -> str:
    if option.default is None:
        return "default: none" if option.kind is Kind.FILE else "derived"
    if option.kind is Kind.FLAG:
        on, _, off = option.flag.partition("/")
        return f"default: {(on if option.default else off).lstrip('-')}"
    unit = "" if option.kind is Kind.SIZE else f" {option.unit}"
    return f"default: {readable_number(option, option.default)}{unit}".rstrip()
