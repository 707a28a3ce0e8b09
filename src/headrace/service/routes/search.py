"""Search: receipts by their words and by what they are about."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from headrace.documents.status import Verdict
from headrace.service import replies, reply_models
from headrace.service.auth import Role
from headrace.service.edge import Edge, exchange_of
from headrace.service.envelope import json_bytes
from headrace.service.openapi import answers
from headrace.service.problems import malformed

Words = Annotated[str, Query(min_length=1, max_length=1000)]
Day = Annotated[str | None, Query(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
Amount = Annotated[str | None, Query(pattern=r"^-?[0-9]{1,12}([.][0-9]{1,4})?$")]
Currency = Annotated[str | None, Query(pattern=r"^[A-Za-z]{3}$")]
Merchant = Annotated[str | None, Query(min_length=1, max_length=200)]
Batch = Annotated[int | None, Query(ge=1, le=2**53)]
Limit = Annotated[int, Query(ge=1, le=100)]


def router(edge: Edge) -> APIRouter:
    """The route of search. A client finds what is its own; who has the role `admin`, everything."""
    routes = APIRouter(prefix="/v1", tags=["documents"])

    @routes.get("/search", responses=answers({200: reply_models.SearchReply}, 400, 429))
    async def search(
        request: Request,
        q: Words,
        after: Day = None,
        before: Day = None,
        min_total: Amount = None,
        max_total: Amount = None,
        currency: Currency = None,
        merchant: Merchant = None,
        verdict: Literal["accepted", "needs_review", "rejected"] | None = None,
        batch: Batch = None,
        limit: Limit = 10,
    ) -> Response:
        """Receipts by the words on them and by what they are about, the best first; all filters must hold."""
        exchange = exchange_of(request)
        client = exchange.principal(Role.READ).sees
        exchange.accepts("application/json")
        found = await edge.reception.search.find(
            q,
            limit,
            after=_date("after", after),
            before=_date("before", before),
            min_total=None if min_total is None else Decimal(min_total),
            max_total=None if max_total is None else Decimal(max_total),
            currency=currency,
            merchant=merchant,
            verdict=None if verdict is None else Verdict(verdict),
            batch=batch,
            client=client,
        )
        return Response(
            json_bytes(replies.found(found)), media_type="application/json", headers={"Cache-Control": "no-store"}
        )

    return routes


def _date(name: str, told: str | None) -> dt.date | None:
    try:
        return None if told is None else dt.date.fromisoformat(told)
    except ValueError:
        raise malformed(f"/query/{name}", f"{told} is no day of the calendar") from None
