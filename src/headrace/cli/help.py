"""Help pages without Rich: loading it would cost half of the time in which `--help` has to be there."""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_PYTHON_TYPE = re.compile(r" <[a-z\[\], |]+>$")  # Typer 0.29 shows an argument as "SOURCE <list[str]>"


def heading(text: str) -> str:
    """A section's title; bold where standard output takes colours (the formatter strips nothing, so we look)."""
    import os
    import sys

    plain = "NO_COLOR" in os.environ or not sys.stdout.isatty()
    return text if plain else typer.style(text, bold=True)


class PlainCommand(TyperCommand):
    """A command whose options stand under the headings they were declared with (`rich_help_panel`)."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes one definition list for each heading; options without one come first."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            fallback = "Arguments" if parameter.param_type_name == "argument" else "Options"
            title = getattr(parameter, "rich_help_panel", None) or fallback
            names, text = record
            sections.setdefault(title, []).append((_PYTHON_TYPE.sub("", names), text.replace("  [", " [")))
        for title in sorted(sections, key=lambda title: title != "Arguments"):
            with formatter.section(heading(title)):
                formatter.write_dl(sections[title], col_max=28)


class PlainGroup(TyperGroup):
    """A command with commands below it, each with its whole sentence: Typer would cut it off at a width."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the list of commands."""
        rows = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            rows.append((name, " ".join((command.help or "").split("\n\n")[0].split()) if command else ""))
        with formatter.section(heading("Commands")):
            formatter.write_dl(rows)
