"""An embedder without a model: words hashed into buckets. For tests, and for who has no model and wants the flow."""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Sequence

import numpy as np

from headrace.search.embedder import Tokens, Vector, of_length_one

_WORD = re.compile(r"\w+")


class NullEmbedder:
    """The same text gives the same vector everywhere; texts are alike when they share words.

    Args:
        dimensions: the width of the vectors.
    """

    sessions = 1
    batch_tokens = 2048

    def __init__(self, dimensions: int = 64) -> None:
        if dimensions < 1:
            raise ValueError(f"dimensions is at least 1, not {dimensions}")
        self.dimensions = dimensions
        self.name = f"null-{dimensions}"

    def tokens(self, text: str) -> Tokens:
        """See `Embedder.tokens`: a word is a token."""
        plain = unicodedata.normalize("NFKC", text).casefold()
        ids = tuple(zlib.crc32(word.encode("utf-8", "replace")) for word in _WORD.findall(plain))
        return Tokens(text, ids, max(1, len(ids)))

    def embed(self, texts: Sequence[Tokens]) -> list[Vector]:
        """See `Embedder.embed`."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            for one in text.ids or (0,):
                vectors[row, one % self.dimensions] += 1.0
        return of_length_one(vectors)

    async def aclose(self) -> None:
        """See `Embedder.aclose`."""
