from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from webhook_receiver import Receiver, takes_all

from headrace.service.public_addresses import Addresses, AddressRefused
from headrace.service.webhook_sending import Outcome, Sender
from headrace.service.webhooks import follow_up
from headrace.storage.sql_webhooks import DEAD, KEEP_TRYING_S, WAITING, Message, Webhook

PUBLIC = "93.184.216.34"


class Names:
    """A resolver that says something else each time."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        return self.answers.pop(0)


def test_a_name_that_is_public_and_then_private_is_asked_once_and_pinned():
    names = Names([PUBLIC], ["127.0.0.1"])
    addresses = Addresses(resolve=names)
    target = asyncio.run(addresses.target("https://hook.example:8443/x"))
    assert (str(target.address), target.host, target.port) == (PUBLIC, "hook.example", 8443)
    assert names.asked == [("hook.example", 8443)]
    with pytest.raises(AddressRefused, match=r"127\.0\.0\.1"):
        asyncio.run(addresses.target("https://hook.example:8443/x"))


@pytest.mark.parametrize(
    "inside", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fe80::1%eth0", "::ffff:10.0.0.1"]
)
def test_a_name_with_a_public_and_an_inner_address_is_refused(inside: str):
    with pytest.raises(AddressRefused):
        asyncio.run(Addresses(resolve=Names([PUBLIC, inside])).target("https://hook.example/"))


def test_what_the_operator_allows_is_reached_and_nothing_beside_it():
    addresses = Addresses(["10.1.0.0/16", "Hooks.Corp.example"], Names(["10.1.2.3"], ["192.168.1.1"], ["10.2.0.1"]))
    assert str(asyncio.run(addresses.target("https://a.example/")).address) == "10.1.2.3"
    assert str(asyncio.run(addresses.target("http://hooks.corp.example/")).address) == "192.168.1.1"
    with pytest.raises(AddressRefused):
        asyncio.run(addresses.target("https://a.example/"))
    with pytest.raises(AddressRefused):
        addresses.check("http://127.0.0.1/")


def test_the_connection_goes_to_the_address_that_was_looked_at_and_names_the_host():
    """The second answer of the resolver is the metadata service: whoever asked twice would go there."""
    receiver = Receiver(takes_all)
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    addresses = Addresses(["127.0.0.1", "hook.example"], names)

    async def send() -> Outcome:
        sender = Sender()
        try:
            return await sender.send(
                _webhook(f"http://hook.example:{receiver.port}/x"), _message(), addresses, now=1.0, timeout_s=20
            )
        finally:
            await sender.aclose()

    with receiver.running():
        assert asyncio.run(send()) == Outcome(204)
    assert len(names.asked) == 1
    [got] = receiver.received
    assert got.headers["host"] == f"hook.example:{receiver.port}"


def test_the_certificate_must_be_of_the_name_and_not_of_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An address that is pinned must not mean that anybody there is believed."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subject = ["-subj", "/CN=hook.example", "-addext", "subjectAltName=DNS:hook.example"]
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    subprocess.run([*made, *subject, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    receiver = Receiver(takes_all)
    receiver.encrypt(certificate, key)

    async def send(host: str) -> Outcome:
        sender = Sender()
        addresses = Addresses(["127.0.0.1"], Names(["127.0.0.1"]))
        url = f"https://{host}:{receiver.port}/x"
        try:
            return await sender.send(_webhook(url), _message(), addresses, now=1.0, timeout_s=20)
        finally:
            await sender.aclose()

    with receiver.running():
        assert asyncio.run(send("hook.example")) == Outcome(204)
        for other in ("other.example", "127.0.0.1"):
            assert "certificate" in str(asyncio.run(send(other)).error)
    assert len(receiver.received) == 1


def test_a_resolver_that_fails_or_hangs_is_a_failed_try():
    def broken(_: str, __: int) -> Sequence[str]:
        raise OSError("temporary failure in name resolution")

    async def send(addresses: Addresses, timeout_s: float) -> Outcome:
        sender = Sender()
        try:
            return await sender.send(
                _webhook("https://hook.example/"), _message(), addresses, now=1.0, timeout_s=timeout_s
            )
        finally:
            await sender.aclose()

    assert "temporary failure" in str(asyncio.run(send(Addresses(resolve=broken), 20)).error)
    release = threading.Event()

    def hangs(_: str, __: int) -> Sequence[str]:
        release.wait(60)
        return [PUBLIC]

    assert "no answer within" in str(asyncio.run(send(Addresses(resolve=hangs), 0.05)).error)
    release.set()


def test_tries_end_after_the_sixth_and_none_begins_after_24_hours():
    retry_s = (5.0, 300.0, 1800.0, 3 * 3600.0, 15 * 3600.0)
    for jitter in (0.8, 1.0, 1.2):
        message, now = _message(), 0.0
        for tries in range(6):
            message = _message(tries)
            tried = follow_up(message, Outcome(500, "it answered 500"), retry_s, now, jitter)
            if tries < 5:
                assert (tried.state, tried.due_at) == (WAITING, now + retry_s[tries] * jitter)
                now = tried.due_at
        assert tried.state == DEAD
        assert now <= KEEP_TRYING_S
    late = follow_up(_message(1), Outcome(error="no"), retry_s, KEEP_TRYING_S - 1, 1.0)
    assert late.state == DEAD


def _webhook(url: str) -> Webhook:
    return Webhook(1, url, ("*",), None, b"s" * 32, "", 0.0)


def _message(tries: int = 0) -> Message:
    return Message(1, 1, "msg_1", "document.accepted", "{}", 0.0, WAITING, tries, 0.0, KEEP_TRYING_S, None, None, None)
