from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest

from headrace.flow import Permits
from headrace.flow.testing import run_virtual
from headrace.pipeline import Batching, Failure, Pipeline, Success
from headrace.search import Embedder, EmbedderFailed, Tokens, Vector
from headrace.search.embedder import embed_one
from headrace.search.embedding import embed_stage, embedding_pipeline, token_batching
from headrace.search.endpoint import EndpointEmbedder
from headrace.search.minilm import DIMENSIONS, LONGEST, MiniLM
from headrace.search.null import NullEmbedder


class Item(NamedTuple):
    text: str


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    return MiniLM(sessions=2)


def test_a_vector_does_not_depend_on_the_batch_it_was_made_in(minilm: MiniLM) -> None:
    tokens = [minilm.tokens(text) for text in ("taxi", "bread rolls and a pie " * 9, "x", "", "Zürich ☂ 東京")]
    together = minilm.embed(tokens)
    alone = [minilm.embed([one])[0] for one in tokens]
    for one, other in zip(together, alone, strict=True):
        assert one.shape == (DIMENSIONS,)
        assert float(one @ other) == pytest.approx(1.0, abs=1e-4)
        assert float(np.linalg.norm(one)) == pytest.approx(1.0, abs=1e-5)


def test_what_is_alike_is_near_as_the_authors_of_the_model_have_it(minilm: MiniLM) -> None:
    # sentence-transformers gives 0.76 for the first pair with the float model; a wrong pooling gives far less.
    texts = ("A man is eating food.", "A man is eating a piece of bread.", "A cheetah is running behind its prey.")
    first, near, far = (minilm.embed([minilm.tokens(text)])[0] for text in texts)
    assert float(first @ near) == pytest.approx(0.755, abs=0.03)
    assert float(first @ far) < 0.2


def test_a_text_beyond_what_the_model_reads_is_cut_and_its_tokens_are_counted_so(minilm: MiniLM) -> None:
    assert minilm.tokens("word " * 5000).count == LONGEST


def test_the_null_embedder_gives_the_same_vector_everywhere() -> None:
    one, other = (NullEmbedder(4).embed([NullEmbedder(4).tokens(text)])[0] for text in ("a b b", "B, b a!"))
    assert one.tolist() == other.tolist()
    assert one.tolist() == pytest.approx([2 / math.sqrt(5), 0.0, 0.0, 1 / math.sqrt(5)]) or sum(
        one**2
    ) == pytest.approx(1)


class Watched(NullEmbedder):
    """Writes down each call, and how many ran at once."""

    sessions = 2

    def __init__(self) -> None:
        super().__init__(8)
        self.batches: list[list[int]] = []
        self.running = self.most = 0
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[Tokens]) -> list[Vector]:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
            self.batches.append([text.count for text in texts])
        try:
            if any("poison" in text.text for text in texts):
                raise EmbedderFailed("not that one")
            return super().embed(texts)
        finally:
            with self._lock:
                self.running -= 1


async def vectors_of(
    embedder: Embedder, texts: Sequence[str], batching: Batching | None = None
) -> list[Success[Any, Vector] | Failure[Any]]:
    pipeline = embedding_pipeline(embedder, batching=batching)
    async with pipeline.run([Item(text) for text in texts]) as outcomes:
        return [outcome async for outcome in outcomes]


def test_texts_of_like_length_go_together_within_the_tokens_of_a_batch_and_come_back_in_order() -> None:
    embedder = Watched()
    texts = ["word " * (1 + n * 37 % 100) for n in range(400)]
    batching = token_batching(600, max_items=16, linger_s=0.0)
    outcomes = asyncio.run(vectors_of(embedder, texts, batching))
    assert [outcome.item.text for outcome in outcomes] == texts
    assert sum(map(len, embedder.batches)) == 400
    assert all(max(batch) * len(batch) <= 600 or len(batch) == 1 for batch in embedder.batches)
    cost = sum(max(batch) * len(batch) for batch in embedder.batches)
    assert 1 - sum(map(sum, embedder.batches)) / cost <= 0.1, "the share of padding"
    assert embedder.most <= 2


def test_a_text_that_cannot_be_embedded_costs_only_itself() -> None:
    outcomes = asyncio.run(vectors_of(Watched(), ["good", "poison", "fine"] * 5))
    failed = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    assert [outcome.item.text for outcome in failed] == ["poison"] * 5
    assert {outcome.stage for outcome in failed} == {"embed"}


def test_permits_are_shared_by_all_stages_that_get_them_and_all_are_back_at_the_end() -> None:
    embedder = Watched()

    async def main() -> None:
        permits = Permits(1)
        stage = embed_stage(embedder, permits=permits)
        pipelines: list[Pipeline[Any, Vector]] = [Pipeline([stage]), Pipeline([stage])]

        async def one(pipeline: Pipeline[Any, Vector]) -> None:
            async with pipeline.run(embedder.tokens(f"text {n}") for n in range(50)) as outcomes:
                assert [isinstance(outcome, Success) async for outcome in outcomes] == [True] * 50

        await asyncio.gather(*map(one, pipelines))
        assert permits.statistics().held == 0

    asyncio.run(main())
    assert embedder.most == 1


def answer(request: httpx.Request) -> httpx.Response:
    texts = json.loads(request.content)["input"]
    rows = [{"index": n, "embedding": [float(len(text)), 0.0, 1.0]} for n, text in enumerate(texts)]
    return httpx.Response(200, json={"data": rows[::-1]})


def endpoint(answers: list[httpx.Response | None], asked: list[float]) -> EndpointEmbedder:
    """An endpoint that gives these answers, then good ones (None: a good one)."""
    given = iter(answers)

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(asyncio.get_running_loop().time())
        return next(given, None) or answer(request)

    return EndpointEmbedder("http://embedder/v1/", "m", transport=httpx.MockTransport(handle))


def test_a_retry_after_of_an_endpoint_is_kept_by_all_calls() -> None:
    asked: list[float] = []

    async def main() -> None:
        embedder = endpoint([httpx.Response(429, headers={"Retry-After": "7"})], asked)
        first = asyncio.create_task(embed_one(embedder, "one"))
        await asyncio.sleep(1)
        second = await embed_one(embedder, "four")
        assert float(np.linalg.norm(second)) == pytest.approx(1)
        assert (await first)[0] > 0
        await embedder.aclose()

    run_virtual(main())
    assert len(asked) == 3
    assert min(asked[1:]) - asked[0] >= 7


def test_an_endpoint_that_fails_is_tried_again_within_a_budget_and_no_further() -> None:
    asked: list[float] = []

    async def main() -> None:
        embedder = endpoint([httpx.Response(500)] * 1000, asked)
        for _ in range(20):
            with pytest.raises(EmbedderFailed):
                await embed_one(embedder, "text")
        await embedder.aclose()

    run_virtual(main())
    assert 20 < len(asked) <= 20 + 10 + 2, "a reserve of 10 retries, and a tenth of the calls"


@pytest.mark.parametrize(
    "bad",
    [
        httpx.Response(401, text="no key"),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json={"data": []}),
        httpx.Response(200, json={"data": [{"index": 0, "embedding": ["a"]}]}),
    ],
)
def test_an_answer_without_vectors_is_a_typed_failure_and_is_not_asked_for_again(bad: httpx.Response) -> None:
    asked: list[float] = []

    async def main() -> None:
        embedder = endpoint([bad], asked)
        with pytest.raises(EmbedderFailed, match="embedder/v1/embeddings answered"):
            await embed_one(embedder, "text")
        await embedder.aclose()

    run_virtual(main())
    assert len(asked) == 1


def test_an_endpoint_is_called_over_real_http_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str | None, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append((self.path, self.headers["Authorization"], json.loads(body)["model"]))
            told = answer(httpx.Request("POST", "http://x", content=body)).content
            self.send_response(200)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        def log_message(self, *_: Any) -> None:
            pass

    monkeypatch.setenv("HEADRACE_EMBEDDINGS_KEY", "secret")
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    async def main() -> list[Success[Any, Vector] | Failure[Any]]:
        embedder = EndpointEmbedder(f"http://127.0.0.1:{server.server_port}/v1", "m")
        try:
            return await vectors_of(embedder, ["one", "three", "seventeen"])
        finally:
            await embedder.aclose()

    try:
        outcomes = asyncio.run(main())
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert [o.value[0] / o.value[2] for o in outcomes if isinstance(o, Success)] == pytest.approx([3, 5, 9])
    assert set(seen) == {("/v1/embeddings", "Bearer secret", "m")}
