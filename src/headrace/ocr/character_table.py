"""From what the recognition network saw to characters: which ones are looked for, and how they are named."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable

import numpy as np

from headrace.ocr.recognition_model import Floats

_OTHER_SHARE = 0.2
"""Letters of other scripts, of all letters, from which a page is not a Latin one."""
_LEAST_OTHER = 4
_LATIN_BLOCKS = (
    range(0x20, 0x7F),
    range(0xA1, 0x250),
    range(0x1E00, 0x1F00),  # Vietnamese
    range(0x2010, 0x2040),  # dashes, quotes, bullets
    range(0x20A0, 0x20D0),  # currencies
)
_LATIN_SIGNS = "\u2116\u2122\u2212"  # numero, trade mark, minus


class CharacterTable:
    """Names characters by the features of each place of a line.

    Args:
        weights: features x characters.
        bias: one for each character.
        characters: the first is the blank.
    """

    def __init__(self, weights: Floats, bias: Floats, characters: tuple[str, ...]) -> None:
        self._weights, self._bias, self._characters = weights, bias, characters

    def only(self, wanted: Callable[[str], bool]) -> CharacterTable:
        """A table of the blank and the wanted characters; confidences are among these then."""
        kept = [n for n, character in enumerate(self._characters) if n == 0 or wanted(character)]
        weights = np.ascontiguousarray(self._weights[:, kept])
        return CharacterTable(weights, self._bias[kept], tuple(self._characters[n] for n in kept))

    def name(self, features: Floats) -> tuple[str, float]:
        """Text and mean confidence, 0..1. Greedy CTC: the best character at each place, repeats and blanks dropped."""
        scores = features @ self._weights
        scores += self._bias
        best = scores.argmax(1)
        kept = best != 0
        kept[1:] &= best[1:] != best[:-1]
        if not kept.any():
            return "", 0.0
        peaks = scores[kept]
        # The softmax of the best one, at the places where it is wanted.
        confidence = float((1 / np.exp(peaks - peaks.max(1, keepdims=True)).sum(1)).mean())
        return "".join(self._characters[n] for n in best[kept]), min(1.0, confidence)


def is_latin(character: str) -> bool:
    """Whether a character belongs on a Latin page: letters, digits, punctuation, currencies."""
    return len(character) == 1 and (
        any(ord(character) in block for block in _LATIN_BLOCKS) or character in _LATIN_SIGNS
    )


def is_other_script(texts: Iterable[str]) -> bool:
    """Whether these lines, read with every character, are mostly not Latin: a misread stroke here and there is."""
    letters = [c for text in texts for c in text if unicodedata.category(c)[0] == "L"]
    others = sum(not is_latin(c) and not "\uff21" <= c <= "\uff5a" for c in letters)  # full-width Latin is Latin
    return others >= _LEAST_OTHER and others >= _OTHER_SHARE * len(letters)
