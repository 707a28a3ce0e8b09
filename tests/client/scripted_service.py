"""A service in memory that plays the awkward answers. It keeps the rules of the real one: keys, places, digests.

    service = ScriptedService()
    service.next(busy(7), cut_before, cut_after)     # what becomes of the next uploads; then all goes well

It is the transport of the client itself, so that time can be virtual. What it says in good times is compared with the
real service by `test_client_and_service.py`, which runs the same calls against that.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import httpx

Step = Callable[["ScriptedService", httpx.Request], Awaitable[httpx.Response]]


@dataclass
class ScriptedBatch:
    batch_id: int
    key: str
    state: str = "open"
    documents: list[dict[str, Any]] = field(default_factory=list)


class ScriptedService(httpx.AsyncBaseTransport):
    def __init__(self, *, done_after_s: float = 0.0) -> None:
        self.batches: dict[int, ScriptedBatch] = {}
        self.keys: dict[str, dict[str, Any]] = {}
        self.bodies = 0  # uploads whose bytes were read to their end
        self.asked: list[tuple[float, str, str]] = []
        self.now = self.most_at_once = 0
        self.open_streams = 0
        self.done_after_s = done_after_s
        self._script: deque[Step] = deque()
        self._streams: deque[int | str] = deque()

    def next(self, *steps: Step) -> None:
        """What becomes of the next uploads, one after the other."""
        self._script.extend(steps)

    def next_streams(self, *ends: int | str) -> None:
        """How the next streams of results end: broken after so many lines, "cleanly" at once; "again" repeats some."""
        self._streams.extend(ends)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((asyncio.get_running_loop().time(), request.method, request.url.path))
        self.now += 1
        self.most_at_once = max(self.most_at_once, self.now)
        try:
            return await self._answer(request)
        finally:
            self.now -= 1

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if request.method == "POST" and path.endswith("documents"):
            step = self._script.popleft() if self._script else well
            return await step(self, request)
        if request.method == "POST" and path == "/v1/batches":
            return self._open(key_of(request))
        batch = self.batches[int(re.findall(r"/v1/batches/(\d+)", path)[0])]
        if path.endswith(":close"):
            batch.state = "closed"
            return reply(200, self._told(batch))
        if path.endswith("/results"):
            after, follow = int(request.url.params["after"]), "follow" in request.url.params
            end = self._streams.popleft() if self._streams else None
            return httpx.Response(200, stream=Lines(self, batch, after, follow, end))
        return reply(200, self._told(batch))

    def _open(self, key: str) -> httpx.Response:
        for batch in self.batches.values():
            if batch.key == key:
                return reply(200, self._told(batch), {"Idempotency-Replayed": "true"})
        batch = ScriptedBatch(len(self.batches) + 1, key)
        self.batches[batch.batch_id] = batch
        return reply(201, self._told(batch))

    def is_done(self, document: dict[str, Any]) -> bool:
        return asyncio.get_running_loop().time() >= document["at"] + self.done_after_s

    def _told(self, batch: ScriptedBatch) -> dict[str, Any]:
        done = sum(map(self.is_done, batch.documents))
        finished = batch.state == "closed" and done == len(batch.documents)
        told = {"batch_id": batch.batch_id, "state": "finished" if finished else batch.state}
        return told | {"accepted": len(batch.documents), "done": done, "failed": 0}

    async def take(self, request: httpx.Request) -> httpx.Response:
        """Takes a document as the real service does: durable, once for each key."""
        body = b"".join([piece async for piece in body_of(request)])
        self.bodies += 1
        sha256 = hashlib.sha256(body).hexdigest()
        assert request.headers["Repr-Digest"] == f"sha-256=:{base64.b64encode(bytes.fromhex(sha256)).decode()}:"
        assert int(request.headers["Content-Length"]) == len(body)
        if not body:
            return problem(422, "empty-file")
        key = key_of(request)
        if key in self.keys:
            known = self.keys[key]
            if known["sha256"] != sha256:
                return problem(422, "idempotency-key-mismatch")
            return reply(202, known, {"Idempotency-Replayed": "true"})
        in_batch = re.findall(r"/v1/batches/(\d+)", request.url.path)
        if in_batch:
            batch = self.batches[int(in_batch[0])]
        else:
            batch = ScriptedBatch(len(self.batches) + 1, "", "closed")
            self.batches[batch.batch_id] = batch
        if in_batch and batch.state != "open":
            return problem(409, "batch-closed")
        name = unquote(request.headers.get("Content-Disposition", "''").partition("''")[2])
        place = {"batch_id": batch.batch_id, "position": len(batch.documents) + 1}
        document = place | {"document_id": f"d{len(self.keys)}", "sha256": sha256, "state": "queued", "name": name}
        document["at"] = asyncio.get_running_loop().time()
        batch.documents.append(document)
        self.keys[key] = document
        return reply(202, document)


class Lines(httpx.AsyncByteStream):
    def __init__(
        self, service: ScriptedService, batch: ScriptedBatch, after: int, follow: bool, end: int | str | None
    ) -> None:
        self._service, self._batch, self._after, self._follow, self._end = service, batch, after, follow, end
        self._service.open_streams += 1
        self._open = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        given, position = 0, self._after
        if self._end == "again":  # a service that does not count well
            position = max(0, position - 3)
        while self._end != "cleanly":
            documents = self._batch.documents[position:]
            if not documents or not self._service.is_done(documents[0]):
                if not self._follow or (self._batch.state == "closed" and not documents):
                    return
                await asyncio.sleep(0.1)
                yield b"\n"
                continue
            position += 1
            document = documents[0]
            line = {"kind": "receipt", "document_id": document["document_id"], "position": position}
            line |= {"source": {"uri": document["name"]}, "sha256": document["sha256"]}
            text = json.dumps(line).encode() + b"\n"
            if given == self._end:
                yield text[:20]
                raise httpx.ReadError("the connection broke")
            given += 1
            yield text

    async def aclose(self) -> None:
        self._service.open_streams -= self._open
        self._open = False


async def body_of(request: httpx.Request) -> AsyncIterator[bytes]:
    assert isinstance(request.stream, httpx.AsyncByteStream)
    async for piece in request.stream:
        yield piece


def key_of(request: httpx.Request) -> str:
    key: str = request.headers["Idempotency-Key"]
    assert key[0] == key[-1] == '"'
    return key.strip('"')


def reply(status: int, told: dict[str, Any], headers: dict[str, str] | None = None) -> httpx.Response:
    return httpx.Response(status, json=told, headers=headers)


def problem(status: int, code: str, retry_after: str | None = None) -> httpx.Response:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return httpx.Response(status, json={"code": code, "status": status, "detail": "as scripted"}, headers=headers)


async def well(service: ScriptedService, request: httpx.Request) -> httpx.Response:
    return await service.take(request)


def says(status: int, code: str, retry_after: str | None = None) -> Step:
    """Refuses without reading the body."""

    async def step(service: ScriptedService, request: httpx.Request) -> httpx.Response:
        return problem(status, code, retry_after)

    return step


def busy(retry_after_s: int, code: str = "queue-full") -> Step:
    return says(429, code, str(retry_after_s))


async def cut_before(service: ScriptedService, request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused")


async def cut_after(service: ScriptedService, request: httpx.Request) -> httpx.Response:
    """The server writes, and the answer never comes."""
    await service.take(request)
    raise httpx.RemoteProtocolError("server disconnected without sending a response")


def slowly(step: Step, duration_s: float) -> Step:
    async def slow(service: ScriptedService, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(duration_s)
        return await step(service, request)

    return slow
