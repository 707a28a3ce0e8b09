"""A place to run headrace in, for the tests of runs; whatever a test started is gone when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from run_support import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A folder with nothing in it yet."""
    place = Place(tmp_path / "place")
    yield place
    for process in place.started:
        if process.poll() is None:
            process.kill_tree()
