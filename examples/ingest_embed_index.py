"""Text files -> embeddings -> an index that can be searched, as a pipeline of three stages.

    python examples/ingest_embed_index.py docs "how do I drain a pool"

The embedder is a toy that hashes words into 256 buckets; put your own function, or a remote engine, in its place. What
stays is the flow: files are read in threads, embedded in batches of similar length, and a file that cannot be read is
a failure in its place and stops nobody.
"""

from __future__ import annotations

import asyncio
import math
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from headrace.flow import Permits
from headrace.pipeline import Batching, Failure, Pipeline, Stage

BUCKETS = 256
Vector = dict[int, float]


def read(path: Path) -> str:
    """Blocks on the disk, so its stage runs in threads."""
    return path.read_text(encoding="utf-8")


async def embed(texts: Sequence[str]) -> list[Vector]:
    """One call for a batch, as an embedding engine takes it."""
    return [embed_one(text) for text in texts]


def embed_one(text: str) -> Vector:
    """Words hashed into buckets, scaled to length 1."""
    counts = Counter(zlib.crc32(word.encode()) % BUCKETS for word in text.lower().split())
    length = math.sqrt(sum(count * count for count in counts.values())) or 1.0
    return {bucket: count / length for bucket, count in counts.items()}


async def build_index(paths: Sequence[Path]) -> tuple[dict[Path, Vector], list[Failure[Path]]]:
    """Reads and embeds all files; gives the index, and what failed."""
    batching = Batching(max_items=16, max_weight=200_000, weigh=len, padded=True, linger_s=0.05)
    pipeline: Pipeline[Path, Vector] = Pipeline(
        [
            Stage(read, workers=4, deadline_s=10.0),
            Stage(embed, workers=2, batching=batching, permits=Permits(1), attempts=3, retriable={"exception"}),
        ]
    )
    print(f"at most {pipeline.window.value} files in flight: {pipeline.window.because}", file=sys.stderr)
    index: dict[Path, Vector] = {}
    failures: list[Failure[Path]] = []
    async with pipeline.run(paths) as outcomes:
        async for outcome in outcomes:
            if isinstance(outcome, Failure):
                failures.append(outcome)
            else:
                index[outcome.item] = outcome.value
    return index, failures


def search(index: dict[Path, Vector], question: str, count: int = 3) -> list[tuple[float, Path]]:
    """The files closest to the question, by cosine."""
    wanted = embed_one(question)
    scores = [(sum(share * vector.get(b, 0.0) for b, share in wanted.items()), path) for path, vector in index.items()]
    return sorted(scores, reverse=True)[:count]


if __name__ == "__main__":
    folder, question = Path(sys.argv[1]), " ".join(sys.argv[2:])
    found, failed = asyncio.run(build_index(sorted(path for path in folder.rglob("*.*") if path.is_file())))
    for failure in failed:
        print(f"{failure.item}: {failure.stage} failed: {failure.detail}", file=sys.stderr)
    for score, path in search(found, question):
        print(f"{score:.2f}  {path}")
