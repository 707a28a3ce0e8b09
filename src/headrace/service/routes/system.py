"""What operators ask: alive, ready, how full, how fast, and what a problem type means."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from headrace.service import replies, reply_models
from headrace.service.edge import Edge, exchange_of
from headrace.service.envelope import json_bytes
from headrace.service.metrics import Exposition
from headrace.service.openapi import answers
from headrace.service.problems import KINDS, Problem, retry_after, type_of
from headrace.service.reply_models import HealthReply

_NO_STORE = {"Cache-Control": "no-store"}


def router(edge: Edge) -> APIRouter:
    """The routes of operation. Health and metrics need no key: they name no client and no document."""
    routes = APIRouter(tags=["operation"])
    exposition = Exposition(edge)

    @routes.get("/livez", responses=answers({200: HealthReply}) | {503: {"model": HealthReply}})
    async def livez() -> Response:
        """Whether the process works; from memory, whatever the load."""
        health = edge.reception.health()
        return _health(replies.health(health), good=health.live)

    @routes.get("/readyz", responses=answers({200: HealthReply}) | {503: {"model": HealthReply}})
    async def readyz() -> Response:
        """Whether new work is taken: 503 from the first moment of a drain, with a full disk, and without a store."""
        health = edge.reception.health()
        return _health(replies.health(health), good=health.ready)

    @routes.get(
        "/metrics", responses=answers({200: None}) | {200: {"description": "Metrics", "content": {"text/plain": {}}}}
    )
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(await exposition.text(), headers={"Content-Type": CONTENT_TYPE_LATEST} | _NO_STORE)

    @routes.get("/v1/capacity", responses=answers({200: reply_models.CapacityReply}))
    async def capacity(request: Request) -> Response:
        """Every bound: used and limit, the oldest eligible age, the drain rate, the classes."""
        exchange = exchange_of(request)
        exchange.principal()
        exchange.accepts("application/json")
        reply = replies.capacity(edge.reception.capacity(), edge.reception.last_event_id)
        return Response(json_bytes(reply), media_type="application/json", headers=_NO_STORE)

    @routes.get("/problems/{code}", responses=answers({200: None}))
    async def problem(code: Annotated[str, Path(max_length=64)]) -> Response:
        """What a type of problem means."""
        if code not in KINDS:
            raise Problem("not-found", f"no problem is called {code[:64]}")
        kind = KINDS[code]
        reply = {"type": type_of(code), "title": kind.title, "status": kind.status}
        return Response(json_bytes(reply), media_type="application/json")

    return routes


def _health(reply: dict[str, object], *, good: bool) -> Response:
    headers = _NO_STORE if good else _NO_STORE | {"Retry-After": str(retry_after(1))}
    return Response(json_bytes(reply), 200 if good else 503, media_type="application/json", headers=headers)
