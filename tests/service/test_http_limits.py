"""Bodies that are too long, too slow, too many parts, or never come: refused with constant memory, and nothing held."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from collections.abc import Iterator

import pytest
from http_service import HttpService, exchange, fresh, limits, open_edge, png, read

from headrace.flow import Admitted, ServiceClass
from headrace.service.limits import RequestLimits
from headrace.service.reception import Submission

LIMIT = 1 << 20
TELLING = limits(RequestLimits(stall_s=0.5, grace_s=0.3, least_bytes_per_s=1000))


@pytest.fixture(scope="module")
def service() -> Iterator[HttpService]:
    with HttpService(lambda: open_edge(told=TELLING, document_bytes=LIMIT)) as running:
        yield running


def answer_of(raw: bytes) -> tuple[int, dict[str, str], dict]:
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return int(status.split()[1]), headers, json.loads(body) if body else {}


def head(*lines: str, path: str = "/v1/documents") -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def nothing_is_held(edge) -> bool:
    return edge.reception.capacity().in_flight == 0 and held(edge) == 0


def held(edge) -> float:
    return edge.reception.capacity().bound("documents").used


def refuse_all(edge) -> list:
    """Takes every permit, as work of others does."""
    taken = []
    while isinstance(decision := edge.reception.decide(Submission("other", ServiceClass.INTERACTIVE)), Admitted):
        taken.append(decision.permit)
    return taken


def test_a_refused_upload_that_expects_100_continue_sends_no_byte_of_its_body(service: HttpService):
    taken = service.look(refuse_all)
    try:
        with service.connect() as sock:
            request = head("Content-Length: 1000", "Expect: 100-continue")
            raw = exchange(sock, request, until=b"}")
            assert b"100 Continue" not in raw
            status, headers, told = answer_of(raw)
            assert (status, told["code"]) == (429, "queue-full")
            assert int(headers["retry-after"]) >= 1
    finally:
        service.look(lambda _: [permit.ignore() for permit in taken])


def test_an_upload_that_expects_100_continue_is_asked_for_its_body_once_it_has_its_place(service: HttpService):
    content = fresh()
    with service.connect() as sock:
        raw = exchange(sock, head(f"Content-Length: {len(content)}", "Expect: 100-continue"), until=b"\r\n\r\n")
        assert raw == b"HTTP/1.1 100 Continue\r\n\r\n"
        raw = exchange(sock, content, until=b"}}")
        assert answer_of(raw)[0] == 202


def test_a_body_that_is_declared_too_long_is_413_before_it_is_read(service: HttpService):
    with service.connect() as sock:
        raw = exchange(sock, head(f"Content-Length: {5 << 30}", "Expect: 100-continue"))
        status, headers, told = answer_of(raw)
        assert (status, told["code"]) == (413, "payload-too-large")
        assert headers["connection"] == "close"
        assert told["limit_bytes"] == LIMIT
        assert told["actual"] == 5 << 30


def test_a_client_that_sends_all_the_same_gets_to_read_why(service: HttpService):
    with service.connect() as sock:
        raw = exchange(sock, head(f"Content-Length: {2 << 20}") + b"\0" * (2 << 20))
        assert answer_of(raw)[0] == 413


def test_a_chunked_body_is_413_at_the_first_byte_over_the_limit_and_never_in_memory(service: HttpService):
    tracemalloc.start()
    try:
        with service.connect() as sock:
            sock.sendall(head("Transfer-Encoding: chunked") + chunk(png()))
            piece = chunk(b"\0" * 65536)
            for _ in range(15):
                sock.sendall(piece)
            sock.sendall(piece * 4)
            status, headers, told = answer_of(read(sock))
            assert (status, told["code"]) == (413, "payload-too-large")
            assert headers["connection"] == "close"
            assert told["actual"] <= LIMIT + 5 * 65536
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 8 << 20
    service.until(nothing_is_held)


def test_a_client_that_sends_nothing_more_is_408_and_its_place_is_free_again(service: HttpService):
    with service.connect() as sock:
        raw = exchange(sock, head("Content-Length: 1000") + png())
        status, headers, told = answer_of(raw)
        assert (status, told["code"], headers["connection"]) == (408, "body-too-slow", "close")
    service.until(nothing_is_held)


def test_a_client_that_sends_a_byte_at_a_time_is_408_too(service: HttpService):
    import time

    with service.connect() as sock:
        sock.sendall(head("Content-Length: 100000"))
        sock.setblocking(False)
        raw = b""
        for byte in png() * 50:  # slower than the least, but never silent
            time.sleep(0.02)
            try:
                raw = sock.recv(65536)
                break
            except BlockingIOError:
                sock.send(bytes([byte]))
        assert answer_of(raw)[0] == 408


def test_a_client_that_hangs_up_leaves_nothing_behind(service: HttpService):
    with service.connect() as sock:
        sock.sendall(head("Content-Length: 1000") + png())
        service.until(lambda edge: held(edge) > 0)
    service.until(nothing_is_held)


def test_a_thousand_connections_that_only_wait_hold_no_permit(service: HttpService):
    socks = [service.connect() for _ in range(200)]
    try:
        assert service.look(held) == 0
        with service.client() as client:
            assert client.post("/v1/documents", content=fresh()).status_code == 202
    finally:
        for sock in socks:
            sock.close()


def form(parts: list[bytes], end: bool = True) -> bytes:
    return b"".join(b"--b\r\n" + part + b"\r\n" for part in parts) + (b"--b--\r\n" if end else b"")


FORM = {"Content-Type": "multipart/form-data; boundary=b"}
FILE = b'Content-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (
            form([b'Content-Disposition: form-data; name="x%d"\r\n\r\n1' % n for n in range(10_000)]),
            413,
            "payload-too-large",
        ),
        (form([b"X-Long: " + b"x" * 900_000 + b"\r\n" + FILE + png()]), 413, "payload-too-large"),
        (form([FILE + png()], end=False), 400, "malformed-request"),
        (form([FILE + b"\0" * (2 << 20)]), 413, "payload-too-large"),
        (b"no form at all" * 100, 400, "malformed-request"),
        (b"", 400, "malformed-request"),
        (form([b'Content-Disposition: form-data; name="other"\r\n\r\n1']), 400, "malformed-request"),
    ],
    ids=["ten thousand tiny parts", "a header of 1 MB", "cut off", "too long", "no form", "nothing", "no file"],
)
def test_a_form_that_is_none_is_refused_and_its_place_is_free_again(service: HttpService, body, status, code):
    with service.client() as client:
        answer = client.post("/v1/documents", content=body, headers=FORM)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    service.until(nothing_is_held)


def test_a_form_without_a_boundary_is_400(service: HttpService):
    with service.client() as client:
        answer = client.post("/v1/documents", content=b"x", headers={"Content-Type": "multipart/form-data"})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/headers/Content-Type")
    service.until(nothing_is_held)


def test_a_correction_has_its_own_small_limit(service: HttpService):
    with service.client() as client:
        answer = client.patch("/v1/documents/d0/receipt", content=b'{"a":"' + b"x" * (2 << 20) + b'"}')
    assert (answer.status_code, answer.json()["code"]) == (413, "payload-too-large")


def test_headers_that_do_not_come_end_the_connection_however_steadily_they_drip(service: HttpService, monkeypatch):
    import time

    monkeypatch.setattr("headrace.service.connections.HEADERS_S", 0.3)
    with service.connect() as silent, service.connect() as dripping:
        dripping.setblocking(False)
        ended = False
        for byte in b"GET /livez HTTP/1.1\r\nX: " + b"y" * 2000:
            time.sleep(0.02)
            try:
                dripping.send(bytes([byte]))
                ended = dripping.recv(10) == b""
            except BlockingIOError:
                continue
            except OSError:
                ended = True
            if ended:
                break
        assert ended
        assert silent.recv(10) == b""


def test_a_connection_goes_on_with_its_next_request_after_the_deadline_of_the_first(service: HttpService, monkeypatch):
    import time

    monkeypatch.setattr("headrace.service.connections.HEADERS_S", 0.2)
    request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with service.connect() as sock:
        for _ in range(3):
            assert b" 200 " in exchange(sock, request, until=b"}")
            time.sleep(0.15)


def test_headers_without_an_end_are_refused_before_they_fill_the_memory(service: HttpService):
    with service.connect() as sock:
        sent, answer = 0, b""
        sock.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n")
        try:
            while sent < 64 << 20:
                sock.sendall(b"X-%d: %s\r\n" % (sent, b"y" * 8000))
                sent += 8000
        except OSError:
            pass
        with contextlib.suppress(OSError):  # the answer is lost when the kernel threw away what was unread
            answer = read(sock)
        assert sent < 32 << 20
        assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")


def test_long_headers_are_no_reason_to_refuse_the_next_request(service: HttpService):
    request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 40_000 + b"\r\n\r\n"
    with service.connect() as sock:
        for _ in range(4):
            assert b" 200 " in exchange(sock, request, until=b"}")


def test_a_name_that_is_no_text_costs_its_letters_and_not_the_document(service: HttpService):
    content = fresh()
    part = b'--B\r\nContent-Disposition: form-data; name="file"; filename="caf\xe9 \xff\xfe.png"\r\n\r\n'
    with service.client() as client:
        answer = client.post(
            "/v1/documents",
            content=part + content + b"\r\n--B--\r\n",
            headers={"Content-Type": "multipart/form-data; boundary=B"},
        )
        assert answer.status_code == 202, answer.text
        told = client.get(answer.headers["Location"]).json()
    assert told["filename"].startswith("caf\u00e9")


def test_more_connections_than_the_bound_are_told_so_and_those_that_are_there_go_on(service: HttpService, monkeypatch):
    request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with service.connect() as first:
        assert b" 200 " in exchange(first, request, until=b"}")
        monkeypatch.setattr("headrace.service.connections.connections_most", lambda: 1)
        with service.connect() as second:
            answer = read(second)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == 503
        assert b" 200 " in exchange(first, request, until=b"}")
