"""The HTTP side, put together.

    uvicorn -> FastAPI -> Envelope (ids, guarded body, problems) -> routes  -> Reception
       └─────────────────> Envelope ──────────────────────────────> Uploads ─┘   POST /v1/documents

Uploads are plain ASGI: the path that overload hits costs no validation and no parsing, and none of FastAPI's layers.
"""

from __future__ import annotations

from typing import Any, NoReturn

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace import __version__
from headrace.service.edge import Edge
from headrace.service.envelope import Envelope
from headrace.service.openapi import describe
from headrace.service.problems import Problem
from headrace.service.routes import batches, browser, documents, events, ledger, pages, search, system, webhooks
from headrace.service.routes.resumable import PATH, ResumableRoutes
from headrace.service.routes.uploads import Uploads

HOT_PATH = "/v1/documents"
"""What is posted here goes past FastAPI."""

_METHODS = ("DELETE", "GET", "PATCH", "POST")


class Front:
    """The whole app: the hot path, and everything else.

    Args:
        api: FastAPI with its routes.
        hot: takes what is posted to `HOT_PATH`.
    """

    def __init__(self, api: FastAPI, hot: ASGIApp) -> None:
        self.api = api
        self._hot = hot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        is_hot = scope["type"] == "http" and scope["path"] == HOT_PATH and scope["method"] == "POST"
        await (self._hot if is_hot else self.api)(scope, receive, send)


def create_app(edge: Edge) -> Front:
    """The app. It opens nothing and closes nothing: whoever made the reception runs it.

    Args:
        edge: the reception, keys and limits.
    """
    app = FastAPIOffline(  # `/docs` with its scripts from here, not from a CDN
        title="headrace",
        version=__version__,
        description="Receipts in, an ordered and checked ledger out. Durable before it is accepted; honest under load.",
        redoc_url=None,
        redirect_slashes=False,
    )
    uploads = Uploads(edge)
    resumable = ResumableRoutes(edge, uploads)
    app.router.routes.insert(0, Route(HOT_PATH, uploads, methods=["POST"], include_in_schema=False))
    app.router.routes.insert(
        1, Route("/v1/batches/{batch_id:int}/documents", uploads, methods=["POST"], include_in_schema=False)
    )
    app.router.routes.insert(2, Route(PATH, resumable, include_in_schema=False))
    app.router.routes.insert(3, Route(PATH + "/{upload_id}", resumable, include_in_schema=False))
    for part in (documents, pages, batches, search, ledger, events, webhooks, system):
        app.include_router(part.router(edge))
    app.include_router(browser.router())
    app.add_exception_handler(HTTPException, _outward)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_middleware(Envelope, edge=edge)
    app.state.edge = edge

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = describe(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    return Front(app, Envelope(uploads, edge))


async def _outward(request: Request, error: Exception) -> NoReturn:
    """Lets `Envelope` answer, as it does for everything else; only it says first what would be allowed."""
    if isinstance(error, HTTPException) and not isinstance(error, Problem) and error.status_code == 405:
        allowed = [method for method in _METHODS if _serves(request, method)]
        allow = {"Allow": ", ".join(allowed)}
        raise Problem("method-not-allowed", f"only {allow['Allow']} here", headers=allow) from error
    raise error


def _serves(request: Request, method: str) -> bool:
    scope = dict(request.scope) | {"method": method}
    return any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes)


async def _not_valid(request: Request, error: Exception) -> NoReturn:
    assert isinstance(error, RequestValidationError)
    errors = [
        {"pointer": "/" + "/".join(map(str, problem["loc"])), "detail": str(problem["msg"])}
        for problem in error.errors()[:16]
    ]
    raise Problem("malformed-request", "; ".join(e["detail"] for e in errors), errors=errors) from error
