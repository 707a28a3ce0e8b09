"""The pages about the library: examples run and print what is shown, quoted parts are what the tests import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest
from doc_pages import ROOT, Block, blocks, page

from headrace.flow import sizing

PAGES = ("library.md", "guide-pipelines.md", "choosing-numbers.md", "cookbook.md")
COOKBOOK = ROOT / "tests" / "cookbook"


def examples(name: str) -> list[tuple[Block, Block]]:
    """Each whole program of a page, and what the page says that it prints."""
    after = pairwise([*blocks(page(name)), Block("", "", 0)])
    return [(block, shown) for block, shown in after if block.language == "python" and shown.language == "text"]


def quotes() -> list[Block]:
    """The blocks of the cookbook that are parts of a file, not programs."""
    programs = {example.line for example, _ in examples("cookbook.md")}
    return [block for block in blocks(page("cookbook.md")) if block.language == "python" and block.line not in programs]


EXAMPLES = [(name, *pair) for name in PAGES for pair in examples(name)]


@pytest.mark.parametrize(
    ("example", "shown"),
    [e[1:] for e in EXAMPLES],
    ids=[f"{name} line {example.line}" for name, example, _ in EXAMPLES],
)
def test_an_example_prints_what_the_page_shows_under_it(example: Block, shown: Block, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(example.text)
    ran = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr, ran.returncode) == (shown.text, "", 0)


@pytest.mark.parametrize("name", [name for name in PAGES if name != "cookbook.md"])
def test_no_example_goes_without_what_it_prints(name: str) -> None:
    assert len(examples(name)) == sum(block.language == "python" for block in blocks(page(name))) > 0


def test_what_the_cookbook_quotes_is_code_that_its_tests_import() -> None:
    parts = set()
    for file in COOKBOOK.glob("*.py"):
        text = file.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
                parts.add(textwrap.dedent("\n".join(lines)) + "\n")
    assert len(quotes()) >= 8
    assert [quote.line for quote in quotes() if quote.text not in parts] == []


def test_the_library_page_shows_every_kind_of_part() -> None:
    told = "".join(example.text for example, _ in examples("library.md"))
    parts = ("channel", "Permits", "Gate", "RateLimit", "Admission", "Pipeline", "WorkerPool")
    for call in (*parts, "pool.map", "pool.drain", "run_virtual"):
        assert f"{call}(" in told


def test_every_sum_of_sizing_is_on_the_page_about_numbers() -> None:
    sums = {n for n, part in vars(sizing).items() if getattr(part, "__module__", "") == sizing.__name__}
    sums = {name for name in sums if name[0] != "_" and not name.startswith(("readable", "available"))} - {
        "Derived",
        "Number",
    }
    assert {name for name in sums if not re.search(rf"\b{name}\b", page("choosing-numbers.md"))} == set()
