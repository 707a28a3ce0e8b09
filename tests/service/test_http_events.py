"""Server-sent events: everything that happens, in order, replayed behind Last-Event-ID."""

from __future__ import annotations

import json

import httpx
from http_service import HttpService, limits, open_edge
from test_http_documents import accepted, problem

from headrace.service.limits import RequestLimits


def events(answer: httpx.Response, count: int) -> list[dict]:
    found: list[dict] = []
    fields: dict = {}
    for line in answer.iter_lines():
        if line.startswith(":"):
            continue
        if not line:
            if "id" in fields:
                found.append(fields)
            if len(found) == count:
                break
            fields = {}
            continue
        name, _, value = line.partition(": ")
        fields[name] = json.loads(value) if name == "data" else value
    return found


def test_events_are_replayed_behind_the_last_one_seen_and_their_ids_rise(client):
    name = accepted(client)["document_id"]
    with client.stream("GET", "/v1/events?after=0") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-accel-buffering"] == "no"
        first = events(answer, 2)
    ids = [int(event["id"]) for event in first]
    assert ids == sorted(set(ids))
    with client.stream("GET", "/v1/events?after=0", headers={"Last-Event-ID": str(ids[0])}) as answer:
        again = events(answer, 1)
    assert again == first[1:2]
    assert any(event["data"].get("document_id") == name for event in first)


def test_without_a_place_to_start_from_events_come_from_now_on(service, client):
    accepted(client)
    with service.client() as other, other.stream("GET", "/v1/events") as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 3000"
        name = accepted(client)["document_id"]
        line = next(line for line in lines if line.startswith("data: "))
        assert json.loads(line.removeprefix("data: "))["document_id"] == name


def test_a_quiet_stream_says_that_it_is_alive_and_ends_when_the_server_does():
    told = limits(RequestLimits(keep_alive_s=0.05))
    with HttpService(lambda: open_edge(told=told)) as service, service.client() as client:
        with client.stream("GET", "/v1/events") as answer:
            lines = answer.iter_lines()
            assert next(line for line in lines if line.startswith(":")) == ": keep-alive"
            service.look(lambda edge: edge.closing.set())
            assert [line for line in lines if line and not line.startswith(":")] == []
        service.until(lambda edge: edge.streams == 0)


def test_more_streams_than_the_bound_are_429():
    told = limits(RequestLimits(streams=1, keep_alive_s=0.05))
    with HttpService(lambda: open_edge(told=told)) as service, service.client() as client:
        with service.client() as other, other.stream("GET", "/v1/events") as answer:
            lines = answer.iter_lines()  # held: the stream is closed when nobody has it any more
            next(lines)
            problem(client.get("/v1/events"), 429, "queue-full")
        service.until(lambda edge: edge.streams == 0)
        with client.stream("GET", "/v1/events") as answer:
            assert answer.status_code == 200


def test_a_place_that_is_none_is_400(client):
    for value in ("x", "-1", "1" * 20):
        problem(client.get("/v1/events", headers={"Last-Event-ID": value}), 400, "malformed-request")


def test_events_are_had_only_as_events(client):
    problem(client.get("/v1/events", headers={"Accept": "application/json"}), 406, "not-acceptable")
