"""For the tests that speak HTTP; those of the core share nothing (`service_support`)."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from http_service import HttpService, open_edge


@pytest.fixture(scope="module")
def service() -> Iterator[HttpService]:
    """One service for all tests of a file that only talk to it."""
    with HttpService(lambda: open_edge()) as running:
        yield running


@pytest.fixture
def client(service: HttpService) -> Iterator[httpx.Client]:
    with service.client() as talking:
        yield talking
