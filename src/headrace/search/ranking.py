"""Two rankings become one. Arithmetic only."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

_RANK_OFFSET = 60
_WORD = re.compile(r"\w+")
_MOST_WORDS = 32
_RANKED_MOST = 5000


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


def words_of(text: str) -> list[str]:
    """The words to look for, each once, as the index of words has them: without case and marks."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return list(dict.fromkeys(_WORD.findall(plain)))[:_MOST_WORDS]


def telling(words: Sequence[str], counts: Mapping[str, int]) -> tuple[list[str], bool]:
    """The words that are worth ranking by, and whether ranking is worth its time at all.

    A word of half of all receipts says next to nothing, and BM25 would look at each of those. So the rarest are taken,
    as long as they stand in few receipts together; when even the rarest is common, one match is as good as another.

    Args:
        words: without one, nothing is taken.
        counts: in how many receipts each stands; 0 when not known.
    """
    rarest = sorted(words, key=lambda word: counts.get(word, 0))
    taken = rarest[:1]
    total = sum(counts.get(word, 0) for word in taken)
    ranked = total <= _RANKED_MOST
    for word in rarest[1:]:
        total += counts.get(word, 0)
        if total > _RANKED_MOST:
            break
        taken.append(word)
    return taken, ranked


def words_query(words: Sequence[str]) -> str:
    """Any of the words, as a query of FTS5. What FTS5 gives a meaning to is taken literally."""
    return " OR ".join(f'"{word}"' for word in words)
