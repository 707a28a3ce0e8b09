"""Two rankings become one. Arithmetic only."""

from __future__ import annotations

import re
from collections.abc import Sequence

_RANK_OFFSET = 60
_WORD = re.compile(r"\w+")
_MOST_WORDS = 32


def fused(*rankings: Sequence[int]) -> list[tuple[int, float]]:
    """Reciprocal rank fusion: each ranking gives 1 / (60 + rank), and the sums decide; ties go to the newest number.

    Cormack, Clarke, Büttcher (2009): "Reciprocal rank fusion outperforms Condorcet and individual rank learning
    methods".
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, number in enumerate(ranking, start=1):
            scores[number] = scores.get(number, 0.0) + 1.0 / (_RANK_OFFSET + rank)
    return sorted(scores.items(), key=lambda pair: (-pair[1], -pair[0]))


def query_words(text: str) -> list[str]:
    """The words to look for: the first 32, each once."""
    return list(dict.fromkeys(_WORD.findall(text)))[:_MOST_WORDS]


def telling(words: Sequence[str], receipts_with: Sequence[int], most: int) -> list[str]:
    """Leaves out the commonest words, so that ranking what has any of the others looks at no more than `most` receipts.

    What nearly every receipt has ("total") says least of what is looked for, and costs most to rank. The rarest word
    that there is stays, however common it is; what no receipt has costs nothing.
    """
    kept: list[str] = []
    looked_at = 0
    for count, word in sorted(zip(receipts_with, words, strict=True), key=lambda pair: pair[0]):
        if looked_at and looked_at + count > most:
            break
        looked_at += count
        kept.append(word)
    return kept


def words_query(words: Sequence[str]) -> str:
    """Any of the words, as a query of FTS5. What FTS5 gives a meaning to is taken literally."""
    return " OR ".join(f'"{word}"' for word in words)
