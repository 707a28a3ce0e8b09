"""The edge: what all routes share, and what one request carries."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.types import Scope

from headrace.flow import Closed, Full, Refusal, ServiceClass
from headrace.service.auth import Keys, Principal, Role
from headrace.service.connections import GONE
from headrace.service.limits import Body, ClientGone, Limits
from headrace.service.problems import Problem, refused
from headrace.service.reception import RateLimited, Reception, Submission

T = TypeVar("T")

EXCHANGE = "headrace.exchange"


@dataclass
class Edge:
    """What all routes share. Belongs to one event loop.

    Attributes:
        reception: does everything.
        document_bytes: the largest document.
        keys, limits: replaced as a whole by a reload; requests that are being answered keep what they began with.
        closing: set when streams shall end, so that the server can stop.
        streams, batches: how many are open.
        answers: how many answers of each problem type were given, for the metrics; one of a fixed set of names.
        refused: how many were refused, by kind and class.
        debug: show what a bug was in the answer.
    """

    reception: Reception
    document_bytes: int = 64 << 20
    keys: Keys = field(default_factory=Keys)
    limits: Limits = field(default_factory=Limits)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0
    batches: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    refused: Counter[tuple[str, ServiceClass]] = field(default_factory=Counter)
    debug: bool = False

    def refuse(self, refusal: Refusal, submission: Submission) -> Problem:
        """A refusal of the reception as an answer, counted by its kind and class."""
        self.refused[type(refusal).__name__, submission.service_class] += 1
        quota = rate_limit(self.reception.quota(submission.client)) if isinstance(refusal, RateLimited) else None
        outage = self._outage() if isinstance(refusal, Closed) else ""
        return refused(refusal, outage=outage, headers=quota)

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Holds one of the places for open streams.

        Raises:
            Problem: 429, all are taken.
        """
        if self.streams >= self.limits.requests.streams:
            raise refused(Full(f"{self.streams} streams are open, and no more may be", retry_after_s=5))
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Holds one of the places for batches that are being read.

        Raises:
            Problem: 429, all are taken.
        """
        if self.batches >= self.limits.requests.batches:
            raise refused(Full(f"{self.batches} batches are being read, and no more may be", retry_after_s=5))
        self.batches += 1
        try:
            yield
        finally:
            self.batches -= 1

    def _outage(self) -> str:
        """What Closed means at this moment, when it is not the disk."""
        health = self.reception.health()
        return "store-unavailable" if health.state == "serving" and health.problems else "draining"


def rate_limit(quota: tuple[float, float, float] | None) -> dict[str, str]:
    """`RateLimit-Policy` and `RateLimit` of a client's quota; nothing for a client that has none.

    The draft changes from version to version: this is the one place that knows how it is written.

    Args:
        quota: what is left, the burst, and documents per second.
    """
    if quota is None:
        return {}
    left, burst, per_s = quota
    window_s = max(1, round(burst / per_s))
    again_s = max(0, math.ceil((1 - left) / per_s))
    return {
        "RateLimit-Policy": f'"docs";q={round(burst)};w={window_s};qu="documents"',
        "RateLimit": f'"docs";r={max(0, int(left))};t={again_s}',
    }


class Exchange:
    """One request and what is known of it before a route sees it: headers, body, ids; who it is, when asked."""

    __slots__ = ("_principal", "_scope", "body", "edge", "headers", "request_id", "span_id", "trace_flags", "trace_id")

    def __init__(
        self,
        edge: Edge,
        scope: Scope,
        headers: dict[bytes, bytes],
        body: Body,
        trace: tuple[str, str, str],
        request_id: str,
    ) -> None:
        self.edge = edge
        self.headers = headers
        self.body = body
        self.trace_id, self.span_id, self.trace_flags = trace
        self.request_id = request_id
        self._scope = scope
        self._principal: Principal | None = None

    @property
    def path(self) -> str:
        """What was asked for."""
        path: str = self._scope["path"]
        return path

    def header(self, name: bytes) -> str:
        """A header as text; "" when it is not there."""
        return self.headers.get(name, b"").decode("latin-1")

    def principal(self, role: Role | None = None) -> Principal:
        """Who asks, if he may.

        Raises:
            Problem: 401, 403.
        """
        if self._principal is None:
            peer = self._scope.get("client")
            self._principal = self.edge.keys.principal(self.headers, peer[0] if peer else None)
        if role is not None:
            self._principal.require(role)
        return self._principal

    async def while_there(self, waiting: Coroutine[Any, Any, T]) -> T:
        """What is waited for, as long as the client is there to be told: a wait costs no more than its connection.

        Raises:
            ClientGone: it hung up; the wait was cancelled.
        """
        gone: asyncio.Future[None] | None = self._scope.get(GONE)
        if gone is None:  # another server than ours
            return await waiting
        task = asyncio.create_task(waiting)
        try:
            either: set[asyncio.Future[Any]] = {task, gone}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        raise ClientGone

    def accepts(self, *kinds: str) -> None:
        """Looks whether the client takes one of these media types.

        Raises:
            Problem: 406.
        """
        wanted = self.header(b"accept").lower()
        if not wanted or "*/*" in wanted:
            return
        for kind in kinds:
            if kind in wanted or f"{kind.partition('/')[0]}/*" in wanted:
                return
        raise Problem("not-acceptable", f"this can be had as {' or '.join(kinds)}")


def exchange_of(request: Request) -> Exchange:
    """What `Envelope` put into the scope."""
    exchange: Exchange = request.scope[EXCHANGE]
    return exchange


async def until_closing(edge: Edge, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces of a stream, for as long as the server runs; holds a place for it meanwhile."""
    closing = asyncio.ensure_future(edge.closing.wait())
    step: asyncio.Future[bytes | None] | None = None
    with edge.stream():
        try:
            while True:
                step = asyncio.ensure_future(_next_piece(pieces))
                await asyncio.wait({step, closing}, return_when=asyncio.FIRST_COMPLETED)
                if not step.done() or (piece := step.result()) is None:
                    return
                yield piece
        finally:
            closing.cancel()
            if step is not None:
                step.cancel()
                await asyncio.gather(step, return_exceptions=True)


async def _next_piece(pieces: AsyncIterator[bytes]) -> bytes | None:
    return await anext(pieces, None)
