"""The HTTP side: OpenAI's routes and those of operation. Plain ASGI: a refusal costs its JSON and nothing else."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.types import Receive, Scope, Send

from headrace.flow import ServiceClass
from headrace.flow.permits import Permit
from headrace.search.embedder import Tokens, Vector
from headrace.service.auth import Keys
from headrace.service.embedding.desk import Desk, Unavailable
from headrace.service.embedding.metrics import exposition
from headrace.service.embedding.request import EmbeddingRequest, refuse_long, reply
from headrace.service.envelope import json_bytes
from headrace.service.limits import Body, ClientGone, RequestLimits
from headrace.service.problems import MEDIA_TYPE, Problem, malformed, problem_of, retry_after
from headrace.service.request_headers import request_id

CLASS_HEADER = b"headrace-class"
_LOG = logging.getLogger("headrace.service")
_LINGER_BYTES, _LINGER_S = 1 << 22, 2.0
_OUTAGE_RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class _Reply:
    content: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


class EmbeddingApp:
    """Answers requests. Opens nothing and closes nothing.

    Args:
        desk: does the work.
        keys: who may ask; without any, this machine only.
        longest: tokens of a text that the model reads; None when it cuts by itself, where we cannot see it.
        dimensions: of the vectors; None when they are not known.
    """

    def __init__(
        self, desk: Desk, *, keys: Keys | None = None, longest: int | None = None, dimensions: int | None = None
    ) -> None:
        self.desk = desk
        self.problems: Counter[str] = Counter()  # by a fixed set of names
        self._keys, self._longest, self._dimensions = keys or Keys(), longest, dimensions
        self._limits = RequestLimits(json_bytes=desk.limits.request_bytes)
        self._routes: dict[tuple[str, str], Callable[[], _Reply]] = {
            ("GET", "/v1/models"): self._models,
            ("GET", f"/v1/models/{desk.embedder.name}"): self._model,
            ("GET", "/v1/capacity"): self._capacity,
            ("GET", "/livez"): self._live,
            ("GET", "/readyz"): self._ready,
            ("GET", "/metrics"): self._metrics,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, whatever happens inside."""
        if scope["type"] != "http":
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        told = request_id(headers.get(b"x-request-id", b"").decode("latin-1")) or uuid.uuid4().hex
        body: Body | None = None
        try:
            body = Body(receive, headers, self._limits)
            answer = await self._answer(scope, headers, body)
        except ClientGone:
            return
        except Exception as error:
            problem = _unavailable(error) if isinstance(error, Unavailable) else problem_of(error)
            if problem.status_code == 500:
                _LOG.exception("request_id=%s %s %s", told, scope["method"], scope["path"])
            self.problems[problem.code] += 1
            answer = _as_openai(problem, scope["path"], told)
        lingers = answer.status in (408, 413) and body is not None
        await _send(answer, told, send, lingering=(lambda: _discard(body)) if lingers else None)

    async def _answer(self, scope: Scope, headers: dict[bytes, bytes], body: Body) -> _Reply:
        method, path = scope["method"], scope["path"]
        client = ""
        if path.startswith("/v1/"):
            peer = scope.get("client")
            client = self._keys.principal(headers, peer[0] if peer else None).client
        if path == "/v1/embeddings":
            if method != "POST":
                raise Problem("method-not-allowed", "only POST here", headers={"Allow": "POST"})
            return await self._embed(_class_of(scope, headers), client, body)
        route = self._routes.get(("GET" if method == "HEAD" else method, path))
        if route is None and ("GET", path) in self._routes:
            raise Problem("method-not-allowed", "only GET here", headers={"Allow": "GET, HEAD"})
        if route is None:
            raise Problem("not-found", "there is nothing here; POST /v1/embeddings takes texts")
        return route()

    async def _embed(self, class_: ServiceClass, client: str, body: Body) -> _Reply:
        desk = self.desk
        body.allow(desk.limits.request_bytes)
        size_bytes = desk.limits.request_bytes if body.declared_bytes is None else body.declared_bytes
        permit = desk.let_in(class_, client, size_bytes, desk.estimate(size_bytes))  # before a byte is read
        try:
            content = b"".join([piece async for piece in body])
            asked = EmbeddingRequest.parse(
                content,
                model=desk.embedder.name,
                dimensions=self._dimensions,
                texts_most=desk.limits.request_texts,
            )
            texts = await asyncio.to_thread(lambda: [desk.embedder.tokens(text) for text in asked.texts])
            if self._longest is not None and not asked.truncate:
                refuse_long(texts, self._longest)
            permit, tokens = self._exchange(permit, texts, class_, client, len(content))
            found = await _unless_gone(desk.vectors(texts, class_, client), body)
            return _Reply(json_bytes(reply(found, tokens, asked, desk.embedder.name)))
        finally:
            if not permit.ended:
                permit.done()

    def _exchange(
        self, permit: Permit, texts: list[Tokens], class_: ServiceClass, client: str, size_bytes: int
    ) -> tuple[Permit, int]:
        """The permit for what was expected, for one for what came. Nobody comes between."""
        tokens, most = sum(text.count for text in texts), self.desk.limits.request_tokens
        if tokens > most:
            raise malformed("/input", f"input has {tokens} tokens, and one request may have {most}: send several")
        permit.ignore()
        return self.desk.let_in(class_, client, size_bytes, tokens), tokens

    # What operators ask

    def _models(self) -> _Reply:
        return _Reply(json_bytes({"object": "list", "data": [self._described()]}))

    def _model(self) -> _Reply:
        return _Reply(json_bytes(self._described()))

    def _described(self) -> dict[str, Any]:
        return {"id": self.desk.embedder.name, "object": "model", "created": 0, "owned_by": "headrace"}

    def _capacity(self) -> _Reply:
        desk, now, line = self.desk, self.desk.admission.statistics(), self.desk.ladder.statistics()
        permits = now.permits
        window = desk.pipeline.window
        return _Reply(
            json_bytes(
                {
                    "bounds": [
                        {
                            "name": "tokens",
                            "used": permits.held,
                            "limit": permits.limit,
                            "because": desk.limit.because,
                        },
                        {"name": "body_bytes", "used": permits.held_bytes, "limit": permits.limit_bytes},
                        {"name": "texts_with_the_model", "limit": window.value, "because": window.because},
                    ],
                    "request": {
                        "texts": desk.limits.request_texts,
                        "tokens": desk.limits.request_tokens,
                        "bytes": desk.limits.request_bytes,
                    },
                    "in_flight": desk.in_flight,
                    "drain_rate_tokens_per_s": now.drain_rate_per_s,
                    "shed_level": now.level.name.lower(),
                    "because": now.because,
                    "classes": {
                        class_.name.lower(): {
                            "taken": not now.level.refuses(class_),
                            "waiting": its.depth,
                            "oldest_age_s": its.oldest_age_s,
                        }
                        for class_, its in line.classes.items()
                    },
                }
            )
        )

    def _live(self) -> _Reply:
        return self._health("live", good=self.desk.broken is None)

    def _ready(self) -> _Reply:
        return self._health("ready", good=self.desk.broken is None and not self.desk.closed)

    def _health(self, good_name: str, *, good: bool) -> _Reply:
        headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
        if not good:
            headers["Retry-After"] = str(retry_after(_OUTAGE_RETRY_S))
        return _Reply(json_bytes({"status": good_name if good else "stopping"}), 200 if good else 503, headers)

    def _metrics(self) -> _Reply:
        content = exposition(self.desk, self.problems)
        return _Reply(content, headers={"Content-Type": CONTENT_TYPE_LATEST, "Cache-Control": "no-store"})


def _class_of(scope: Scope, headers: dict[bytes, bytes]) -> ServiceClass:
    asked = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=16).get("class", [])
    name = asked[0] if asked else headers.get(CLASS_HEADER, b"interactive").decode("latin-1")
    try:
        return ServiceClass[name.upper()]
    except KeyError:
        names = ", ".join(class_.name.lower() for class_ in ServiceClass)
        raise malformed("/query/class", f"class is one of {names}, not {name[:32]!r}") from None


async def _unless_gone(work: Awaitable[list[Vector]], body: Body) -> list[Vector]:
    """The vectors; or ClientGone as soon as nobody waits for them, and then no more work is done."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(body.receive())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


def _unavailable(error: Unavailable) -> Problem:
    after_s = retry_after(_OUTAGE_RETRY_S)
    headers = {"Retry-After": str(after_s)}
    return Problem("embedder-failed", str(error), headers=headers, retry_after_seconds=after_s)


def _as_openai(problem: Problem, path: str, told: str) -> _Reply:
    """One body for both: the members of a problem, and `error` as clients of OpenAI read it."""
    members = problem.as_dict(instance=path)
    errors = members.get("errors") or [{}]
    if problem.status_code in (401, 403):
        kind = "authentication_error"
    elif problem.status_code == 429:
        kind = "rate_limit_error"
    else:
        kind = "server_error" if problem.status_code >= 500 else "invalid_request_error"
    param = str(errors[0].get("pointer", "")).strip("/").replace("/", ".") or None
    members["error"] = {"message": problem.detail, "type": kind, "param": param, "code": problem.code}
    members["request_id"] = told
    headers = {"Content-Type": MEDIA_TYPE, **(problem.headers or {})}
    return _Reply(json_bytes(members), problem.status_code, headers)


async def _discard(body: Body | None) -> None:
    """Reads on for a moment: hanging up on somebody who still sends would take our answer with it."""
    if body is not None:
        await body.discard(_LINGER_BYTES, _LINGER_S)


async def _send(answer: _Reply, told: str, send: Send, *, lingering: Callable[[], Awaitable[None]] | None) -> None:
    headers = {"Content-Length": str(len(answer.content)), "X-Request-Id": told, **answer.headers}
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": raw})
    await send({"type": "http.response.body", "body": answer.content, "more_body": lingering is not None})
    if lingering is not None:
        await lingering()
        await send({"type": "http.response.body", "body": b""})
