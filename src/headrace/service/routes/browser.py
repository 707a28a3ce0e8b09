"""The page at `/`: how full the service is, for a person with a browser."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headrace.service import browser
from headrace.service.edge import exchange_of


def router() -> APIRouter:
    """The route of the page. It needs no key: it shows nothing by itself."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def get_status(request: Request) -> Response:
        exchange_of(request).accepts("text/html")
        return Response(browser.status_page(), headers=browser.headers(with_script=True))

    return routes
