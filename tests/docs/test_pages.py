from __future__ import annotations

from pathlib import Path

import pytest
from doc_pages import DOCS, ROOT, anchors, blocks, code_words, links, page, pages
from generate_reference import every_command

WORDS_WE_DO_NOT_USE = ("TODO", "FIXME", "coming soon", "will be supported", "in a future")


@pytest.mark.parametrize("source", pages(), ids=lambda path: path.name)
def test_every_link_leads_to_a_file_and_a_heading(source: Path) -> None:
    broken = []
    for target in links(source.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (source.parent / name).resolve() if name else source
        if not path.is_file() or (anchor and anchor not in anchors(path.read_text(encoding="utf-8"))):
            broken.append(target)
    assert not broken


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {(ROOT / target.partition("#")[0]).resolve() for target in links((ROOT / "README.md").read_text())}
    assert {path for path in DOCS.glob("*.md") if path.resolve() not in linked} == set()


@pytest.mark.parametrize("source", pages(), ids=lambda path: path.name)
def test_a_page_closes_its_blocks_and_promises_nothing_for_later(source: Path) -> None:
    text = source.read_text(encoding="utf-8")
    assert text.count("\n```") % 2 == 0
    assert [word for word in WORDS_WE_DO_NOT_USE if word in text] == []
    assert text.startswith("# ")


def test_long_lines_are_tables_links_or_output() -> None:
    names = ["getting-started.md", "run.md", "ledger.md", "limits.md", "policy.md", "library.md", "when-not.md"]
    names += ["guide-pipelines.md", "choosing-numbers.md", "cookbook.md"]
    for name in names:
        text = page(name)
        for block in blocks(text):
            text = text.replace(block.text, "")
        assert [line for line in text.splitlines() if len(line) > 125 and not line.startswith("|")] == [], name


def commands_in(text: str) -> list[list[str]]:
    """Every `headrace ...` of a page, in blocks and between backticks, cut into words; without its comment."""
    blocks_of_commands = [block.text for block in blocks(text) if block.language in ("", "sh", "text")]
    lines = [line.removeprefix("$ ") for block in blocks_of_commands for line in block.splitlines()]
    told = [line.split("#")[0] for line in [*lines, *code_words(text)] if line.startswith("headrace ")]
    return [line.split()[1:] for line in told if not line.startswith("headrace COMMAND")]


@pytest.mark.parametrize("source", pages(), ids=lambda path: path.name)
def test_every_command_that_a_page_names_exists_with_its_options(source: Path) -> None:
    commands = dict(every_command())
    groups = {name.split()[0] for name in commands if " " in name}
    for words in commands_in(source.read_text(encoding="utf-8")):
        if words[0].startswith("-") or words in [[group] for group in groups]:
            continue
        name = " ".join(words[:2] if words[0] in groups else words[:1])
        assert name in commands, words
        known = {o for parameter in commands[name].params for o in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.split("=")[0] for word in words if word.startswith("--")}
        assert used <= known | {"--help"}, words
