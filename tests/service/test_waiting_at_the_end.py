"""Who waits for a result or for events when the service ends is answered at once, and not left to a timeout."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from faulty_reading import faulty_pool
from service_support import DEADLINE_S, jpeg, send, serving, until

from headrace.service import house
from headrace.service.edge import Edge
from headrace.service.routes.events import _stream


@pytest.fixture(autouse=True)
def _faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "worker_pool", faulty_pool)


def test_who_waits_for_a_document_that_is_handed_back_is_told_when_the_service_ends(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            runs = await send(reception, jpeg("runs"), filename="hang")
            await until(lambda: reception._pool.statistics().workers[0].state == "busy")
            waits = [asyncio.create_task(reception.wait_for(runs.document_id, 3600.0)) for _ in range(3)]
            await asyncio.sleep(0)
            report = await reception.stop(0.0)
            assert report.abandoned == 1
            async with asyncio.timeout(DEADLINE_S):
                assert await asyncio.gather(*waits) == [False, False, False]

    asyncio.run(main())


def test_a_stream_of_events_ends_with_the_service_and_says_first_what_happened(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path / "ws") as reception:
            pieces: list[bytes] = []

            async def read() -> None:
                async for piece in _stream(Edge(reception), 0, None):
                    pieces.append(piece)

            reading = asyncio.create_task(read())
            sent = await send(reception, jpeg("one"))
            assert await reception.wait_for(sent.document_id, DEADLINE_S)
            await until(lambda: b"document.succeeded" in b"".join(pieces))
            await reception.stop(DEADLINE_S)
            async with asyncio.timeout(DEADLINE_S):
                await reading

    asyncio.run(main())
