"""Engines are loaded once for all tests: that is how a worker uses them too."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from headrace.ocr.engine import Engine
from headrace.ocr.errors import MissingDependency
from headrace.ocr.registry import create_engine, thread_environment

for name, value in thread_environment().items():
    os.environ.setdefault(name, value)


def _loaded(name: str) -> Iterator[Engine]:
    try:
        engine = create_engine(name)
    except MissingDependency as error:
        pytest.skip(f"{name}: {error}")
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def rapidocr_engine() -> Iterator[Engine]:
    yield from _loaded("rapidocr")


@pytest.fixture(scope="session")
def tesseract_engine() -> Iterator[Engine]:
    yield from _loaded("tesseract")


@pytest.fixture(scope="session")
def plain_rapidocr_engine() -> Iterator[Engine]:
    yield from _loaded("rapidocr-plain")


@pytest.fixture(scope="session", params=["rapidocr", "plain_rapidocr", "tesseract", "null"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    if request.param == "null":
        return create_engine("null")
    loaded: Engine = request.getfixturevalue(f"{request.param}_engine")
    return loaded
