"""Writes the generated parts of docs/reference-*.md from the code itself; `script/docs` runs it.

A generated part stands between `<!-- begin generated: NAME -->` and `<!-- end generated: NAME -->`. The tests fail when
it differs from what this gives.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

from doc_pages import DOCS
from typer.main import get_command

from headrace.cli.app import COMMANDS, app
from headrace.cli.tabular import COLUMNS
from headrace.documents.advice import REASONS
from headrace.ingest.options import OPTIONS, Option, variable
from headrace.ingest.values import readable_number

Command = Any  # click's, under whatever name Typer brings it
_DEFAULT = re.compile(r" ?\[(default: [^\]]*|derived)\]")

# Where the default is more than a value: said in words.
_DEFAULT_IN_WORDS = {"policy": "the default rules", "merchants": "none"}


def row(cells: Iterable[str]) -> str:
    """One row of a table."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A whole table."""
    return "\n".join([row(heading), "|" + "---|" * len(heading), *(row(cells) for cells in rows)])


def settings() -> str:
    """A table of settings for each section, as `options.OPTIONS` has them."""
    parts = []
    for section in dict.fromkeys(option.section for option in OPTIONS.values()):
        rows = (_setting(option) for option in OPTIONS.values() if option.section == section)
        heading = ("Setting (also in the file)", "Command line", "Environment", "Default", "Unit", "What it does")
        parts.append(f"### {section}\n\n{table(heading, rows)}")
    return "\n\n".join(parts)


def _setting(option: Option) -> tuple[str, ...]:
    return (
        f"`{option.name}`",
        ", ".join(f"`{flag}`" for flag in option.flag.split("/")),
        f"`{variable(option.name)}`",
        default(option),
        option.unit or "-",
        option.sentence,
    )


def default(option: Option) -> str:
    """The default of a setting in words or as it would be written."""
    if option.name in _DEFAULT_IN_WORDS:
        return _DEFAULT_IN_WORDS[option.name]
    return "worked out" if option.default is None else f"`{readable_number(option, option.default)}`"


def commands() -> str:
    """Every command: its sentence, how it is called, its arguments and options."""
    parts = []
    for name, command in every_command():
        text = "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(command.help or "").split("\n\n"))
        call = " ".join(["headrace", name, *_call(command)])
        parts.append(f"## {name}\n\n{text}\n\n```text\n{call}\n```\n\n{_parameters(command)}".rstrip())
    return "\n\n".join(parts)


def columns() -> str:
    """The columns of CSV and Parquet, and what each holds."""
    return table(("Column", "Holds"), ((f"`{column.name}`", str(column.kind.value)) for column in COLUMNS))


def every_command() -> Iterator[tuple[str, Command]]:
    """Name and command, also those below another (`dead list`), in the order of `headrace --help`."""
    group = get_command(app)
    for name in COMMANDS:
        command = group.get_command(None, name)  # type: ignore[attr-defined]
        below = getattr(command, "commands", None)
        if below is None:
            yield name, command
        else:
            yield from ((f"{name} {child}", below[child]) for child in below)


def _call(command: Command) -> list[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    told = [f"{a.metavar.removesuffix('...')}{'...' if a.nargs == -1 else ''}" for a in arguments]
    return ["[OPTIONS]", *(name if a.required else f"[{name}]" for a, name in zip(arguments, told, strict=True))]


def _parameters(command: Command) -> str:
    shared = {option.name for option in OPTIONS.values()}
    takes_settings = shared <= {parameter.name for parameter in command.params}
    rows = [
        _parameter(parameter)
        for parameter in command.params
        if parameter.name != "help" and not (takes_settings and parameter.name in shared)
    ]
    text = table(("Argument or option", "Default", "What it does"), rows) if rows else "It has no options."
    also = "\n\nIt also takes one option for each [setting](reference-settings.md)." if takes_settings else ""
    return text + also


def _parameter(parameter: Any) -> tuple[str, ...]:
    told = getattr(parameter, "help", None) or ""
    found = _DEFAULT.search(told)
    sentence = _DEFAULT.sub("", told)
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar}`", "-" if not parameter.required else "must be given", sentence
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    metavar = "" if parameter.is_flag or parameter.count else f" `{parameter.metavar}`"
    if found:
        value = found[1].removeprefix("default: ")
    elif (parameter.is_flag and not parameter.secondary_opts) or parameter.count:
        value = "off"
    elif parameter.is_flag:
        value = f"`{(parameter.opts if parameter.default else parameter.secondary_opts)[0]}`"
    else:
        value = "-" if parameter.default is None else f"`{_plain(parameter.default)}`"
    return names + metavar, value, sentence


def _plain(value: Any) -> str:
    return str(value.value if isinstance(value, Enum) else value)


def failures(where: str) -> Callable[[], str]:
    """The table of failure codes that are about the document, reading it, or its worker."""
    heading = ("code", "what it means", "what to do")

    def make() -> str:
        return table(heading, ((f"`{r.code}`", r.meaning, r.advice) for r in REASONS if r.where == where))

    return make


GENERATED: dict[str, dict[str, Callable[[], str]]] = {
    "reference-settings.md": {"settings": settings},
    "reference-commands.md": {"commands": commands},
    "reference-output.md": {"columns": columns},
    "reference-failures.md": {f"failures-{where}": failures(where) for where in ("document", "reading", "worker")},
}


def rewritten(text: str, name: str, content: str) -> str:
    """A page with one generated part replaced.

    Raises:
        ValueError: the page has no such part.
    """
    begin, end = f"<!-- begin generated: {name} -->", f"<!-- end generated: {name} -->"
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"no part {name!r} between {begin} and {end}")
    return f"{head}{begin}\n\n{content}\n\n{end}{tail}"


def main() -> None:
    """Rewrites the generated parts of all pages."""
    for name, parts in GENERATED.items():
        path = DOCS / name
        text = path.read_text(encoding="utf-8")
        for part, make in parts.items():
            text = rewritten(text, part, make())
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(DOCS.parent))


if __name__ == "__main__":
    main()
