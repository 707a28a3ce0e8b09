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


def words_query(text: str) -> str:
    """Any of the words, as a query of FTS5; empty without a word. What FTS5 gives a meaning to is taken literally."""
    return " OR ".join(f'"{word}"' for word in _WORD.findall(text)[:_MOST_WORDS])
