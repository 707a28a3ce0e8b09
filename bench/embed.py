"""The embed stage against onnxruntime called alone, on texts of mixed length, by one thread of the same model.

    python bench/embed.py [TEXTS] [ROUNDS]      400 texts, 3 rounds when not given

- stage: texts come in their order, one by one, through the whole pipeline of `headrace index update`
- static N: loops over the list in batches of N, padded to the longest: what one writes first; several N, the best counts
- one at a time: a call for each text
- sorted: batches of 16 after sorting the whole list by length, which a stream does not allow: the least padding there is

All count the tokenizer. Variants take turns within a round, and start elsewhere in each; figures are medians of CPU
seconds (what other processes take is not in them) and of wall seconds. Padding: the share of tokens that is none.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from receipt_texts import drawn_texts

from headrace.pipeline import Success
from headrace.search.embedder import Tokens, Vector
from headrace.search.embedding import embedding_pipeline
from headrace.search.minilm import MiniLM

STATIC = (4, 8, 16, 32, 64)
OUT = Path(__file__).parent / "out" / "embed.json"


class Item(NamedTuple):
    text: str


class Counting(MiniLM):
    """Counts what a call costs: tokens with and without padding."""

    real = padded = calls = 0

    def embed(self, texts: Sequence[Tokens]) -> list[Vector]:
        self.calls += 1
        self.real += sum(text.count for text in texts)
        self.padded += max(text.count for text in texts) * len(texts)
        return super().embed(texts)


def stage(model: Counting, texts: list[str]) -> None:
    async def main() -> None:
        async with embedding_pipeline(model).run(map(Item, texts)) as outcomes:
            count = 0
            async for outcome in outcomes:
                assert isinstance(outcome, Success)
                assert outcome.item.text == texts[count]
                count += 1
        assert count == len(texts)

    asyncio.run(main())


def static(size: int, *, in_order: bool = True) -> Callable[[Counting, list[str]], None]:
    def run(model: Counting, texts: list[str]) -> None:
        tokens = [model.tokens(text) for text in texts]
        if not in_order:
            tokens.sort(key=lambda one: one.count)
        for start in range(0, len(tokens), size):
            model.embed(tokens[start : start + size])

    return run


def main() -> None:
    count, rounds = (int(sys.argv[n]) if len(sys.argv) > n else default for n, default in ((1, 400), (2, 3)))
    texts = drawn_texts(count)
    variants: dict[str, Callable[[Counting, list[str]], None]] = {"stage": stage}
    variants |= {f"static {size}": static(size) for size in STATIC}
    variants |= {"one at a time": static(1), "sorted": static(16, in_order=False)}
    model = Counting(sessions=1)
    lengths = [model.tokens(text).count for text in texts]
    static(8)(model, texts[:32])  # warm
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    padding: dict[str, float] = {}
    load_before = os.getloadavg()[0]
    for number in range(rounds):
        names = list(variants)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            model.real = model.padded = model.calls = 0
            wall, cpu = time.perf_counter(), time.process_time()
            variants[name](model, texts)
            taken[name].append((time.process_time() - cpu, time.perf_counter() - wall))
            padding[name] = 1 - model.real / model.padded
    cpu_s = {name: statistics.median(cpu for cpu, _ in rows) for name, rows in taken.items()}
    best = min((name for name in variants if name.startswith("static")), key=cpu_s.__getitem__)
    print(
        f"{count} texts, tokens: least {min(lengths)}, median {statistics.median(lengths):g}, most {max(lengths)}; "
        f"{rounds} rounds; load average {load_before:.1f} before, {os.getloadavg()[0]:.1f} after"
    )
    print("\n| | texts per CPU second | of the best static | texts per second | padding |\n|---|---|---|---|---|")
    rows: list[dict[str, Any]] = []
    for name in variants:
        wall_s = statistics.median(wall for _, wall in taken[name])
        share = statistics.median(b / a for (a, _), (b, _) in zip(taken[name], taken[best], strict=True))
        rows.append({"name": name, "per_cpu_s": count / cpu_s[name], "of_best": share, "padding": padding[name]})
        print(f"| {name} | {count / cpu_s[name]:.1f} | {share:.2f} | {count / wall_s:.1f} | {padding[name]:.1%} |")
    print(f"\nbest static: {best}")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"texts": count, "rounds": rounds, "best": best, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
