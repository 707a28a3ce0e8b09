"""What was complained of in public about services that read documents; `docs/known-failures.md` has the table."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import numpy as np
import pytest
from http_service import HttpService, fresh, limits, open_edge
from paged_paper import long_scan, page
from test_http_documents import accepted, problem
from test_http_pages import encoded
from test_http_progress import AVAILABLE, ENGINE, reading_edge

from headrace.documents.status import EntryKind
from headrace.service.limits import RequestLimits
from headrace.simulation.countries import COUNTRIES
from headrace.simulation.hostile import HOSTILES
from headrace.simulation.layouts import DRAW
from headrace.simulation.purchase import buy

reads = pytest.mark.skipif(ENGINE not in AVAILABLE, reason=f"the engine {ENGINE} is not installed here")
WAIT = {"Prefer": "wait=25"}


@pytest.fixture(scope="module")
def reading() -> Iterator[httpx.Client]:
    with HttpService(reading_edge) as service, service.client() as client:
        yield client


def hostile_files() -> list[Any]:
    made = []
    for number, kind in enumerate(HOSTILES):
        dice = Random(number)
        paper = DRAW["supermarket"](buy("supermarket", COUNTRIES[0], number, dice), dice)
        made.append(pytest.param(kind, kind.make(paper, dice, np.random.default_rng(number)), id=kind.name))
    return made


def test_s23_a_wait_beyond_what_the_service_allows_is_answered_with_what_was_applied() -> None:
    told = limits(RequestLimits(wait_s=1))
    with HttpService(lambda: open_edge(told=told)) as service, service.client() as client:
        answer = client.post("/v1/documents", content=fresh(), headers={"Prefer": "wait=600"})
        assert answer.headers["preference-applied"] == "wait=1"
        for nonsense in ("wait=-1", "wait=soon"):
            answer = client.post("/v1/documents", content=fresh(), headers={"Prefer": nonsense})
            assert answer.status_code == 202
            assert "preference-applied" not in answer.headers


@reads
@pytest.mark.parametrize(("kind", "content"), hostile_files())
def test_s26_every_hostile_file_gets_its_reason_and_never_a_500(
    reading: httpx.Client, kind: Any, content: bytes
) -> None:
    answer = reading.post("/v1/documents", content=content, headers=WAIT)
    if answer.status_code in (415, 422):
        assert answer.json()["code"] in kind.codes
        assert answer.json()["detail"]
        return
    assert answer.status_code == 200, answer.text
    told = answer.json()
    if kind.expected is EntryKind.RECEIPT:
        assert told["state"] == "partial"
        return
    assert told["state"] == "failed"
    failure = told["failure"]
    assert failure["code"] in kind.codes
    assert failure["stage"]
    assert failure["detail"]
    assert failure["retriable"] is False
    assert told["attempt"] >= 1


@reads
def test_s31_pages_that_cannot_be_read_are_listed_with_reasons_and_the_rest_is_kept_for_a_person_to_look_at(
    reading: httpx.Client,
) -> None:
    frames = [page(number) for number in (1, 2, 3)]
    whole = encoded(frames[0], "TIFF", save_all=True, append_images=frames[1:], compression="tiff_deflate")
    at = whole.rindex(b"\x78\x9c")  # where the pixels of one page begin
    answer = reading.post("/v1/documents", content=whole[:at] + b"\xff" * 40 + whole[at + 40 :], headers=WAIT)
    told = answer.json()
    assert told["state"] == "partial", told
    processing = told["receipt"]["processing"]
    (failed,) = processing["page_failures"]
    assert failed["code"] == "corrupt-document"
    assert {reading["page"] for reading in processing["page_readings"]} | {failed["page"]} == {1, 2, 3}
    assert told["pages_total"] == 3
    assert told["review"] == "needs_review"
    address = f"/v1/documents/{told['document_id']}"
    problem(reading.get(f"{address}/pages/{failed['page']}"), 422, "corrupt-document")


def test_s43_a_document_that_was_rejected_and_comes_again_is_told_where_it_is_and_in_which_state() -> None:
    content = fresh()
    with HttpService(open_edge) as service, service.client() as client:
        first = accepted(client, content)
        address = f"/v1/documents/{first['document_id']}"
        assert client.post(f"{address}:reject", json={"note": "private"}).status_code == 200
        again = client.post("/v1/documents", content=content)
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["location"] == address
        assert again.json()["review"] == "rejected"
        other = client.post("/v1/documents", content=content, headers={**WAIT, "Idempotency-Key": '"anew"'}).json()
        assert other["document_id"] != first["document_id"]
        assert other["duplicate_of"]["document_id"] == first["document_id"]
        assert other["kind"] == "duplicate"


def test_s53_whether_it_lives_is_answered_while_every_worker_is_busy_and_the_store_does_not_move() -> None:
    with HttpService(open_edge) as service, service.client() as client:
        held, let_go = threading.Event(), threading.Event()

        def stand_still(_: Any) -> None:
            held.set()
            let_go.wait(60)

        def hold(edge: Any) -> list[Any]:
            loop = service._loop
            return [
                loop.create_task(edge.reception._look(stand_still)),
                loop.create_task(edge.reception._do(stand_still)),
            ]

        tasks = service.look(hold)
        try:
            assert held.wait(20)
            for _ in range(20):
                assert client.get("/livez").status_code == 200
            assert client.get("/v1/capacity").status_code == 200
            with pytest.raises(httpx.ReadTimeout):
                client.get("/v1/documents/d0", timeout=0.2)  # what needs the store waits for it
        finally:
            let_go.set()
        service.until(lambda edge: all(task.done() for task in tasks))


@reads
def test_s57_the_same_options_give_the_same_receipt_on_the_command_line_and_over_http(
    reading: httpx.Client, tmp_path: Path
) -> None:
    content = long_scan(2)
    over_http = reading.post("/v1/documents", content=content, headers=WAIT).json()["receipt"]
    (tmp_path / "paper.pdf").write_bytes(content)
    run = subprocess.run(
        [sys.executable, "-m", "headrace", "run", "paper.pdf", "--engine", ENGINE, "--workers", "1", "-o", "out.jsonl"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    line = json.loads((tmp_path / "out.jsonl").read_text())
    # A line of the output has the checks of the policy among those of the receipt.
    line["checks"] = [check for check in line["checks"] if not check["id"].startswith("policy.")]
    names = over_http.keys() - {"document_id", "source"}
    assert names >= {"merchant", "pages", "processing"}
    assert {name: line[name] for name in names} == {name: over_http[name] for name in names}
