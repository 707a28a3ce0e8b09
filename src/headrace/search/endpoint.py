"""An embedder behind HTTP: what answers `POST /v1/embeddings` as OpenAI does, such as text-embeddings-inference."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.flow.adaptive import AdaptivePermits, AimdRule, LimitBounds
from headrace.flow.remote import BackPressure, Remote, RemoteStatistics
from headrace.flow.retry import RetryBudget, RetryPolicy
from headrace.search.embedder import Tokens, Vector, of_length_one
from headrace.search.errors import EmbedderFailed, EmbedderMissing

KEY_VARIABLE = "HEADRACE_EMBEDDINGS_KEY"
"""Where the key is read from: what stands in a command line can be read by everybody."""

_CHARACTERS_A_TOKEN = 4  # of English prose; batches are measured with it, and nothing is cut by it
_BATCH_TOKENS = 8192  # an answer of 32 texts; a call over a network should be worth its way
_CALLS_AT_ONCE = LimitBounds(floor=1, ceiling=16, initial=4)


def endpoint_name(url: str, model: str) -> str:
    """What the vectors of a model at an address are kept under."""
    return f"{model}@{url.rstrip('/')}"


class EndpointEmbedder:
    """Calls a service: as many calls at once as it takes (learned), a Retry-After kept, retries within a budget.

    A 429, or a 503 with a Retry-After, pauses all calls for as long as it says. What the service refuses for the sake
    of the texts themselves (other 4xx) is not tried again. Belongs to one event loop.

    Args:
        url: up to and without `/embeddings`: `http://127.0.0.1:8081/v1`.
        model: its name there; a part of `name`.
        key: sent as a bearer token; from HEADRACE_EMBEDDINGS_KEY when not given, and none without that.
        deadline_s: how long a batch may take, with all its attempts and pauses.
        transport: an `httpx` transport in place of the network.

    Raises:
        EmbedderMissing: httpx is not installed.
        ValueError: the address is none of http.
    """

    def __init__(
        self, url: str, model: str, *, key: str | None = None, deadline_s: float = 120.0, transport: Any = None
    ) -> None:
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise EmbedderMissing("an endpoint needs httpx: pip install 'headrace[search]'") from error
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"the endpoint is an address of http or https, not {url!r}")
        key = key or os.environ.get(KEY_VARIABLE)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.name = endpoint_name(url, model)
        self.batch_tokens = _BATCH_TOKENS
        self.sessions = _CALLS_AT_ONCE.ceiling
        self._address, self._model, self._deadline_s = f"{url.rstrip('/')}/embeddings", model, deadline_s
        self._client = httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(60.0), transport=transport)
        self._passing = (httpx.TimeoutException, httpx.TransportError)
        self._remote: Remote | None = None

    def tokens(self, text: str) -> Tokens:
        """See `Embedder.tokens`: an estimate, by length. The service cuts what is too long for its model."""
        return Tokens(text, (), max(1, len(text) // _CHARACTERS_A_TOKEN))

    async def embed(self, texts: Sequence[Tokens]) -> list[Vector]:
        """See `Embedder.embed`. A cancelled call holds nothing.

        Raises:
            EmbedderFailed: an answer without the vectors that were asked for, or one that says it never will have them.
            Expired: no answer within the deadline.
        """
        if self._remote is None:  # belongs to the loop it is first used in
            self._remote = Remote(
                permits=AdaptivePermits(AimdRule(_CALLS_AT_ONCE)).permits,
                policy=RetryPolicy(),
                budget=RetryBudget(),
                worth_another=self._worth_another,
            )
        asked = [text.text for text in texts]
        return await self._remote.call(lambda: self._ask(asked), deadline_s=self._deadline_s)

    def statistics(self) -> RemoteStatistics | None:
        """How the calls went; None before the first."""
        return self._remote.statistics() if self._remote else None

    async def aclose(self) -> None:
        """See `Embedder.aclose`: closes the connections."""
        await self._client.aclose()

    def _worth_another(self, error: Exception) -> bool:
        return isinstance(error, (*self._passing, TimeoutError, _Passing))

    async def _ask(self, texts: list[str]) -> list[Vector]:
        answer = await self._client.post(
            self._address, json={"model": self._model, "input": texts, "encoding_format": "float"}
        )
        retry_after = answer.headers.get("retry-after")
        if answer.status_code == 429 or (answer.status_code == 503 and retry_after):
            raise BackPressure(f"{self._address} answered {answer.status_code}", retry_after=retry_after)
        if answer.status_code >= 500:
            raise _Passing(f"{self._address} answered {answer.status_code}")
        if answer.status_code != 200:
            raise EmbedderFailed(f"{self._address} answered {answer.status_code}: {answer.text[:200]}")
        return self._vectors(answer, len(texts))

    def _vectors(self, answer: Any, count: int) -> list[Vector]:
        try:
            rows = sorted(answer.json()["data"], key=lambda row: int(row["index"]))
            vectors = np.asarray([row["embedding"] for row in rows], dtype=np.float32)
        except (ValueError, TypeError, KeyError) as error:
            raise EmbedderFailed(f"{self._address} answered without vectors: {error}") from error
        if len(rows) != count or vectors.ndim != 2 or not np.isfinite(vectors).all():
            raise EmbedderFailed(f"{self._address} answered {count} texts with vectors of shape {vectors.shape}")
        return of_length_one(vectors)


class _Passing(EmbedderFailed):
    """The service itself is in trouble; another attempt may do."""
