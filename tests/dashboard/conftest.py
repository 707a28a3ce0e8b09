"""The fixture that makes workspaces for the tests of the dashboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_workspace import Fill, Made, make_workspace


@pytest.fixture
def fill(tmp_path: Path) -> Fill:
    """Makes a workspace with a batch of these documents and returns its folder."""

    def make(documents: list[Made], *, samples: int = 5, left: int = 0) -> Path:
        return make_workspace(tmp_path, documents, samples=samples, left=left)

    return make
