"""The usual first version: FastAPI, an `asyncio.Queue` without a bound, tasks that take from it. 202 at once, always.

    python bench/twins/unbounded.py --port P --workers 2 --service-time 0.04

Nothing is kept on disk: what was acknowledged is gone with the process.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from work import parse, work, workers  # type: ignore[import-not-found]

options = parse(__doc__)
queue: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
done: list[tuple[str, float]] = []


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    pool, loop = workers(options), asyncio.get_running_loop()

    async def take() -> None:
        while True:
            name, body = await queue.get()
            done.append((name, await loop.run_in_executor(pool, work, body)))

    tasks = [asyncio.create_task(take()) for _ in range(options.workers)]
    yield
    for task in tasks:
        task.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/v1/documents", status_code=202)
async def submit(request: Request) -> dict[str, str]:
    body = await request.body()
    name = uuid.uuid4().hex
    queue.put_nowait((name, body))
    return {"id": name}


@app.get("/done")
async def get_done() -> Any:
    return done


@app.get("/livez")
async def live() -> dict[str, int]:
    return {"depth": queue.qsize()}


if __name__ == "__main__":
    uvicorn.run(app, port=options.port, log_level="warning", access_log=False)
