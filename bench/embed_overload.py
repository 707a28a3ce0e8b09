"""The embedding service under load that never waits, beside FastAPI with an unbounded asyncio.Queue.

    python bench/embed_overload.py                     a fixed time for each text (null embedder, 20 ms)
    python bench/embed_overload.py --model minilm      all-MiniLM-L6-v2, one session
    python bench/embed_overload.py --seconds 20

Each cell starts a server afresh; both batch up to 32 texts and use the same embedder. The load is an open loop (a Poisson
schedule, a connection for each request, a client that hangs up after 8 s). Capacity is what headrace finishes per
second at 100 requests per second, which is more than it can.

    goodput        requests answered with vectors within 4 s, per second: answers that came after the first 3 s and before
                   the load ended
    p50, p99       of all that got vectors, however late
    refused        429 and 503; lost: no answer in 8 s
    RSS            of the server, its peak
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from headrace.search.embedder import Embedder, Tokens, Vector
from headrace.search.null import NullEmbedder

GOOD_S, PATIENCE_S, WARM_S, TEXT_S, BATCH = 4.0, 8.0, 3.0, 0.02, 32
WORDS = [
    "taxi",
    "milk",
    "bread",
    "coffee",
    "hotel",
    "ticket",
    "train",
    "paper",
    "screw",
    "lamp",
    "fruit",
    "soap",
    "wine",
    "book",
    "pen",
    "cable",
    "tea",
    "cake",
]


class FixedTime(NullEmbedder):
    def embed(self, texts: Sequence[Tokens]) -> list[Vector]:
        time.sleep(TEXT_S * len(texts))
        return super().embed(texts)


def embedder_of(model: str) -> Embedder:
    if model == "null":
        return FixedTime()
    from headrace.search.minilm import MiniLM

    return MiniLM(sessions=1)


async def serve_headrace(model: str, port: int) -> None:
    from headrace.service.embedding.app import EmbeddingApp
    from headrace.service.embedding.desk import DeskLimits, open_desk
    from headrace.service.server import HttpServer

    limits = DeskLimits(request_tokens=256)
    async with open_desk(embedder_of(model), limits) as desk:
        server = HttpServer(EmbeddingApp(desk), "127.0.0.1", port)
        await server.start()
        await server.ended()


def serve_unbounded(model: str, port: int) -> None:
    import uvicorn
    from fastapi import FastAPI, Request

    app, embedder = FastAPI(), embedder_of(model)
    queue: asyncio.Queue[tuple[Tokens, asyncio.Future[Vector]]] = asyncio.Queue()

    async def work() -> None:
        while True:
            batch = [await queue.get()]
            while len(batch) < BATCH and not queue.empty():
                batch.append(queue.get_nowait())
            vectors: Any = await asyncio.to_thread(embedder.embed, [text for text, _ in batch])
            for (_, future), vector in zip(batch, vectors, strict=True):
                if not future.done():
                    future.set_result(vector)

    tasks: list[asyncio.Task[None]] = []

    async def embeddings(request: Request) -> dict[str, Any]:
        if not tasks:
            tasks.append(asyncio.create_task(work()))
        told = json.loads(await request.body())
        futures = []
        for text in told["input"]:
            future: asyncio.Future[Vector] = asyncio.get_running_loop().create_future()
            queue.put_nowait((embedder.tokens(text), future))
            futures.append(future)
        vectors = await asyncio.gather(*futures)
        data = [{"object": "embedding", "index": n, "embedding": v.tolist()} for n, v in enumerate(vectors)]
        return {"object": "list", "data": data, "model": told["model"]}

    embeddings.__annotations__["request"] = Request
    app.post("/v1/embeddings")(embeddings)
    uvicorn.run(app, port=port, log_level="warning", access_log=False)


async def ask(port: int, body: bytes, at: float, found: list[tuple[int, float, float]]) -> None:
    status = 0
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(
                    b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                )
                status = int((await reader.readline()).split()[1])
                await reader.read()
            finally:
                writer.close()
    except (TimeoutError, OSError, IndexError):
        status = 0
    now = time.monotonic()
    found.append((status, now - at, now))


async def load(port: int, rate: float, seconds: float, texts: int, model: str) -> list[tuple[int, float, float]]:
    rng, found, tasks = random.Random(5), list[tuple[int, float, float]](), []
    at = time.monotonic()
    until = at + seconds
    while (at := at + rng.expovariate(rate)) < until:
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        given = [" ".join(rng.choices(WORDS, k=rng.randint(4, 24))) for _ in range(texts)]
        body = json.dumps({"model": model, "input": given}).encode()
        tasks.append(asyncio.create_task(ask(port, body, at, found)))
    await asyncio.gather(*tasks)
    return found


def rss_mb(pid: int, name: str) -> float:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name))


def cell(peer: str, options: argparse.Namespace, rate: float, seconds: float) -> dict[str, float]:
    port = random.randint(20000, 32000)  # below what the system gives to clients
    command = [sys.executable, __file__, "--serve", peer, "--port", str(port), "--model", options.model]
    name = "null-64" if options.model == "null" else "all-MiniLM-L6-v2-int8"
    texts = 1 if options.model == "null" else 8
    with subprocess.Popen(command) as process:
        try:
            asyncio.run(_until_up(port))
            began = time.monotonic()
            found = asyncio.run(load(port, rate, seconds, texts, name))
            peak = rss_mb(process.pid, "VmHWM")
        finally:
            process.terminate()
    took = sorted(took for status, took, _ in found if status == 200)
    good = [at for status, took, at in found if status == 200 and took <= GOOD_S]
    return {
        "goodput": sum(WARM_S <= at - began < seconds for at in good) / (seconds - WARM_S),
        "p50": took[len(took) // 2] if took else float("nan"),
        "p99": took[int(len(took) * 0.99)] if took else float("nan"),
        "refused": sum(status in (429, 503) for status, _, _ in found) / len(found),
        "lost": sum(status == 0 for status, _, _ in found) / len(found),
        "rss": peak,
    }


async def _until_up(port: int) -> None:
    for _ in range(300):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return
        except OSError:
            await asyncio.sleep(0.1)
    raise SystemExit("the server did not start")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("null", "minilm"), default="null")
    parser.add_argument("--loads", type=float, nargs="+", default=[1.0, 3.0, 10.0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--serve", choices=("headrace", "unbounded"))
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    if options.serve == "headrace":
        asyncio.run(serve_headrace(options.model, options.port))
        return
    if options.serve == "unbounded":
        serve_unbounded(options.model, options.port)
        return
    began = os.getloadavg()[0]
    capacity = cell("headrace", options, 100.0, options.seconds)["goodput"]
    print(f"capacity {capacity:.1f} requests/s; load average {began:.1f}\n")
    print(
        "| load | service | goodput /s | p50 s | p99 s | refused | lost | peak RSS MB |\n|---|---|---|---|---|---|---|---|"
    )
    for multiple in options.loads:
        for peer in ("headrace", "unbounded"):
            got = cell(peer, options, capacity * multiple, options.seconds)
            print(
                f"| {multiple:g}x | {peer} | {got['goodput']:.1f} | {got['p50']:.2f} | {got['p99']:.2f} | "
                f"{got['refused']:.0%} | {got['lost']:.0%} | {got['rss']:.0f} |",
                flush=True,
            )
    print(f"\nload average at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
