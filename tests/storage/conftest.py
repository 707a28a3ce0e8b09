"""Stores to test: the same suite runs over each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.storage.memory import MemoryStore
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import Store


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = SqliteStore.open(tmp_path) if request.param == "sqlite" else MemoryStore(tmp_path)
    yield made
    made.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore.open(tmp_path) as made:
        yield made
