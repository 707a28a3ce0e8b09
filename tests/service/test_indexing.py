"""Indexing in the service: what can wait does, nothing of it is lost, and it goes on by itself."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from faulty_reading import faulty_pool
from service_support import BACKGROUND, done, jpeg, send, serving
from test_http_search import TOLD, write_receipts

from headrace.search import Embedder, Tokens, Vector
from headrace.search.errors import EmbedderMissing
from headrace.search.null import NullEmbedder
from headrace.search.receipt_text import TEXT_VERSION
from headrace.service import replies
from headrace.service.indexing import Indexing
from headrace.service.views import IndexingState, ServiceLimits
from headrace.storage.sql_search import SearchCounts
from headrace.storage.sqlite import SqliteStore

MANY = [(f"Shop {n}", f"goods number {n}", "2026-01-01", "1.00", "EUR", "alice") for n in range(200)]
WANTED = ServiceLimits(min_free_bytes=0, index_receipts=True)


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))

    return run


class Counted(NullEmbedder):
    """Embeds a batch each time that it may."""

    def __init__(self, name: str = "null-64") -> None:
        super().__init__()
        self.name = name
        self.begun, self.may = threading.Semaphore(0), threading.Semaphore(0)

    def embed(self, texts: Sequence[Tokens]) -> list[Vector]:
        self.begun.release()
        assert self.may.acquire(timeout=20)
        return super().embed(texts)


def counts(workspace: Path, model: str = "null-64") -> SearchCounts:
    with SqliteStore.read(workspace) as store:
        return store.search_counts(model, TEXT_VERSION)


class Kept:
    """Indexing of a workspace, looked at by hand instead of once a second."""

    def __init__(self, workspace: Path, embedder: Embedder, limits: ServiceLimits = WANTED) -> None:
        self.why = ""

        async def shared() -> Embedder:
            return embedder

        self.indexing = Indexing(workspace, limits, embedder=shared, busy=lambda: self.why)
        self.task = asyncio.create_task(self.indexing.run())

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not is_so():  # noqa: ASYNC110  # threads and files, that ring no bell
                await asyncio.sleep(0.005)

    async def at_rest(self) -> None:
        await self.until(lambda: self.indexing._task is None and not self.indexing._go.is_set())

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def begun(embedder: Counted) -> Callable[[], bool]:
    return lambda: embedder.begun.acquire(blocking=False)


@in_a_loop
async def test_indexing_pauses_while_documents_wait_and_goes_on_after_and_each_receipt_is_there_once(
    tmp_path: Path,
) -> None:
    write_receipts(tmp_path, MANY)
    embedder = Counted()
    kept = Kept(tmp_path, embedder)
    kept.indexing.look()
    await kept.until(begun(embedder))
    assert kept.indexing.view().state is IndexingState.INDEXING
    kept.why = "documents wait for a worker"
    kept.indexing.look()
    assert (kept.indexing.view().state, kept.indexing.view().because) == (IndexingState.PAUSED, kept.why)
    embedder.may.release(4)
    await kept.at_rest()
    kept.indexing.look()
    paused = counts(tmp_path)
    assert (paused.entries_behind, paused.receipts) == (0, len(MANY)), "new entries come first"
    assert paused.embedded < len(MANY)
    assert not kept.indexing._go.is_set()
    kept.why = ""
    embedder.may.release(1000)
    kept.indexing.look()
    assert kept.indexing.view().state is IndexingState.INDEXING
    await kept.until(lambda: kept.indexing.view().state is IndexingState.CURRENT)
    assert counts(tmp_path)[:3] == (0, len(MANY), len(MANY))
    await kept.end()


@in_a_loop
async def test_after_a_change_of_the_model_everything_is_embedded_again(tmp_path: Path) -> None:
    write_receipts(tmp_path)
    for name in ("null-64", "another"):
        embedder = Counted(name)
        embedder.may.release(1000)
        kept = Kept(tmp_path, embedder)
        kept.indexing.look()
        await kept.until(lambda: kept.indexing.view().state is IndexingState.CURRENT)  # noqa: B023
        assert counts(tmp_path, name).embedded == kept.indexing.view().embedded == len(TOLD)
        await kept.end()


@in_a_loop
async def test_a_stop_in_the_middle_leaves_what_the_next_start_goes_on_with(tmp_path: Path) -> None:
    write_receipts(tmp_path, MANY)
    embedder = Counted()
    kept = Kept(tmp_path, embedder)
    kept.indexing.look()
    await kept.until(begun(embedder))
    embedder.may.release(2)
    await kept.end()
    assert counts(tmp_path).embedded < len(MANY)
    fresh = Kept(tmp_path, NullEmbedder())
    fresh.indexing.look()
    await fresh.until(lambda: fresh.indexing.view().state is IndexingState.CURRENT)
    assert counts(tmp_path)[:3] == (0, len(MANY), len(MANY))
    await fresh.end()


@in_a_loop
async def test_without_the_extra_it_says_so_and_tries_again_later(tmp_path: Path) -> None:
    write_receipts(tmp_path)
    tried = 0

    async def missing() -> Embedder:
        nonlocal tried
        tried += 1
        raise EmbedderMissing("search needs tokenizers: pip install 'headrace[search]'")

    kept = Kept(tmp_path, NullEmbedder())
    kept.indexing._embedder = missing
    kept.indexing.look()
    await kept.until(lambda: kept.indexing.view().state is IndexingState.FAILED)
    await kept.at_rest()
    assert "pip install 'headrace[search]'" in kept.indexing.view().because
    kept.indexing.look()
    assert (tried, kept.indexing._go.is_set()) == (1, False)
    for _ in range(40):
        kept.indexing.look()
    await kept.until(lambda: tried == 2)
    await kept.end()


@in_a_loop
async def test_it_is_off_unless_it_is_wanted(tmp_path: Path) -> None:
    write_receipts(tmp_path)
    kept = Kept(tmp_path, NullEmbedder(), ServiceLimits())
    kept.indexing.look()
    assert kept.indexing.view().state is IndexingState.OFF
    assert not kept.indexing._go.is_set()
    kept.indexing.limits = dataclasses.replace(WANTED)
    kept.indexing.look()
    await kept.until(lambda: kept.indexing.view().state is IndexingState.CURRENT)
    await kept.end()


@in_a_loop
async def test_the_service_keeps_search_up_with_what_it_takes(tmp_path: Path) -> None:
    write_receipts(tmp_path / "w")
    async with serving(tmp_path / "w", WANTED) as reception:
        reception.search.embedder = NullEmbedder
        async with asyncio.timeout(20):
            while reception.capacity().indexing.embedded < len(TOLD):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await done(reception, await send(reception, jpeg(1), service_class=BACKGROUND))
        async with asyncio.timeout(20):
            while not (found := await reception.search.find("taxi", 10)).complete:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert len(found.hits) == len(TOLD) + 1


@in_a_loop
async def test_while_documents_wait_for_a_worker_it_is_paused_and_says_so_and_then_it_catches_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.service.house.worker_pool", faulty_pool)
    async with serving(tmp_path / "w", WANTED) as reception:
        reception.search.embedder = NullEmbedder
        held = [await send(reception, jpeg(n), filename=f"wait-for {tmp_path}/go") for n in range(8)]
        async with asyncio.timeout(20):
            while reception.capacity().indexing.state is not IndexingState.PAUSED:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        told = replies.capacity(reception.capacity(), 0)["indexing"]
        assert (told["state"], told["because"]) == ("paused", "documents wait for a worker")
        (tmp_path / "go").touch()
        for one in held:
            await done(reception, one)
        async with asyncio.timeout(20):
            while (await reception.search.find("taxi", 10)).entries_behind:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert reception.capacity().indexing.because == ""
