"""Keys: who may do what, and that nobody sees another client's documents."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from http_service import HttpService, fresh, open_edge
from test_http_documents import problem

from headrace.service.auth import Keys, KeysError, Role, is_loopback, make_key


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    path = tmp_path_factory.mktemp("keys") / "keys.toml"
    told = {"submit": "acme:submit", "read": "acme:read", "review": "acme:review", "both": "acme:submit,read"}
    told |= {"other": "other:submit,read,review", "admin": "ops:admin"}
    return path, {name: make_key(path, who) for name, who in told.items()}


@pytest.fixture(scope="module")
def service(made) -> Iterator[HttpService]:
    with HttpService(lambda: open_edge(Keys.load(made[0]))) as running:
        yield running


@pytest.fixture
def speak(service: HttpService, made):
    talking: list[httpx.Client] = []

    def client(name: str) -> httpx.Client:
        talking.append(service.client(headers={"Authorization": f"Bearer {made[1][name]}"}))
        return talking[-1]

    yield client
    for each in talking:
        each.close()


def test_without_a_key_or_with_a_wrong_one_it_is_401_and_says_how(service: HttpService, made):
    with service.client() as client:
        for headers in (
            {},
            {"Authorization": "Basic eDp5"},
            {"Authorization": "Bearer hr_00000000_" + "a" * 43},
            {"Authorization": f"Bearer {made[1]['admin'][:-1]}_"},
            {"X-Api-Key": "x"},
        ):
            answer = client.post("/v1/documents", content=fresh(), headers=headers)
            problem(answer, 401, "unauthorized")
            assert answer.headers["www-authenticate"].startswith("Bearer")
        assert client.get("/v1/capacity", headers={"X-Api-Key": made[1]["read"]}).status_code == 200


def test_health_metrics_and_the_description_need_no_key(service: HttpService):
    with service.client() as client:
        for address in ("/livez", "/readyz", "/metrics", "/openapi.json", "/docs"):
            assert client.get(address).status_code == 200


@pytest.mark.parametrize(
    ("method", "address", "good"),
    [
        ("POST", "/v1/documents", {"submit", "both", "admin", "other"}),
        ("POST", "/v1/batches", {"submit", "both", "admin", "other"}),
        ("GET", "/v1/documents/d0", {"read", "both", "admin", "other"}),
        ("GET", "/v1/batches/1", {"read", "both", "admin", "other"}),
        ("GET", "/v1/dead-letters", {"read", "both", "admin", "other"}),
        ("PATCH", "/v1/documents/d0/receipt", {"review", "admin", "other"}),
        ("POST", "/v1/documents/d0:approve", {"review", "admin", "other"}),
        ("POST", "/v1/documents/d0:reject", {"review", "admin", "other"}),
        ("POST", "/v1/documents/d0:replay", {"review", "admin", "other"}),
        ("DELETE", "/v1/documents/d0", {"submit", "both", "admin", "other"}),
        ("GET", "/v1/ledger", {"admin"}),
        ("GET", "/v1/ledger/1/proof", {"admin"}),
        ("GET", "/v1/capacity", {"submit", "read", "review", "both", "admin", "other"}),
    ],
)
def test_a_key_does_only_what_its_roles_are_for(speak, made, method, address, good):
    content = b'{"a": 1}' if method == "PATCH" else None
    for name in made[1]:
        headers = {"Content-Type": "application/json"} if content else {}
        answer = speak(name).request(method, address, content=content, headers=headers)
        if name in good:
            assert answer.status_code not in (401, 403), (name, answer.text)
        else:
            problem(answer, 403, "forbidden")


def test_what_belongs_to_another_client_is_404_and_an_admin_sees_all(speak):
    answer = speak("both").post("/v1/documents", content=fresh(), headers={"Prefer": "wait=20"})
    name, batch = answer.json()["document_id"], answer.json()["batch_id"]
    assert speak("read").get(f"/v1/documents/{name}").status_code == 200
    assert speak("admin").get(f"/v1/documents/{name}").status_code == 200
    other = speak("other")
    for method, address in (
        ("GET", f"/v1/documents/{name}"),
        ("GET", f"/v1/documents/{name}/file"),
        ("DELETE", f"/v1/documents/{name}"),
        ("POST", f"/v1/documents/{name}:approve"),
        ("POST", f"/v1/documents/{name}:replay"),
        ("GET", f"/v1/batches/{batch}"),
        ("GET", f"/v1/batches/{batch}/results"),
        ("POST", f"/v1/batches/{batch}:close"),
    ):
        problem(other.request(method, address), 404, "not-found")


def test_the_same_bytes_of_two_clients_are_two_documents(speak):
    content = fresh()
    ids = {speak(name).post("/v1/documents", content=content).json()["document_id"] for name in ("both", "other")}
    assert len(ids) == 2


def test_a_receipt_that_another_client_handed_in_is_no_duplicate_and_names_nothing_of_his(speak):
    content, wait = fresh(), {"Prefer": "wait=20"}
    first = speak("both").post("/v1/documents?filename=secret.png", content=content, headers=wait).json()
    answer = speak("other").post("/v1/documents?filename=mine.png", content=content, headers=wait)
    assert (answer.json()["kind"], answer.json().get("duplicate_of")) == ("receipt", None)
    results = speak("other").get(f"/v1/batches/{answer.json()['batch_id']}/results").text
    for told in (answer.text, results):
        assert "mine.png" in told
        assert "secret.png" not in told
        assert first["document_id"] not in told
    once_more = wait | {"Idempotency-Key": "once-more"}
    again = speak("other").post("/v1/documents", content=content, headers=once_more).json()
    assert again["kind"] == "duplicate"  # of one's own things it is told
    assert again["duplicate_of"]["document_id"] == answer.json()["document_id"]


def test_events_are_those_of_ones_own(speak):
    foreign = speak("both").post("/v1/documents", content=fresh()).json()["document_id"]
    own = speak("other").post("/v1/documents", content=fresh()).json()["document_id"]
    seen = []
    with speak("other").stream("GET", "/v1/events?after=0") as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line.removeprefix("data: ")).get("document_id"))
            if own in seen:
                break
    assert foreign not in seen


def test_a_key_in_an_address_is_refused_and_a_ticket_is_taken_for_events_only(service, speak, made):
    with service.client() as client:
        problem(client.get(f"/v1/capacity?api_key={made[1]['read']}"), 400, "malformed-request")
        problem(client.get(f"/v1/events?ticket={made[1]['read']}"), 400, "malformed-request")
        ticket = speak("read").post("/v1/events/ticket")
        assert ticket.status_code == 201
        with client.stream("GET", "/v1/events", params={"ticket": ticket.json()["ticket"]}) as answer:
            assert answer.status_code == 200
        problem(client.get("/v1/events", params={"ticket": ticket.json()["ticket"] + "0"}), 401, "unauthorized")
        problem(client.get("/v1/capacity", params={"ticket": ticket.json()["ticket"]}), 401, "unauthorized")


def test_a_ticket_is_good_for_a_minute(made, monkeypatch):
    keys = Keys.load(made[0])
    ticket = keys.ticket(next(iter(keys.keys.values())).principal)
    assert keys.reloaded(made[0]).of_ticket(ticket).client == "acme"
    now = time.time()
    monkeypatch.setattr("headrace.service.auth.time.time", lambda: now + 61)
    with pytest.raises(Exception, match="too old"):
        keys.of_ticket(ticket)


def test_an_open_service_answers_only_to_this_machine_and_to_no_foreign_page():
    with HttpService(open_edge) as service, service.client() as client:
        assert client.get("/v1/capacity").status_code == 200
        assert client.get("/v1/capacity", headers={"Origin": "http://localhost:3000"}).status_code == 200
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
            problem(client.get("/v1/capacity", headers=headers), 403, "forbidden")


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False), ("10.0.0.1", False)],
)
def test_loopback_is_told_apart(host, local):
    assert is_loopback(host) is local


def test_the_file_keeps_no_key_and_nobody_else_may_read_it(made):
    path, keys = made
    text = path.read_text()
    assert all(key not in text and key.rpartition("_")[2] not in text for key in keys.values())
    assert path.stat().st_mode & 0o077 == 0
    assert Keys.load(path).principal({b"x-api-key": keys["both"].encode()}, None).roles == {Role.SUBMIT, Role.READ}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[keys]]",
        "[[keys]]\nid = 'x'",
        "keys = 3",
        "\0",
        '[[keys]]\nid="00000000"\nclient="a"\nroles=["x"]\nsha256="' + "0" * 64 + '"',
    ],
)
def test_a_file_of_keys_that_makes_no_sense_stops_the_start(tmp_path, text):
    path = tmp_path / "keys.toml"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(KeysError):
        Keys.load(path)


def test_a_file_of_keys_that_everybody_may_read_stops_the_start(made, tmp_path):
    path = tmp_path / "keys.toml"
    path.write_text(made[0].read_text())
    path.chmod(0o644)
    with pytest.raises(KeysError, match="chmod"):
        Keys.load(path)


@pytest.mark.parametrize("told", ["acme", "acme:", ":read", "acme:fly", "a b:read"])
def test_a_key_for_nobody_or_nothing_is_not_made(tmp_path, told):
    with pytest.raises(KeysError):
        make_key(tmp_path / "keys.toml", told)
