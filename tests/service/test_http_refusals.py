"""Overload and outage: told apart, with a true Retry-After, before anything is read."""

from __future__ import annotations

import pytest
from http_service import ROOM, HttpService, fresh, limits, open_edge
from test_http_documents import problem
from test_http_limits import refuse_all

from headrace.documents.errors import EncryptedDocument, ImageTooLarge, TooManyPages
from headrace.flow import Closed, Expired, Full, Rate, ServiceClass, Shed
from headrace.service.edge import rate_limit
from headrace.service.errors import IdempotencyInUse, InvalidCorrection, NoStorage, RateLimited
from headrace.service.problems import KINDS, problem_of, refused
from headrace.service.reception import Quota, ServiceLimits, Submission
from headrace.storage.errors import StorageFull, StoreUnavailable


@pytest.mark.parametrize(
    ("refusal", "status", "code"),
    [
        (Full("x", retry_after_s=7), 429, "queue-full"),
        (Shed("x", retry_after_s=7), 429, "class-shed"),
        (Expired("x", retry_after_s=7), 429, "deadline-expired"),
        (RateLimited("x", retry_after_s=7), 429, "rate-limited"),
        (Closed("x", retry_after_s=7), 503, "draining"),
        (NoStorage("x", retry_after_s=7), 503, "storage-full"),
    ],
)
def test_each_refusal_has_its_own_type_and_load_is_429_and_an_end_503(refusal, status, code):
    told = refused(refusal)
    assert (told.status_code, told.code) == (status, code)
    assert told.headers["Retry-After"] == "7"
    assert told.as_dict()["retry_after_seconds"] == 7


@pytest.mark.parametrize(("asked_s", "told"), [(0, "1"), (0.2, "1"), (119.6, "120"), (1e9, "120")])
def test_retry_after_is_a_whole_number_from_1_to_120(asked_s, told):
    assert refused(Full("x", retry_after_s=asked_s)).headers["Retry-After"] == told


def test_outages_of_the_store_are_503_with_their_own_types():
    full, down = problem_of(StorageFull("x")), problem_of(StoreUnavailable("x"))
    assert (full.status_code, full.code) == (503, "storage-full")
    assert (down.status_code, down.code) == (503, "store-unavailable")
    assert 4 <= int(full.headers["Retry-After"]) <= 6


def test_when_everybody_comes_back_is_spread():
    assert len({problem_of(StorageFull("x")).headers["Retry-After"] for _ in range(200)}) > 1


def test_bad_documents_are_422_with_the_page_when_it_is_known():
    for error in (EncryptedDocument("x"), ImageTooLarge("x", page=3), TooManyPages("x")):
        told = problem_of(error)
        assert (told.status_code, told.code) == (422, error.code)
        assert told.as_dict().get("page") == error.page


def test_a_key_in_use_says_when_to_come_back_and_a_bad_correction_where_it_is_bad():
    assert problem_of(IdempotencyInUse("x")).headers["Retry-After"] == "1"
    told = problem_of(InvalidCorrection([("/currency", "no such field")]))
    assert told.members["errors"] == [{"pointer": "/currency", "detail": "no such field"}]


def test_what_nobody_foresaw_says_nothing_internal():
    told = problem_of(RuntimeError("password=secret"))
    assert told.status_code == 500
    assert b"secret" not in told.body()


def test_every_type_has_a_page():
    with HttpService(open_edge) as service, service.client() as client:
        for code, kind in KINDS.items():
            assert client.get(f"/problems/{code}").json()["status"] == kind.status
        problem(client.get("/problems/nothing"), 404, "not-found")


def test_a_full_service_is_429_with_retry_after_and_questions_are_still_answered():
    with HttpService(open_edge) as service, service.client() as client:
        taken = service.look(refuse_all)
        answer = client.post("/v1/documents", content=fresh())
        told = problem(answer, 429, "queue-full")
        assert 1 <= int(answer.headers["retry-after"]) <= 120
        assert told["retry_after_seconds"] == int(answer.headers["retry-after"])
        assert f"{len(taken)} of {ROOM} documents are accepted" in told["detail"], "what is full"
        assert "send it again after" in told["detail"], "what to do"
        batch = client.post("/v1/batches", content=b"x", headers={"Content-Type": "application/x-tar"})
        problem(batch, 429, "queue-full")
        assert client.get("/livez").status_code == 200
        assert client.get("/v1/capacity").status_code == 200
        late = client.post("/v1/documents", content=fresh(), headers={"X-Deadline-Ms": "50"})
        problem(late, 429, "deadline-expired")
        assert 'headrace_http_problems_total{code="queue-full"} 2.0' in client.get("/metrics").text
        service.look(lambda _: [permit.ignore() for permit in taken])
        assert client.post("/v1/documents", content=fresh()).status_code == 202


def test_batches_are_shed_before_interactive_documents():
    def nearly_full(edge):
        return [
            edge.reception.decide(Submission("other", ServiceClass.INTERACTIVE)).permit for _ in range(ROOM * 4 // 5)
        ]

    with HttpService(open_edge) as service, service.client() as client:
        taken = service.look(nearly_full)
        for class_ in ("batch", "background"):
            answer = client.post(f"/v1/documents?class={class_}", content=fresh())
            detail = problem(answer, 429, "class-shed")["detail"]
            assert f"{len(taken)} of {ROOM} documents are accepted" in detail, "what is full"
            assert f"only classes above {class_} are taken" in detail
            assert int(answer.headers["retry-after"]) >= 1
        batch = client.post("/v1/batches", content=b"x", headers={"Content-Type": "application/x-tar"})
        problem(batch, 429, "class-shed")
        assert client.post("/v1/documents", content=fresh()).status_code == 202
        service.look(lambda _: [permit.ignore() for permit in taken])


def test_a_service_that_stops_is_503_and_not_ready_and_says_when_to_come_back():
    with HttpService(open_edge) as service, service.client() as client:
        assert client.get("/readyz").status_code == 200
        service.ask(lambda edge: edge.reception.stop(5.0))
        service.until(lambda edge: edge.reception.health().state == "stopped")
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "stopped")
        answer = client.post("/v1/documents", content=fresh())
        problem(answer, 503, "draining")
        assert int(answer.headers["retry-after"]) >= 1
        problem(client.get("/v1/documents/d0"), 503, "draining")


@pytest.mark.parametrize("deadline", ["0", "-1", "x", "99999999999", "1.5"])
def test_a_deadline_that_makes_no_sense_is_400(deadline):
    with HttpService(open_edge) as service, service.client() as client:
        answer = client.post("/v1/documents", content=fresh(), headers={"X-Deadline-Ms": deadline})
        problem(answer, 400, "malformed-request")


def test_a_quota_that_is_used_up_says_what_it_is_and_when_to_come_back():
    told = limits(service=ServiceLimits(default_quota=Quota(Rate(0.01, 2))))
    with HttpService(lambda: open_edge(told=told)) as service, service.client() as client:
        for _ in range(2):
            assert client.post("/v1/documents", content=fresh()).status_code == 202
        answer = client.post("/v1/documents", content=fresh())
        problem(answer, 429, "rate-limited")
        assert answer.headers["ratelimit-policy"] == '"docs";q=2;w=200;qu="documents"'
        assert answer.headers["ratelimit"].startswith('"docs";r=0;t=')
        assert 1 <= int(answer.headers["retry-after"]) <= 120
        assert 'headrace_refusals_total{class="interactive",refusal="ratelimited"} 1.0' in client.get("/metrics").text


def test_a_client_without_a_quota_is_told_none():
    assert rate_limit(None) == {}
