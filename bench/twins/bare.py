"""The limit of the server: a bare ASGI handler on uvicorn that reads the body and answers. Nothing is kept.

python bench/twins/bare.py --port P
"""

from __future__ import annotations

import argparse
from typing import Any

import uvicorn

_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"2")]


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 202, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": b"{}"})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    uvicorn.run(
        app,
        port=options.port,
        http="httptools",
        loop="uvloop",  # as headrace has it
        log_level="warning",
        access_log=False,
        lifespan="off",
    )
