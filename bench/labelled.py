"""Labelled receipts as text: images that are read now, or boxes that were read before; and whether a field is right.

A set is a folder with `img/` and labels (`key/*.json` as SROIE has them, or `labels.jsonl`), or a `.jsonl.gz` file of
text boxes with labels. What counts as right is decided by the score script of the data (`--score`), by its own rules.
"""

from __future__ import annotations

import dataclasses
import gzip
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

from headrace.documents.errors import DocumentError
from headrace.documents.text import Box, Line, PageText, Polygon, TextSource, group_lines

PLACES = {
    "merchant": "merchant.name",
    "address": "merchant.address",
    "date": "issue_date",
    "total": "payable_amount",
    "tax": "tax_amount",
    "currency": "currency",
}


class Labelled(NamedTuple):
    """One receipt: its text and what is true of it."""

    id: str
    pages: tuple[PageText, ...]
    truth: dict[str, Any]


def score_module(path: Path) -> ModuleType:
    """The score script as a module."""
    spec = importlib.util.spec_from_file_location("score", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def receipts(source: Path, score: ModuleType, cache: Path | None = None) -> Iterator[Labelled]:
    """All of a set. Images are read by the default engine, once: their text is kept in the folder `cache`."""
    if source.is_file():
        yield from _boxes(source)
        return
    labels = next(p for p in (source / "key", source / "labels.jsonl") if p.exists())
    truth = dict(score.labels(labels))
    kept = cache / f"text_{source.name}.jsonl" if cache else None
    if kept is None or not kept.exists():
        lines = [
            json.dumps({"id": name, "pages": [dataclasses.asdict(p) for p in pages]}) for name, pages in _read(source)
        ]
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text("\n".join(lines))
    else:
        lines = kept.read_text().splitlines()
    for line in lines:
        told = json.loads(line)
        if told["id"] in truth:
            yield Labelled(told["id"], tuple(map(_page, told["pages"])), truth[told["id"]])


def right(score: ModuleType, name: str, value: Any, truth: dict[str, Any]) -> bool | None:
    """Whether a value is what the label says; None when there is no label, or no value."""
    wanted, got = score.NORM[name](truth.get(name)), score.NORM[name](value)
    if wanted is None or got is None:
        return None
    others = [score.words(x) for x in truth.get("merchant_alt") or []] if name == "merchant" else []
    return got in (wanted, *others)


def field(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """The field object of a receipt as JSON types."""
    found: Any = fields
    for part in PLACES[name].split("."):
        found = found[part]
    return dict(found)


def _read(folder: Path) -> Iterator[tuple[str, tuple[PageText, ...]]]:
    from headrace.ocr.read import read_document
    from headrace.ocr.registry import create_engine

    engine = create_engine("rapidocr")
    for path in sorted((folder / "img").iterdir()):
        try:
            yield path.stem, read_document(str(path), engine).pages
        except DocumentError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            yield path.stem, ()


def _page(told: dict[str, Any]) -> PageText:
    lines = tuple(
        Line(
            tuple(
                Box(b["text"], cast(Polygon, tuple(map(tuple, b["polygon"]))), b["confidence"]) for b in line["boxes"]
            )
        )
        for line in told["lines"]
    )
    return PageText(told["number"], told["width_px"], told["height_px"], lines, TextSource(told["source"]))


def _boxes(path: Path) -> Iterator[Labelled]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            told = json.loads(line)
            width, height = told["width"], told["height"]
            boxes = [
                Box(text, ((x0 / width, y0 / height), (x1 / width, y0 / height), (x1 / width, y1 / height),
                           (x0 / width, y1 / height)), confidence)
                for text, x0, y0, x1, y1, confidence in told["boxes"]
            ]  # fmt: skip
            page = PageText(1, width, height, group_lines(boxes, aspect=width / height))
            key = told["key"]
            yield Labelled(told["id"], (page,), {**key, "merchant": key.get("company")})
