"""`POST /v1/documents` and `POST /v1/batches/{id}/documents`: one document, raw or as a form. Plain ASGI.

The hot path of the service, and the one that overload hits: whether a document is taken is decided from the headers
alone. Nothing of the body is read, parsed or copied before; a client that sent `Expect: 100-continue` keeps its bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from headrace.flow import Admitted, Permit, Refusal, ServiceClass
from headrace.service import replies
from headrace.service.auth import Role
from headrace.service.batch_body import MULTIPART
from headrace.service.edge import EXCHANGE, Edge, Exchange
from headrace.service.envelope import json_bytes
from headrace.service.multipart_body import Part, boundary_of, read_parts
from headrace.service.problems import Problem, malformed, retry_after
from headrace.service.reception import Accepted, Submission
from headrace.service.request_headers import display_name, filename, idempotency_key, prefer_wait_s, promised_sha256

_FORM_EXTRA_BYTES = 1 << 16
"""What the parts around the file may take in a form."""

_POLL_S = 1.0
MOST = 2**53
"""No id is larger: it would not fit a database, nor be exact in JavaScript."""

_KNOWN = frozenset({"class", "filename", "id"})


class Uploads:
    """An ASGI app for one document.

    Args:
        edge: what all routes share.
    """

    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Takes one document, or says why not."""
        exchange: Exchange = scope[EXCHANGE]
        submission, wait_s, deadline_s = self._told(scope, exchange)
        permit = await self._admitted(exchange, submission, deadline_s)
        # From here on the permit is ended by whoever has it: `accept`, or we if it never gets there.
        submission, accepted = await self._accept(exchange, submission, permit)
        await answer_document(exchange, send, submission, accepted, wait_s)

    def _told(self, scope: Scope, exchange: Exchange) -> tuple[Submission, int | None, float | None]:
        """What the client says, from its headers and its address; nothing is read."""
        is_form = _is_form(exchange)
        # The digest of a form is that of the form; promised bytes are those of the document.
        digests = () if is_form else (b"repr-digest", b"content-digest")
        submission, _ = told_of_document(self._edge, scope, exchange, known=_KNOWN, digest_of=digests)
        exchange.body.allow(self._edge.document_bytes + (_FORM_EXTRA_BYTES if is_form else 0))
        headers = exchange.headers
        wait_s = prefer_wait_s(exchange.header(b"prefer")) if b"prefer" in headers else None
        if wait_s is not None:
            wait_s = min(wait_s, int(self._edge.limits.requests.wait_s))
        deadline_s = _deadline_s(exchange.header(b"x-deadline-ms")) if b"x-deadline-ms" in headers else None
        return submission, wait_s, deadline_s

    async def _admitted(self, exchange: Exchange, submission: Submission, deadline_s: float | None) -> Permit:
        reception = self._edge.reception
        decision: Admitted | Refusal
        if deadline_s is None:
            decision = reception.decide(submission)
        else:
            decision = await exchange.while_there(reception.admit(submission, deadline_s))
        if isinstance(decision, Refusal):
            raise self._edge.refuse(decision, submission)
        return decision.permit

    async def _accept(self, exchange: Exchange, submission: Submission, permit: Permit) -> tuple[Submission, Accepted]:
        reception = self._edge.reception
        if not _is_form(exchange):
            return submission, await reception.accept(submission, permit, exchange.body.__aiter__())
        try:
            boundary = boundary_of(exchange.header(b"content-type"))
            parts = read_parts(exchange.body, boundary, most=exchange.body.limits.parts)
            part = await _first_file(parts)
        except BaseException:
            permit.ignore()
            raise
        # How long the file inside of a form is, is not known before it was read.
        submission = replace(submission, filename=submission.filename or part.filename, declared_bytes=None)
        return submission, await reception.accept(submission, permit, _whole_form(part, parts))


def told_of_document(
    edge: Edge, scope: Scope, exchange: Exchange, *, known: frozenset[str], digest_of: tuple[bytes, ...]
) -> tuple[Submission, dict[str, str]]:
    """What the client says of a document, from the headers and the address; and the parameters of the address.

    Args:
        edge, scope, exchange: of the request.
        known: the parameters that there are here.
        digest_of: the headers in which it promises what the bytes of the document are.

    Raises:
        Problem: 400, 401, 403, 406.
    """
    principal = exchange.principal(Role.SUBMIT)
    exchange.accepts("application/json")
    query = _query(scope["query_string"], known)
    headers = exchange.headers
    key = idempotency_key(exchange.header(b"idempotency-key")) if b"idempotency-key" in headers else None
    if key is None and edge.limits.requests.require_idempotency_key:
        raise Problem("idempotency-key-missing", 'send Idempotency-Key: "..." with a value of your own')
    digest = None
    if any(name in headers for name in digest_of):
        promised = [exchange.header(name) if name in digest_of else "" for name in (b"repr-digest", b"content-digest")]
        digest = promised_sha256(*promised)
    name = query.get("filename", "")
    if not name and b"content-disposition" in headers:
        name = filename(exchange.header(b"content-disposition"))
    submission = Submission(
        client=principal.client,
        service_class=_class(query.get("class", "interactive")),
        filename=display_name(name) if name else "",
        declared_bytes=exchange.body.declared_bytes,
        sha256=digest,
        idempotency_key=key,
        batch_id=_batch_id(scope),
        external_id=query.get("id"),
    )
    return submission, query


async def answer_document(
    exchange: Exchange,
    send: Send,
    submission: Submission,
    accepted: Accepted,
    wait_s: int | None,
    more: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    """The answer to whoever handed a document in: 200 with the result when it is ready in time, else 202.

    Args:
        exchange, send: of the request.
        submission, accepted: what was handed in, and where it is.
        wait_s: how long to wait for the result; None: not at all.
        more: further headers.
    """
    reception = exchange.edge.reception
    location = f"/v1/documents/{accepted.document_id}"
    headers = [(b"content-type", b"application/json"), (b"location", location.encode()), *more]
    if accepted.replayed:
        headers.append((b"idempotency-replayed", b"true"))
    status, tag = 202, None
    reply = None
    done = False
    if wait_s is not None:
        done = await exchange.while_there(reception.wait_for(accepted.document_id, float(wait_s)))
    if done or accepted.replayed:
        view = await reception.document(submission.client, accepted.document_id)
        if view is not None:
            reply, tag = replies.document(view), replies.entity_tag(view)
            status = 200 if done and view.done else 202
    if reply is None:
        reply = replies.accepted(accepted, submission.service_class, submission.filename)
    if wait_s is not None:
        headers.append((b"preference-applied", f"wait={wait_s}".encode()))
    if status == 202:
        headers.append((b"retry-after", str(retry_after(reply.get("eta_seconds", _POLL_S))).encode()))
    if tag is not None:
        headers.append((b"etag", tag.encode()))
    content = json_bytes(reply)
    headers.append((b"content-length", str(len(content)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def _first_file(parts: AsyncIterator[Part]) -> Part:
    async for part in parts:
        if _is_file(part):
            return part
    raise malformed("/file", 'the form has no file: send it as the field "file"')


async def _whole_form(part: Part, parts: AsyncIterator[Part]) -> AsyncIterator[bytes]:
    """The bytes of the file, and then the rest of the form: only a form that ends as it should is accepted."""
    async for piece in part.pieces:
        yield piece
    async for other in parts:
        if _is_file(other):
            raise malformed("/file", "the form has more than one file: send a batch, or one after the other")


def _is_form(exchange: Exchange) -> bool:
    return exchange.headers.get(b"content-type", b"").lower().startswith(MULTIPART.encode())


def _is_file(part: Part) -> bool:
    return part.name == "file" or bool(part.filename)


def _query(query_string: bytes, known: frozenset[str]) -> dict[str, str]:
    if not query_string:
        return {}
    try:
        query = dict(parse_qsl(query_string.decode("latin-1"), keep_blank_values=True, max_num_fields=16))
    except ValueError as error:
        raise malformed("/query", str(error)) from error
    if unknown := sorted(query.keys() - known):
        raise malformed(f"/query/{unknown[0]}", f"there is no {unknown[0]} here; there are {', '.join(sorted(known))}")
    return query


def _class(name: str) -> ServiceClass:
    found = replies.CLASSES.get(name)
    if found is None:
        raise malformed("/query/class", f"class is one of {', '.join(replies.CLASSES)}")
    return found


def _deadline_s(header: str) -> float:
    if not header.isascii() or not header.isdigit() or not 0 < int(header[:12]) <= 3_600_000:
        raise malformed("/headers/X-Deadline-Ms", "X-Deadline-Ms is a whole number from 1 to 3600000")
    return int(header) / 1000


def _batch_id(scope: Scope) -> int | None:
    told: int | None = scope.get("path_params", {}).get("batch_id")
    if told is not None and told > MOST:
        raise Problem("not-found", f"there is no batch {told}")
    return told
