"""What surrounds every request: ids and trace, the guarded body, and every error as a problem. Plain ASGI.

Sits outside of routing, so it also answers for what no route ever saw.
"""

from __future__ import annotations

import json
import logging
import random
import re
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.flow import Closed
from headrace.service import browser
from headrace.service.edge import EXCHANGE, Edge, Exchange
from headrace.service.limits import Body, ClientGone
from headrace.service.problems import MEDIA_TYPE, Problem, problem_of, refused
from headrace.service.request_headers import request_id, trace_of

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # `json.dumps` makes one for each call
_IDS = random.Random()
_LOG = logging.getLogger("headrace.service")
_LINGER_BYTES, _LINGER_S = 1 << 22, 2.0
_SECRET_IN_QUERY = re.compile(rb"api_?key=|access_token=|hr_[0-9a-f]{8}_")  # what only looks like a name is one


class Envelope:
    """Wraps an ASGI app. See the top of this file.

    Args:
        app: what answers.
        edge: what all routes share.
    """

    def __init__(self, app: ASGIApp, edge: Edge) -> None:
        self._app = app
        self._edge = edge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, whatever happens inside."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD" and not _has_own_head(scope["path"]):
            scope = {**scope, "method": "GET"}  # the server leaves the body away
        headers: dict[bytes, bytes] = dict(scope["headers"])
        trace = _trace(headers)
        trace_id, span_id, flags = trace
        told = request_id(headers.get(b"x-request-id", b"").decode("latin-1")) or trace_id
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                if exchange is not None:
                    exchange.body.let_be()
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", told.encode()),
                    (b"traceparent", f"00-{trace_id}-{span_id}-{flags}".encode()),
                ]
            await send(message)

        exchange: Exchange | None = None
        try:
            body = Body(receive, headers, self._edge.limits.requests)
            exchange = Exchange(self._edge, scope, headers, body, trace, told)
            scope[EXCHANGE] = exchange
            if _SECRET_IN_QUERY.search(scope["query_string"]):
                raise Problem("malformed-request", "a key in an address ends up in logs: send it in a header")
            if _needs_key(scope):
                exchange.principal()  # before any body is looked at; what the key is for is the route's to say
            await self._app(scope, body.receive, answer)
        except ClientGone:
            return
        except Exception as error:
            problem = problem_of(error)
            if problem.status_code == 500 and self._edge.reception.health().state == "stopped":
                problem = refused(Closed("the service has stopped"))  # its store is closed; this is no bug
            if problem.status_code == 500:
                _LOG.exception("trace_id=%s %s %s", trace_id, scope["method"], scope["path"])
                if self._edge.debug:
                    problem.members["debug"] = f"{type(error).__name__}: {error}"
            if started:
                raise  # too late for another answer: the server hangs up, so that nobody takes this one for whole
            await send_problem(problem, scope, answer, self._edge, trace_id, exchange)


def _trace(headers: dict[bytes, bytes]) -> tuple[str, str, str]:
    """Trace id, span id and flags. Names, not secrets: drawn without a system call."""
    drawn = f"{_IDS.getrandbits(192):048x}"
    if b"traceparent" in headers and (told := trace_of(headers[b"traceparent"].decode("latin-1"))):
        return told[0], drawn[32:], told[1]
    return drawn[:32], drawn[32:], "00"


def _has_own_head(path: str) -> bool:
    """What streams would never end, and what an upload answers to HEAD is no GET without its body."""
    return path == "/v1/events" or path.endswith("/results") or path.startswith("/v1/uploads")


def _needs_key(scope: Scope) -> bool:
    path: str = scope["path"]
    with_ticket = path == "/v1/events" and b"ticket=" in scope["query_string"]
    return path.startswith("/v1/") and not with_ticket


async def send_problem(
    problem: Problem, scope: Scope, send: Send, edge: Edge, trace_id: str, exchange: Exchange | None
) -> None:
    """Answers with a problem. Costs no more than its JSON, as this is what overload is answered with."""
    edge.answers[problem.code] += 1
    accept = next((value for name, value in scope["headers"] if name == b"accept"), b"")
    told = {"Content-Type": MEDIA_TYPE}
    if b"text/html" in accept and browser.wants_page(accept.decode("latin-1")):
        told = browser.headers(with_script=False)
        content = browser.problem_page(problem, method=scope["method"], instance=scope["path"], trace_id=trace_id)
    else:
        content = problem.body(instance=scope["path"], trace_id=trace_id)
    told |= {"Vary": "Accept", **(problem.headers or {})}
    headers = [
        (b"content-length", str(len(content)).encode()),
        *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in told.items()),
    ]
    await send({"type": "http.response.start", "status": problem.status_code, "headers": headers})
    lingers = problem.status_code in (408, 413) and exchange is not None and b"expect" not in exchange.headers
    if lingers and scope["method"] != "HEAD":
        await send({"type": "http.response.body", "body": content, "more_body": True})
        assert exchange is not None
        # Hanging up on somebody who is still sending resets the connection, and takes our answer with it.
        await exchange.body.discard(_LINGER_BYTES, _LINGER_S if problem.status_code == 413 else 0.1)
        await send({"type": "http.response.body", "body": b""})
    else:
        await send({"type": "http.response.body", "body": content})


def json_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8."""
    return _JSON.encode(value).encode("utf-8", "backslashreplace")
