"""Batches: in one body or one by one, each item with its own verdict, results in submission order."""

from __future__ import annotations

import json
import threading

import pytest
from http_service import ROOM, HttpService, fresh, limits, open_edge, read, tar
from test_http_documents import problem
from test_http_limits import form, held, nothing_is_held, refuse_all

from headrace.service.limits import RequestLimits
from headrace.service.reply_models import BatchReply, SubmittedBatch

TAR = {"Content-Type": "application/x-tar"}
ROWS = {"Content-Type": "application/x-ndjson"}
CSV = {"Content-Type": "text/csv"}


def submitted(answer) -> SubmittedBatch:
    assert answer.status_code == 202, answer.text
    told = SubmittedBatch.model_validate(answer.json())
    assert answer.headers["location"] == f"/v1/batches/{told.batch_id}"
    assert told.items_accepted == sum(item.status == 202 for item in told.items)
    assert told.items_refused == sum(item.status != 202 for item in told.items)
    assert [item.index for item in told.items] == list(range(1, len(told.items) + 1))
    return told


def results(client, batch_id: int, **query) -> list[dict]:
    answer = client.get(f"/v1/batches/{batch_id}/results", params={"follow": 1} | query)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines() if line]


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_is_taken_item_by_item_and_one_bad_item_costs_only_itself(client, mode):
    files = {f"a{n}.png": fresh(200_000 * (n == 1)) for n in range(6)} | {"b.txt.png": b"no image"}
    told = submitted(client.post("/v1/batches", content=tar(files, mode), headers=TAR))
    assert told.complete
    assert [item.name for item in told.items] == list(files)
    assert [item.status for item in told.items] == [202] * 6 + [415]
    assert told.items[-1].problem.code == "unsupported-media-type"
    found = results(client, told.batch_id)
    assert [entry["position"] for entry in found] == [1, 2, 3, 4, 5, 6]
    assert [entry["document_id"] for entry in found] == [item.document_id for item in told.items[:6]]
    assert client.get(f"/v1/batches/{told.batch_id}").json()["state"] == "finished"


def test_a_form_of_files_is_a_batch(client):
    told = submitted(client.post("/v1/batches", files=[("file", (f"{n}.png", fresh())) for n in range(3)]))
    assert [item.name for item in told.items] == ["0.png", "1.png", "2.png"]


def test_addresses_in_a_manifest_are_not_fetched_and_the_other_rows_proceed(client):
    import base64

    data = "data:image/png;base64," + base64.b64encode(fresh()).decode()
    forbidden = ["file:///etc/passwd", "http://127.0.0.1/", "http://[::1]/x", "s3://other/key", "/etc/passwd", "../x"]
    rows = [*({"id": n, "uri": uri} for n, uri in enumerate(forbidden)), {"id": "mine", "uri": data}]
    body = "\n".join(json.dumps(row) for row in rows) + '\nnot json\n{"uri": 7}\n\n"data:no comma"\n'
    told = submitted(client.post("/v1/batches", content=body.encode(), headers=ROWS))
    statuses = [item.status for item in told.items]
    assert statuses == [422] * 6 + [202] + [400] * 3
    assert {item.problem.code for item in told.items[:6]} == {"source-url-forbidden"}
    assert {item.problem.code for item in told.items[7:]} == {"bad-manifest-line"}
    assert told.items[7].problem.errors[0].pointer == "/7"


def test_a_csv_manifest_needs_a_header_that_names_the_documents(client):
    import base64

    data = "data:;base64," + base64.b64encode(fresh()).decode()
    told = submitted(
        client.post("/v1/batches", content=f'id,uri\r\n1,"{data}"\r\n2\r\n3,ftp://x\r\n'.encode(), headers=CSV)
    )
    assert [item.status for item in told.items] == [202, 400, 422]
    answer = client.post("/v1/batches", content=b"a,b\n1,2\n", headers=CSV)
    assert problem(answer, 400, "bad-manifest-line")["errors"]


def test_a_line_that_is_too_long_costs_only_itself():
    told = limits(RequestLimits(manifest_line_bytes=1000))
    with HttpService(lambda: open_edge(told=told)) as service, service.client() as client:
        body = b'"file:///x"\n' + b"x" * 500_000 + b'\n"file:///y"\n'
        answer = submitted(client.post("/v1/batches", content=body, headers=ROWS))
        assert [item.status for item in answer.items] == [422, 400, 422]


def test_an_open_batch_takes_documents_one_by_one_until_it_is_closed(client):
    opened = client.post("/v1/batches?class=background")
    assert opened.status_code == 201
    batch = BatchReply.model_validate(opened.json())
    assert opened.headers["location"] == f"/v1/batches/{batch.batch_id}"
    assert (batch.state, batch.service_class) == ("open", "background")
    address = f"/v1/batches/{batch.batch_id}"
    for position in (1, 2):
        answer = client.post(f"{address}/documents", content=fresh())
        assert (answer.status_code, answer.json()["position"]) == (202, position)
    assert client.post(f"{address}:close").json()["state"] in ("closed", "finished")
    assert len(results(client, batch.batch_id)) == 2
    problem(client.post(f"{address}/documents", content=fresh()), 409, "batch-closed")


def test_the_same_key_gives_the_same_batch(client):
    headers = {"Idempotency-Key": '"batch-1"'}
    first, again = (client.post("/v1/batches", headers=headers) for _ in range(2))
    assert first.json()["batch_id"] == again.json()["batch_id"]
    assert again.headers["idempotency-replayed"] == "true"


def test_a_whole_batch_sent_twice_with_one_key_is_one_batch(client):
    content = tar({"a.png": fresh(), "b.png": fresh()})
    headers = TAR | {"Idempotency-Key": '"batch-2"'}
    first = submitted(client.post("/v1/batches", content=content, headers=headers))
    again = client.post("/v1/batches", content=content, headers=headers)
    assert again.status_code == 202
    assert again.json()["batch_id"] == first.batch_id
    assert again.json()["accepted"] == 2


def test_a_batch_that_is_sent_again_with_its_key_gets_the_same_verdicts(client):
    content = tar({"a.png": fresh(), "letter.png": b"no image", "b.png": fresh()})
    headers = TAR | {"Idempotency-Key": '"batch-3"'}
    first = client.post("/v1/batches", content=content, headers=headers).json()
    again = client.post("/v1/batches", content=content, headers=headers)
    assert again.headers["idempotency-replayed"] == "true"
    told = again.json()
    assert [item["status"] for item in told["items"]] == [202, 415, 202]
    for name in ("batch_id", "complete", "items_accepted", "items_refused", "items"):
        assert told[name] == first[name]


def test_a_batch_that_breaks_off_keeps_what_came_before_and_says_so(service, client):
    content = tar({f"{n}.png": fresh(5_000) for n in range(4)})[:12_000]
    told = submitted(client.post("/v1/batches", content=content, headers=TAR))
    assert not told.complete
    assert told.problem.code == "batch-rejected"
    assert 1 <= told.items_accepted < 4
    assert client.get(f"/v1/batches/{told.batch_id}").json()["state"] == "open"
    problem(client.post("/v1/batches", content=b"no tar" * 1000, headers=TAR), 422, "batch-rejected")
    service.until(nothing_is_held)


def test_a_form_that_breaks_off_is_told_too(service, client):
    part = b'Content-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    answer = client.post("/v1/batches", content=form([part + fresh(), part + fresh()], end=False), headers=headers)
    told = submitted(answer)
    assert not told.complete
    service.until(nothing_is_held)


def test_what_is_no_batch_is_415_and_says_what_would_be(client):
    answer = client.post("/v1/batches", content=b"x", headers={"Content-Type": "image/png"})
    problem(answer, 415, "unsupported-media-type")
    assert "application/x-tar" in answer.headers["accept"]


def test_an_unknown_batch_is_404(client):
    for method, address in (
        ("GET", "/v1/batches/999999"),
        ("GET", "/v1/batches/999999/results"),
        ("POST", "/v1/batches/999999:close"),
        ("POST", "/v1/batches/999999/documents"),
    ):
        problem(client.request(method, address, content=fresh() if "documents" in address else None), 404, "not-found")


def test_pages_of_results_link_to_the_next(client):
    told = submitted(client.post("/v1/batches", content=tar({f"{n}.png": fresh() for n in range(5)}), headers=TAR))
    results(client, told.batch_id)
    answer = client.get(f"/v1/batches/{told.batch_id}/results?limit=2")
    seen = []
    while True:
        seen += [json.loads(line)["position"] for line in answer.text.splitlines()]
        if "next" not in answer.links:
            break
        answer = client.get(answer.links["next"]["url"])
    assert seen == [1, 2, 3, 4, 5]
    assert [entry["position"] for entry in results(client, told.batch_id, after=3)] == [4, 5]


def test_following_waits_for_what_comes_and_ends_with_the_batch(service, client):
    batch_id = client.post("/v1/batches").json()["batch_id"]
    seen: list[int] = []
    first = threading.Event()

    def follow() -> None:
        with (
            service.client() as other,
            other.stream("GET", f"/v1/batches/{batch_id}/results", params={"follow": True}) as answer,
        ):
            for line in answer.iter_lines():
                if line:
                    seen.append(json.loads(line)["position"])
                    first.set()

    following = threading.Thread(target=follow)
    following.start()
    client.post(f"/v1/batches/{batch_id}/documents", content=fresh())
    assert first.wait(20)
    client.post(f"/v1/batches/{batch_id}/documents", content=fresh())
    client.post(f"/v1/batches/{batch_id}:close")
    following.join(20)
    assert seen == [1, 2]
    service.until(lambda edge: edge.streams == 0)


def test_an_entry_of_a_batch_waits_for_room_instead_of_being_refused(service: HttpService):
    content = tar({f"{n}.png": fresh(2000) for n in range(3)})
    request = "POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-tar\r\n"
    with service.connect() as sock:
        sock.sendall(f"{request}Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode() + content[:3000])
        service.until(lambda edge: edge.batches == 1 and edge.reception.capacity().done > 0 and held(edge) == 0)
        permits = service.look(refuse_all)
        sock.sendall(content[3000:])
        assert service.look(lambda edge: edge.batches) == 1
        service.look(lambda _: [permit.ignore() for permit in permits])
        answer = read(sock)
    assert b" 202 " in answer
    assert b'"complete":true,"items_accepted":3,"items_refused":0' in answer


def test_more_batches_at_a_time_than_the_bound_are_429():
    told = limits(RequestLimits(batches=1))
    with HttpService(lambda: open_edge(told=told)) as service, service.client() as client, service.connect() as sock:
        sock.sendall(
            b"POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-tar\r\n"
            b"Content-Length: 100000\r\n\r\n"
        )
        service.until(lambda edge: edge.batches == 1)
        problem(client.post("/v1/batches", content=tar({"a.png": fresh()}), headers=TAR), 429, "queue-full")
        sock.close()
        service.until(lambda edge: edge.batches == 0)
        service.until(nothing_is_held)


def test_a_batch_of_many_more_than_there_is_room_for_is_taken_whole_and_comes_out_in_order(client):
    files = {f"{n:03}.png": fresh() for n in range(5 * ROOM)}
    told = submitted(client.post("/v1/batches", content=tar(files), headers=TAR))
    assert told.complete
    assert [item.name for item in told.items] == list(files)
    found = results(client, told.batch_id)
    assert [entry["document_id"] for entry in found] == [item.document_id for item in told.items]


def test_bytes_that_come_twice_in_a_batch_have_two_places_and_the_second_points_to_the_first(client):
    content = fresh()
    told = submitted(client.post("/v1/batches", content=tar({"a.png": content, "b.png": content}), headers=TAR))
    first, second = results(client, told.batch_id)
    assert (first["kind"], second["kind"]) == ("receipt", "duplicate")
    assert second["duplicate_of"]["document_id"] == first["document_id"]


def test_a_batch_that_broke_off_goes_on_when_the_same_body_comes_again_with_its_key(client):
    content = tar({f"{n}.png": fresh(5_000) for n in range(4)})
    headers = TAR | {"Idempotency-Key": '"broken-1"'}
    first = submitted(client.post("/v1/batches", content=content[:12_000], headers=headers))
    again = submitted(client.post("/v1/batches", content=content, headers=headers))
    assert (first.complete, again.complete) == (False, True)
    assert again.batch_id == first.batch_id
    assert [item.document_id for item in again.items[: len(first.items)]] == [i.document_id for i in first.items]
    assert [bool(item.replayed) for item in again.items] == [n < len(first.items) for n in range(4)]
    assert [entry["position"] for entry in results(client, again.batch_id)] == [1, 2, 3, 4]
