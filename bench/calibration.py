"""What confidences are worth: fits the curve of each field on labelled receipts, and measures them on others.

    python bench/calibration.py                         measures the curves, each fifth of the receipts by curves fitted on the other four
    python bench/calibration.py --write                 fits on all sets and writes the package's calibration.json
    python bench/calibration.py --chart FILE.svg        the reliability chart, from held-out values

Expected calibration error: values in five groups of equal size by confidence; the mean distance between the mean
confidence of a group and the share of it that is right. With n values and perfect confidences, chance alone makes about
0.8 x sqrt(p (1 - p) x 5 / n): it is printed beside. Accepted: what the default policy lets through without a person.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from labelled import PLACES, field, receipts, right, score_module

from headrace.documents.status import Verdict
from headrace.extraction import calibration
from headrace.extraction.calibration import Curve, calibrated
from headrace.extraction.extractor import extract
from headrace.ledger import Policy

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
SETS = ("data/sroie-dev", "data/wild-dev", "data/sroie-lines.jsonl.gz")
GROUPS = FOLDS = 5
TODAY = dt.date(2026, 12, 1)


class Seen(NamedTuple):
    """A value whose truth is known: of which set, which fold and field, its raw score, and whether it is right."""

    set: str
    fold: int
    name: str
    raw: float
    right: bool


def look(sources: Sequence[Path], score: ModuleType, cache: Path) -> tuple[list[Seen], dict[str, list[Any]]]:
    """All values with a label, and the uncalibrated receipts of each set with their truth."""
    seen, read = [], defaultdict(list)
    for source in sources:
        for number, one in enumerate(receipts(source, score, cache)):
            fold = number % FOLDS
            fields = extract(one.pages, today=TODAY, curves={})
            told = fields.model_dump(mode="json")
            read[source.name].append((fields, one.truth, fold))
            for name in PLACES:
                its = field(told, name)
                verdict = right(score, name, its["value"], one.truth)
                if verdict is not None:
                    seen.append(Seen(source.name, fold, name, its["confidence"], verdict))
    return seen, dict(read)


def fit(seen: Iterable[Seen]) -> dict[str, Curve]:
    by_field = defaultdict(list)
    for one in seen:
        by_field[one.name].append((one.raw, one.right))
    return {PLACES[name]: Curve.fit(values) for name, values in sorted(by_field.items())}


def error(pairs: Sequence[tuple[float, bool]]) -> float:
    """The expected calibration error; see the top of the file."""
    ordered = sorted(pairs, key=_confidence)
    total = 0.0
    for n in range(GROUPS):
        group = ordered[n * len(ordered) // GROUPS : (n + 1) * len(ordered) // GROUPS]
        if group:
            total += abs(sum(c for c, _ in group) - sum(r for _, r in group))
    return total / len(ordered)


def _confidence(pair: tuple[float, bool]) -> float:
    return pair[0]  # not the truth as well: equal confidences would be parted by it


def by_chance(pairs: Sequence[tuple[float, bool]]) -> float:
    share = sum(r for _, r in pairs) / len(pairs)
    return 0.8 * math.sqrt(share * (1 - share) * GROUPS / len(pairs))


def folds(seen: Sequence[Seen]) -> Iterator[tuple[dict[str, Curve], list[Seen]]]:
    """The curves fitted on four fifths of all receipts, and the values of the other fifth, five times."""
    for n in range(FOLDS):
        yield fit(one for one in seen if one.fold != n), [one for one in seen if one.fold == n]


def held_out(seen: Sequence[Seen]) -> dict[tuple[str, str], list[tuple[float, bool]]]:
    """(confidence, right) of each set and field, by curves that were fitted on other receipts."""
    out: dict[tuple[str, str], list[tuple[float, bool]]] = defaultdict(list)
    for curves, others in folds(seen):
        for one in others:
            out[one.set, one.name].append((curves[PLACES[one.name]].at(one.raw), one.right))
    return dict(out)


def accepted(read: dict[str, list[Any]], seen: Sequence[Seen], score: ModuleType) -> list[str]:
    lines = ["| set | accepted | totals right among them | totals right among the others |", "|---|---|---|---|"]
    policy, curves = Policy(), [of_others for of_others, _ in folds(seen)]
    for held, its in read.items():
        counts = {True: [0, 0], False: [0, 0]}
        labelled = 0
        for fields, truth, fold in its:
            if score.NORM["total"](truth.get("total")) is None:
                continue
            labelled += 1
            told = calibrated(fields, curves[fold]).model_dump(mode="json")
            verdict, _ = policy.judge(told, TODAY)
            is_right = right(score, "total", field(told, "total")["value"], truth)
            counts[verdict is Verdict.ACCEPTED][0] += 1
            counts[verdict is Verdict.ACCEPTED][1] += bool(is_right)
        (taken, taken_right), (left, left_right) = counts[True], counts[False]
        lines.append(
            f"| {held} | {taken} of {labelled} ({taken / labelled:.2f}) | {taken_right / max(1, taken):.3f} "
            f"| {left_right / max(1, left):.3f} |"
        )
    return lines


def together(pairs: dict[tuple[str, str], list[tuple[float, bool]]]) -> dict[str, list[tuple[float, bool]]]:
    """The values of each field, whatever set they are of."""
    out: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for (_, name), values in pairs.items():
        out[name] += values
    return dict(out)


def table(pairs: dict[tuple[str, str], list[tuple[float, bool]]], seen: Sequence[Seen]) -> list[str]:
    lines = [
        "| field | set | values | right | error, raw | error, calibrated | by chance |",
        "|---|---|---|---|---|---|---|",
    ]
    for (held, name), values in sorted(pairs.items(), key=lambda item: (item[0][1], item[0][0])):
        raw = [(one.raw, one.right) for one in seen if (one.set, one.name) == (held, name)]
        lines.append(
            f"| {name} | {held} | {len(values)} | {sum(r for _, r in values) / len(values):.3f} | {error(raw):.3f} "
            f"| {error(values):.3f} | {by_chance(values):.3f} |"
        )
    for name, values in sorted(together(pairs).items()):
        raw = [(one.raw, one.right) for one in seen if one.name == name]
        lines.append(
            f"| **{name}** | all | {len(values)} | {sum(r for _, r in values) / len(values):.3f} | {error(raw):.3f} "
            f"| **{error(values):.3f}** | {by_chance(values):.3f} |"
        )
    return lines


def chart(pairs: dict[tuple[str, str], list[tuple[float, bool]]]) -> str:
    """A square for each field: confidence to the right, share right upwards, a dot for each group."""
    side, gap = 180, 34
    names = [name for name in PLACES if any(name == its for _, its in pairs)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {len(names) * (side + gap) + gap} {side + 70}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#444" role="img" '
        'aria-label="Reliability: share of right values over their confidence, by field">',
        f'<rect width="{len(names) * (side + gap) + gap}" height="{side + 70}" fill="#fff"/>',
    ]

    def at(value: float) -> float:
        return side * (value - 0.5) / 0.5

    for n, name in enumerate(names):
        x = gap + n * (side + gap)
        parts.append(f'<g transform="translate({x} 30)"><text y="-10" font-weight="600">{name}</text>')
        parts.append(f'<rect width="{side}" height="{side}" fill="none" stroke="#bbb"/>')
        parts.append(f'<line x1="0" y1="{side}" x2="{side}" y2="0" stroke="#bbb" stroke-dasharray="4 4"/>')
        ordered = sorted(
            (pair for (_, its), values in pairs.items() if its == name for pair in values), key=_confidence
        )
        for k in range(GROUPS):
            group = ordered[k * len(ordered) // GROUPS : (k + 1) * len(ordered) // GROUPS]
            if group:
                mean, share = sum(c for c, _ in group) / len(group), sum(r for _, r in group) / len(group)
                parts.append(
                    f'<circle cx="{at(max(0.5, mean)):.1f}" cy="{side - at(max(0.5, share)):.1f}" r="5" fill="#2266aa">'
                    f"<title>{len(group)} values: confidence {mean:.2f}, right {share:.2f}</title></circle>"
                )
        parts.append(f'<text y="{side + 16}">0.5</text><text x="{side}" y="{side + 16}" text-anchor="end">1</text>')
        parts.append("</g>")
    parts.append(f'<text x="{gap}" y="{side + 64}">confidence, to the right; share that is right, upwards; on the '
                 "line they are equal. Each dot is a fifth of the values, held out.</text></svg>")  # fmt: skip
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", type=Path, action="append", help="folder or .jsonl.gz; more than one")
    parser.add_argument("--score", type=Path, default=SHARED / "tools" / "score.py")
    parser.add_argument("--cache", type=Path, default=ROOT / "bench" / "out", help="where the text of images is kept")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--chart", type=Path)
    given = parser.parse_args()
    sources = given.set or [SHARED / name for name in SETS]
    for needed in (*sources, given.score):
        if not needed.exists():
            sys.exit(f"{needed} is not here: give --set and --score")
    score = score_module(given.score)
    seen, read = look(sources, score, given.cache)
    pairs = held_out(seen)
    print("\n".join(table(pairs, seen)), "\n")
    print("\n".join(accepted(read, seen, score)))
    if given.chart:
        given.chart.write_text(chart(pairs))
    if given.write:
        origin = "bench/calibration.py on SROIE (CC BY 4.0) and receipts of many countries with labels of our own"
        fields = {
            name: {"count": curve.count, "knots": [list(knot) for knot in curve.knots]}
            for name, curve in fit(seen).items()
        }
        text = json.dumps({"fitted_by": origin, "on": TODAY.isoformat(), "fields": fields}, indent=1)
        Path(calibration.__file__).with_name("calibration.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
