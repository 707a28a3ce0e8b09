"""The contract of an embedder: texts in, unit vectors out. The files beside it keep it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Vector: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text, ready to be embedded.

    Attributes:
        text: as it was.
        ids: what the model is given; empty for an embedder that counts tokens and does not make them.
        count: how many tokens; what batches are measured by. At least 1.
    """

    text: str
    ids: tuple[int, ...]
    count: int


class Embedder(Protocol):
    """Turns texts into vectors of length 1, of one width. Close it when done."""

    @property
    def name(self) -> str:
        """The model, and what else changes a vector: vectors are compared only with those of the same name."""

    @property
    def sessions(self) -> int:
        """How many calls of `embed` may run at once."""

    @property
    def batch_tokens(self) -> int:
        """Tokens of the largest batch that is worth making, padding counted."""

    def tokens(self, text: str) -> Tokens:
        """Counts the tokens of a text, and cuts it to what the model reads. Any thread may call it."""

    def embed(self, texts: Sequence[Tokens]) -> list[Vector] | Awaitable[list[Vector]]:
        """One call for a batch: a vector for each text, in order. A plain function blocks, and is called in a thread.

        Raises:
            EmbedderFailed: there are no vectors.
        """

    async def aclose(self) -> None:
        """Gives back what it holds."""


async def embed_one(embedder: Embedder, text: str) -> Vector:
    """The vector of one text, outside of any batch: of a query."""
    tokens = embedder.tokens(text)
    if inspect.iscoroutinefunction(embedder.embed):
        vectors: list[Vector] = await embedder.embed([tokens])
    else:
        vectors = await asyncio.to_thread(embedder.embed, [tokens])  # type: ignore[arg-type]
    return vectors[0]


def of_length_one(vectors: npt.NDArray[np.float32]) -> list[Vector]:
    """Rows scaled to length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return list((vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32))
