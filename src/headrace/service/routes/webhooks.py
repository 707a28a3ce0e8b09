"""Webhooks: who is told of what, what was delivered, and sending again. For operators."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from headrace.service import replies
from headrace.service.auth import Role
from headrace.service.edge import Edge, Exchange, exchange_of
from headrace.service.envelope import json_bytes
from headrace.service.openapi import answers
from headrace.service.problems import malformed
from headrace.service.webhooks import EVENT_KINDS, PATTERNS, shown
from headrace.storage.sql_webhooks import DEAD, DELIVERED, WAITING, Message, Webhook

Number = Annotated[int, Path(ge=1, le=2**53)]
DeliveryState = Literal["waiting", "delivered", "dead"]
_STATES: dict[str, int] = {"waiting": WAITING, "delivered": DELIVERED, "dead": DEAD}
_NAMES = {number: name for name, number in _STATES.items()}
_NO_STORE = {"Cache-Control": "no-store"}


class NewWebhook(BaseModel):
    """A subscription that is asked for."""

    model_config = ConfigDict(extra="forbid")

    url: str = Field(min_length=1, max_length=2000, description="https:, and public, unless the operator allows it")
    events: list[str] = Field(["*"], min_length=1, max_length=32, description=f"{', '.join(PATTERNS + EVENT_KINDS)}")
    client: str | None = Field(None, max_length=64, description="Only of this client; without it, of all")
    description: str = Field("", max_length=200)


class WebhookReply(BaseModel):
    """A subscription."""

    id: int
    url: str
    events: list[str]
    client: str | None
    description: str
    created_at: str


class NewWebhookReply(WebhookReply):
    """A subscription that was just made, with its secret, which is shown this once."""

    secret: str


class WebhooksReply(BaseModel):
    """All subscriptions."""

    items: list[WebhookReply]


class DeliveryReply(BaseModel):
    """One event for one webhook."""

    id: int
    webhook_id: int
    message_id: str
    type: str
    state: DeliveryState
    tries: int
    created_at: str
    next_try_at: str | None
    last_try_at: str | None
    last_status: int | None
    last_error: str | None
    body: str


class DeliveriesReply(BaseModel):
    """Some deliveries, and where the next ones begin."""

    items: list[DeliveryReply]
    next_after: int | None


def router(edge: Edge) -> APIRouter:
    """The routes of webhooks; all need the role `admin`."""
    routes = APIRouter(prefix="/v1/webhooks", tags=["webhooks"])
    webhooks = edge.reception.webhooks

    @routes.post("", status_code=201, responses=answers({201: NewWebhookReply}, 400, 409, 413, 422))
    async def add_webhook(request: Request, told: NewWebhook) -> Response:
        """Subscribes an address to events; the secret is in the answer, and nowhere else again."""
        _admin(request)
        for kind in told.events:
            if kind not in EVENT_KINDS and kind not in PATTERNS:
                raise malformed("/body/events", f"events are of {', '.join(PATTERNS + EVENT_KINDS)}")
        made = await webhooks.subscribe(told.url, told.events, told.client, told.description)
        reply = webhook(made) | {"secret": shown(made.secret)}
        headers = {"Location": f"/v1/webhooks/{made.webhook_id}"} | _NO_STORE
        return Response(json_bytes(reply), 201, media_type="application/json", headers=headers)

    @routes.get("", responses=answers({200: WebhooksReply}))
    async def get_webhooks(request: Request) -> Response:
        """All subscriptions, without their secrets."""
        _admin(request)
        return _json({"items": [webhook(its) for its in await webhooks.all()]})

    @routes.get("/{webhook_id}", responses=answers({200: WebhookReply}, 400))
    async def get_webhook(request: Request, webhook_id: Number) -> Response:
        """One subscription."""
        _admin(request)
        return _json(webhook(await webhooks.one(webhook_id)))

    @routes.delete("/{webhook_id}", status_code=204, responses=answers({204: None}, 400))
    async def remove_webhook(request: Request, webhook_id: Number) -> Response:
        """Ends a subscription; what waits for it is dropped."""
        _admin(request, kinds=())
        await webhooks.remove(webhook_id)
        return Response(status_code=204)

    @routes.get("/{webhook_id}/deliveries", responses=answers({200: DeliveriesReply}, 400))
    async def get_deliveries(
        request: Request,
        webhook_id: Number,
        after: Annotated[int, Query(ge=0, le=2**53)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        state: DeliveryState | None = None,
    ) -> Response:
        """What was, or is to be, delivered to it, oldest first."""
        _admin(request)
        found = await webhooks.deliveries(webhook_id, after, limit, None if state is None else _STATES[state])
        next_after = found[-1].number if len(found) == limit else None
        headers = dict(_NO_STORE)
        if next_after is not None:
            more = f"&state={state}" if state else ""
            address = f"/v1/webhooks/{webhook_id}/deliveries?limit={limit}{more}&after={next_after}"
            headers["Link"] = f'<{address}>; rel="next"'
        reply = {"items": [delivery(message) for message in found], "next_after": next_after}
        return Response(json_bytes(reply), media_type="application/json", headers=headers)

    @routes.post(
        "/{webhook_id}/deliveries/{delivery_id}:resend",
        status_code=202,
        responses=answers({202: DeliveryReply}, 400),
    )
    async def resend(request: Request, webhook_id: Number, delivery_id: Number) -> Response:
        """Sends one again, with the same `webhook-id`, whatever became of it."""
        _admin(request)
        return _json(delivery(await webhooks.send_again(webhook_id, delivery_id)), 202)

    return routes


def webhook(its: Webhook) -> dict[str, Any]:
    """A subscription as it is answered; never its secret."""
    return {
        "id": its.webhook_id,
        "url": its.url,
        "events": list(its.kinds),
        "client": its.client,
        "description": its.description,
        "created_at": replies.timestamp(its.made_at),
    }


def delivery(message: Message) -> dict[str, Any]:
    """A delivery as it is answered."""
    return {
        "id": message.number,
        "webhook_id": message.webhook_id,
        "message_id": message.message_id,
        "type": message.kind,
        "state": _NAMES[message.state],
        "tries": message.tries,
        "created_at": replies.timestamp(message.made_at),
        "next_try_at": replies.timestamp(message.due_at) if message.state == WAITING else None,
        "last_try_at": None if message.last_at is None else replies.timestamp(message.last_at),
        "last_status": message.last_status,
        "last_error": message.last_error,
        "body": message.body,
    }


def _admin(request: Request, kinds: tuple[str, ...] = ("application/json",)) -> Exchange:
    exchange = exchange_of(request)
    exchange.principal(Role.ADMIN)
    if kinds:
        exchange.accepts(*kinds)
    return exchange


def _json(reply: dict[str, Any], status: int = 200) -> Response:
    return Response(json_bytes(reply), status, media_type="application/json", headers=_NO_STORE)
