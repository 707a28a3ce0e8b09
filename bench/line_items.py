"""How right line items, absent fields and sums are: what the field-by-field score does not look at.

    python bench/line_items.py receipts.jsonl --labels labels.jsonl [--errors N]

`receipts.jsonl` is what `headrace run` or `bench/accuracy.py` wrote. Labels are one object a line: `id`, `line_items` (a
list with an `amount` each; null where they are not labelled) and `expect_absent` (fields that are not on the image). A
receipt counts as right when the amounts of its items are the labelled ones, each as often as it is labelled.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

ABSENT = {
    "merchant": ("merchant", "name"),
    "date": ("issue_date",),
    "total": ("payable_amount",),
    "tax": ("tax_amount",),
}


@dataclass(slots=True)
class ItemScore:
    """What was right over all labelled documents; the lists name the misses."""

    labelled: int = 0
    all_right: int = 0
    items: int = 0
    items_right: int = 0
    items_read: int = 0
    absent: int = 0
    absent_empty: int = 0
    misses: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[tuple[str, str]]:
        """Name and figure of each line of the table."""
        yield "receipts with labelled items", str(self.labelled)
        yield "all amounts right", f"{self.all_right / max(1, self.labelled):.3f} ({self.all_right})"
        yield "amounts found", f"{self.items_right / max(1, self.items):.3f} of {self.items}"
        yield "amounts right of those read", f"{self.items_right / max(1, self.items_read):.3f} of {self.items_read}"
        yield "absent fields left empty", f"{self.absent_empty} of {self.absent}"


def amounts(items: Any) -> Counter[Decimal]:
    """The amounts of a list of items, each as often as it stands there."""
    return Counter(Decimal(str(i["amount"])).normalize() for i in items or () if i.get("amount") is not None)


def score(read: Mapping[str, Mapping[str, Any]], labels: Path) -> ItemScore:
    """Compares the receipts, by id, with the labels."""
    found = ItemScore()
    for line in labels.read_text(encoding="utf-8").splitlines():
        label = json.loads(line) if line.strip() else {}
        if not label or (label.get("n_documents") or 1) != 1:
            continue
        receipt = read.get(str(label["id"]), {})
        for name in label.get("expect_absent") or ():
            value: Any = receipt
            for key in ABSENT[name]:
                value = (value or {}).get(key)
            value = (value or {}).get("value")
            found.absent += 1
            found.absent_empty += value is None
            if value is not None:
                found.invented.append(f"{label['id']} {name}: {value!r} is not on the image")
        if not label.get("line_items"):
            continue
        want, got = amounts(label["line_items"]), amounts(receipt.get("line_items"))
        found.labelled += 1
        found.all_right += want == got
        found.items += want.total()
        found.items_read += got.total()
        found.items_right += (want & got).total()
        if want != got:
            missing, extra = sorted((want - got).elements()), sorted((got - want).elements())
            found.misses.append(f"{label['id']}: missing {[*map(str, missing)]}, not on the image {[*map(str, extra)]}")
    return found


def receipts(path: Path) -> dict[str, Mapping[str, Any]]:
    """The receipts of an output file by the stem of their source; of several in one document the first."""
    out: dict[str, Mapping[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line) if line.strip() else {}
        receipt = entry.get("receipt") or entry
        if source := receipt.get("source"):
            out.setdefault(Path(source["uri"]).stem, receipt)
    return out


def table(found: ItemScore) -> str:
    """The figures as Markdown."""
    return "\n".join(["| items | |", "|---|---|", *(f"| {name} | {figure} |" for name, figure in found.rows()), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--labels", type=Path, required=True)
    parser.add_argument("--errors", type=int, default=0, help="list so many misses")
    given = parser.parse_args()
    found = score(receipts(given.output), given.labels)
    print(table(found))
    for line in (found.misses + found.invented)[: given.errors]:
        print(" ", line)


if __name__ == "__main__":
    main()
