"""Stores to test: the same suite runs over each of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.storage.memory import MemoryStore
from headrace.storage.sqlite import DATABASE, SqliteStore
from headrace.storage.store import Store


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a new store; a copy of it is quicker than running the migrations for each test."""
    folder = tmp_path_factory.mktemp("empty")
    SqliteStore.open(folder).close()
    return folder / DATABASE


@pytest.fixture
def sqlite(tmp_path: Path, empty_database: Path) -> Iterator[SqliteStore]:
    shutil.copy(empty_database, tmp_path)
    with SqliteStore.open(tmp_path) as made:
        yield made


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest) -> Store:
    made: Store = MemoryStore() if request.param == "memory" else request.getfixturevalue("sqlite")
    return made
