"""How much of two cores reaches the engine: `headrace run` with two workers beside one engine called in process.

    python bench/efficiency.py --data DIR [--count 40] [--rounds 3]

Rounds alternate, the machine being shared and noisy. Printed: documents per second of both, their ratio to 2x one
engine, and the parent's share of all CPU time. Two engines in two bare processes, each with half of the documents, stand
beside it as the limit: what the machine gives when nobody coordinates anything.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

BARE = """
import os, sys, time
from headrace.ocr.registry import thread_environment
os.environ.update(thread_environment())
from headrace.documents.document import Document
from headrace.ingest.reading import ReadDocuments
import datetime as dt
read = ReadDocuments(sys.argv[1], {}, 2**30, dt.date.today())()
paths = sys.argv[2:]
documents = [Document(f"d{i}", 1, i, p, os.fsencode(p)) for i, p in enumerate(paths, 1)]
read(documents[0])
started = time.perf_counter()
for document in documents:
    read(document)
print(time.perf_counter() - started)
"""


def bare(engine: str, parts: list[list[str]]) -> float:
    """Seconds for the slowest of the bare processes, models loaded and warm before the clock starts."""
    processes = [
        subprocess.Popen([sys.executable, "-c", BARE, engine, *part], stdout=subprocess.PIPE, text=True)
        for part in parts
    ]
    return max(float(process.communicate()[0]) for process in processes)


def ours(engine: str, folder: Path, scratch: Path) -> tuple[float, float]:
    """(seconds from the first to the last document, parent's share of the CPU time of the tree)."""
    workspace = scratch / f"w{time.monotonic_ns()}"
    command = [sys.executable, "-m", "headrace", "run", str(folder), "--engine", engine, "--workers", "2", "--workspace",
               str(workspace), "-o", str(workspace) + ".jsonl", "--no-progress", "--summary-json", str(workspace) + ".json"]  # fmt: skip
    subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
    summary = json.loads(Path(str(workspace) + ".json").read_text())
    parent, children = summary["parent_cpu_s"], summary["workers_cpu_s"]
    return summary["reading_s"], parent / (parent + children)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--engine", default="rapidocr")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "documents"
        folder.mkdir()
        for path in sorted(options.data.iterdir())[: options.count]:
            os.symlink(path.resolve(), folder / path.name)
        paths = [str(path) for path in sorted(folder.iterdir())]
        rows = []
        for number in range(options.rounds):
            one = bare(options.engine, [paths])
            seconds, share = ours(options.engine, folder, Path(scratch))
            two = bare(options.engine, [paths[::2], paths[1::2]])
            rows.append({"one_s": one, "ours_s": seconds, "two_bare_s": two, "ratio": one / 2 / seconds,
                         "limit": one / 2 / two, "parent_share": share})  # fmt: skip
            print(f"round {number + 1}: {rows[-1]}", file=sys.stderr)
    middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
    print(
        f"| {options.count} documents, {options.engine} | one in process, s | headrace run, 2 workers, s | two bare processes, s | ours / (2 x one) | limit | parent's CPU |"
    )
    print("|---|---|---|---|---|---|---|")
    print(
        f"| median of {options.rounds} | {middle['one_s']:.1f} | {middle['ours_s']:.1f} | {middle['two_bare_s']:.1f} | {middle['ratio']:.3f} | {middle['limit']:.3f} | {middle['parent_share']:.1%} |"
    )
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    (out / "efficiency.json").write_text(json.dumps({"rounds": rows, "median": middle}, indent=1))


if __name__ == "__main__":
    main()
