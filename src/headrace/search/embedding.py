"""Texts through a model, as a pipeline: counted, batched with texts of their length, embedded, in order.

source --> tokens (inline) --channel--> embed (batches; a permit for each model session) --ready--> sink

Every hop is bounded; `embedding_pipeline(...).window` says by how much, with the sum.
"""

from __future__ import annotations

from typing import Any

from headrace.flow.permits import Permits
from headrace.pipeline import Batching, Pipeline, Stage
from headrace.search.embedder import Embedder, Tokens, Vector

BATCH_ITEMS = 32

LOOKAHEAD_BATCHES = 8
"""How many batches' worth of waiting texts the next batch is chosen from: more of it, less padding."""

MOST_PADDING = 0.1
LINGER_S = 0.05
GROUP = 64
"""Outcomes that a sink may be given at once."""


def token_batching(max_tokens: int, *, max_items: int = BATCH_ITEMS, linger_s: float = LINGER_S) -> Batching:
    """Batches of `Tokens` by what they cost a model that pads: the longest times the count.

    Args:
        max_tokens: the most tokens in a batch, padding counted.
        max_items: the most texts in it.
        linger_s: how long the oldest text waits for others of its length.
    """
    return Batching(
        max_items=max_items,
        max_weight=max_tokens,
        weigh=_count,
        padded=True,
        max_padding=MOST_PADDING,
        lookahead=LOOKAHEAD_BATCHES * max_items,
        linger_s=linger_s,
    )


def embed_stage(embedder: Embedder, *, batching: Batching | None = None, permits: Permits | None = None) -> Stage:
    """The stage that turns `Tokens` into vectors; a permit is held for exactly the call of a session.

    Permits belong to an event loop: call it in the one that runs the stage.

    Args:
        embedder: is not closed here.
        batching: `token_batching` of the embedder's `batch_tokens` when not given.
        permits: one for each session when not given. Give the same to all stages that share the embedder.
    """
    return Stage(
        embedder.embed,
        name="embed",
        workers=embedder.sessions,
        batching=batching or token_batching(embedder.batch_tokens),
        permits=permits or Permits(embedder.sessions),
    )


def embedding_pipeline(embedder: Embedder, *, batching: Batching | None = None) -> Pipeline[Any, Vector]:
    """Items with a `text` in, their vectors out, in order; an item without a vector is a failure in its place.

    Call it in the event loop that runs it.
    """

    def tokens(item: Any) -> Tokens:
        return embedder.tokens(item.text)

    counting = Stage(tokens, name="tokens", kind="inline")
    return Pipeline([counting, embed_stage(embedder, batching=batching)], ready=GROUP)


def _count(text: Tokens) -> int:
    return text.count
