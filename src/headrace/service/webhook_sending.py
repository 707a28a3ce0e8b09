"""One try to deliver a message: signed, to an address that was looked at, without following anybody anywhere."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ssl
from dataclasses import dataclass

import certifi
import httpx

from headrace import __version__
from headrace.service.public_addresses import Addresses, AddressRefused
from headrace.storage.sql_webhooks import Message, Webhook

_ERROR_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a try went: the status of the answer, or why there was none."""

    status: int | None = None
    error: str | None = None

    @property
    def delivered(self) -> bool:
        """Whether the receiver has taken it."""
        return self.status is not None and 200 <= self.status < 300


def signature(secret: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """What `webhook-signature` says (Standard Webhooks, v1): HMAC-SHA256 over id, timestamp and body."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


class Sender:
    """Sends. Making one reads the certificates, which takes a moment; use `aclose` at the end.

    Certificates are those of the public network and those of the system, `SSL_CERT_FILE` among them.

    Connections are not kept: one that was made for a host would be taken for another host at the same address, whose
    certificate nobody then looks at.
    """

    def __init__(self) -> None:
        trusted = ssl.create_default_context(cafile=certifi.where())
        trusted.load_default_certs()
        self._client = httpx.AsyncClient(
            verify=trusted,
            follow_redirects=False,
            trust_env=False,  # a proxy would resolve the name again
            timeout=None,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )

    async def send(
        self, webhook: Webhook, message: Message, addresses: Addresses, *, now: float, timeout_s: float
    ) -> Outcome:
        """One try. Never raises for what the receiver does or the network. Cancelled, it may have been delivered."""
        body = message.body.encode()
        timestamp = int(now)
        headers = {
            "content-type": "application/json",
            "user-agent": f"headrace/{__version__}",
            "webhook-id": message.message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(webhook.secret, message.message_id, timestamp, body),
        }
        try:
            async with asyncio.timeout(timeout_s):
                target = await addresses.target(webhook.url)
                url = httpx.URL(webhook.url)
                # The name is for the receiver and for its certificate; the connection goes to what was looked at.
                headers["host"] = url.netloc.decode("ascii")
                pinned = url.copy_with(host=str(target.address))
                request = self._client.build_request(
                    "POST", pinned, content=body, headers=headers, extensions={"sni_hostname": target.host}
                )
                answer = await self._client.send(request, stream=True)
                await answer.aclose()  # what it says beside the status is of no interest, however long
        except TimeoutError:
            return Outcome(error=f"no answer within {timeout_s:g} s")
        except AddressRefused as error:
            return Outcome(error=_short(f"not sent: {error}"))
        except Exception as error:  # the network's, mostly; a bug of ours must not be tried for ever either
            return Outcome(error=_short(f"{type(error).__name__}: {error}"))
        if answer.is_redirect:
            return Outcome(answer.status_code, "it redirects, which is not followed")
        return Outcome(answer.status_code, None if answer.is_success else f"it answered {answer.status_code}")

    async def aclose(self) -> None:
        """Closes what is open."""
        await self._client.aclose()


def _short(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:_ERROR_CHARACTERS]
