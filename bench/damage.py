"""How much is still read from damaged receipts: word recall, fields, CPU and memory for each kind of damage.

    python bench/damage.py [--data DIR] [--count 24] [--seed 20261201] [--engine rapidocr] [--only faint ...]

DIR holds `img/*.jpg` and `box/*.csv` (SROIE: x1,y1,...,x4,y4,text of each line). A seeded sample of its scans is damaged
and read as a worker reads it, second look included. Word recall: words as multisets, letters and digits only, case
ignored, of all receipts together. Each kind runs in a process of its own, at one thread, which gives its peak memory.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from headrace.documents.receipt import ReceiptFields
from headrace.ingest.reading import read_fields
from headrace.ocr.limits import ReadLimits
from headrace.ocr.read import DocumentText
from headrace.ocr.registry import create_engine, thread_environment

SHARED = Path(__file__).resolve().parents[2] / "shared"
TODAY = dt.date(2026, 12, 1)
STACK_PX = (1_000, 30_000)
LARGEST_PX = 3_000  # scans at 600 dpi are halved first, as a telephone would have them
PATIENT = ReadLimits(page_timeout_s=900)  # the machine may be busy: what is measured is CPU
Gray = NDArray[np.uint8]


def clean(page: Gray, dice: np.random.Generator) -> Gray:
    return page


def faint(page: Gray, dice: np.random.Generator) -> Gray:
    """Thermal paper that kept 8 % of its contrast, with the grain of a sensor."""
    return _shades(240 - (255 - page.astype(np.float32)) * 0.08 + dice.normal(0, 2, page.shape))


def shadow(page: Gray, dice: np.random.Generator) -> Gray:
    """A soft shadow that leaves a quarter of the light, across half of the page."""
    rows, columns = np.mgrid[0 : page.shape[0], 0 : page.shape[1]].astype(np.float32)
    place = columns / page.shape[1] - 0.5 + dice.uniform(-0.6, 0.6) * (rows / page.shape[0] - 0.5)
    return _shades(page * (1 - 0.75 / (1 + np.exp(-10 * place))))


def tilt(page: Gray, dice: np.random.Generator) -> Gray:
    """Seven degrees, to the left or to the right, on white."""
    degrees = 7 if dice.random() < 0.5 else -7
    image = Image.fromarray(page).rotate(degrees, Image.Resampling.BICUBIC, expand=True, fillcolor=255)
    return np.asarray(image)


def quarters(times: int) -> Callable[[Gray, np.random.Generator], Gray]:
    return lambda page, dice: np.ascontiguousarray(np.rot90(page, -times))


DAMAGES: dict[str, Callable[[Gray, np.random.Generator], Gray]] = {
    "clean": clean,
    "faint": faint,
    "shadow": shadow,
    "tilt": tilt,
    "90": quarters(1),
    "180": quarters(2),
    "270": quarters(3),
}
STACK = "stack"
TURNS = ("90", "180", "270")
WORDS = {
    "clean": "none",
    "faint": "contrast 8 %, noise 2",
    "shadow": "shadow to 25 %",
    "tilt": "tilted by 7 degrees",
    "90": "turned by 90 degrees",
    "180": "turned by 180 degrees",
    "270": "turned by 270 degrees",
    STACK: "stack of 1,000 x 30,000 px",
}


def _shades(values: NDArray[Any]) -> Gray:
    return np.asarray(np.clip(values, 0, 255), np.uint8)


def page_of(data: Path, name: str) -> Gray:
    with Image.open(data / "img" / f"{name}.jpg") as image:
        return np.asarray(image.convert("L").reduce(max(1, round(max(image.size) / LARGEST_PX))))


def words(text: str) -> Iterator[str]:
    return (word for piece in text.split() if (word := re.sub(r"[\W_]", "", piece.casefold())))


def printed(data: Path, name: str) -> Counter[str]:
    with open(data / "box" / f"{name}.csv", encoding="utf-8", errors="replace", newline="") as file:
        return Counter(w for row in csv.reader(file, quoting=csv.QUOTE_NONE) for w in words(",".join(row[8:])))


def read_words(text: DocumentText) -> Counter[str]:
    return Counter(w for page in text.pages for line in page.lines for w in words(line.text))


def told(fields: ReceiptFields) -> dict[str, Any]:
    """Everything that was read, evidence included: turned back, its place is the same too."""
    return fields.model_dump(mode="json")


def stack_of(data: Path, names: list[str]) -> tuple[Gray, list[str]]:
    """Receipts below each other at one width, until the roll is full."""
    width, height = STACK_PX
    roll, top = np.full((height, width), 255, np.uint8), 0
    used: list[str] = []
    for name in names:
        page = Image.fromarray(page_of(data, name))
        scaled = np.asarray(page.resize((width, round(page.height * width / page.width)), Image.Resampling.LANCZOS))
        if top + len(scaled) > height:
            continue
        roll[top : top + len(scaled)] = scaled
        top, used = top + len(scaled), [*used, name]
    return roll, used


def measure(damage: str, data: Path, names: list[str], engine_name: str) -> dict[str, Any]:
    """Reads all receipts with one damage; what is returned is plain data."""
    engine = create_engine(engine_name)
    found = expected = again = 0
    cpu_s = 0.0
    fields_by_name: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="headrace-damage-") as folder:
        path = Path(folder) / "page.png"
        jobs = [(name, [name]) for name in names] if damage != STACK else [(STACK, names)]
        for name, parts in jobs:
            if damage == STACK:
                page, parts = stack_of(data, parts)
            else:
                page = DAMAGES[damage](page_of(data, name), np.random.default_rng(int(name)))
            Image.fromarray(page).save(path, compress_level=1)
            began_s = time.process_time()
            text, fields = read_fields(str(path), engine, PATIENT, TODAY)
            cpu_s += time.process_time() - began_s
            truth: Counter[str] = sum((printed(data, part) for part in parts), Counter())
            found += sum((truth & read_words(text)).values())
            expected += sum(truth.values())
            again += any(view.second for view in text.views)
            fields_by_name[name] = told(fields)
    return {
        "recall": found / expected,
        "words": expected,
        "documents": len(fields_by_name),
        "second": again,
        "cpu_s": cpu_s / len(fields_by_name),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "fields": fields_by_name,
    }


def in_a_process(damage: str, given: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", damage, "--data", str(given.data), "--engine", given.engine]
    command += ["--count", str(given.count), "--seed", str(given.seed)]
    done = subprocess.run(command, env=os.environ | thread_environment(), stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def same_fields(turned: dict[str, Any], upright: dict[str, Any]) -> int:
    return sum(fields == upright[name] for name, fields in turned.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "sroie-dev")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seed", type=int, default=20261201)
    parser.add_argument("--engine", default="rapidocr")
    parser.add_argument("--only", nargs="*", choices=[*DAMAGES, STACK])
    parser.add_argument("--child", choices=[*DAMAGES, STACK], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not (given.data / "img").is_dir():
        sys.exit(f"{given.data} holds no img/: give --data")
    names = sorted(path.stem for path in (given.data / "img").glob("*.jpg"))
    names = random.Random(given.seed).sample(names, min(given.count, len(names)))
    if given.child:
        json.dump(measure(given.child, given.data, names, given.engine), sys.stdout)
        return
    results: dict[str, dict[str, Any]] = {}
    print("| damage | word recall | second look kept | CPU s a document | peak RSS MB | same fields as upright |")
    print("|---|---|---|---|---|---|")
    for damage in given.only or [*DAMAGES, STACK]:
        result = results[damage] = in_a_process(damage, given)
        same = ""
        if damage in TURNS and "clean" in results:
            same = f"{same_fields(result['fields'], results['clean']['fields'])} of {result['documents']}"
        print(
            f"| {WORDS[damage]} | {result['recall']:.3f} | {result['second']} of {result['documents']} | "
            f"{result['cpu_s']:.2f} | {result['peak_bytes'] / 1e6:.0f} | {same} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
