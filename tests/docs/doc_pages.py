"""What the tests of the documentation share: the pages, their blocks of code, their links and anchors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line of its page it begins on."""

    language: str
    text: str
    line: int


def pages() -> list[Path]:
    """Every page a reader can come to."""
    return [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


def page(name: str) -> str:
    """The text of a page in docs/."""
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page in their order."""
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 1) for m in _BLOCK.finditer(text)]


def links(text: str) -> list[str]:
    """The targets of all links outside of code."""
    return _LINK.findall(_CODE.sub("", _BLOCK.sub("", text)))


def anchors(text: str) -> set[str]:
    """What a link to a heading of this page may be called, by GitHub's rule."""
    titles = (_CODE.sub(r"\1", title) for title in _HEADING.findall(_BLOCK.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def code_words(text: str) -> set[str]:
    """Everything that stands between single backticks."""
    return set(_CODE.findall(_BLOCK.sub("", text)))


def first_cells(text: str) -> Iterator[str]:
    """The first cell of each table row, without backticks."""
    for line in text.splitlines():
        if line.startswith("| ") and not set(line) <= set("|-: "):
            yield line.split("|")[1].strip().strip("`")
