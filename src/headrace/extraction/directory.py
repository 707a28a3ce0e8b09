"""A directory of merchants known from confirmed receipts: a name or an address that is nearly one of them becomes it.

An option: without a directory nothing changes. What was read stays in `raw_text` and first among the alternatives, and
the field's `rule_id` says `directory`.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable

from headrace.documents.receipt import Alternative, Merchant, TextField
from headrace.extraction.rows import fold

LIKE = 0.94  # similarity of letters and digits from which two strings are taken for the same
_CANDIDATES = 8  # compared letter by letter
_RAREST = 16  # groups of three letters that are looked up


class Directory:
    """Confirmed merchants, found by what their names and addresses have in common with a reading.

    Args:
        merchants: (name, address or None) with how often each was confirmed: of two spellings with the same letters and
            digits the more usual is taken. Its size is bounded by whoever reads them (`ingest.confirmed`).
    """

    def __init__(self, merchants: Iterable[tuple[tuple[str, str | None], int]]) -> None:
        names: Counter[str] = Counter()
        addresses: Counter[str] = Counter()
        for (name, address), times in merchants:
            names[name] += times
            if address:
                addresses[address] += times
        self._names, self._addresses = _Strings(names), _Strings(addresses)

    def applied(self, merchant: Merchant) -> Merchant:
        """The merchant with name and address as they were confirmed, where they nearly are."""
        changes = {}
        for part, strings in (("name", self._names), ("address", self._addresses)):
            field: TextField = getattr(merchant, part)
            if field.value is not None and (near := strings.nearest(field.value)) is not None:
                changes[part] = _confirmed(field, *near)
        return merchant.model_copy(update=changes)


def _confirmed(field: TextField, value: str, similarity: float) -> TextField:
    others = field.alternatives
    if field.value is not None and field.value != value:
        reason = f"as read: {similarity:.2f} like a confirmed one"
        others = (Alternative(value=field.value, confidence=round(field.confidence / 2, 3), reason=reason), *others)
    trust = round(max(field.confidence, 0.95 * similarity), 3)
    return field.model_copy(
        update={"value": value, "confidence": trust, "alternatives": others, "rule_id": "directory"}
    )


class _Strings:
    """Strings by their letters and digits, and by the groups of three of them."""

    def __init__(self, strings: Counter[str]) -> None:
        best: dict[str, str] = {}
        for text, _ in sorted(strings.items(), key=lambda item: (-item[1], item[0])):
            if len(key := _key(text)) >= 4:
                best.setdefault(key, text)
        self._texts = best
        self._keys = tuple(best)
        self._by_group: dict[str, list[int]] = {}
        for index, key in enumerate(self._keys):
            for group in {key[i : i + 3] for i in range(len(key) - 2)}:
                self._by_group.setdefault(group, []).append(index)

    def nearest(self, text: str) -> tuple[str, float] | None:
        """The confirmed string that this is a reading of, and how like it is; None where none is, or two as much."""
        key = _key(text)
        if key in self._texts:
            return self._texts[key], 1.0
        shared: Counter[int] = Counter()
        groups = {key[i : i + 3] for i in range(len(key) - 2)} & self._by_group.keys()
        # The rarest tell most, and cost least: "jal" is in every other address.
        for group in sorted(groups, key=lambda g: (len(self._by_group[g]), g))[:_RAREST]:
            shared.update(self._by_group[group])
        found = []
        for index, _ in sorted(shared.items(), key=lambda item: (-item[1], item[0]))[:_CANDIDATES]:
            other = self._keys[index]
            similarity = difflib.SequenceMatcher(None, key, other, autojunk=False).ratio()
            if similarity >= LIKE and _same_numbers(key, other):
                found.append((similarity, other))
        found.sort(key=lambda item: (-item[0], item[1]))
        if not found or (len(found) > 1 and found[0][0] - found[1][0] < 0.005):
            return None
        return self._texts[found[0][1]], found[0][0]


# Letters that stand for digits once blanks and case are gone: "l8B" is 18B.
_LIKE_DIGITS = str.maketrans("oilsbgz", "0115869")


def _same_numbers(a: str, b: str) -> bool:
    """House numbers and lots agree: another number is another place, however like the streets are."""
    if len(a) != len(b):
        return re.findall(r"\d", a) == re.findall(r"\d", b)
    pairs = zip(a, b, a.translate(_LIKE_DIGITS), b.translate(_LIKE_DIGITS), strict=True)
    return all(p == q for x, y, p, q in pairs if x.isdigit() or y.isdigit())


def _key(text: str) -> str:
    return re.sub(r"[\W_]+", "", fold(text))
