from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_service import HttpService, fresh, open_edge
from service_support import serving
from test_http_documents import problem
from webhook_receiver import Received, Receiver, takes_all

from headrace.service.auth import Keys, make_key
from headrace.service.edge import Edge
from headrace.service.limits import Limits, LimitsError, load_limits
from headrace.service.views import ServiceLimits
from headrace.service.webhook_limits import WebhookLimits
from headrace.storage.errors import StorageFull
from headrace.storage.sql_webhooks import Tried

QUICK = (0.02, 0.02, 0.02, 0.02, 0.02)
CHILD = Path(__file__).with_name("webhook_child.py")


def told(**others: Any) -> Limits:
    limits = WebhookLimits(**{"allow": ("127.0.0.0/8",), "retry_s": QUICK, **others})
    return Limits(service=ServiceLimits(webhooks=limits))


@contextlib.contextmanager
def serving_to(receiver: Receiver, **others: Any) -> Iterator[tuple[HttpService, httpx.Client]]:
    with receiver.running(), HttpService(lambda: open_edge(told=told(**others))) as service:
        with service.client() as client:
            yield service, client
        receiver.released.set()


def subscribe(client: httpx.Client, url: str, *events: str, **others: Any) -> dict[str, Any]:
    answer = client.post("/v1/webhooks", json={"url": url, "events": list(events or ("*",)), **others})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    assert answer.headers["location"] == f"/v1/webhooks/{made['id']}"
    return made


def submit(client: httpx.Client) -> str:
    answer = client.post("/v1/documents", content=fresh())
    assert answer.status_code == 202, answer.text
    document_id: str = answer.json()["document_id"] if "document_id" in answer.json() else answer.json()["id"]
    return document_id


def deliveries(client: httpx.Client, hook: dict[str, Any], **query: Any) -> list[dict[str, Any]]:
    answer = client.get(f"/v1/webhooks/{hook['id']}/deliveries", params=query)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def eventually(holds: Callable[[], Any]) -> Any:
    ends_at = time.monotonic() + 60
    while not (found := holds()):
        assert time.monotonic() < ends_at, "it never came to that"
        time.sleep(0.01)
    return found


def test_each_event_is_told_once_signed_and_with_what_it_is_about():
    receiver = Receiver(takes_all)
    with serving_to(receiver) as (_, client):
        hook = subscribe(client, receiver.url, "document.accepted", "document.succeeded", "document.failed")
        document_id = submit(client)
        got = receiver.wait_for(2)
        kinds = {one.told["type"]: one for one in got}
        assert set(kinds) == {"document.accepted", "document.succeeded"}
        assert all(one.is_signed_by(hook["secret"]) for one in got)
        assert not any(one.is_signed_by("whsec_" + "A" * 44) for one in got)
        assert {one.told["data"]["document_id"] for one in got} == {document_id}
        assert len({one.message_id for one in got}) == 2
        assert abs(int(got[0].headers["webhook-timestamp"]) - time.time()) < 60
        kept = eventually(lambda: deliveries(client, hook, state="delivered") if _all_done(client, hook) else None)
        assert [one["state"] for one in kept] == ["delivered"] * 2
        assert {one["message_id"] for one in kept} == {one.message_id for one in got}
        assert len(receiver.received) == 2
        assert 'headrace_webhook_deliveries_total{outcome="delivered"} 2.0' in client.get("/metrics").text


def _all_done(client: httpx.Client, hook: dict[str, Any]) -> bool:
    return not deliveries(client, hook, state="waiting")


def test_500_then_200_is_delivered_with_the_same_id_and_a_fresh_signature():
    def answer(_: Received, before: int) -> tuple[int, dict[str, str]]:
        return (500 if before == 0 else 200), {}

    receiver = Receiver(answer)
    with serving_to(receiver) as (_, client):
        hook = subscribe(client, receiver.url, "document.accepted")
        submit(client)
        first, second = receiver.wait_for(2)
        assert first.message_id == second.message_id
        assert first.body == second.body
        assert second.is_signed_by(hook["secret"])
        [kept] = eventually(lambda: deliveries(client, hook, state="delivered"))
        assert (kept["tries"], kept["last_status"], kept["last_error"]) == (2, 200, None)


def test_a_receiver_that_takes_it_and_never_answers_gets_it_again_with_the_same_id():
    def answer(_: Received, before: int) -> tuple[int, dict[str, str]]:
        if before == 0:
            receiver.hold()
        return 200, {}

    receiver = Receiver(answer)
    with serving_to(receiver, timeout_s=0.5) as (_, client):
        hook = subscribe(client, receiver.url, "document.accepted")
        submit(client)
        first, second = receiver.wait_for(2)
        assert first.message_id == second.message_id
        [kept] = eventually(lambda: deliveries(client, hook, state="delivered"))
        assert kept["tries"] == 2


def test_network_errors_are_tried_6_times_and_then_given_up_and_can_be_sent_again_by_hand():
    receiver = Receiver(takes_all)
    with HttpService(lambda: open_edge(told=told())) as service, service.client() as client:
        dead_port = Receiver(takes_all)
        dead_port._server.server_close()  # its port is nobody's now
        hook = subscribe(client, dead_port.url, "document.accepted")
        submit(client)
        [dead] = eventually(lambda: deliveries(client, hook, state="dead"))
        assert dead["tries"] == 6
        assert dead["last_status"] is None
        assert "ConnectError" in dead["last_error"]
        assert dead["next_try_at"] is None
        metrics = client.get("/metrics").text
        assert 'headrace_webhook_deliveries_total{outcome="dead"} 1.0' in metrics
        assert 'headrace_webhook_deliveries_total{outcome="retried"} 5.0' in metrics
        answer = client.post(f"/v1/webhooks/{hook['id']}/deliveries/{dead['id']}:resend")
        assert (answer.status_code, answer.json()["state"]) == (202, "waiting")
        eventually(lambda: [one for one in deliveries(client, hook, state="dead") if one["tries"] == 6])
        # One that was taken can be sent again, too; a receiver tells it by its id.
        with receiver.running():
            good = subscribe(client, receiver.url, "document.accepted")
            submit(client)
            [kept] = eventually(lambda: deliveries(client, good, state="delivered"))
            again = f"/v1/webhooks/{good['id']}/deliveries/{kept['id']}:resend"
            assert client.post(again).status_code == 202
            first, second = receiver.wait_for(2)
            assert first.message_id == second.message_id


def test_redirects_to_the_metadata_address_are_not_followed():
    other = Receiver(takes_all)
    targets = iter(["http://169.254.169.254/latest/meta-data", other.url])

    def answer(_: Received, before: int) -> tuple[int, dict[str, str]]:
        return (302, {"location": next(targets)}) if before < 2 else (200, {})

    receiver = Receiver(answer)
    with other.running(), serving_to(receiver) as (_, client):
        hook = subscribe(client, receiver.url, "document.accepted")
        submit(client)
        receiver.wait_for(3)
        [kept] = eventually(lambda: deliveries(client, hook, state="delivered"))
        assert kept["tries"] == 3
        assert other.received == []


def test_a_receiver_that_hangs_holds_up_neither_documents_nor_other_receivers():
    def never(_: Received, __: int) -> tuple[int, dict[str, str]]:
        hanging.hold()
        return 200, {}

    hanging, quick = Receiver(never), Receiver(takes_all)
    with quick.running(), serving_to(hanging, timeout_s=50.0, in_flight=5, in_flight_each=4) as (_, client):
        subscribe(client, hanging.url, "document.*")
        subscribe(client, quick.url, "document.succeeded")
        for _ in range(12):
            submit(client)
        got = quick.wait_for(12)
        assert len({one.message_id for one in got}) == 12
        # As many as one webhook may have, and no more.
        assert len(hanging.wait_for(4)) == 4
        used = client.get("/v1/capacity").json()["bounds"]
        assert used["webhook_requests"]["used"] <= used["webhook_requests"]["limit"] == 5


def test_while_nothing_fails_each_message_is_sent_exactly_once():
    receiver = Receiver(takes_all)
    with serving_to(receiver) as (_, client):
        hook = subscribe(client, receiver.url, "document.accepted", "document.running", "document.succeeded")
        for _ in range(60):
            submit(client)
        receiver.wait_for(180)
        eventually(lambda: len(deliveries(client, hook, state="delivered", limit=1000)) == 180)
        assert len(receiver.received) == len({one.message_id for one in receiver.received}) == 180


def test_what_was_delivered_during_an_outage_of_the_store_is_noted_after_it_and_not_sent_again():
    receiver, failures = Receiver(takes_all), []

    def break_store(edge: Edge) -> None:
        store = edge.reception._store
        whole = store.note_try

        def note_try(tried: Tried) -> None:
            if len(failures) < 2:
                failures.append(tried)
                raise StorageFull("the disk is full")
            whole(tried)

        store.note_try = note_try

    with serving_to(receiver) as (service, client):
        service.look(break_store)
        hook = subscribe(client, receiver.url, "document.accepted")
        submit(client)
        [kept] = eventually(lambda: deliveries(client, hook, state="delivered"))
        assert (kept["tries"], len(failures), len(receiver.received)) == (1, 2, 1)


def test_a_removed_webhook_is_told_of_nothing_more_and_its_hanging_request_ends():
    def never(_: Received, __: int) -> tuple[int, dict[str, str]]:
        receiver.hold()
        return 200, {}

    receiver = Receiver(never)
    with serving_to(receiver, timeout_s=50.0) as (service, client):
        hook = subscribe(client, receiver.url, "document.accepted")
        submit(client)
        receiver.wait_for(1)
        assert client.delete(f"/v1/webhooks/{hook['id']}").status_code == 204
        service.until(lambda edge: not edge.reception.webhooks._tasks)
        submit(client)
        answer = client.post(f"/v1/webhooks/{hook['id']}/deliveries/1:resend")
        problem(answer, 404, "not-found")
        assert len(receiver.received) == 1


def test_after_a_kill_between_the_event_and_its_delivery_it_is_delivered(tmp_path: Path):
    """The receiver has it and does not answer; the service is killed; the next one tells it again, by the same id."""

    def answer(_: Received, before: int) -> tuple[int, dict[str, str]]:
        if before == 0:
            receiver.hold()
        return 200, {}

    receiver = Receiver(answer)
    with receiver.running():
        command = [sys.executable, str(CHILD), str(tmp_path / "w"), receiver.url]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        secret, document_id = child.stdout.readline().split()
        receiver.wait_for(1)
        child.send_signal(signal.SIGKILL)
        child.communicate()

        async def next_life() -> None:
            limits = ServiceLimits(min_free_bytes=0, webhooks=WebhookLimits(allow=("127.0.0.1",)))
            async with serving(tmp_path / "w", limits):
                await asyncio.to_thread(receiver.wait_for, 2)

        asyncio.run(next_life())
        first, second = receiver.received
        assert first.message_id == second.message_id
        assert second.told["data"]["document_id"] == document_id
        assert second.is_signed_by(secret)


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/", "https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://[::1]/",
        "https://[::ffff:127.0.0.1]/", "https://10.0.0.8/", "https://169.254.169.254/latest", "https://[fd00:ec2::254]/",
        "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://192.0.0.192/", "https://168.63.129.16/",
        "https://100.100.100.200/", "https://0.0.0.0/", "https://224.0.0.1/", "http://example.org/",
        "file:///etc/passwd", "https://user:word@example.org/", "https://", "https://exa mple.org/", "gopher://a/",
        "https://example.org:99999/",
    ],
)  # fmt: skip
def test_addresses_inside_and_other_schemes_are_refused_when_the_webhook_is_made(url: str, client: httpx.Client):
    problem(client.post("/v1/webhooks", json={"url": url}), 422, "source-url-forbidden")


def test_the_secret_is_shown_once_and_only_admins_see_webhooks(tmp_path: Path):
    path = tmp_path / "keys"
    admin, other = make_key(path, "boss:admin"), make_key(path, "acme:submit,read,review")
    keys = Keys.load(path)
    with HttpService(lambda: open_edge(keys)) as service, service.client() as client:
        boss = {"authorization": f"Bearer {admin}"}
        answer = client.post("/v1/webhooks", json={"url": "https://example.org/x"}, headers=boss)
        secret = answer.json()["secret"]
        assert secret.startswith("whsec_")
        for address in ("/v1/webhooks", "/v1/webhooks/1", "/v1/webhooks/1/deliveries"):
            assert secret not in client.get(address, headers=boss).text
            answer = client.get(address, headers={"authorization": f"Bearer {other}"})
            problem(answer, 403, "forbidden")
            problem(client.get(address), 401, "unauthorized")
        assert client.delete("/v1/webhooks/1", headers=boss).status_code == 204
        problem(client.get("/v1/webhooks/1", headers=boss), 404, "not-found")
        problem(client.delete("/v1/webhooks/1", headers=boss), 404, "not-found")
        problem(client.get("/v1/webhooks/1/deliveries", headers=boss), 404, "not-found")


def test_a_webhook_of_one_client_is_told_of_that_client_only(tmp_path: Path):
    path = tmp_path / "keys"
    names = {
        who: make_key(path, f"{who}:{roles}") for who, roles in (("boss", "admin"), ("a", "submit"), ("b", "submit"))
    }
    keys = Keys.load(path)
    receiver = Receiver(takes_all)
    with receiver.running(), HttpService(lambda: open_edge(keys, told())) as service, service.client() as client:
        headers = {who: {"authorization": f"Bearer {key}"} for who, key in names.items()}
        body = {"url": receiver.url, "events": ["document.accepted"], "client": "b"}
        assert client.post("/v1/webhooks", json=body, headers=headers["boss"]).status_code == 201
        for who in ("a", "b", "a", "b"):
            assert client.post("/v1/documents", content=fresh(), headers=headers[who]).status_code == 202
        got = receiver.wait_for(2)
        assert {one.told["data"]["client"] for one in got} == {"b"}


def test_there_are_no_more_webhooks_than_the_limit_and_unknown_events_are_refused(tmp_path: Path):
    with HttpService(lambda: open_edge(told=told(most=2))) as service, service.client() as client:
        problem(
            client.post("/v1/webhooks", json={"url": "https://a.example/", "events": ["x"]}), 400, "malformed-request"
        )
        for _ in range(2):
            subscribe(client, "https://a.example/", "batch.finished")
        problem(client.post("/v1/webhooks", json={"url": "https://a.example/"}), 409, "conflict")
        client.delete("/v1/webhooks/1")
        assert subscribe(client, "https://a.example/", "batch.finished")["id"] == 3, "an id is never given twice"


def test_the_file_of_limits_says_what_webhooks_may_and_nonsense_is_refused(tmp_path: Path):
    path = tmp_path / "limits.toml"
    path.write_text('[webhooks]\nallow = ["10.0.0.0/8"]\ntimeout_s = "3s"\nretry_s = ["1s", "1min"]\nmost = 8\n')
    limits = load_limits(path).service.webhooks
    assert limits == WebhookLimits(most=8, allow=("10.0.0.0/8",), timeout_s=3.0, retry_s=(1.0, 60.0))
    for nonsense in ("most = 65", "allow = 'x'", "in_flight_each = 0", "retrys = 1", "retry_s = ['x']"):
        path.write_text(f"[webhooks]\n{nonsense}\n")
        with pytest.raises(LimitsError):
            load_limits(path)
