"""A reception in a workspace of its own: real SQLite, real worker processes, the engine that reads nothing."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headrace.flow import Admitted, ServiceClass
from headrace.flow.machine import Machine
from headrace.ingest.bounds import Bounds, derive
from headrace.ingest.engine_costs import ENGINE_COSTS
from headrace.ingest.settings import RunSettings
from headrace.service.reception import Accepted, Reception, ServiceLimits, Submission

DEADLINE_S = 60.0
INTERACTIVE, BATCH, BACKGROUND = ServiceClass.INTERACTIVE, ServiceClass.BATCH, ServiceClass.BACKGROUND


def jpeg(number: int | str = 0, size_bytes: int = 2000) -> bytes:
    """Bytes that begin like a JPEG and are like no other; the null engine wants no more."""
    seed = hashlib.sha256(str(number).encode()).digest()
    return b"\xff\xd8\xff\xe0" + (seed * (size_bytes // len(seed) + 1))[: size_bytes - 4]


def settings_for(workspace: Path, **others: Any) -> RunSettings:
    return RunSettings(**{"workspace": workspace, "engine": "null", "workers": 1, **others})


def bounds_for(settings: RunSettings) -> Bounds:
    return derive(settings, Machine.read(), ENGINE_COSTS[settings.engine])


@asynccontextmanager
async def serving(
    workspace: Path, limits: ServiceLimits | None = None, *, stop_s: float = 20.0, **others: Any
) -> AsyncIterator[Reception]:
    settings = settings_for(workspace, **others)
    reception = Reception(settings, bounds_for(settings), limits or ServiceLimits(min_free_bytes=0))
    task = asyncio.create_task(reception.run())
    try:
        await reception.opened()
        yield reception
    finally:
        if not task.done():
            await reception.stop(stop_s)
        await task


async def body_of(content: bytes, piece_bytes: int = 65536) -> AsyncIterator[bytes]:
    for start in range(0, len(content), piece_bytes):
        yield content[start : start + piece_bytes]


async def send(reception: Reception, content: bytes, client: str = "", **told: Any) -> Accepted:
    """Sends one document, waiting for room."""
    submission = Submission(client, told.pop("service_class", INTERACTIVE), **told)
    decision = await reception.admit(submission, DEADLINE_S)
    assert isinstance(decision, Admitted), decision
    return await reception.accept(submission, decision.permit, body_of(content))


async def done(reception: Reception, accepted: Accepted) -> Any:
    assert await reception.wait_for(accepted.document_id, DEADLINE_S)
    view = await reception.document(None, accepted.document_id)
    assert view is not None
    return view


async def until(is_so: Callable[[], bool]) -> None:
    """Waits until something is so that nobody rings a bell for, such as a file that is gone."""
    async with asyncio.timeout(DEADLINE_S):
        while not is_so():  # noqa: ASYNC110 - the file system has no event
            await asyncio.sleep(0.01)
