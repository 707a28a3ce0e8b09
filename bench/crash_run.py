"""kill -9 of the whole tree: at random moments of a run, and at each step of the accept-recognise-commit path.

    python bench/crash_run.py                      50 random kills and every step, on drawn receipts
    python bench/crash_run.py --data DIR           on the documents of DIR
    python bench/crash_run.py --kills 0            only the steps

After each kill the same command is run again, until the batch is done. Then the ledger must equal that of an undisturbed
run in another workspace, hash by hash, and the output must hold each entry once, in order. Exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CRASHING = HERE / "crashing.py"

STEPS = (
    # (function, when the process dies: before it, after it, or halfway through what it writes)
    ("storage.sqlite:SqliteStore.open_batch", "after"),
    ("storage.sqlite:SqliteStore.stage_listing", "after"),
    ("storage.sqlite:SqliteStore.settle_listing", "before"),
    ("storage.sqlite:SqliteStore.settle_listing", "after"),
    ("storage.sqlite:SqliteStore.finish_listing", "before"),
    ("storage.sqlite:SqliteStore.finish_listing", "after"),
    ("storage.sqlite:SqliteStore.pending", "after"),
    ("ledger.writer:BookWriter.decide", "after"),
    ("storage.sqlite:SqliteStore.commit", "before"),
    ("storage.sqlite:SqliteStore.commit", "after"),
    ("ledger.writer:BookWriter.committed", "after"),
    ("ingest.output:JsonLines.write", "before"),
    ("ingest.output:JsonLines.write", "halfway"),
    ("ingest.output:JsonLines.write", "after"),
    ("storage.sqlite:SqliteStore.finish_batch", "before"),
    ("storage.sqlite:SqliteStore.finish_batch", "after"),
)


class Case:
    """One workspace and one output, run as often as it takes."""

    def __init__(self, folder: Path, sources: list[str], engine: str) -> None:
        self.workspace, self.output = folder / "workspace", folder / "out.jsonl"
        self.arguments = [
            "run", *sources, "--engine", engine, "--workspace", str(self.workspace), "-o", str(self.output), "-q",
            "--commit-batch", "8",
        ]  # fmt: skip

    def start(self, crash: list[str] | None = None) -> subprocess.Popen[bytes]:
        program = [str(CRASHING), *crash] if crash else ["-m", "headrace"]
        return subprocess.Popen(
            [sys.executable, *program, *self.arguments], start_new_session=True, stdin=subprocess.DEVNULL
        )

    def finish(self) -> None:
        code = self.start().wait(timeout=1800)
        if code not in (0, 3, 4):
            raise SystemExit(f"a run that nobody disturbed ended with {code}")

    def ledger(self) -> list[tuple[Any, ...]]:
        text = subprocess.run(
            [sys.executable, "-m", "headrace", "export", "--workspace", str(self.workspace), "--format", "jsonl"],
            check=True, capture_output=True,
        ).stdout  # fmt: skip
        return [_line(json.loads(line)) for line in text.splitlines()]

    def lines(self) -> list[tuple[Any, ...]]:
        return [_line(json.loads(line)) for line in self.output.read_bytes().splitlines()]

    def verify(self) -> bool:
        command = [sys.executable, "-m", "headrace", "verify", "--workspace", str(self.workspace)]
        return subprocess.run(command, capture_output=True).returncode == 0


def _line(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["ledger"]["sequence"], line["source"]["uri"], line["document_id"], line["ledger"]["entry_hash"]


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def difference(case: Case, expected: list[tuple[Any, ...]]) -> str:
    """What is wrong with a case after its resume; empty when nothing is."""
    ledger, lines = case.ledger(), case.lines()
    if ledger != expected:
        wrong = next((i for i, (a, b) in enumerate(zip(ledger, expected, strict=False)) if a != b), len(expected))
        return f"ledger differs: {len(ledger)} entries instead of {len(expected)}, first at {wrong + 1}"
    if lines != expected:
        return f"output differs: {len(lines)} lines instead of {len(expected)}"
    return "" if case.verify() else "the chain does not hold"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of documents; without it, receipts are drawn")
    parser.add_argument("--count", type=int, default=24, help="receipts to draw")
    parser.add_argument("--engine", default="rapidocr")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--kills-per-run", type=int, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        data = options.data or _draw(root / "drawn", options.count)
        cases = iter(range(10**6))

        def new_case() -> Case:
            folder = root / f"case{next(cases)}"
            folder.mkdir()
            return Case(folder, [str(data)], options.engine)

        undisturbed = new_case()
        started = time.monotonic()
        undisturbed.finish()
        duration_s = time.monotonic() - started
        expected = undisturbed.ledger()
        print(f"seed {options.seed}; undisturbed: {len(expected)} entries in {duration_s:.1f} s")
        bad = [f"undisturbed: {wrong}" for wrong in [difference(undisturbed, expected)] if wrong]

        steps_hit = 0
        for function, when in STEPS:
            case = new_case()
            process = case.start([function, when, "1" if "batch" in function or "list" in function else "2"])
            code = process.wait(timeout=1800)
            hit = code == -signal.SIGKILL
            steps_hit += hit
            case.finish()
            if wrong := difference(case, expected):
                bad.append(f"killed {when} {function}: {wrong}")
            if not hit:
                bad.append(f"{when} {function}: was never reached (exit {code})")
        print(f"killed at {steps_hit} of {len(STEPS)} steps")

        kills = 0
        while kills < options.kills:
            case = new_case()
            for _ in range(min(options.kills_per_run, options.kills - kills)):
                process = case.start()
                try:
                    process.wait(timeout=rng.uniform(0.2, duration_s * 0.9))
                    break
                except subprocess.TimeoutExpired:
                    kill_tree(process)
                    kills += 1
            case.finish()
            if wrong := difference(case, expected):
                bad.append(f"after {kills} random kills: {wrong}")
        print(f"killed at {kills} random moments")
        for line in bad:
            print(f"BAD  {line}")
        result = {
            "seed": options.seed, "engine": options.engine, "entries": len(expected), "undisturbed_s": round(duration_s, 2),
            "steps": steps_hit, "random_kills": kills, "bad": bad,
        }  # fmt: skip
        out = HERE / "out"
        out.mkdir(exist_ok=True)
        (out / "crash_run.json").write_text(json.dumps(result, indent=1))
        print("every ledger equals the undisturbed one" if not bad else f"{len(bad)} differ")
        return 1 if bad else 0


def _draw(folder: Path, count: int) -> Path:
    from headrace.simulation.receipts import draw_collection

    draw_collection(folder, count=count, seed=7)
    return folder


if __name__ == "__main__":
    raise SystemExit(main())
