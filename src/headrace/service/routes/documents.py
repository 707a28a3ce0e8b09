"""One document: how far it is, its bytes, its review, and its end."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import FileResponse

from headrace.ocr.media import HEAD_BYTES, media_type
from headrace.service import replies, reply_models
from headrace.service.auth import Principal, Role
from headrace.service.edge import Edge, exchange_of
from headrace.service.envelope import json_bytes
from headrace.service.openapi import answers
from headrace.service.problems import Problem, malformed
from headrace.service.reception import DocumentView, EditConflict
from headrace.service.request_headers import attachment, digest_header, matches, version_of

DocumentId = Annotated[str, Path(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
IfMatch = Annotated[str | None, Header(alias="If-Match", max_length=256)]
_DOCUMENT = answers({200: reply_models.DocumentReply}, 400)


class Review(BaseModel):
    """What a reviewer wants to say."""

    model_config = ConfigDict(extra="forbid")

    note: str = Field("", max_length=2000)


def router(edge: Edge) -> APIRouter:
    """The routes of one document; handing one in is `uploads`."""
    routes = APIRouter(prefix="/v1/documents", tags=["documents"])
    reception = edge.reception

    @routes.get("/{document_id}", responses=_DOCUMENT | {304: {"description": "Unchanged"}})
    async def get_document(
        request: Request,
        document_id: DocumentId,
        if_none_match: Annotated[str | None, Header(alias="If-None-Match", max_length=1024)] = None,
    ) -> Response:
        """State, stage, attempt, position, failure; and the receipt when there is one."""
        exchange = exchange_of(request)
        client = exchange.principal(Role.READ).sees
        exchange.accepts("application/json")
        view = await existing(edge, client, document_id)
        if if_none_match is not None and matches(if_none_match, replies.entity_tag(view)):
            return Response(status_code=304, headers={"ETag": replies.entity_tag(view), "Cache-Control": "no-cache"})
        return _document_response(view)

    @routes.get(
        "/{document_id}/file",
        responses=answers({200: None}, 400, 410) | {200: {"description": "The bytes", "content": {"*/*": {}}}},
    )
    async def get_file(request: Request, document_id: DocumentId) -> Response:
        """The original bytes."""
        exchange = exchange_of(request)
        client = exchange.principal(Role.READ).sees
        view = await existing(edge, client, document_id)
        path = await reception.original(client, document_id)
        kind = None if path is None else await asyncio.to_thread(_kind_of, path)
        if path is None or kind is None:
            raise Problem("result-expired", "the bytes of this document are not kept any more", document_id=document_id)
        headers = {
            "Content-Disposition": attachment(view.filename or document_id),
            "Repr-Digest": digest_header(view.sha256),
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return FileResponse(os.fsdecode(path), media_type=kind, headers=headers)

    @routes.patch(
        "/{document_id}/receipt",
        responses=answers({200: reply_models.DocumentReply}, 400, 409, 412, 413, 422, 428),
    )
    async def correct_receipt(
        request: Request,
        document_id: DocumentId,
        changes: Annotated[dict[str, Any], Body(media_type="application/merge-patch+json")],
        if_match: IfMatch = None,
    ) -> Response:
        """A correction as a JSON merge patch: a new entry of the ledger, never an overwrite. Needs If-Match."""
        exchange = exchange_of(request)
        principal = exchange.principal(Role.REVIEW)
        exchange.accepts("application/json")
        view = await existing(edge, principal.sees, document_id)
        if if_match is None:
            raise Problem(
                "precondition-required",
                "send If-Match with the ETag of the receipt that you have seen",
                headers={"ETag": replies.entity_tag(view)},
            )
        version = _version(if_match, view)
        if not changes:
            raise malformed("", "the correction changes nothing")
        corrected = await reception.correct(principal.sees, document_id, changes, version, principal.who)
        return _document_response(corrected)

    async def review(
        principal: Principal, document_id: str, note: str, if_match: str | None, *, approves: bool
    ) -> Response:
        view = await existing(edge, principal.sees, document_id)
        version = None if if_match is None else _version(if_match, view)
        decide = reception.approve if approves else reception.reject
        return _document_response(await decide(principal.sees, document_id, principal.who, note, version))

    @routes.post("/{document_id}:approve", responses=answers({200: reply_models.DocumentReply}, 400, 409, 412, 413))
    async def approve(
        request: Request, document_id: DocumentId, told: Review | None = None, if_match: IfMatch = None
    ) -> Response:
        """A person approves the receipt."""
        principal = exchange_of(request).principal(Role.REVIEW)
        exchange_of(request).accepts("application/json")
        return await review(principal, document_id, told.note if told else "", if_match, approves=True)

    @routes.post("/{document_id}:reject", responses=answers({200: reply_models.DocumentReply}, 400, 409, 412, 413))
    async def reject(
        request: Request, document_id: DocumentId, told: Review | None = None, if_match: IfMatch = None
    ) -> Response:
        """A person rejects the receipt."""
        principal = exchange_of(request).principal(Role.REVIEW)
        exchange_of(request).accepts("application/json")
        return await review(principal, document_id, told.note if told else "", if_match, approves=False)

    @routes.post(
        "/{document_id}:replay", status_code=202, responses=answers({202: reply_models.DocumentReply}, 400, 409, 429)
    )
    async def replay(request: Request, document_id: DocumentId) -> Response:
        """Runs what failed again, as a new document."""
        principal = exchange_of(request).principal(Role.REVIEW)
        exchange_of(request).accepts("application/json")
        view = await reception.replay(principal.sees, document_id)
        return _document_response(view, 202)

    @routes.delete("/{document_id}", status_code=204, responses=answers({204: None}, 400, 409))
    async def cancel(request: Request, document_id: DocumentId) -> Response:
        """Ends a document that is not done yet."""
        principal = exchange_of(request).principal(Role.SUBMIT)
        await reception.cancel(principal.sees, document_id)
        return Response(status_code=204)

    return routes


async def existing(edge: Edge, client: str | None, document_id: str) -> DocumentView:
    """The document, if there is one that this client may see. Raises Problem: 404."""
    view = await edge.reception.document(client, document_id)
    if view is None:
        raise Problem("not-found", f"there is no document {document_id}", document_id=document_id)
    return view


def _kind_of(path: bytes) -> str | None:
    try:
        with open(path, "rb") as file:
            return media_type(file.read(HEAD_BYTES))
    except OSError:
        return None


def _version(if_match: str, view: DocumentView) -> int:
    try:
        version = version_of(if_match)
    except Problem as problem:
        problem.headers = {"ETag": replies.entity_tag(view)}
        raise
    if version is not None and version != view.version:
        raise EditConflict("somebody else changed it first; read it again", view.version)
    return view.version if version is None else version


def _document_response(view: DocumentView, status: int = 200) -> Response:
    headers = {"ETag": replies.entity_tag(view), "Cache-Control": "no-cache"}
    if status == 202:
        headers |= {"Location": f"/v1/documents/{view.document_id}", "Retry-After": "1"}
    return Response(json_bytes(replies.document(view)), status, media_type="application/json", headers=headers)
