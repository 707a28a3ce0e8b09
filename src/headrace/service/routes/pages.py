"""The pages of a document as pictures: upright, as they were recognised, never restored."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Request, Response
from starlette.responses import FileResponse

from headrace.documents.errors import UnreadableSource
from headrace.ocr.media import JPEG
from headrace.service.auth import Role
from headrace.service.edge import Edge, exchange_of
from headrace.service.openapi import answers
from headrace.service.problems import Problem
from headrace.service.reception import DocumentView
from headrace.service.request_headers import inline, matches
from headrace.service.routes.documents import DocumentId, existing

PageNumber = Annotated[int, Path(ge=1, le=1_000_000)]
_DRAWN_AS = 1  # to be raised when the same bytes give another picture


def router(edge: Edge) -> APIRouter:
    """The route of the pages."""
    routes = APIRouter(prefix="/v1/documents", tags=["documents"])
    picture: dict[int | str, dict[str, Any]] = {
        200: {"description": "The picture", "content": {JPEG: {}}},
        304: {"description": "Unchanged"},
    }

    @routes.get("/{document_id}/pages/{number}", responses=answers({200: None}, 400, 410, 422, 429) | picture)
    async def get_page(
        request: Request,
        document_id: DocumentId,
        number: PageNumber,
        if_none_match: Annotated[str | None, Header(alias="If-None-Match", max_length=1024)] = None,
    ) -> Response:
        """One page, upright, as it was recognised; not restored. Drawn when it is asked for, then kept a while."""
        exchange = exchange_of(request)
        client = exchange.principal(Role.READ).sees
        exchange.accepts(JPEG)
        view = await existing(edge, client, document_id)
        source = await edge.reception.original(client, document_id)
        gone = Problem("result-expired", "the bytes of this document are not kept any more", document_id=document_id)
        if source is None:
            raise gone
        rotation = _rotation(view, number)
        tag = f'W/"{view.sha256[:32]}-{number}-{rotation}-{_DRAWN_AS}"'
        headers = {
            "ETag": tag,
            "Cache-Control": "private, no-cache",
            "Content-Disposition": inline(f"{document_id}-page-{number}.jpg"),
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        try:
            # Also for a 304: only a page that can be drawn has a tag.
            shown = await edge.reception.pages.show(source, view.sha256, number, rotation)
        except UnreadableSource as error:
            raise gone from error
        if isinstance(shown, int):
            pages = "1 page" if shown == 1 else f"{shown} pages"
            detail = f"the document has {pages}, and no page {number}"
            raise Problem("not-found", detail, document_id=document_id, page=number, limit=shown)
        if if_none_match is not None and matches(if_none_match, tag):
            return Response(status_code=304, headers={"ETag": tag, "Cache-Control": headers["Cache-Control"]})
        return FileResponse(shown, media_type=JPEG, headers=headers)

    return routes


def _rotation(view: DocumentView, number: int) -> int | None:
    """How the page was turned when it was recognised; None before that, and for a page that could not be."""
    readings = (view.receipt or {}).get("processing", {}).get("page_readings", ())
    return next((its["rotation_applied"] for its in readings if its["page"] == number), None)
