"""How right the fields are: exact match and precision of each field, on a folder of receipts with labels.

    python bench/accuracy.py [--data DIR] [--engine rapidocr] [--workers N]      runs `headrace run` over DIR
    python bench/accuracy.py --output receipts.jsonl --data DIR                  scores what a run has written

DIR holds `img/` and its labels: `key/*.json` (SROIE) or `labels.jsonl`. The comparison is made by the script given by
`--score`, so that every engine and every version is measured by the same rules. Printed as a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import labelled
import line_items
import misses

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


def run(images: Path, engine: str, workers: int | None, folder: Path) -> Path:
    """Reads a folder with a fresh workspace; returns the output file."""
    output = folder / "receipts.jsonl"
    command = [sys.executable, "-m", "headrace", "run", str(images), "--engine", engine]
    command += ["--workspace", str(folder / "workspace"), "--output", str(output), "--no-progress", "--quiet"]
    command += ["--workers", str(workers)] if workers else []
    done = subprocess.run(command, check=False)
    if not output.exists():
        sys.exit(f"headrace run ended with code {done.returncode} and wrote nothing")
    return output


def score(script: Path, output: Path, labels: Path, errors: int) -> dict[str, Any]:
    """The score script's figures; with `errors`, its list of misses goes to standard error."""
    command = [sys.executable, str(script), str(output), "--labels", str(labels)]
    if errors:
        subprocess.run([*command, "--errors", str(errors)], check=True, stdout=sys.stderr)
    result: dict[str, Any] = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True).stdout)
    return result


def table(title: str, result: dict[str, Any]) -> str:
    """One data set as Markdown."""
    lines = [f"### {title}: {result['documents']} documents, {result['without_a_line']} without a line", ""]
    lines += ["| field | exact | close | precision | labelled |", "|---|---|---|---|---|"]
    for name, field in result.items():
        if isinstance(field, dict):
            shares = " | ".join(f"{field[key]:.3f}" for key in ("exact", "close", "precision"))
            lines.append(f"| {name} | {shares} | {field['labelled']} |")
    return "\n".join([*lines, "", f"Entity F1 over the core fields: {result['entity_f1']:.3f}", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "sroie-dev")
    parser.add_argument("--labels", type=Path, help="default: key/ or labels.jsonl of the data")
    parser.add_argument("--output", type=Path, help="score this JSONL instead of running")
    parser.add_argument("--engine", default="rapidocr")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--score", type=Path, default=SHARED / "tools" / "score.py")
    parser.add_argument("--errors", type=int, default=0, help="list so many misses per field")
    parser.add_argument("--misses", type=Path, help="write a page of what was read wrongly, with pictures, here")
    given = parser.parse_args()
    for needed in (given.data, given.score):
        if not needed.exists():
            sys.exit(f"{needed} is not here: give --data and --score")
    labels = given.labels or next(p for p in (given.data / "key", given.data / "labels.jsonl") if p.exists())
    with tempfile.TemporaryDirectory(prefix="headrace-accuracy-") as folder:
        output = given.output
        if output is None:
            output = run(given.data / "img", given.engine, given.workers, Path(folder))
        result = score(given.score, output, labels, given.errors)
        if given.misses:
            misses.write(output, given.data, labels, labelled.score_module(given.score), given.misses)
        items = line_items.score(line_items.receipts(output), labels) if labels.is_file() else None
    print(table(f"{given.data.name}, {given.engine if given.output is None else given.output.name}", result))
    if items is not None:
        print(line_items.table(items))
        for one in (items.misses + items.invented)[: given.errors]:
            print(f"    {one}", file=sys.stderr)


if __name__ == "__main__":
    main()
