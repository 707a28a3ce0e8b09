"""What one request may take: bytes, time, parts. The numbers, and the body that is counted and timed while it is read.

Enforced where the bytes come in (ASGI `receive`), so that no body is ever larger than its limit, whatever it declared,
and nobody holds a connection by sending a byte a second.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from starlette.types import Message, Receive

from headrace.flow import Rate
from headrace.ingest.options import Kind, Option
from headrace.ingest.values import parse, suggestion
from headrace.service.problems import Problem, malformed, too_large
from headrace.service.views import Quota, ServiceLimits
from headrace.service.webhook_limits import WebhookLimits


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What one request may take.

    Attributes:
        json_bytes: the body of a correction or a review.
        batch_bytes: the body of a whole batch; it is streamed, so this bounds a client, not the memory.
        batch_documents: documents in one such body.
        parts: parts of a multipart body that is one document; a batch has `batch_documents`.
        part_header_bytes: one header line of a part.
        manifest_line_bytes: one line of a manifest.
        stall_s: how long a client may send nothing.
        grace_s: from when on the average counts.
        least_bytes_per_s: the average below which a body is too slow.
        wait_s: the longest `Prefer: wait`.
        admit_s: how long an entry of a batch waits for room before the batch is answered with what was taken.
        batches: bodies of batches that are read at the same time.
        streams: events and followed results that are open at the same time.
        keep_alive_s: how often a stream says that it is alive.
        require_idempotency_key: refuse documents and batches without one.
    """

    json_bytes: int = 1 << 20
    batch_bytes: int = 1 << 40
    batch_documents: int = 1_000_000
    parts: int = 16
    part_header_bytes: int = 4096
    manifest_line_bytes: int = 1 << 20
    stall_s: float = 20.0
    grace_s: float = 10.0
    least_bytes_per_s: int = 1024
    wait_s: float = 60.0
    admit_s: float = 300.0
    batches: int = 16
    streams: int = 256
    keep_alive_s: float = 15.0
    require_idempotency_key: bool = False


class LimitsError(Exception):
    """The file of limits makes no sense; ends with exit code 2."""

    exit_code: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything that a reload can change: of requests, of the service, and the clients' quotas."""

    requests: RequestLimits = field(default_factory=RequestLimits)
    service: ServiceLimits = field(default_factory=ServiceLimits)


def load_limits(path: Path) -> Limits:
    """The limits from a TOML file: `[requests]`, `[service]`, `[webhooks]`, `[quotas.CLIENT]` (`default`: the rest).

    Sizes and durations are written as in the config file (`64MiB`, `500ms`).

    Raises:
        LimitsError: it cannot be read, a name is unknown, or a value makes no sense.
    """
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LimitsError(f"{path}: {error}") from error
    unknown = sorted(told.keys() - {"requests", "service", "quotas", "webhooks"})
    if unknown:
        raise LimitsError(f"{path}: there is no section {unknown[0]}")
    try:
        quotas = {client: _quota(client, table) for client, table in told.get("quotas", {}).items()}
        service = _changed(ServiceLimits(), told.get("service", {}))
        default = quotas.pop("default", service.default_quota)
        return Limits(
            _changed(RequestLimits(), told.get("requests", {})),
            replace(service, quotas=quotas, default_quota=default, webhooks=_webhooks(told.get("webhooks", {}))),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise LimitsError(f"{path}: {error}") from error


def _changed(limits: Any, table: Mapping[str, object]) -> Any:
    names = {f.name for f in fields(limits)} - {"quotas", "default_quota", "class_delay_s", "webhooks"}
    for name in table:
        if name not in names:
            raise ValueError(f"there is no limit {name}{suggestion(name, names)}")
    return replace(limits, **{name: _value(name, getattr(limits, name), raw) for name, raw in table.items()})


def _value(name: str, default: Any, raw: object) -> object:
    kind = Kind.COUNT
    if isinstance(default, bool):
        kind = Kind.FLAG
    elif name.endswith("_s") and not name.endswith("_per_s"):
        kind = Kind.DURATION
    elif name.endswith(("_bytes", "_bytes_per_s")):
        kind = Kind.SIZE
    try:
        return parse(Option(name, kind, default, "", "", "", ""), raw)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _webhooks(table: Mapping[str, Any]) -> WebhookLimits:
    numbers = {name: value for name, value in table.items() if name not in ("allow", "retry_s")}
    limits: WebhookLimits = _changed(WebhookLimits(), numbers)
    allow = table.get("allow", [])
    if not isinstance(allow, list) or not all(isinstance(host, str) and host for host in allow):
        raise ValueError("webhooks.allow is a list of hosts and networks")
    waits = tuple(float(str(_value("retry_s", 1.0, wait_s))) for wait_s in table.get("retry_s", limits.retry_s))
    limits = replace(limits, allow=tuple(allow), retry_s=waits)
    if min(limits.most, limits.in_flight, limits.in_flight_each, limits.ended_kept, limits.waiting) < 1:
        raise ValueError("webhooks: each limit is at least 1")
    if limits.in_flight < limits.most:
        raise ValueError("webhooks.in_flight is at least webhooks.most, or one that hangs could hold up another one")
    return limits


def _quota(client: str, table: Mapping[str, Any]) -> Quota:
    unknown = sorted(table.keys() - {"per_s", "burst", "weight"})
    if unknown:
        raise ValueError(f"quotas.{client} has no {unknown[0]}; there are per_s, burst, weight")
    rate = Rate(float(table["per_s"]), float(table.get("burst", 0.0))) if "per_s" in table else None
    return Quota(rate, float(table.get("weight", 1.0)))


class ClientGone(Exception):
    """The client hung up before its body was complete. There is nobody to answer."""


class Body:
    """The body of one request: counted and timed as it comes, and never read before somebody wants it.

    Iterating gives its pieces. `receive` is the same as an ASGI callable, for those who parse small bodies themselves.
    Waiting for the client counts against it; what we ourselves take between two pieces does not.

    Raises:
        Problem: 413 at the first byte over the limit, 408 when it comes too slowly.
        ClientGone: it hung up.
    """

    __slots__ = ("_ended", "_limit_bytes", "_receive", "_waited_s", "declared_bytes", "limits", "read_bytes")

    def __init__(self, receive: Receive, headers: Mapping[bytes, bytes], limits: RequestLimits) -> None:
        self._receive = receive
        self._limit_bytes = limits.json_bytes
        self._waited_s = 0.0
        self._ended = False
        self.limits = limits
        self.read_bytes = 0
        self.declared_bytes = _declared(headers)

    def allow(self, limit_bytes: int) -> None:
        """Sets the limit for what is to come, and refuses at once what is declared to be longer."""
        self._limit_bytes = limit_bytes
        if self.declared_bytes is not None and self.declared_bytes > limit_bytes:
            raise too_large(limit_bytes, self.declared_bytes)

    @property
    def empty(self) -> bool:
        """Whether the headers say that there is no body."""
        return self.declared_bytes == 0

    async def receive(self) -> Message:
        """The next ASGI message of the request."""
        if self._ended:  # what comes now is only that the client hung up, and for that one waits as long as it takes
            return await self._receive()
        if not self.read_bytes:
            self.allow(self._limit_bytes)
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self.limits.stall_s):
                message = await self._receive()
        except TimeoutError:
            raise self._too_slow() from None
        if message["type"] == "http.request":
            self._waited_s += loop.time() - began
            self._count(len(message.get("body", b"")))
            self._ended = not message.get("more_body", False)
        return message

    def let_be(self) -> None:
        """The answer has begun: what still comes of the body is of no interest, however slowly it does."""
        self._ended = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self._ended:
            message = await self.receive()
            if message["type"] != "http.request":
                raise ClientGone
            if piece := message.get("body", b""):
                yield piece

    async def discard(self, most_bytes: int, most_s: float) -> None:
        """Reads on for a moment, so that a client that is still sending gets to read our answer before we hang up."""
        try:
            async with asyncio.timeout(most_s):
                while most_bytes > 0:
                    message = await self._receive()
                    most_bytes -= len(message.get("body", b""))
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return
        except TimeoutError:
            return

    def _count(self, size_bytes: int) -> None:
        self.read_bytes += size_bytes
        if self.read_bytes > self._limit_bytes:
            raise too_large(self._limit_bytes, self.read_bytes)
        slow = self.read_bytes < self._waited_s * self.limits.least_bytes_per_s
        if slow and self._waited_s > self.limits.grace_s:
            raise self._too_slow()

    def _too_slow(self) -> Problem:
        return Problem(
            "body-too-slow",
            f"{self.read_bytes} bytes came in {self._waited_s:.0f} s; send it again, faster",
            headers={"Connection": "close"},
        )


def _declared(headers: Mapping[bytes, bytes]) -> int | None:
    text = headers.get(b"content-length")
    if text is None:
        return None if b"transfer-encoding" in headers else 0
    if not text.isdigit() or len(text) > 18:
        raise malformed("/headers/Content-Length", "Content-Length is no number")
    return int(text)
