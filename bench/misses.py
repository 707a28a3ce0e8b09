"""A page of what was read wrongly: each receipt with a picture, its boxes, the label beside the value, and the rule.

    python bench/misses.py receipts.jsonl --data DIR -o misses.html

DIR holds `img/` and its labels: `key/*.json` (SROIE) or `labels.jsonl`; receipts.jsonl is what `headrace run` wrote of it.
Red is a value that is wrong, grey what else was considered right or has no label. The page needs nothing but itself.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from labelled import PLACES, field, score_module
from PIL import Image

from headrace.dashboard.markup import Html, join, tag
from headrace.documents.errors import DocumentError
from headrace.ocr.limits import ReadLimits
from headrace.ocr.picture import write_picture

SHARED = Path(__file__).resolve().parents[1].parent / "shared"
WIDTH_PX, TALLEST_PX = 720, 4000

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1200px; padding: 0 1rem; color: #222; background: #fff }
article { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 1.5rem; border-top: 1px solid #ccc; padding: 1.5rem 0 }
figure { margin: 0; position: relative } img { width: 100%; display: block } svg { position: absolute; inset: 0; width: 100%; height: 100% }
polygon { fill: none; stroke: #888; stroke-width: 2; vector-effect: non-scaling-stroke } polygon.wrong { stroke: #c22; stroke-width: 3; fill: #c222 }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; vertical-align: top; padding: .3rem .5rem; border-bottom: 1px solid #eee }
tr.wrong td { background: #fdecec } small { color: #666 } td { overflow-wrap: anywhere }
"""


class Miss(NamedTuple):
    """A field that is not what its label says."""

    name: str
    label: str
    found: dict[str, Any]


def misses(receipt: dict[str, Any], truth: dict[str, Any], score: ModuleType) -> list[Miss]:
    """The labelled fields of a receipt that are wrong or were not read."""
    out = []
    for name in PLACES:
        wanted = score.NORM[name](truth.get(name))
        if wanted is None:
            continue
        found = field(receipt, name) if "merchant" in receipt else {"value": None, "status": "missing"}
        others = [score.words(x) for x in truth.get("merchant_alt") or []] if name == "merchant" else []
        if score.NORM[name](found.get("value")) not in (wanted, *others):
            out.append(Miss(name, str(truth[name]), found))
    return out


def page(title: str, articles: Iterable[Html], told: str) -> str:
    head = join([tag("meta", charset="utf-8"), tag("title", title), tag("style", Html(STYLE))])
    return "<!doctype html>" + tag(
        "html", tag("head", head), tag("body", tag("h1", title), tag("p", told), *articles), lang="en"
    )


def article(receipt: dict[str, Any], found: list[Miss], image: Path) -> Html:
    rows = [tag("tr", *(tag("th", name) for name in ("field", "label", "read")))]
    for miss in found:
        its = miss.found
        evidence = (
            f"{its['raw_text']!r}, confidence {its['confidence']}, {its['rule_id']}"
            if its.get("raw_text")
            else its["status"]
        )
        read = join([str(its.get("value")), tag("br"), tag("small", evidence)])
        others = "; ".join(f"{o['value']} ({o['reason']})" for o in its.get("alternatives", ())[:4])
        rows.append(tag("tr", tag("td", miss.name), tag("td", miss.label), tag("td", read), class_="wrong"))
        if others:
            rows.append(tag("tr", tag("td"), tag("td", tag("small", "not chosen")), tag("td", tag("small", others))))
    failed = [check["message"] for check in receipt.get("checks", ()) if not check["passed"]]
    notes = tag("ul", *(tag("li", note) for note in failed)) if failed else None
    words = tag("div", tag("h2", image.name), tag("table", *rows), notes)
    return tag("article", tag("figure", _picture(receipt, found, image)), words)


def _picture(receipt: dict[str, Any], found: list[Miss], image: Path) -> Html:
    """The first page, upright, with the boxes of the labelled fields on it."""
    readings = receipt.get("processing", {}).get("page_readings", ())
    rotation = next((its["rotation_applied"] for its in readings if its["page"] == 1), None)
    with tempfile.NamedTemporaryFile(suffix=".jpg") as file:
        try:
            write_picture(str(image), 1, file.name, ReadLimits(), rotation)
        except DocumentError as error:
            return tag("p", f"no picture: {error}")
        with Image.open(file.name) as picture:
            picture.thumbnail((WIDTH_PX, TALLEST_PX))
            out = io.BytesIO()
            picture.convert("RGB").save(out, "JPEG", quality=70)
    wrong = {miss.name for miss in found}
    boxes = []
    for name in PLACES if "merchant" in receipt else ():
        its = field(receipt, name)
        if its.get("polygon") and its.get("page") == 1:
            points = " ".join(f"{x * 1000:.1f},{y * 1000:.1f}" for x, y in its["polygon"])
            style = "wrong" if name in wrong else None
            boxes.append(tag("polygon", tag("title", f"{name}: {its['value']}"), points=points, class_=style))
    source = "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()
    svg = tag("svg", *boxes, viewBox="0 0 1000 1000", preserveAspectRatio="none")
    return join([tag("img", src=source, alt=f"the first page of {image.name}", loading="lazy"), svg])


def write(output: Path, data: Path, labels: Path, score: ModuleType, target: Path) -> int:
    """Writes the page; returns how many receipts are on it."""
    truth = dict(score.labels(labels))
    images = {path.stem: path for path in sorted((data / "img").iterdir())}
    articles, seen = [], set()
    for line in output.read_text(encoding="utf-8").splitlines():
        receipt = json.loads(line)
        name = Path(receipt.get("source", {}).get("uri", "")).stem
        if name in truth and name not in seen and (found := misses(receipt, truth[name], score)):
            articles.append(article(receipt, found, images[name]))
        seen.add(name)
    told = f"{len(articles)} of {len(truth)} receipts of {data.name} have a field that is not what its label says."
    target.write_text(page(f"{data.name}: misses", articles, told), encoding="utf-8")
    return len(articles)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("receipts", type=Path)
    parser.add_argument("--data", type=Path, default=SHARED / "data" / "sroie-dev")
    parser.add_argument("--labels", type=Path, help="default: key/ or labels.jsonl of the data")
    parser.add_argument("--score", type=Path, default=SHARED / "tools" / "score.py")
    parser.add_argument("-o", "--output", type=Path, default=Path("misses.html"))
    given = parser.parse_args()
    for needed in (given.data, given.score, given.receipts):
        if not needed.exists():
            sys.exit(f"{needed} is not here")
    labels = given.labels or next(p for p in (given.data / "key", given.data / "labels.jsonl") if p.exists())
    count = write(given.receipts, given.data, labels, score_module(given.score), given.output)
    print(f"{given.output}: {count} receipts")


if __name__ == "__main__":
    main()
