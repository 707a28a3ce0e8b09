"""Uploads in several requests: they go on where they were, end as any other upload, and never mix up two requests."""

from __future__ import annotations

import hashlib
import io
import re
import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from http_service import HttpService, exchange, fresh, limits, open_edge, png, read
from test_http_documents import digest, problem
from test_http_limits import answer_of, held, refuse_all
from tusclient.client import TusClient

from headrace.flow import Rate
from headrace.service.auth import Keys, make_key
from headrace.service.limits import RequestLimits
from headrace.service.views import Quota, ServiceLimits

MOST = 1 << 20
IANA = "https://iana.org/assignments/http-problem-types#"
PARTIAL = "application/partial-upload"


@pytest.fixture(scope="module")
def service() -> Iterator[HttpService]:
    told = limits(RequestLimits(stall_s=0.5, grace_s=0.3))
    with HttpService(lambda: open_edge(told=told, document_bytes=MOST)) as running:
        yield running


def begin(client: httpx.Client, length: int | None = None, query: str = "", **headers: str) -> str:
    told = {"Upload-Complete": "?0", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if length is not None:
        told["Upload-Length"] = str(length)
    answer = client.post("/v1/uploads" + query, headers=told)
    assert answer.status_code == 201, answer.text
    return answer.headers["location"]


def append(client: httpx.Client, upload: str, offset: int, content: bytes, complete: bool, **headers: str):
    told = {"Upload-Offset": str(offset), "Upload-Complete": "?1" if complete else "?0", "Content-Type": PARTIAL}
    told |= {name.replace("_", "-"): value for name, value in headers.items()}
    return client.patch(upload, content=content, headers=told)


def offset_of(client: httpx.Client, upload: str) -> int:
    answer = client.head(upload)
    assert (answer.status_code, answer.headers["cache-control"]) == (204, "no-store")
    return int(answer.headers["upload-offset"])


def patch_head(upload: str, offset: int, length: int, complete: bool, *more: str) -> bytes:
    lines = [f"PATCH {upload} HTTP/1.1", "Host: localhost", f"Content-Type: {PARTIAL}", f"Upload-Offset: {offset}"]
    lines += [f"Upload-Complete: ?{complete:d}", f"Content-Length: {length}", *more]
    return "\r\n".join([*lines, "", ""]).encode()


def until_written(service: HttpService, upload: str, least: int) -> None:
    """Until so many bytes of an upload are in its file, or in memory."""
    name = upload.rpartition("/")[2]

    def here(edge) -> bool:
        path = edge.reception.uploads._files.path(name)
        return path.stat().st_size + edge.reception._spool.buffered_bytes >= least

    service.until(here)


def problem_of(answer: httpx.Response, status: int, code: str) -> dict:
    told = answer.json()
    assert (answer.status_code, told["code"]) == (status, code), answer.text
    return told


def test_an_upload_in_parts_becomes_a_document_as_any_other(client: httpx.Client):
    content = fresh(300_000)
    upload = begin(client, len(content), "?class=background&filename=a.png&id=mine")
    assert append(client, upload, 0, content[:100_000], False).headers["upload-complete"] == "?0"
    assert offset_of(client, upload) == 100_000
    answer = append(client, upload, 100_000, content[100_000:], True, Prefer="wait=20")
    assert (answer.status_code, answer.headers["upload-complete"]) == (200, "?1")
    told = answer.json()
    assert told["sha256"] == hashlib.sha256(content).hexdigest()
    wanted = ("background", "a.png", "mine")
    assert (told["service_class"], told["filename"], told["external_id"]) == wanted
    assert answer.headers["location"] == f"/v1/documents/{told['document_id']}"
    assert client.get(answer.headers["location"] + "/file").content == content


def test_a_completed_upload_says_what_it_became_and_takes_nothing_more(client: httpx.Client):
    content = fresh(5000)
    upload = begin(client)
    location = append(client, upload, 0, content, True).headers["location"]
    looked = client.head(upload)
    assert (looked.headers["upload-complete"], looked.headers["upload-offset"]) == ("?1", "5000")
    assert (looked.headers["content-location"], looked.headers["upload-length"]) == (location, "5000")
    again = append(client, upload, 5000, b"", True)
    assert problem_of(again, 400, "completed-upload")["type"] == IANA + "completed-upload"
    assert again.headers["location"] == location
    more = append(client, upload, 5000, b"x", True)
    assert problem_of(more, 400, "inconsistent-upload-length")["type"] == IANA + "inconsistent-upload-length"
    assert client.get(location + "/file").content == content
    assert client.delete(upload).status_code == 204
    assert client.head(upload).status_code == 404
    assert client.get(location).status_code == 200


def test_the_first_request_may_bring_bytes_and_even_all_of_them(client: httpx.Client):
    content = fresh(50_000)
    answer = client.post("/v1/uploads", content=content[:20_000], headers={"Upload-Complete": "?0"})
    assert (answer.status_code, answer.headers["upload-offset"]) == (201, "20000")
    assert append(client, answer.headers["location"], 20_000, content[20_000:], True).status_code == 202
    whole = client.post("/v1/uploads", content=fresh(), headers={"Upload-Complete": "?1"})
    assert (whole.status_code, whole.headers["upload-complete"]) == (202, "?1")
    assert whole.headers["location"].startswith("/v1/documents/")
    wrong = {"Upload-Complete": "?1", "Upload-Length": "17"}
    problem_of(client.post("/v1/uploads", content=fresh(), headers=wrong), 400, "inconsistent-upload-length")


def test_a_part_that_does_not_begin_where_the_upload_ends_is_refused_with_both_offsets(client: httpx.Client):
    content = fresh(3000)
    upload = begin(client)
    append(client, upload, 0, content[:1000], False)
    for offset in (0, 999, 1001, 10**12):
        answer = append(client, upload, offset, content[:10], False)
        told = problem_of(answer, 409, "mismatching-upload-offset")
        assert told["type"] == IANA + "mismatching-upload-offset"
        assert (told["expected-offset"], told["provided-offset"]) == (1000, offset)
        assert answer.headers["upload-offset"] == "1000"
    assert offset_of(client, upload) == 1000


def test_lengths_that_contradict_each_other_are_refused_and_change_nothing(client: httpx.Client):
    content = fresh(2000)
    upload = begin(client, 2000)
    problem_of(append(client, upload, 0, content[:1000], True), 400, "inconsistent-upload-length")
    problem_of(append(client, upload, 0, content[:9], False, Upload_Length="3"), 400, "inconsistent-upload-length")
    problem_of(append(client, upload, 0, content + b"x", False), 400, "inconsistent-upload-length")
    assert offset_of(client, upload) == 0
    assert append(client, upload, 0, content, False).status_code == 204
    assert client.head(upload).headers["upload-complete"] == "?0", "the length alone completes nothing"
    assert append(client, upload, 2000, b"", True).status_code == 202


def test_a_chunked_part_that_goes_over_the_length_ends_the_upload(client: httpx.Client):
    upload = begin(client, 2000)

    def pieces():
        yield png(1, 1500)
        yield b"x" * 1500

    problem_of(append(client, upload, 0, pieces(), False), 400, "inconsistent-upload-length")  # type: ignore[arg-type]
    assert client.head(upload).status_code == 410


def test_what_is_larger_than_a_document_may_be_is_refused_with_the_limit(client: httpx.Client):
    answer = client.post("/v1/uploads", headers={"Upload-Complete": "?0", "Upload-Length": str(MOST + 1)})
    problem(answer, 413, "payload-too-large")
    assert f"max-size={MOST}" in answer.headers["upload-limit"]
    upload = begin(client)
    append(client, upload, 0, fresh(1000), False)
    answer = append(client, upload, 1000, b"x" * MOST, False)
    problem(answer, 413, "payload-too-large")
    assert offset_of(client, upload) == 1000
    assert client.delete(upload).status_code == 204


def test_a_digest_of_a_part_keeps_other_bytes_out_and_one_of_the_whole_ends_the_upload(client: httpx.Client):
    content = fresh(4000)
    upload = begin(client, 4000, Repr_Digest=digest(content))
    problem(append(client, upload, 0, content[:2000], False, Content_Digest=digest(b"y")), 422, "digest-mismatch")
    assert offset_of(client, upload) == 0
    good = append(client, upload, 0, content[:2000], False, Content_Digest=digest(content[:2000]))
    assert good.status_code == 204
    answer = append(client, upload, 2000, b"\1" * 2000, True)
    problem(answer, 422, "digest-mismatch")
    assert answer.headers["upload-complete"] == "?1", "it was transferred whole: to resume it would change nothing"
    assert client.head(upload).status_code == 410


def test_what_is_no_document_is_refused_as_soon_as_that_shows(client: httpx.Client):
    upload = begin(client, 500_000)
    answer = append(client, upload, 0, b"a letter to grandmother " * 1000, False)
    problem(answer, 415, "unsupported-media-type")
    problem(append(client, upload, 0, b"x", False), 410, "result-expired")
    upload = begin(client)
    problem(append(client, upload, 0, b"", True), 422, "empty-file")


def test_headers_that_are_missing_or_make_no_sense_say_which(client: httpx.Client):
    assert "/headers/Upload-Complete" in str(client.post("/v1/uploads").json())
    assert client.post("/v1/uploads", headers={"Upload-Complete": "yes"}).status_code == 400
    upload = begin(client)
    for headers, wrong in (
        ({"Upload-Offset": "0", "Content-Type": PARTIAL}, "/headers/Upload-Complete"),
        ({"Upload-Complete": "?0", "Content-Type": PARTIAL}, "/headers/Upload-Offset"),
        ({"Upload-Complete": "?0", "Upload-Offset": "-1", "Content-Type": PARTIAL}, "/headers/Upload-Offset"),
    ):
        answer = client.patch(upload, content=b"x", headers=headers)
        assert problem(answer, 400, "malformed-request")["errors"][0]["pointer"] == wrong
    answer = client.patch(upload, content=b"x", headers={"Upload-Complete": "?0", "Upload-Offset": "0"})
    problem(answer, 415, "unsupported-media-type")
    assert PARTIAL in answer.headers["accept-patch"]
    assert client.delete(upload).status_code == 204


def test_options_tell_both_dialects_what_there_is(client: httpx.Client):
    answer = client.options("/v1/uploads")
    assert answer.status_code == 204
    assert PARTIAL in answer.headers["accept-patch"]
    assert answer.headers["upload-limit"] == f"max-size={MOST}, max-age=86400"
    assert (answer.headers["tus-version"], answer.headers["tus-max-size"]) == ("1.0.0", str(MOST))


def test_what_came_before_the_connection_broke_is_kept(service: HttpService, client: httpx.Client):
    content = fresh(600_000)
    upload = begin(client, len(content))
    with service.connect() as sock:
        sock.sendall(patch_head(upload, 0, len(content), True) + content[:400_000])
        until_written(service, upload, 400_000)
    assert offset_of(client, upload) == 400_000
    assert append(client, upload, 400_000, content[400_000:], True).status_code == 202


def test_a_newer_request_ends_the_one_that_hangs_and_goes_on_where_it_was(service: HttpService, client: httpx.Client):
    content = fresh(500_000)
    upload = begin(client, len(content))
    with service.connect() as sock:
        sock.sendall(patch_head(upload, 0, len(content), True) + content[:300_000])
        until_written(service, upload, 300_000)
        assert offset_of(client, upload) == 300_000
        status, headers, told = answer_of(read(sock))
        assert (status, told["code"], headers["connection"]) == (409, "upload-taken-over", "close")
    with service.connect() as first, service.connect() as second:
        first.sendall(patch_head(upload, 300_000, 200_000, True) + content[300_000:350_000])
        until_written(service, upload, 350_000)
        second.sendall(patch_head(upload, 350_000, 150_000, True) + content[350_000:])
        assert answer_of(read(first))[2]["code"] == "upload-taken-over"
        assert b" 202 " in read(second, until=b"\r\n")
    assert service.look(held) <= 1


def test_a_stalled_part_is_408_and_what_came_is_kept(service: HttpService, client: httpx.Client):
    upload = begin(client)
    with service.connect() as sock:
        status, _, told = answer_of(exchange(sock, patch_head(upload, 0, 5000, False) + png(3, 2000)))
        assert (status, told["code"]) == (408, "body-too-slow")
    assert offset_of(client, upload) == 2000
    assert client.delete(upload).status_code == 204


def test_a_part_with_a_digest_that_breaks_off_is_not_kept(service: HttpService, client: httpx.Client):
    content = fresh(500_000)
    upload = begin(client, len(content))
    with service.connect() as sock:
        told = f"Content-Digest: {digest(content)}"
        sock.sendall(patch_head(upload, 0, len(content), True, told) + content[:400_000])
        until_written(service, upload, 400_000)
    assert offset_of(client, upload) == 0
    assert append(client, upload, 0, content, True, Content_Digest=digest(content)).status_code == 202


def test_a_first_request_that_breaks_off_takes_no_place(service: HttpService, client: httpx.Client):
    before = service.look(lambda edge: edge.reception.capacity().bound("unfinished_uploads").used)
    with service.connect() as sock:
        lines = ["POST /v1/uploads HTTP/1.1", "Host: localhost", "Upload-Complete: ?0", "Content-Length: 90000", "", ""]
        sock.sendall("\r\n".join(lines).encode() + png(4, 50_000))
        service.until(lambda edge: edge.reception.capacity().bound("unfinished_uploads").used == before + 1)
    service.until(lambda edge: edge.reception.capacity().bound("unfinished_uploads").used == before)


def test_the_last_part_is_refused_before_it_is_read_when_there_is_no_room(service: HttpService, client: httpx.Client):
    content = fresh(50_000)
    upload = begin(client, len(content))
    taken = service.look(refuse_all)
    try:
        assert append(client, upload, 0, content[:10_000], False).status_code == 204, "an idle upload needs no permit"
        with service.connect() as sock:
            request = patch_head(upload, 10_000, 40_000, True, "Expect: 100-continue")
            status, headers, told = answer_of(exchange(sock, request, until=b"}"))
        assert (status, told["code"], headers["upload-complete"]) == (429, "queue-full", "?0")
        assert int(headers["retry-after"]) >= 1
    finally:
        service.look(lambda _: [permit.ignore() for permit in taken])
    assert append(client, upload, 10_000, content[10_000:], True).status_code == 202


def test_places_are_bounded_shown_and_half_of_them_is_the_most_one_client_has():
    told = limits(service=ServiceLimits(unfinished_uploads=8))
    with HttpService(lambda: open_edge(told=told)) as service, service.client() as client:
        mine = [begin(client) for _ in range(4)]
        answer = client.post("/v1/uploads", headers={"Upload-Complete": "?0"})
        problem(answer, 429, "queue-full")
        assert int(answer.headers["retry-after"]) >= 1
        bound = client.get("/v1/capacity").json()["bounds"]["unfinished_uploads"]
        assert (bound["used"], bound["limit"]) == (4, 8)
        for upload in mine:
            assert client.delete(upload).status_code == 204
        assert client.get("/v1/capacity").json()["bounds"]["unfinished_uploads"]["used"] == 0
        assert begin(client)


def test_unfinished_bytes_count_as_blobs_and_a_removed_upload_gives_them_back(client: httpx.Client):
    def taken() -> int:
        return client.get("/v1/capacity").json()["bounds"]["blobs"]["used"]

    before = taken()
    upload = begin(client)
    append(client, upload, 0, fresh(70_000), False)
    assert taken() == before + 70_000
    client.delete(upload)
    assert taken() == before
    content = fresh(80_000)
    upload = begin(client)
    append(client, upload, 0, content, True)
    assert taken() == before + 80_000, "a document's bytes count once"


def test_the_same_key_gives_the_same_document_however_it_comes(client: httpx.Client):
    content = fresh(9000)
    told = {"Idempotency-Key": '"march 17"'}
    first = client.post("/v1/documents", content=content, headers=told).json()["document_id"]
    again = append(client, begin(client, Idempotency_Key='"march 17"'), 0, content, True)
    assert (again.json()["document_id"], again.headers["idempotency-replayed"]) == (first, "true")
    other = append(client, begin(client, Idempotency_Key='"march 17"'), 0, fresh(9000), True)
    problem_of(other, 422, "idempotency-key-mismatch")
    assert append(client, begin(client), 0, content, True).json()["document_id"] == first


def test_an_upload_can_become_a_document_of_an_open_batch(client: httpx.Client):
    batch = client.post("/v1/batches").json()["batch_id"]
    content = fresh(9000)
    positions = [
        append(client, begin(client, query=f"?batch={batch}"), 0, content, True).json()["position"] for _ in range(2)
    ]
    assert positions == [1, 2], "the same bytes may be in a batch twice"
    problem_of(client.post("/v1/uploads?batch=777", headers={"Upload-Complete": "?0"}), 404, "not-found")
    assert client.post("/v1/uploads?batch=x", headers={"Upload-Complete": "?0"}).status_code == 400
    late = begin(client, query=f"?batch={batch}")
    client.post(f"/v1/batches/{batch}:close")
    problem_of(append(client, late, 0, fresh(), True), 409, "batch-closed")
    whole = client.post(f"/v1/uploads?batch={batch}", content=fresh(), headers={"Upload-Complete": "?1"})
    problem_of(whole, 409, "batch-closed")


def test_another_clients_uploads_are_404_and_his_quota_counts(tmp_path: Path):
    path = tmp_path / "keys.toml"
    keys = {name: make_key(path, f"{name}:{role}") for name, role in (("acme", "submit"), ("other", "submit,read"))}
    admin, reader = make_key(path, "ops:admin"), make_key(path, "acme:read")
    told = limits(service=ServiceLimits(quotas={"other": Quota(Rate(0.001, 1.0))}))
    with HttpService(lambda: open_edge(Keys.load(path), told)) as service:

        def speaking(key: str) -> httpx.Client:
            return service.client(headers={"Authorization": f"Bearer {key}"})

        with speaking(keys["acme"]) as acme, speaking(keys["other"]) as other, speaking(admin) as ops:
            upload = begin(acme)
            assert other.head(upload).status_code == 404
            problem_of(append(other, upload, 0, b"x", False), 404, "not-found")
            assert other.delete(upload).status_code == 404
            assert ops.head(upload).status_code == 204
            with speaking(reader) as only_reads:
                assert only_reads.head(upload).status_code == 403
            assert append(other, begin(other), 0, fresh(), True).status_code == 202
            mine = begin(other)
            problem_of(append(other, mine, 0, fresh(1000), True), 429, "rate-limited")
            assert offset_of(other, mine) == 0
        with service.client() as nobody:
            assert nobody.head(upload).status_code == 401


def test_an_upload_that_is_not_finished_in_time_is_removed_and_410():
    told = limits(service=ServiceLimits(upload_keep_s=0.6))
    with HttpService(lambda: open_edge(told=told)) as service, service.client() as client:
        upload = begin(client)
        assert append(client, upload, 0, fresh(5000), False).status_code == 204
        kept = service.look(lambda edge: edge.reception.uploads._open[upload.rpartition("/")[2]].kept)
        service.until(lambda _: time.time() > kept.expires_at)
        problem(append(client, upload, 5000, b"x", True), 410, "result-expired")
        service.ask(lambda edge: edge.reception.uploads.sweep())
        assert service.look(lambda edge: edge.reception.capacity().bound("blobs").used) == 0
        problem(append(client, upload, 5000, b"x", True), 410, "result-expired")
        assert client.get("/v1/capacity").json()["bounds"]["unfinished_uploads"]["used"] == 0


def test_of_uploads_that_ended_only_the_newest_are_remembered():
    told = limits(service=ServiceLimits(ended_uploads_kept=2))
    with HttpService(lambda: open_edge(told=told)) as service, service.client() as client:
        uploads = [begin(client) for _ in range(4)]
        for upload in uploads:
            assert append(client, upload, 0, fresh(), True).status_code == 202
        assert [client.head(upload).status_code for upload in uploads] == [404, 404, 204, 204]
        folder = service.look(lambda edge: edge.reception.uploads._files.folder)
        assert len(list(folder.iterdir())) == 2


def test_a_full_disk_is_503_and_the_upload_goes_on_when_there_is_room_again():
    with HttpService(open_edge) as service, service.client() as client:
        content = fresh(60_000)
        upload = begin(client, len(content))
        append(client, upload, 0, content[:20_000], False)

        def set_free(min_free_bytes: int) -> None:
            service.look(
                lambda edge: edge.reception.change_limits(replace(edge.reception.limits, min_free_bytes=min_free_bytes))
            )

        set_free(1 << 60)
        answer = append(client, upload, 20_000, content[20_000:], True)
        problem(answer, 503, "storage-full")
        assert (answer.headers["upload-offset"], answer.headers["upload-complete"]) == ("20000", "?0")
        assert offset_of(client, upload) == 20_000
        set_free(0)
        service.until(lambda edge: edge.reception.health().ready)  # it looks by itself, once a second
        assert append(client, upload, 20_000, content[20_000:], True).status_code == 202


# The other dialect

TUS = {"Tus-Resumable": "1.0.0"}
OFFSET = {**TUS, "Content-Type": "application/offset+octet-stream"}


def tus_begin(client: httpx.Client, **headers: str) -> httpx.Response:
    answer = client.post("/v1/uploads", headers={**TUS, **{n.replace("_", "-"): v for n, v in headers.items()}})
    assert answer.headers["tus-resumable"] == "1.0.0"
    return answer


def tus_append(client: httpx.Client, upload: str, offset: int, content: bytes, **headers: str) -> httpx.Response:
    told = {**OFFSET, "Upload-Offset": str(offset), **{n.replace("_", "-"): v for n, v in headers.items()}}
    answer = client.patch(upload, content=content, headers=told)
    assert answer.headers["tus-resumable"] == "1.0.0"
    return answer


def test_a_tus_upload_is_a_document_when_its_length_is_reached(client: httpx.Client):
    content = fresh(3000)
    name = b64encode("Beleg ü.png".encode()).decode()
    begun = tus_begin(client, Upload_Length="3000", Upload_Metadata=f"filename {name},is_confidential")
    assert begun.status_code == 201
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT", begun.headers["upload-expires"])
    upload = begun.headers["location"]
    assert tus_append(client, upload, 0, content[:1000]).headers["upload-offset"] == "1000"
    looked = client.head(upload, headers=TUS)
    assert (looked.headers["upload-offset"], looked.headers["upload-length"]) == ("1000", "3000")
    assert looked.headers["upload-metadata"] == f"filename {name},is_confidential"
    assert looked.headers["cache-control"] == "no-store"
    last = tus_append(client, upload, 1000, content[1000:])
    assert (last.status_code, last.headers["upload-offset"]) == (204, "3000")
    told = client.get(last.headers["content-location"]).json()
    assert (told["filename"], told["sha256"]) == ("Beleg ü.png", hashlib.sha256(content).hexdigest())


def test_tus_says_its_own_no(client: httpx.Client):
    assert client.post("/v1/uploads", headers={"Tus-Resumable": "0.2.2"}).status_code == 412
    assert tus_begin(client).status_code == 400
    assert tus_begin(client, Upload_Length="5", Upload_Defer_Length="1").status_code == 400
    assert tus_begin(client, Upload_Defer_Length="2").status_code == 400
    assert tus_begin(client, Upload_Length="5", Upload_Metadata="filename %%%").status_code == 400
    assert tus_begin(client, Upload_Length=str(MOST + 1)).status_code == 413
    assert tus_begin(client, Upload_Length="0").status_code == 422
    upload = tus_begin(client, Upload_Length="3000").headers["location"]
    assert tus_append(client, upload, 7, b"x").status_code == 409
    assert tus_append(client, upload, 0, b"x", Content_Type="text/plain").status_code == 415
    assert tus_append(client, upload, 0, b"x", Upload_Checksum="crc32 AAAA").status_code == 400
    wrong = f"sha1 {b64encode(hashlib.sha1(b'y').digest()).decode()}"
    problem(tus_append(client, upload, 0, b"x" * 2000, Upload_Checksum=wrong), 460, "checksum-mismatch")
    assert client.head(upload, headers=TUS).headers["upload-offset"] == "0"
    assert client.delete(upload, headers=TUS).status_code == 204
    assert tus_append(client, upload, 0, b"x").status_code == 404


def test_a_tus_upload_may_learn_its_length_late_and_come_in_one_request(client: httpx.Client):
    content = fresh(3000)
    begun = client.post("/v1/uploads", content=content[:1000], headers={**OFFSET, "Upload-Defer-Length": "1"})
    assert (begun.status_code, begun.headers["upload-offset"]) == (201, "1000")
    upload = begun.headers["location"]
    assert client.head(upload, headers=TUS).headers["upload-defer-length"] == "1"
    last = tus_append(client, upload, 1000, content[1000:], Upload_Length="3000")
    assert last.headers["content-location"].startswith("/v1/documents/")
    whole = client.post("/v1/uploads", content=fresh(900), headers={**OFFSET, "Upload-Length": "900"})
    assert (whole.status_code, whole.headers["upload-offset"]) == (201, "900")
    assert whole.headers["content-location"].startswith("/v1/documents/")


def test_a_client_that_cannot_patch_may_post(client: httpx.Client):
    upload = tus_begin(client, Upload_Length="900").headers["location"]
    told = {**OFFSET, "Upload-Offset": "0", "X-HTTP-Method-Override": "PATCH"}
    assert client.post(upload, content=fresh(900), headers=told).status_code == 204
    assert client.post(upload, content=fresh(900)).status_code == 405


def test_tus_never_shows_a_whole_upload_that_is_no_document(service: HttpService, client: httpx.Client):
    """The last bytes came by the other dialect, which had not said that this is all; as after a crash at that point."""
    content = fresh(3000)
    upload = begin(client, 3000)
    append(client, upload, 0, content, False)
    taken = service.look(refuse_all)
    try:
        assert client.head(upload, headers=TUS).status_code == 429
    finally:
        service.look(lambda _: [permit.ignore() for permit in taken])
    looked = client.head(upload, headers=TUS)
    assert looked.headers["upload-offset"] == "3000"
    assert client.get(looked.headers["content-location"]).json()["sha256"] == hashlib.sha256(content).hexdigest()


def test_the_tus_client_that_others_use_uploads_breaks_off_and_goes_on(service: HttpService):
    content = fresh(700_000)
    tus = TusClient(f"{service.url}/v1/uploads")
    told: dict = {"chunk_size": 200_000, "metadata": {"filename": "receipt.png"}, "upload_checksum": True}
    first = tus.uploader(file_stream=io.BytesIO(content), **told)
    first.upload_chunk()
    assert first.offset == 200_000
    second = tus.uploader(file_stream=io.BytesIO(content), url=first.url, **told)  # asks where it is
    assert second.offset == 200_000
    second.upload()
    headers = second.request.response_headers
    assert (second.offset, headers["upload-offset"]) == (700_000, "700000")
    with service.client() as client:
        document = client.get(headers["content-location"]).json()
    assert (document["sha256"], document["filename"]) == (hashlib.sha256(content).hexdigest(), "receipt.png")
