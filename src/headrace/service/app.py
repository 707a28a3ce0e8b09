"""The HTTP side, put together.

    uvicorn -> FastAPI -> Envelope (ids, guarded body, problems) -> routes -> Reception

Uploads are plain ASGI routes in front of the others: the path that overload hits costs no validation and no parsing.
"""

from __future__ import annotations

from typing import Any, NoReturn

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from headrace import __version__
from headrace.service.edge import Edge
from headrace.service.envelope import Envelope
from headrace.service.openapi import describe
from headrace.service.problems import Problem
from headrace.service.routes import batches, documents, events, ledger, system, webhooks
from headrace.service.routes.resumable import PATH, ResumableRoutes
from headrace.service.routes.uploads import Uploads

_METHODS = ("DELETE", "GET", "PATCH", "POST")


def create_app(edge: Edge) -> FastAPI:
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
    app.router.routes.insert(0, Route("/v1/documents", uploads, methods=["POST"], include_in_schema=False))
    app.router.routes.insert(
        1, Route("/v1/batches/{batch_id:int}/documents", uploads, methods=["POST"], include_in_schema=False)
    )
    app.router.routes.insert(2, Route(PATH, resumable, include_in_schema=False))
    app.router.routes.insert(3, Route(PATH + "/{upload_id}", resumable, include_in_schema=False))
    for part in (documents, batches, ledger, events, webhooks, system):
        app.include_router(part.router(edge))
    app.add_exception_handler(HTTPException, _outward)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_middleware(Envelope, edge=edge, hot={("POST", "/v1/documents"): uploads})
    app.state.edge = edge

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = describe(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    return app


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
