"""The common recipe against overload: FastAPI, a bounded `asyncio.Queue`, a semaphore around the work, 503 when full.

    python bench/twins/bounded.py --port P --workers 2 --service-time 0.04 --most 100

As in the recipe, the body is read before the handler can refuse, `Retry-After` is a constant, and nothing is on disk.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from work import parse, work, workers  # type: ignore[import-not-found]

options = parse(__doc__)
queue: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(options.most)
semaphore = asyncio.Semaphore(options.workers)
done: list[tuple[str, float]] = []


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    pool, loop = workers(options), asyncio.get_running_loop()

    async def one(name: str, body: bytes) -> None:
        try:
            done.append((name, await loop.run_in_executor(pool, work, body)))
        finally:
            semaphore.release()

    async def dispatch() -> None:
        running: set[asyncio.Task[None]] = set()
        while True:
            await semaphore.acquire()
            name, body = await queue.get()
            task = asyncio.create_task(one(name, body))
            running.add(task)
            task.add_done_callback(running.discard)

    task = asyncio.create_task(dispatch())
    yield
    task.cancel()


app = FastAPI(lifespan=lifespan)


@app.post("/v1/documents", status_code=202)
async def submit(request: Request) -> dict[str, str]:
    body = await request.body()
    name = uuid.uuid4().hex
    try:
        queue.put_nowait((name, body))
    except asyncio.QueueFull:
        raise HTTPException(503, "overloaded", headers={"Retry-After": "1"}) from None
    return {"id": name}


@app.get("/done")
async def get_done() -> Any:
    return done


@app.get("/livez")
async def live() -> dict[str, int]:
    return {"depth": queue.qsize()}


if __name__ == "__main__":
    uvicorn.run(app, port=options.port, log_level="warning", access_log=False)
