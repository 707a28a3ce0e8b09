"""Peak memory of a run does not depend on how many documents there are.

    python bench/memory.py                         1,000, 40,000 and 1,000,000 references, null engine
    python bench/memory.py --counts 1000 40000
    python bench/memory.py --data DIR --real       60 and 600 real documents through real OCR

The whole process tree is watched from outside (sum of RSS, every 50 ms), beside what headrace itself says and the
ceiling it prints before the start.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).resolve().parent


def references(folder: Path, count: int) -> Path:
    """Writes `count` small distinct files and a manifest that names them."""
    manifest = folder / f"{count}.ndjson"
    with manifest.open("w") as rows:
        for number in range(count):
            bucket = folder / f"files/{number // 1000:04d}"
            if number % 1000 == 0:
                bucket.mkdir(parents=True, exist_ok=True)
            path = bucket / f"{number}.jpg"
            if not path.exists():
                path.write_bytes(b"%d" % number)
            rows.write(json.dumps({"id": str(number), "uri": str(path)}) + "\n")
    return manifest


def copies(data: Path, folder: Path, count: int) -> Path:
    """`count` documents made from those of `data`: copies with a byte more, so that none is a duplicate."""
    originals = sorted(p for p in data.iterdir() if p.suffix.lower() in {".jpg", ".jpeg", ".png"})[:60]
    target = folder / f"real{count}"
    target.mkdir()
    for number in range(count):
        original = originals[number % len(originals)]
        (target / f"{number}{original.suffix}").write_bytes(original.read_bytes() + b"%d" % number)
    return target


def measure(source: Path, scratch: Path, engine: str, workers: int) -> dict[str, Any]:
    workspace = scratch / "workspace"
    shutil.rmtree(workspace, ignore_errors=True)
    command = [sys.executable, "-m", "headrace", "run", str(source), "--engine", engine, "--workers", str(workers),
               "--workspace", str(workspace), "-o", str(scratch / "out.jsonl"), "--overwrite", "--no-progress"]  # fmt: skip
    started = time.monotonic()
    with (scratch / "stderr").open("w+") as stderr:
        process = subprocess.Popen(command, stderr=stderr)
        tree, peak, parts = psutil.Process(process.pid), 0, [0]
        while process.poll() is None:
            try:
                now = [_rss(p) for p in [tree, *tree.children(recursive=True)]]
            except psutil.NoSuchProcess:
                break
            if sum(now) > peak:
                peak, parts = sum(now), now
            time.sleep(0.05)
        elapsed_s = time.monotonic() - started
        stderr.seek(0)
        said = stderr.read()
    if process.wait() not in (0, 3):
        raise SystemExit(said)
    ceiling = re.search(r"RSS ceiling [^(]*\((\d+) bytes\)", said)
    done = sum(1 for _ in (scratch / "out.jsonl").open("rb"))
    return {
        "lines": done,
        "peak_mb": peak / 1e6,
        "parent_mb": parts[0] / 1e6,
        "workers_mb": [round(part / 1e6, 1) for part in parts[1:]],
        "ceiling_mb": int(ceiling[1]) / 1e6 if ceiling else 0.0,
        "seconds": elapsed_s,
    }


def _rss(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--engine")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scratch", type=Path, help="where to put a million small files; default: a temporary folder")
    options = parser.parse_args()
    counts = options.counts or ([60, 600] if options.real else [1_000, 40_000, 1_000_000])
    engine = options.engine or ("rapidocr" if options.real else "null")
    rows: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder = Path(scratch)
        # Once for nothing: the first start after an installation compiles every module, in the parent's memory.
        measure(references(folder, 100), folder, "null", options.workers)
        for count in counts:
            source = copies(options.data, folder, count) if options.real else references(folder, count)
            rows[count] = measure(source, folder, engine, options.workers)
            print(f"{count}: {rows[count]}", file=sys.stderr)
    print(
        f"| documents ({engine}, {options.workers} workers) | lines | peak RSS of the tree, MB | ceiling printed before, MB | s | documents/s |"
    )
    print("|---|---|---|---|---|---|")
    for count, row in rows.items():
        print(
            f"| {count:,} | {row['lines']:,} | {row['peak_mb']:.1f} | {row['ceiling_mb']:.0f} | {row['seconds']:.1f} | {count / row['seconds']:,.0f} |"
        )
    peaks = [row["peak_mb"] for row in rows.values()]
    print(f"\nlargest over smallest peak: {max(peaks) / min(peaks):.3f}")
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    (out / f"memory_{engine}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
