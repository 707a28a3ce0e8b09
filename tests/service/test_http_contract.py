"""The description and the service agree: any request gets a documented answer, and never a 5xx."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import schemathesis
from http_service import HttpService, open_edge
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import CHECKS
from test_http_documents import accepted, problem

from headrace.service.limits import RequestLimits
from headrace.service.problems import KINDS


@schemathesis.serializer("application/partial-upload", "application/offset+octet-stream")
def as_it_is(_, value):
    return value if isinstance(value, bytes) else getattr(value, "data", str(value).encode())


STREAMS = ("/v1/events",)
HEALTH = list(HealthCheck)


@pytest.fixture(scope="module")
def api(service: HttpService):
    with service.client() as client:
        return client.get("/openapi.json").json()


def test_the_description_names_every_route_of_the_contract(api):
    told = {f"{method.upper()} {path}" for path, its in api["paths"].items() for method in its}
    assert told >= {
        "POST /v1/documents", "GET /v1/documents/{document_id}", "GET /v1/documents/{document_id}/file",
        "GET /v1/documents/{document_id}/pages/{number}",
        "PATCH /v1/documents/{document_id}/receipt", "POST /v1/documents/{document_id}:approve",
        "POST /v1/documents/{document_id}:reject", "POST /v1/documents/{document_id}:replay",
        "DELETE /v1/documents/{document_id}", "POST /v1/batches", "POST /v1/batches/{batch_id}/documents",
        "POST /v1/batches/{batch_id}:close", "GET /v1/batches/{batch_id}", "GET /v1/batches/{batch_id}/results",
        "GET /v1/dead-letters", "GET /v1/ledger", "GET /v1/ledger/{sequence}/proof", "GET /v1/events",
        "POST /v1/uploads", "OPTIONS /v1/uploads", "HEAD /v1/uploads/{upload_id}", "PATCH /v1/uploads/{upload_id}",
        "DELETE /v1/uploads/{upload_id}", "GET /v1/capacity", "GET /v1/search",
        "GET /livez", "GET /readyz", "GET /metrics",
    }  # fmt: skip


def test_every_problem_type_can_come_from_some_route(api):
    documented = {int(status) for its in api["paths"].values() for op in its.values() for status in op["responses"]}
    assert {kind.status for kind in KINDS.values()} <= documented


def test_what_is_not_there_and_what_is_not_done_are_problems(client):
    problem(client.get("/v1/nothing"), 404, "not-found")
    for method, address, allowed in (
        ("GET", "/v1/documents", "POST"),
        ("PUT", "/v1/documents/d0", "DELETE, GET"),
        ("DELETE", "/v1/batches/1", "GET"),
        ("POST", "/livez", "GET"),
    ):
        answer = client.request(method, address)
        problem(answer, 405, "method-not-allowed")
        assert answer.headers["allow"] == allowed


def test_a_bug_is_a_500_with_a_trace_and_nothing_internal():
    with HttpService(open_edge) as service, service.client() as client:

        def broken(*_):
            raise RuntimeError("password=secret")

        service.look(lambda edge: setattr(edge.reception, "capacity", broken))
        told = problem(client.get("/v1/capacity"), 500, "internal-error")
        assert "secret" not in str(told)
        service.look(lambda edge: setattr(edge, "debug", True))
        assert "secret" in str(client.get("/v1/capacity").json())


def test_any_request_gets_a_documented_answer_and_never_a_5xx(service: HttpService, api):
    schema = schemathesis.openapi.from_dict(api)
    asked = 0
    names = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
    checks = [CHECKS.get_one(name) for name in names]
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in STREAMS and operation.method == "get":
            continue

        @settings(max_examples=15, deadline=None, database=None, derandomize=True, suppress_health_check=HEALTH)
        @given(case=operation.as_strategy())
        def ask(case):
            nonlocal asked
            asked += 1
            if "follow" in (case.query or {}):
                case.query.pop("follow")
            case.call_and_validate(base_url=service.url, checks=checks, timeout=20)

        ask()
    assert asked > 200


PAGE = Path(__file__).parents[2] / "docs" / "reference-http.md"


def test_every_metric_is_in_the_page_and_the_page_names_no_other(client):
    told = set(re.findall(r"`(headrace_[a-z_]+)`", PAGE.read_text(encoding="utf-8")))
    shown = client.get("/metrics").text
    found = {
        name + ("_total" if kind == "counter" and not name.endswith("_total") else "")
        for name, kind in re.findall(r"^# TYPE (\S+) (\w+)$", shown, re.MULTILINE)
    }
    assert found == told


PROMISED = """documents_total pages_total refusals_total channel_depth channel_capacity oldest_eligible_age_seconds
    permits_held permits_limit gate_open shed_level inflight_documents inflight_bytes drain_rate_documents_per_second
    stage_duration_seconds worker_restarts_total worker_rss_bytes dead_letters webhook_deliveries_total
    ledger_sequence"""


def test_every_metric_that_was_promised_is_there_with_values_and_labels_of_a_fixed_set(client):
    accepted(client)
    shown = client.get("/metrics").text
    for name in PROMISED.split():
        assert re.search(rf"^# TYPE headrace_{name} ", shown, re.MULTILINE), name
    labels = dict(re.findall(r'^headrace_(\w+)\{(\w+)="', shown, re.MULTILINE))
    assert labels["stage_duration_seconds_bucket"] == "le"
    assert labels["channel_capacity"] == labels["channel_depth"] == "channel"
    assert labels["worker_rss_bytes"] == "worker"
    values = dict(re.findall(r"^(headrace_\w+) ([0-9.]+)$", shown, re.MULTILINE))
    assert float(values["headrace_ledger_sequence"]) >= 1
    assert float(values["headrace_dead_letters"]) >= 0
    (rss,) = re.findall(r'^headrace_worker_rss_bytes\{worker="1"\} (\S+)$', shown, re.MULTILINE)
    assert float(rss) > 1 << 20


def test_every_limit_of_requests_is_in_the_page():
    told = re.findall(
        r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8").partition("## Limits of requests")[2], re.MULTILINE
    )
    limits = [field.name for field in dataclasses.fields(RequestLimits)]
    assert [name for name in told if not name.startswith("headrace_")] == limits


def test_the_problems_of_the_page_exist_with_their_status():
    rows = re.findall(r"^\| (\d{3}) \| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows
    for status, codes in rows:
        for code in re.findall(r"`([a-z-]+)`", codes):
            assert KINDS[code].status == int(status)


def test_the_page_to_try_the_api_out_needs_nothing_from_elsewhere(client):
    sources = re.findall(r'(?:src|href)="([^"]+)"', client.get("/docs").text)
    assert sources
    for source in sources:
        assert source.startswith("/"), f"{source} is not ours"
        assert client.get(source).status_code == 200
