"""Label text: repairing what the OCR did to the words beside amounts, and telling what they announce."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from headrace.extraction.rows import fold
from headrace.extraction.vocabulary import LABELS, STRANGERS, UNSPACED_LABELS, Kind

# What an OCR engine makes of letters in small print.
_GLYPHS = str.maketrans(
    {"0": "o", "1": "l", "|": "l", "}": "l", "]": "l", "!": "l", "5": "s", "$": "s", "8": "b", "@": "a"}
)
_WORD = re.compile(r"[^\W_]+(?:[|}\]!$@](?=[^\W\d_]|$))?(?:[^\W_]+)?")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")


def _vocabulary() -> frozenset[str]:
    words: set[str] = set()
    for _, pattern in LABELS:
        for word in _LETTERS.findall(re.sub(r"\\[a-z]", " ", pattern)):
            words.add(word)
    return frozenset(words - {"amp"})


WORDS = _vocabulary()
_KNOWN = WORDS | STRANGERS


def _without_one(word: str) -> set[str]:
    return {word[:i] + word[i + 1 :] for i in range(len(word))}


def _near() -> dict[str, tuple[str, ...]]:
    """Label words by what is left of them when a letter goes: two words at distance one meet there."""
    index: dict[str, set[str]] = {}
    for word in WORDS:
        if len(word) >= 5:
            for key in _without_one(word) | {word}:
                index.setdefault(key, set()).add(word)
    return {key: tuple(sorted(words)) for key, words in index.items()}


_NEAR = _near()

# Letters that worn or unusual type makes alike share one sign: "iuial" and "total" have the same shape.
_SHAPES = str.maketrans("ltjfuqdkmcyh", "iiiiooornevn")


def _shapes() -> dict[str, str]:
    """Label words by their shape, where the shape belongs to one label word only."""
    index: dict[str, set[str]] = {}
    for word in _KNOWN:
        if len(word) >= 5:
            index.setdefault(word.translate(_SHAPES), set()).add(word)
    return {shape: next(iter(words)) for shape, words in index.items() if len(words) == 1 and words <= WORDS}


_BY_SHAPE = _shapes()


def _one_apart(a: str, b: str) -> bool:
    """True at an edit distance of one: a letter changed, added or lost."""
    if len(a) == len(b):
        return sum(x != y for x, y in zip(a, b, strict=True)) == 1
    short, long = sorted((a, b), key=len)
    return len(long) - len(short) == 1 and short in _without_one(long)


@lru_cache(maxsize=8192)
def repair(word: str) -> str:
    """The label word that this folded word stands for, or the word itself.

    In order: known; known once look-alike glyphs are letters ("t0ta1"); one letter off a label word of five letters or
    more ("totel"); the same shape ("iuial"); label words with the spaces lost ("totalsales").
    """
    if word in _KNOWN or word.isdigit():
        return word
    letters = word.translate(_GLYPHS)
    if letters in _KNOWN:
        return letters
    if len(letters) >= 4 and sum(c.isdigit() for c in word) * 2 <= len(word):
        near: set[str] = set()
        for key in _without_one(letters) | {letters}:
            near.update(w for w in _NEAR.get(key, ()) if _one_apart(letters, w))
        # A word nobody would miss: only when exactly one label word is meant, or the first letter agrees.
        if near:
            same_start = sorted(w for w in near if w[0] == letters[0])
            if same_start or len(near) == 1:
                return (same_start or sorted(near))[0]
    if (shaped := _BY_SHAPE.get(letters.translate(_SHAPES))) is not None:
        return shaped
    if len(letters) >= 7 and not any(c.isdigit() for c in word) and (parts := _split(letters)):
        return " ".join(parts)
    return word


def _split(word: str) -> tuple[str, ...]:
    """The word as two to four label words of three letters or more, or nothing."""
    best: dict[int, tuple[str, ...]] = {0: ()}
    for end in range(3, len(word) + 1):
        for start in range(max(0, end - 16), end - 1):
            if start in best and (end - start >= 3 or word[start:end] == "of") and word[start:end] in WORDS | {"of"}:
                parts = (*best[start], word[start:end])
                if end not in best or len(parts) < len(best[end]):
                    best[end] = parts
    parts = best.get(len(word), ())
    return parts if 2 <= len(parts) <= 4 else ()


# What is left of "total" where the edge of the picture or a fold cuts the row.
_CUT_TOTAL = {"tal", "lal"}


@lru_cache(maxsize=4096)
def label_text(text: str) -> str:
    """Folded, repaired words joined by one space: what the patterns of `vocabulary` are written for."""
    words = [repair(w) for w in _WORD.findall(fold(text))]
    if words and words[0] in _CUT_TOTAL and (len(words) == 1 or words[1] in WORDS):
        words[0] = "total"
    out: list[str] = []
    for word in words:
        broken = out and not (out[-1].isdigit() or word.isdigit()) and len(out[-1]) + len(word) >= 5
        if broken and out[-1] not in WORDS and word not in WORDS:
            joined = repair(out[-1] + word)  # "payak le", "tot al"
            if joined in WORDS:
                out[-1] = joined
                continue
        out.append(word)
    return " ".join(out)


@dataclass(frozen=True, slots=True)
class Label:
    """What a piece of text announces.

    Attributes:
        kind: what the amount beside it is.
        text: the matched words.
        purity: the share of the text that the match covers: a sentence that merely holds "total" has little.
    """

    kind: Kind
    text: str
    purity: float


_PATTERNS = tuple((kind, re.compile(rf"(?<!\w)(?:{pattern})(?!\w)")) for kind, pattern in LABELS)
_UNSPACED_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in UNSPACED_LABELS)


@lru_cache(maxsize=4096)
def classify(text: str) -> Label | None:
    """What this text announces, or None.

    The first pattern of the table that covers at least half of the text wins; else the one that covers most.
    """
    if _UNSPACED.search(text):
        bare = fold(text).replace(" ", "")
        for kind, pattern in _UNSPACED_PATTERNS:
            if found := pattern.search(bare):
                return Label(kind, found[0], len(found[0]) / len(bare))
        if bare in ("計", "计"):
            return Label(Kind.TOTAL, bare, 1.0)
        if bare in ("釣",):
            return Label(Kind.CHANGE, bare, 1.0)
    words = label_text(text)
    letters = sum(c.isalpha() for c in words)
    if not letters:
        return None
    best: Label | None = None
    for kind, pattern in _PATTERNS:
        found = max(pattern.finditer(words), key=lambda m: m.end() - m.start(), default=None)
        if found is None:
            continue
        purity = sum(c.isalpha() for c in found[0]) / letters
        label = Label(kind, found[0], purity)
        if purity >= 0.5:
            return label
        if best is None or purity > best.purity:
            best = label
    return best
