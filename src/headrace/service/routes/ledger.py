"""The ledger with its proofs, and the dead letters."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from headrace.service import replies, reply_models
from headrace.service.auth import Role
from headrace.service.edge import Edge, exchange_of
from headrace.service.envelope import json_bytes
from headrace.service.openapi import answers
from headrace.service.problems import Problem

After = Annotated[int, Query(ge=0, le=2**53)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Book = Annotated[str | None, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


def router(edge: Edge) -> APIRouter:
    """The routes of the ledger. It is one for all clients: reading it needs the role `admin`."""
    routes = APIRouter(prefix="/v1", tags=["ledger"])

    @routes.get("/ledger", responses=answers({200: reply_models.LedgerPage}, 400))
    async def get_ledger(request: Request, after: After = 0, limit: Limit = 256, book: Book = None) -> Response:
        """The entries behind this sequence number, corrections and reviews among them."""
        exchange = exchange_of(request)
        exchange.principal(Role.ADMIN)
        exchange.accepts("application/json")
        entries = await edge.reception.ledger(book, after, limit)
        next_after = entries[-1].sequence if len(entries) == limit else None
        items = [entry.record() for entry in entries]
        more = f"&book={book}" if book else ""
        return _page(f"/v1/ledger?limit={limit}{more}", items, next_after)

    @routes.get("/ledger/{sequence}/proof", responses=answers({200: reply_models.ProofReply}, 400))
    async def get_proof(
        request: Request, sequence: Annotated[int, Path(ge=1, le=2**53)], book: Book = None
    ) -> Response:
        """What it takes to check that an entry is part of the chain."""
        exchange = exchange_of(request)
        exchange.principal(Role.ADMIN)
        exchange.accepts("application/json")
        proof = await edge.reception.proof(sequence, book)
        if proof is None:
            raise Problem("not-found", f"there is no entry {sequence}")
        return Response(json_bytes(replies.proof(proof)), media_type="application/json")

    @routes.get("/dead-letters", responses=answers({200: reply_models.DeadLetters}, 400))
    async def get_dead_letters(request: Request, after: After = 0, limit: Limit = 100) -> Response:
        """Documents that failed and that nobody has run again."""
        exchange = exchange_of(request)
        client = exchange.principal(Role.READ).sees
        exchange.accepts("application/json")
        letters = await edge.reception.dead_letters(after, limit, client)
        next_after = letters[-1].number if len(letters) == limit else None
        return _page(f"/v1/dead-letters?limit={limit}", [replies.dead_letter(letter) for letter in letters], next_after)

    return routes


def _page(address: str, items: list[dict[str, object]], next_after: int | None) -> Response:
    headers = {"Cache-Control": "no-store"}
    if next_after is not None:
        headers["Link"] = f'<{address}&after={next_after}>; rel="next"'
    content = json_bytes({"items": items, "next_after": next_after})
    return Response(content, media_type="application/json", headers=headers)
