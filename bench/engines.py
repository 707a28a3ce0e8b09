"""Engines beside each other: how right the fields are, and what a document costs, in CPU and in memory.

    python bench/engines.py [--data DIR ...] [--every 3] [--rows rapidocr "rapidocr, one look" ...]

Each row is a process of its own that reads one document at a time, in turn with the others, so that all rows suffer the
same noise. CPU is user + system time of the process, models loaded before: from opening the file to its text, and to the
fields; a second look is made only when the fields of the first are known, so that row has the latter alone.
Rows: any engine of headrace; with ", one look" a weak reading is not repeated; and `RapidOCR`, the peer: its own
pipeline with its own defaults, on one thread, from the path to the boxes, which headrace's rules then turn into fields.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import labelled

from headrace.documents.text import Box, PageText, Polygon, group_lines
from headrace.ocr.registry import thread_environment

SHARED = Path(__file__).resolve().parents[2] / "shared"
PEER = "RapidOCR"
ONE_LOOK = ", one look"
ROWS = ("rapidocr", f"rapidocr{ONE_LOOK}", "tesseract", PEER)
TODAY = dt.date(2026, 12, 1)

Read = Callable[[str], tuple[tuple[PageText, ...], Any]]
"""From a path to the text and, where the engine's process makes them, the fields."""


class Result(NamedTuple):
    """What one row has made of a data set."""

    documents: int
    text_cpu_s: float
    cpu_s: float
    peak_bytes: int
    words: float | None
    score: dict[str, Any]


def serve(row: str) -> None:
    """The process of a row: a path on each line of stdin, an answer on each line of stdout."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    read = _peer() if row == PEER else _ours(row)
    for line in sys.stdin:
        began = _cpu_s()
        try:
            pages, fields = read(line.rstrip("\n"))
        except Exception as error:  # costs this document, as it would in a worker
            pages, fields = (), None
            print(f"{row}: {line.strip()}: {error}", file=sys.stderr)
        text_cpu_s = _cpu_s() - began
        fields = fields or _extract(pages)
        cpu_s = _cpu_s() - began
        text = " ".join(box.text for page in pages for row_ in page.lines for box in row_.boxes)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        answer = {
            "text_cpu_s": text_cpu_s,
            "cpu_s": cpu_s,
            "peak_bytes": peak,
            "text": text,
            "fields": fields.model_dump(mode="json"),
        }
        print(json.dumps(answer), file=answers, flush=True)


def _extract(pages: tuple[PageText, ...]) -> Any:
    from headrace.extraction.extractor import extract

    return extract(pages, today=TODAY)


def _ours(row: str) -> Read:
    from headrace.ingest.reading import read_fields
    from headrace.ocr.limits import ReadLimits
    from headrace.ocr.read import read_document
    from headrace.ocr.registry import create_engine

    engine, limits = create_engine(row.removesuffix(ONE_LOOK)), ReadLimits(page_timeout_s=300, document_timeout_s=600)

    def once(path: str) -> tuple[tuple[PageText, ...], Any]:
        return read_document(path, engine, limits).pages, None

    def with_second_look(path: str) -> tuple[tuple[PageText, ...], Any]:
        text, fields = read_fields(path, engine, limits, TODAY)
        return text.pages, fields

    return once if row.endswith(ONE_LOOK) else with_second_look


def _peer() -> Read:
    from rapidocr import RapidOCR

    threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": 1 for kind in ("intra", "inter")}
    pipeline: Any = RapidOCR(params=threads | {"Global.log_level": "critical"})

    def read(path: str) -> tuple[tuple[PageText, ...], Any]:
        found = pipeline(path)
        height, width = found.img.shape[:2]

        def place(corners: Any) -> Polygon:
            a, b, c, d = (
                (min(1.0, max(0.0, float(x) / width)), min(1.0, max(0.0, float(y) / height))) for x, y in corners
            )
            return a, b, c, d

        boxes = [
            Box(t, place(p), float(c))
            for p, t, c in zip(
                () if found.boxes is None else found.boxes, found.txts or (), found.scores or (), strict=True
            )
        ]
        return (PageText(1, width, height, group_lines(boxes, aspect=width / height)),), None

    return read


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(data: Path, rows: list[str], every: int, score: Path) -> dict[str, Result]:
    """All rows over one data set, a document of each in turn."""
    labels = next(p for p in (data / "key", data / "labels.jsonl") if p.exists())
    truth = dict(labelled.score_module(score).labels(labels))
    peer_reads = {".jpg", ".jpeg", ".png"}
    paths = [p for p in sorted((data / "img").iterdir()) if p.stem in truth and p.suffix.lower() in peer_reads][::every]
    children = {
        row: subprocess.Popen(
            [sys.executable, __file__, "--serve", row],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | thread_environment(),
        )
        for row in rows
    }
    answers: dict[str, list[dict[str, Any]]] = {row: [] for row in rows}
    for path in paths:
        for row, child in children.items():
            assert child.stdin is not None
            assert child.stdout is not None
            print(path, file=child.stdin, flush=True)
            answers[row].append(json.loads(child.stdout.readline()))
    for child in children.values():
        child.communicate()
    return {row: _result(paths, answers[row], labels, score, data) for row in rows}


def _result(paths: list[Path], answers: list[dict[str, Any]], labels: Path, score: Path, data: Path) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        out, ids = Path(folder) / "out.jsonl", Path(folder) / "ids"
        ids.write_text("\n".join(path.stem for path in paths))
        told = ({"source": {"uri": p.name}, **a["fields"]} for p, a in zip(paths, answers, strict=True))
        out.write_text("\n".join(map(json.dumps, told)))
        command = [sys.executable, str(score), str(out), "--labels", str(labels), "--ids", str(ids), "--json"]
        scored = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    words = None
    if (data / "box").is_dir():
        words = mean(_recall(data / "box" / f"{p.stem}.csv", a["text"]) for p, a in zip(paths, answers, strict=True))
    text_cpu_s, cpu_s = (mean(answer[part] for answer in answers) for part in ("text_cpu_s", "cpu_s"))
    return Result(len(paths), text_cpu_s, cpu_s, answers[-1]["peak_bytes"], words, scored)


def _recall(boxes: Path, text: str) -> float:
    """Share of the printed words that were read; letters and digits only, each as often as it is printed."""
    printed = [line.split(",", 8)[-1] for line in boxes.read_text(errors="replace").splitlines() if line]
    wanted, got = (Counter(re.sub(r"[^\w\s]|_", "", t.casefold()).split()) for t in (" ".join(printed), text))
    return (wanted & got).total() / max(1, wanted.total())


def table(title: str, results: dict[str, Result]) -> str:
    """One data set as Markdown."""
    fields = [f for f in labelled.PLACES if any(f in r.score for r in results.values())]
    head = ["engine", "CPU s to text", "x", "to fields", "x", "peak RSS, MB", "words", "F1", *fields]
    peer = results.get(PEER) or max(results.values(), key=lambda r: r.cpu_s)
    lines = [f"### {title}, {next(iter(results.values())).documents} documents", ""]
    lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row, r in results.items():
        words = "-" if r.words is None else f"{r.words:.3f}"
        exact = [f"{r.score[f]['exact']:.3f}" if f in r.score else "-" for f in fields]
        text = ["-", "-"]
        if row == PEER or row.endswith(ONE_LOOK):
            text = [f"{r.text_cpu_s:.2f}", f"{peer.text_cpu_s / r.text_cpu_s:.2f}"]
        figures = [*text, f"{r.cpu_s:.2f}", f"{peer.cpu_s / r.cpu_s:.2f}", f"{r.peak_bytes / 1e6:.0f}", words]
        lines.append(f"| {' | '.join([row, *figures, format(r.score['entity_f1'], '.3f'), *exact])} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, nargs="+", default=[SHARED / "data" / d for d in ("sroie-dev", "wild-dev")]
    )
    parser.add_argument("--rows", nargs="+", default=list(ROWS))
    parser.add_argument("--every", type=int, default=1, help="only each n-th document")
    parser.add_argument("--score", type=Path, default=SHARED / "tools" / "score.py")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    for needed in (*given.data, given.score):
        if not needed.exists():
            sys.exit(f"{needed} is not here: give --data and --score")
    for data in given.data:
        print(table(data.name, measure(data, given.rows, given.every, given.score)), flush=True)


if __name__ == "__main__":
    main()
