from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from search_workspace import FOUR, add_receipts, correct, receipts_in

from headrace.search import Filters, Search
from headrace.search.null import NullEmbedder

CHILD = Path(__file__).with_name("indexing_child.py")
COUNT = 60


def receipts(count: int) -> list[tuple[str, ...]]:
    return [
        (f"Shop {n}", FOUR[n % 4][1], FOUR[n % 4][2], FOUR[n % 4][3], f"{n}.00", "EUR") for n in range(1, count + 1)
    ]


def index(workspace: Path, last: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CHILD), str(workspace), str(last)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def found_once(workspace: Path, count: int) -> None:
    """Each receipt is found by its own words and by meaning, once, and nothing else is found."""
    expected = sorted(entry.sequence for entry in receipts_in(workspace))
    assert len(expected) == count
    with Search.open(workspace, embedder=NullEmbedder()) as search:
        result = search.find_blocking("shop", limit=100)
        assert result.complete
        assert sorted(hit.entry.sequence for hit in result.hits) == expected
        assert all(hit.by == ("words", "meaning") for hit in result.hits if hit.merchant != "Ferry")
        for number in (1, count):
            only = Filters(min_total=Decimal(number), max_total=Decimal(number))
            assert [hit.total for hit in search.find_blocking("shop", filters=only).hits] == [Decimal(number)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    add_receipts(folder, receipts(COUNT))
    return folder


@pytest.mark.parametrize("share", [0.4, 0.9])
def test_killed_at_any_step_of_indexing_every_receipt_is_findable_once_afterwards(
    filled: Path, tmp_path: Path, share: float
) -> None:
    workspace = tmp_path / "workspace"
    shutil.copytree(filled, workspace)
    steps = COUNT + 15  # a receipt's row, and the transactions, syncs and renames of both parts
    killed = index(workspace, max(1, round(steps * share)))
    assert killed.returncode == -signal.SIGKILL
    assert index(workspace).returncode == 0
    found_once(workspace, COUNT)


def test_killed_while_corrections_are_taken_in_nothing_is_found_twice(filled: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    shutil.copytree(filled, workspace)
    assert index(workspace).returncode == 0
    for entry in receipts_in(workspace)[10:20]:
        correct(workspace, entry, {"merchant": {"name": {"value": "Ferry"}}})
    assert index(workspace, 6).returncode == -signal.SIGKILL
    assert index(workspace).returncode == 0
    found_once(workspace, COUNT)
    with Search.open(workspace, embedder=NullEmbedder()) as search:
        named = [hit for hit in search.find_blocking("ferry", limit=100).hits if "words" in hit.by]
    assert len(named) == 10
