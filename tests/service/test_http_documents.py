"""One document over HTTP: what is answered, and what each answer must carry."""

from __future__ import annotations

import base64
import hashlib

import httpx
import pytest
from http_service import HttpService, fresh

from headrace.service.problems import MEDIA_TYPE
from headrace.service.reply_models import DocumentReply


def problem(answer: httpx.Response, status: int, code: str) -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE
    told = answer.json()
    assert told["status"] == status
    assert told["code"] == code
    assert told["type"] == f"/problems/{code}"
    assert {"title", "detail", "instance", "trace_id"} <= told.keys()
    return told


def digest(content: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


def accepted(client: httpx.Client, content: bytes | None = None) -> dict:
    answer = client.post("/v1/documents", content=content or fresh(), headers={"Prefer": "wait=20"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_accepted_document_is_202_with_its_address_a_hint_when_to_ask_and_its_state(client):
    content = fresh()
    answer = client.post("/v1/documents", params={"filename": "a.png"}, content=content)
    assert answer.status_code == 202
    told = DocumentReply.model_validate(answer.json())
    assert answer.headers["location"] == f"/v1/documents/{told.document_id}"
    assert int(answer.headers["retry-after"]) >= 1
    assert told.state == "queued"
    assert told.filename == "a.png"
    assert told.sha256 == hashlib.sha256(content).hexdigest()
    assert told.size_bytes == len(content)
    assert client.get(answer.headers["location"]).json()["document_id"] == told.document_id


def test_a_form_is_taken_like_a_raw_body_and_keeps_the_name_for_display(client):
    content = fresh()
    answer = client.post("/v1/documents", files={"file": ("Beleg nö.png", content)})
    assert answer.status_code == 202
    assert answer.json()["sha256"] == hashlib.sha256(content).hexdigest()
    assert "Beleg" in answer.json()["filename"]


def test_prefer_wait_answers_200_with_the_receipt_its_etag_and_what_was_applied(client):
    answer = client.post("/v1/documents", content=fresh(), headers={"Prefer": "respond-async, wait=20"})
    assert answer.status_code == 200
    assert answer.headers["preference-applied"] == "wait=20"
    assert answer.headers["etag"].startswith('"')
    assert answer.json()["receipt"]
    assert answer.json()["ledger"]["sequence"] >= 1
    DocumentReply.model_validate(answer.json())


def test_the_same_key_and_bytes_again_give_the_same_document_and_say_so(client):
    content, headers = fresh(), {"Idempotency-Key": '"one-key"'}
    first = client.post("/v1/documents", content=content, headers=headers)
    again = client.post("/v1/documents", content=content, headers=headers)
    bare = client.post("/v1/documents", content=content, headers={"Idempotency-Key": "one-key"})
    assert first.status_code == again.status_code == bare.status_code == 202
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == bare.headers["idempotency-replayed"] == "true"
    ids = {answer.json()["document_id"] for answer in (first, again, bare)}
    assert len(ids) == 1


def test_the_same_bytes_without_a_key_are_the_same_document(client):
    content = fresh()
    first, again = (client.post("/v1/documents", content=content) for _ in range(2))
    assert first.json()["document_id"] == again.json()["document_id"]
    assert again.headers["idempotency-replayed"] == "true"


def test_a_key_that_was_used_for_other_bytes_is_422(client):
    headers = {"Idempotency-Key": '"used"'}
    client.post("/v1/documents", content=fresh(), headers=headers)
    problem(client.post("/v1/documents", content=fresh(), headers=headers), 422, "idempotency-key-mismatch")


@pytest.mark.parametrize("key", ['"', '"a', "a b", '"a"b"', "x" * 256, "ü".encode()])
def test_a_key_that_is_no_string_is_400_and_points_at_it(client, key):
    answer = client.post("/v1/documents", content=fresh(), headers={"Idempotency-Key": key})
    told = problem(answer, 400, "malformed-request")
    assert told["errors"][0]["pointer"] == "/headers/Idempotency-Key"


@pytest.mark.parametrize("name", ["Repr-Digest", "Content-Digest"])
def test_bytes_that_are_not_the_promised_ones_are_422(client, name):
    content = fresh()
    good = client.post("/v1/documents", content=content, headers={name: f"md5=:AAAA:, {digest(content)}"})
    assert good.status_code == 202
    wrong = client.post("/v1/documents", content=fresh(), headers={name: digest(content)})
    problem(wrong, 422, "digest-mismatch")
    problem(client.post("/v1/documents", content=content, headers={name: "sha-256=:AAAA:"}), 400, "malformed-request")


def test_an_empty_body_is_422(client):
    problem(client.post("/v1/documents", content=b""), 422, "empty-file")


def test_an_empty_file_in_a_form_is_422_and_a_form_without_a_file_is_400(client):
    problem(client.post("/v1/documents", files={"file": ("a.png", b"")}), 422, "empty-file")
    problem(client.post("/v1/documents", files={"x": (None, b"1")}), 400, "malformed-request")


def test_two_files_in_one_form_are_refused_and_nothing_of_them_is_kept(client):
    first = fresh()
    answer = client.post("/v1/documents", files=[("file", ("a.png", first)), ("file", ("b.png", fresh()))])
    problem(answer, 400, "malformed-request")
    assert "idempotency-replayed" not in client.post("/v1/documents", content=first).headers


def test_what_is_no_document_by_its_first_bytes_is_415_whatever_it_is_called(client):
    answer = client.post(
        "/v1/documents?filename=a.png", content=b"PK\x03\x04...", headers={"Content-Type": "image/png"}
    )
    problem(answer, 415, "unsupported-media-type")
    assert "image/png" in answer.headers["accept"]
    assert "application/pdf" in answer.headers["accept"]


@pytest.mark.parametrize(("query", "pointer"), [("class=urgent", "/query/class"), ("klass=batch", "/query/klass")])
def test_a_parameter_that_makes_no_sense_is_400_and_points_at_it(client, query, pointer):
    told = problem(client.post(f"/v1/documents?{query}", content=fresh()), 400, "malformed-request")
    assert told["errors"][0]["pointer"] == pointer


def test_an_answer_that_cannot_be_given_is_406(client):
    problem(client.post("/v1/documents", content=fresh(), headers={"Accept": "text/csv"}), 406, "not-acceptable")
    name = accepted(client)["document_id"]
    problem(client.get(f"/v1/documents/{name}", headers={"Accept": "image/png"}), 406, "not-acceptable")


def test_an_unchanged_document_is_304_with_its_etag(client):
    name = accepted(client)["document_id"]
    tag = client.get(f"/v1/documents/{name}").headers["etag"]
    answer = client.get(f"/v1/documents/{name}", headers={"If-None-Match": f'"other", W/{tag}'})
    assert (answer.status_code, answer.headers["etag"], answer.content) == (304, tag, b"")
    assert client.get(f"/v1/documents/{name}", headers={"If-None-Match": '"other"'}).status_code == 200


def test_an_unknown_document_is_404(client):
    problem(client.get("/v1/documents/d00000000000000000000"), 404, "not-found")
    problem(client.delete("/v1/documents/d00000000000000000000"), 404, "not-found")
    problem(client.post("/v1/documents/d00000000000000000000:approve"), 404, "not-found")
    problem(client.get("/v1/documents/d00000000000000000000/file"), 404, "not-found")


def test_a_correction_needs_if_match_the_right_one_and_answers_with_the_next(client):
    name = accepted(client)["document_id"]
    tag = client.get(f"/v1/documents/{name}").headers["etag"]
    address, changes = f"/v1/documents/{name}/receipt", {"currency": {"value": "EUR", "status": "corrected"}}
    missing = client.patch(address, json=changes)
    problem(missing, 428, "precondition-required")
    assert missing.headers["etag"] == tag
    stale = client.patch(address, json=changes, headers={"If-Match": '"99"'})
    problem(stale, 412, "edit-conflict")
    assert stale.headers["etag"] == tag
    weak = client.patch(address, json=changes, headers={"If-Match": f"W/{tag}"})
    problem(weak, 412, "edit-conflict")
    assert weak.headers["etag"] == tag
    done = client.patch(address, json=changes, headers={"If-Match": tag})
    assert done.status_code == 200, done.text
    assert done.headers["etag"] not in ("", tag)
    problem(client.patch(address, json=changes, headers={"If-Match": tag}), 412, "edit-conflict")


def test_a_correction_that_is_no_json_object_is_400(client):
    name = accepted(client)["document_id"]
    tag = client.get(f"/v1/documents/{name}").headers["etag"]
    headers = {"If-Match": tag, "Content-Type": "application/merge-patch+json"}
    for body in (b"[1]", b"{", b'"x"', b"{}"):
        answer = client.patch(f"/v1/documents/{name}/receipt", content=body, headers=headers)
        problem(answer, 400, "malformed-request")


def test_a_person_approves_or_rejects_and_the_etag_moves_on(client):
    for action, review in (("approve", "approved"), ("reject", "rejected")):
        name = accepted(client)["document_id"]
        tag = client.get(f"/v1/documents/{name}").headers["etag"]
        answer = client.post(f"/v1/documents/{name}:{action}", json={"note": "seen"})
        assert answer.status_code == 200, answer.text
        assert answer.json()["review"] == review
        assert answer.headers["etag"] != tag


def test_what_is_done_is_not_cancelled_and_what_succeeded_is_not_run_again(client):
    name = accepted(client)["document_id"]
    problem(client.delete(f"/v1/documents/{name}"), 409, "not-cancellable")
    problem(client.post(f"/v1/documents/{name}:replay"), 409, "not-replayable")


def test_ids_and_trace_come_back(client):
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"X-Request-ID": "mine-1", "traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    answer = client.get("/v1/capacity", headers=headers)
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["traceparent"].startswith(f"00-{trace}-")
    assert "b7ad6b7169203331" not in answer.headers["traceparent"]
    odd = client.get("/nothing", headers={"X-Request-ID": "a b<c>", "traceparent": "00-" + "0" * 32})
    assert odd.headers["x-request-id"] not in ("", "a b<c>")
    assert odd.json()["trace_id"] in odd.headers["traceparent"]


def test_a_service_that_wants_keys_says_400_without_one(service: HttpService, client):
    import dataclasses

    def require(edge, wanted):
        requests = dataclasses.replace(edge.limits.requests, require_idempotency_key=wanted)
        edge.limits = dataclasses.replace(edge.limits, requests=requests)

    service.look(lambda edge: require(edge, True))
    try:
        problem(client.post("/v1/documents", content=fresh()), 400, "idempotency-key-missing")
        problem(client.post("/v1/batches", content=b""), 400, "idempotency-key-missing")
        assert client.post("/v1/documents", content=fresh(), headers={"Idempotency-Key": '"k1"'}).status_code == 202
    finally:
        service.look(lambda edge: require(edge, False))


def test_the_original_comes_back_with_its_name_and_digest_and_is_410_when_it_is_gone(service: HttpService, client):
    import os

    content = fresh()
    name = client.post("/v1/documents?filename=Käse.png", content=content, headers={"Prefer": "wait=20"}).json()
    address = f"/v1/documents/{name['document_id']}/file"
    answer = client.get(address)
    assert answer.content == content
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["repr-digest"] == digest(content)
    assert "filename*=UTF-8''K%C3%A4se.png" in answer.headers["content-disposition"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.head(address).headers["content-length"] == str(len(content))
    os.unlink(service.ask(lambda edge: edge.reception.original(None, name["document_id"])))
    problem(client.get(address), 410, "result-expired")


def test_a_key_whose_upload_is_still_coming_is_409_with_retry_after(service: HttpService, client):
    content = fresh()
    head = f"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n"
    with service.connect() as sock:
        sock.sendall(f'{head}Idempotency-Key: "slow"\r\n\r\n'.encode() + content[:20])
        service.until(lambda edge: edge.reception.capacity().bound("uploads").used == 1)
        answer = client.post("/v1/documents", content=content, headers={"Idempotency-Key": '"slow"'})
        problem(answer, 409, "idempotency-key-in-use")
        assert int(answer.headers["retry-after"]) >= 1
        sock.sendall(content[20:])
        assert b" 202 " in sock.recv(4096)
    again = client.post("/v1/documents", content=content, headers={"Idempotency-Key": '"slow"'})
    assert again.headers["idempotency-replayed"] == "true"


def test_the_same_bytes_sent_at_the_same_moment_are_one_document(service: HttpService):
    from concurrent.futures import ThreadPoolExecutor

    content = fresh()

    def send(_: int) -> str:
        with service.client() as client:
            return client.post("/v1/documents", content=content).json()["document_id"]

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(send, range(8)))) == 1


def test_who_hangs_up_while_he_waits_for_the_result_does_not_cancel_it(service: HttpService, client):
    content = fresh()
    head = f"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=20\r\nContent-Length: {len(content)}\r\n"
    before = service.look(lambda edge: edge.reception.capacity().done)
    with service.connect() as sock:
        sock.sendall(f"{head}\r\n".encode() + content)
    service.until(lambda edge: edge.reception.capacity().done > before)
    again = client.post("/v1/documents", content=content, headers={"Prefer": "wait=20"})
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["state"] == "succeeded"
