"""Everything that happens, as server-sent events: replayed from the store behind `Last-Event-ID`, then live.

Between them, news of how far documents are: live only, the last of each document, at most five a second a worker.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from starlette.responses import StreamingResponse

from headrace.service import replies, reply_models
from headrace.service.auth import TICKET_S, Role
from headrace.service.edge import Edge, exchange_of, until_closing
from headrace.service.envelope import json_bytes
from headrace.service.openapi import answers
from headrace.service.problems import malformed
from headrace.service.progress import PageProgress
from headrace.service.reception import Event

SSE = "text/event-stream"
_RETRY_MS = 3000
_PAGE = 256


def router(edge: Edge) -> APIRouter:
    """The routes of events."""
    routes = APIRouter(prefix="/v1/events", tags=["events"])

    @routes.get("", responses=answers({200: None}, 400, 429) | {200: {"description": "Events", "content": {SSE: {}}}})
    async def get_events(
        request: Request,
        after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
        ticket: Annotated[str | None, Query(max_length=2048)] = None,
        last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=32)] = None,
    ) -> Response:
        """Events behind `Last-Event-ID` (or `after`); without either, from now on."""
        exchange = exchange_of(request)
        principal = exchange.principal() if ticket is None else edge.keys.of_ticket(ticket)
        principal.require(Role.READ)
        exchange.accepts(SSE)
        since = edge.reception.last_event_id if after is None else after
        if last_event_id:
            if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > 15:
                raise malformed("/headers/Last-Event-ID", "Last-Event-ID is the id of an event")
            since = int(last_event_id)
        if edge.streams >= edge.limits.requests.streams:
            with edge.stream():
                pass  # raises the refusal while there is still a status to send it with
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        pieces = until_closing(edge, _stream(edge, since, principal.sees))
        return StreamingResponse(pieces, media_type=SSE, headers=headers)

    @routes.post("/ticket", status_code=201, responses=answers({201: reply_models.TicketReply}, 400))
    async def make_ticket(request: Request) -> Response:
        """A pass for a minute, for those who cannot send headers: `GET /v1/events?ticket=...`."""
        exchange = exchange_of(request)
        principal = exchange.principal(Role.READ)
        exchange.accepts("application/json")
        reply = {"ticket": edge.keys.ticket(principal), "expires_in_seconds": TICKET_S}
        headers = {"Cache-Control": "no-store"}
        return Response(json_bytes(reply), 201, media_type="application/json", headers=headers)

    return routes


async def _stream(edge: Edge, since: int, client: str | None) -> AsyncIterator[bytes]:
    reception, keep_alive_s = edge.reception, edge.limits.requests.keep_alive_s
    yield f"retry: {_RETRY_MS}\n\n".encode()
    told = 0
    while True:
        seen = reception.last_event_id
        events = await reception.events(since, _PAGE, client) if seen > since else []
        if events:
            since = events[-1].event_id
            yield b"".join(map(frame, events))
            continue
        # What came up to here were other clients' events.
        since = max(since, seen)
        told, news = reception.progress(told, client)
        if news:
            yield b"".join(map(progress_frame, news))
            continue
        if not await reception.more_events(since, keep_alive_s, news_after=told):
            if not reception.health().live:
                return
            yield b": keep-alive\n\n"


def frame(event: Event) -> bytes:
    """One event as it stands on the wire."""
    data = json.dumps(replies.event(event), separators=(",", ":"))
    return f"id: {event.event_id}\nevent: {event.kind}\ndata: {data}\n\n".encode()


def progress_frame(told: PageProgress) -> bytes:
    """News of what is being read. Without an id: it is not kept, so nobody can ask for what comes behind it."""
    return f"event: document.progress\ndata: {json.dumps(replies.progress(told), separators=(',', ':'))}\n\n".encode()
