from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from doc_pages import Block, blocks, page

BLOCKS = blocks(page("library.md"))
EXAMPLES = [pair for pair in pairwise(BLOCKS) if pair[0].language == "python"]


@pytest.mark.parametrize(("example", "shown"), EXAMPLES, ids=[f"line {e.line}" for e, _ in EXAMPLES])
def test_an_example_prints_what_the_page_shows_under_it(example: Block, shown: Block, tmp_path: Path) -> None:
    assert shown.language == "text", "an example is followed by what it prints"
    script = tmp_path / "example.py"
    script.write_text(example.text)
    ran = subprocess.run([sys.executable, script.name], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr, ran.returncode) == (shown.text, "", 0)


def test_the_page_shows_every_kind_of_part() -> None:
    told = "".join(example.text for example, _ in EXAMPLES)
    for part in (
        "channel(",
        "Permits(",
        "Gate(",
        "RateLimit(",
        "WorkerPool(",
        "pool.map(",
        "pool.drain(",
        "run_virtual(",
    ):
        assert part in told
    assert len(EXAMPLES) == sum(block.language == "python" for block in BLOCKS)
