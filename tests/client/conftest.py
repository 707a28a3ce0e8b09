from __future__ import annotations

from collections.abc import Iterator

import pytest
from service_process import ServiceProcess


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """One real service for all tests that do not break it; each takes batches and names of its own."""
    with ServiceProcess(tmp_path_factory.mktemp("service")) as running:
        yield running
