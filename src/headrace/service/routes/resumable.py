"""`/v1/uploads`: documents that may come in several requests, and go on after a connection broke. Plain ASGI.

The answer to the request that completes an upload is that of `POST /v1/documents`. No interim response (104) is sent,
since uvicorn has no way to: a client learns the address of its upload from the answer to a first request without bytes.
"""

from __future__ import annotations

import re

from starlette.types import Message, Receive, Scope, Send

from headrace.flow import Refusal
from headrace.service.auth import Role
from headrace.service.edge import EXCHANGE, Edge, Exchange
from headrace.service.errors import LengthMismatch, PartMismatch
from headrace.service.limits import ClientGone
from headrace.service.problems import Problem, malformed, problem_of
from headrace.service.request_headers import prefer_wait_s
from headrace.service.routes.uploads import MOST, Uploads, answer_document, told_of_document
from headrace.service.upload_dialects import Dialect, Headers, dialect_of, limit_header, options_headers
from headrace.service.upload_files import Phase
from headrace.service.upload_rules import Upload
from headrace.service.views import Submission

PATH = "/v1/uploads"
_KNOWN = frozenset({"class", "filename", "id", "batch"})
_BATCH = re.compile(r"\d{1,16}")
_COLLECTION, _ONE = "OPTIONS, POST", "DELETE, HEAD, OPTIONS, PATCH"


class ResumableRoutes:
    """An ASGI app for uploads; `upload_id` is among the path parameters of those that were begun.

    Args:
        edge: what all routes share.
        documents: what takes a document that comes whole.
    """

    def __init__(self, edge: Edge, documents: Uploads) -> None:
        self._edge = edge
        self._documents = documents

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begins an upload, or does something with one."""
        exchange: Exchange = scope[EXCHANGE]
        principal = exchange.principal(Role.SUBMIT)
        upload_id: str | None = scope.get("path_params", {}).get("upload_id")
        method: str = scope["method"]
        if method == "OPTIONS":
            allowed = [(b"allow", (_COLLECTION if upload_id is None else _ONE).encode())]
            age_s = int(self._edge.reception.limits.upload_keep_s)
            await _answer(send, 204, allowed + options_headers(self._edge.document_bytes, age_s))
            return
        dialect = dialect_of(exchange)
        if dialect.completes_at_length and method == "POST":
            method = exchange.header(b"x-http-method-override").strip().upper() or method
        upload: Upload | None = None
        try:
            if upload_id is None:
                _require_method(method, _COLLECTION)
                await self._begin(scope, receive, send, exchange, dialect)
                return
            _require_method(method, _ONE)
            upload = await self._edge.reception.uploads.find(principal.sees, upload_id)
            if method == "PATCH":
                await self._append(send, exchange, dialect, upload)
            elif method == "HEAD":
                await self._look(send, dialect, upload)
            else:
                await self._edge.reception.uploads.cancel(upload)
                await _answer(send, 204, [(b"tus-resumable", b"1.0.0")] if dialect.completes_at_length else [])
        except ClientGone:
            raise
        except Exception as error:
            raise self._problem(error, dialect, upload) from error

    async def _begin(self, scope: Scope, receive: Receive, send: Send, exchange: Exchange, dialect: Dialect) -> None:
        beginning = dialect.beginning(exchange)
        submission = self._submission(scope, exchange, beginning.filename)
        if beginning.whole:
            await self._whole(scope, receive, send, submission, beginning.length_bytes)
            return
        reception = self._edge.reception
        if submission.batch_id is not None and await reception.batch(submission.client, submission.batch_id) is None:
            raise Problem("not-found", f"there is no batch {submission.batch_id}")
        exchange.body.allow(self._edge.document_bytes)
        upload = await reception.uploads.create(submission, beginning.length_bytes, beginning.metadata)
        try:
            if beginning.part is not None:
                await reception.uploads.append(upload, beginning.part, exchange.body.__aiter__())
        except BaseException:
            if upload.kept.phase is not Phase.COMPLETE:  # its address was told to nobody
                await reception.uploads.cancel(upload)
            raise
        location = (b"location", f"{PATH}/{upload.kept.upload_id}".encode())
        await _answer(send, 201, [location, *dialect.standing(upload, self._edge.document_bytes)])

    async def _whole(
        self, scope: Scope, receive: Receive, send: Send, submission: Submission, length_bytes: int | None
    ) -> None:
        """All of it in the first request: there is nothing to resume, so it is an upload as any other."""
        declared = submission.declared_bytes
        if length_bytes is not None and declared is not None and length_bytes != declared:
            raise LengthMismatch(f"Upload-Length says {length_bytes} bytes, and {declared} come")

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"upload-complete", b"?1")]
            await send(message)

        told = b"&".join(pair for pair in scope["query_string"].split(b"&") if not pair.startswith(b"batch="))
        params = {} if submission.batch_id is None else {"batch_id": submission.batch_id}
        await self._documents({**scope, "query_string": told, "path_params": params}, receive, answer)

    def _submission(self, scope: Scope, exchange: Exchange, filename: str) -> Submission:
        submission, query = told_of_document(self._edge, scope, exchange, known=_KNOWN, digest_of=(b"repr-digest",))
        batch_id = None
        if "batch" in query:
            if not _BATCH.fullmatch(query["batch"]) or not 0 < int(query["batch"]) <= MOST:
                raise malformed("/query/batch", "batch is the number of an open batch")
            batch_id = int(query["batch"])
        return Submission(
            submission.client,
            submission.service_class,
            submission.filename or filename,
            submission.declared_bytes,
            submission.sha256,
            submission.idempotency_key,
            batch_id,
            submission.external_id,
        )

    async def _append(self, send: Send, exchange: Exchange, dialect: Dialect, upload: Upload) -> None:
        part = dialect.part(exchange)
        exchange.body.allow(self._edge.document_bytes)
        accepted = await self._edge.reception.uploads.append(upload, part, exchange.body.__aiter__())
        standing = dialect.standing(upload, self._edge.document_bytes)
        if accepted is None or dialect.completes_at_length:
            await _answer(send, 204, standing)
            return
        wait_s = prefer_wait_s(exchange.header(b"prefer"))
        if wait_s is not None:
            wait_s = min(wait_s, int(self._edge.limits.requests.wait_s))
        submission = upload.submission(accepted.size_bytes)
        await answer_document(exchange, send, submission, accepted, wait_s, standing)

    async def _look(self, send: Send, dialect: Dialect, upload: Upload) -> None:
        await self._edge.reception.uploads.settle(upload, completes=dialect.completes_at_length)
        standing = dialect.standing(upload, self._edge.document_bytes) + dialect.looked(upload)
        await _answer(send, dialect.looked_status, [*standing, (b"cache-control", b"no-store")])

    def _problem(self, error: Exception, dialect: Dialect, upload: Upload | None) -> Exception:
        """The error as the dialect says it, with where the upload stands now."""
        if isinstance(error, Refusal) and upload is not None:
            error = self._edge.refuse(error, upload.submission(None))
        problem = problem_of(error)
        if problem.status_code == 500:
            return error
        headers: dict[str, str] = {}
        if upload is not None and problem.status_code not in (404, 410):
            standing = dialect.standing(upload, self._edge.document_bytes)
            headers = {name.decode().title(): value.decode("latin-1") for name, value in standing}
        elif problem.status_code == 413:
            age_s = int(self._edge.reception.limits.upload_keep_s)
            headers = {"Upload-Limit": limit_header(self._edge.document_bytes, age_s)}
        if problem.code == "completed-upload" and upload is not None:
            headers["Location"] = f"/v1/documents/{upload.kept.document_id}"
        problem.headers = {**headers, **(problem.headers or {})}
        return dialect.says(problem, of_part=isinstance(error, PartMismatch))


def _require_method(method: str, allowed: str) -> None:
    if method not in allowed.split(", "):
        raise Problem("method-not-allowed", f"only {allowed} here", headers={"Allow": allowed})


async def _answer(send: Send, status: int, headers: Headers) -> None:
    length = [] if status == 204 else [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": headers + length})
    await send({"type": "http.response.body", "body": b""})
