"""A document of 113 pages, read by a real engine: which page it is at, and an end between two pages."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_service import HttpService
from paged_paper import PAGES, long_scan
from service_support import serving

from headrace.documents.document import Document
from headrace.ocr.registry import available_engines
from headrace.service.edge import Edge
from headrace.service.limits import Limits
from headrace.service.progress import Underway
from headrace.service.views import ServiceLimits

ENGINE = "tesseract"
AVAILABLE = {status.name for status in available_engines() if status.available}
pytestmark = pytest.mark.skipif(ENGINE not in AVAILABLE, reason=f"the engine {ENGINE} is not installed here")


@contextlib.asynccontextmanager
async def reading_edge() -> AsyncIterator[Edge]:
    limits = Limits(service=ServiceLimits(min_free_bytes=0))
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder) / "w", limits.service, engine=ENGINE) as reception:
            yield Edge(reception, 64 << 20, limits=dataclasses.replace(limits))


@pytest.fixture(scope="module")
def service() -> Iterator[HttpService]:
    with HttpService(reading_edge) as running:
        yield running


def news(lines: Iterator[str], kind: str) -> Iterator[dict[str, Any]]:
    """The data of the events of a kind, as they come; and that news of progress has no id."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        if fields.get("event") == kind:
            assert ("id" in fields) == (kind != "document.progress")
            yield json.loads(fields["data"])
        fields = {}


def test_page_23_of_113_is_told_over_sse_and_by_the_document_and_a_delete_ends_it_between_pages(
    service: HttpService, client: httpx.Client
) -> None:
    with service.client() as other, other.stream("GET", "/v1/events") as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("retry")
        told = client.post("/v1/documents", content=long_scan()).json()
        address = f"/v1/documents/{told['document_id']}"
        pages = []
        for event in news(lines, "document.progress"):
            assert event["document_id"] == told["document_id"]
            assert event["pages_total"] == PAGES
            assert event["attempt"] == 1
            pages.append(event["pages_done"])
            if len(pages) == 4:
                break
        assert pages == sorted(set(pages))
        shown = client.get(address)
        assert shown.json()["state"] == "running"
        assert shown.json()["stage"] == "read"
        assert shown.json()["pages_total"] == PAGES
        assert pages[-1] <= shown.json()["pages_done"] < PAGES
        assert shown.json()["eta_seconds"] > 0
        assert client.delete(address).status_code == 204
        ended = next(event for event in news(lines, "document.cancelled"))
        assert ended["document_id"] == told["document_id"]
    gone = client.get(address).json()
    assert gone["state"] == "cancelled"
    assert "pages_total" not in gone
    assert service.look(lambda edge: edge.reception.progress(0)[1]) == []
    # Its worker was ended with it, 113 pages were not read, and the slot is free.
    assert service.look(lambda edge: edge.reception.tallies.pages) == 0
    assert service.look(lambda edge: dict(edge.reception.capacity().worker_restarts)) == {"cancelled": 1}
    after = client.post("/v1/documents", content=long_scan(2), headers={"Prefer": "wait=25"})
    assert after.status_code == 200
    assert after.json()["pages_done"] == after.json()["pages_total"] == 2
    metrics = client.get("/metrics").text
    assert "headrace_pages_total 2.0\n" in metrics
    assert "headrace_ledger_sequence 2.0\n" in metrics
    assert 'headrace_stage_duration_seconds_count{stage="recognise"} 1.0\n' in metrics
    assert 'headrace_stage_duration_seconds_bucket{le="+Inf",stage="recognise"} 1.0\n' in metrics


def test_a_poll_with_the_last_etag_is_304_until_another_page_is_done(
    service: HttpService, client: httpx.Client
) -> None:
    told = client.post("/v1/documents", content=long_scan(PAGES - 1)).json()
    address = f"/v1/documents/{told['document_id']}"
    service.until(lambda edge: bool(edge.reception.progress(0)[1]))
    seen = client.get(address)
    before = seen.json()["pages_done"]
    service.until(lambda edge: any(its.pages_done > before for its in edge.reception.progress(0)[1]))
    again = client.get(address, headers={"If-None-Match": seen.headers["etag"]})
    assert again.status_code == 200
    assert again.json()["pages_done"] > before
    assert client.delete(address).status_code == 204


def test_news_is_kept_for_what_is_read_only_and_once_for_each_document() -> None:
    rings: list[None] = []
    now = [0.0]
    underway = Underway(lambda: now[0], lambda: rings.append(None))
    first, second = (Document(f"d{n}", n, 1, "a.pdf", b"") for n in (1, 2))
    for step in range(1000):
        underway.told(first, "acme", step, 1000)
        underway.told(second, "other", step, 1000)
    assert len(underway) == 2
    assert [its.document_id for its in underway.behind(0, "acme")] == [first.document_id]
    assert [its.number for its in underway.behind(0, None)] == [1999, 2000]
    assert underway.behind(2000, None) == []
    now[0] = 10.0
    underway.told(second, "other", 0, 4)  # begun again
    assert underway.of(second.document_id).eta_s is None  # type: ignore[union-attr]
    now[0] = 13.0
    underway.told(second, "other", 3, 4)
    assert underway.of(second.document_id).eta_s == 1.0  # type: ignore[union-attr]
    underway.gone(first.document_id)
    underway.gone(second.document_id)
    assert len(underway) == 0
    assert underway.of(first.document_id) is None
    assert len(rings) == 2002
