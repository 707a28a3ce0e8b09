"""The desk: who may come in, in what order texts go to the model, and where their vectors come back.

request --> admission (tokens, bytes, class) --> ladder (by class) --> embed stage (batches, permits) --> its future

Tokens are the currency: a batch costs what its tokens cost. Before a body is read its length stands for them, 4 bytes
each; once it is read the permit is exchanged for the real count, in one step. All that is in flight holds tokens of
the one limit, so the ladder and the memory are bounded by it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.flow import Admission, Admitted, Closed, Ladder, Refusal, ServiceClass
from headrace.flow.drain_rate import DrainRate, RetryAfter
from headrace.flow.ladder_order import ClassBounds
from headrace.flow.permits import Permit
from headrace.flow.sizing import Derived
from headrace.pipeline import Pipeline, Success
from headrace.search.embedder import Embedder, Tokens, Vector
from headrace.search.embedding import BATCH_ITEMS, embed_stage, token_batching

BYTES_A_TOKEN = 4
"""Of English prose; stands for the tokens of a body that was not read yet."""

LOOKAHEAD_BATCHES = 2
"""Less than for indexing: what is with the model already, nobody more urgent can overtake."""

LINGER_S = 0.005
READY = 64
_RESIZE_S = 1.0


@dataclass(frozen=True, slots=True)
class DeskLimits:
    """The bounds of an embedding service.

    Attributes:
        delay_s: how long a request that was let in may take; with the measured rate it gives the limit of tokens.
        tokens: that limit, when it is to be fixed.
        tokens_most: the limit never grows above it.
        bytes_most: bytes of bodies that are in.
        request_tokens: of one request; the limit of tokens is at least twice as much.
        request_texts: of one request.
        request_bytes: of one body.
    """

    delay_s: float = 2.0
    tokens: int | None = None
    tokens_most: int = 1_000_000
    bytes_most: int = 64 << 20
    request_tokens: int = 8192
    request_texts: int = 2048
    request_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        if not 0 < self.delay_s < float("inf"):
            raise ValueError(f"the delay is above 0 and finite, not {self.delay_s!r}")
        if self.tokens is not None and self.tokens < 2 * self.request_tokens:
            raise ValueError(f"the limit is at least {2 * self.request_tokens} tokens: two of the largest requests")

    def derived(self, rate_per_s: float | None) -> Derived[int]:
        """How many tokens may be in, and why.

        Args:
            rate_per_s: tokens per second as measured; None when nothing was measured yet.
        """
        least = 2 * self.request_tokens
        if self.tokens is not None:
            return Derived(self.tokens, "tokens", f"set: {self.tokens}")
        if rate_per_s is None:
            return Derived(least, "tokens", f"two of the largest requests: {least}, until a rate is measured")
        wanted = int(self.delay_s * rate_per_s)
        value = min(self.tokens_most, max(least, wanted))
        because = f"{self.delay_s:g} s x {rate_per_s:.0f} tokens per s = {wanted}"
        return Derived(value, "tokens", because if value == wanted else f"{because}, kept from {least} on")


class Unavailable(Exception):
    """The embedder gave no vectors; says why."""


@dataclass(eq=False, slots=True)
class Order:
    """The texts of one request on their way; `done` gets their vectors, in order."""

    vectors: list[Vector | None]
    done: asyncio.Future[list[Vector]]
    missing: int = field(default=0)


@dataclass(frozen=True, slots=True, eq=False)
class _Piece(Tokens):
    order: Order
    index: int


class Desk:
    """Takes texts in and gives vectors out. Belongs to one event loop; `run` is its work. A part of a `Drain`.

    Args:
        embedder: is not closed here.
        limits: see there.
    """

    def __init__(self, embedder: Embedder, limits: DeskLimits | None = None) -> None:
        self.embedder, self.limits = embedder, limits or DeskLimits()
        self._loop = asyncio.get_running_loop()
        self._rate = DrainRate()
        self.limit = self.limits.derived(None)
        self.admission = Admission(
            self.limit.value,
            limit_bytes=self.limits.bytes_most,
            load=self._load,
            drain_rate=self._rate,
            retry_after=RetryAfter(unknown_s=self.limits.delay_s),
            keeps_rate=False,
        )
        # Room for every token that can be in: who was let in is never refused for want of a place in line.
        room = max(self.limits.tokens_most, self.limit.value)
        longest_s = {class_: self.limits.delay_s * 15 ** (class_ + 1) for class_ in ServiceClass}
        bounds = {class_: ClassBounds(room, longest_s[class_], 1e9) for class_ in ServiceClass}
        self.ladder: Ladder[list[_Piece]] = Ladder(bounds, drain_rate=self._rate, quantum=2048)
        batching = replace(
            token_batching(embedder.batch_tokens, linger_s=LINGER_S), lookahead=LOOKAHEAD_BATCHES * BATCH_ITEMS
        )
        stage = replace(embed_stage(embedder, batching=batching), ordered=False)
        self.pipeline: Pipeline[_Piece, Vector] = Pipeline(
            [stage], ready=READY, window=BATCH_ITEMS * (embedder.sessions + LOOKAHEAD_BATCHES)
        )
        self.orders: dict[Order, None] = {}  # bounded by the tokens they hold
        self.requests = self.texts = self.tokens = self.failed = self.given_up = 0
        self.refused: Counter[tuple[str, ServiceClass]] = Counter()
        self.closed = False
        self.broken: BaseException | None = None
        self._over = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._resized_at = self._loop.time()

    # Coming in

    def let_in(self, class_: ServiceClass, client: str, size_bytes: int, tokens: int) -> Permit:
        """A permit for so many tokens and bytes, now; the caller ends it.

        Raises:
            Refusal: why not, and when to come back.
        """
        self._resize()
        if self.closed or self.broken is not None:
            raise self._refused(Closed("the service is stopping"), class_)
        decision = self.admission.decide(class_, client=client, count=max(1, tokens), size_bytes=size_bytes)
        if isinstance(decision, Admitted):
            return decision.permit
        raise self._refused(decision, class_)

    def estimate(self, size_bytes: int) -> int:
        """How many tokens a body of this length is taken for before it is read."""
        return max(1, min(self.limits.request_tokens, size_bytes // BYTES_A_TOKEN))

    async def vectors(self, texts: Sequence[Tokens], class_: ServiceClass, client: str) -> list[Vector]:
        """The vectors of texts whose tokens the caller holds a permit for, in order.

        A cancelled call gives its texts up: those that are not with the model yet never get there.

        Raises:
            Refusal: there is no place in line.
            Unavailable: the embedder gave no vectors.
        """
        order = Order([None] * len(texts), self._loop.create_future(), len(texts))
        pieces = [_Piece(text.text, text.ids, text.count, order, index) for index, text in enumerate(texts)]
        self.orders[order] = None
        self._idle.clear()
        try:
            for start in range(0, len(pieces), BATCH_ITEMS):  # others get their turn between
                chunk = pieces[start : start + BATCH_ITEMS]
                self.ladder.try_send(chunk, class_, client=client, cost=sum(piece.count for piece in chunk))
            found = await order.done
        except Refusal as refusal:
            raise self._refused(refusal, class_) from None
        finally:
            if not order.done.done() or order.done.cancelled():
                order.done.cancel()
                self.given_up += 1
            del self.orders[order]
            if not self.orders:
                self._idle.set()
        self.requests += 1
        self.texts += len(texts)
        self.tokens += sum(text.count for text in texts)
        return found

    # Working

    async def run(self) -> None:
        """Brings texts to the model until the desk is closed and empty. Cancelling it ends what runs."""
        try:
            async with self.pipeline.run(self._pieces()) as outcomes:
                async for outcome in outcomes:
                    self._came_back(outcome)
        except BaseException as error:
            self.broken = error
            raise
        finally:
            self._give_up(Unavailable("the service has stopped"))
            self._over.set()

    async def ended(self) -> None:
        """Returns when `run` has ended; raises what ended it."""
        await self._over.wait()
        if self.broken is not None:
            raise self.broken

    async def _pieces(self) -> AsyncIterator[_Piece]:
        async for chunk in self.ladder:
            for piece in chunk:
                if not piece.order.done.done():
                    yield piece

    def _came_back(self, outcome: Any) -> None:
        order: Order = outcome.item.order
        if order.done.done():
            return
        if isinstance(outcome, Success):
            order.vectors[outcome.item.index] = outcome.value
            order.missing -= 1
            if not order.missing:
                order.done.set_result([vector for vector in order.vectors if vector is not None])
        else:
            self.failed += 1
            order.done.set_exception(Unavailable(f"input {outcome.item.index}: {outcome.detail}"))

    def _give_up(self, error: Exception) -> int:
        waiting = [order for order in self.orders if not order.done.done()]
        for order in waiting:
            order.done.set_exception(error)
        return len(waiting)

    # Draining

    @property
    def in_flight(self) -> int:
        """Requests whose texts are in."""
        return len(self.orders)

    async def close(self) -> None:
        """Takes nothing more. Requests whose body is being read are refused when they have come."""
        self.closed = True
        self.admission.close()

    async def drained(self) -> None:
        """Returns when no request is in, and nothing more can come."""
        await self._idle.wait()
        self.ladder.close()

    async def hand_back(self) -> int:
        """Ends what waits: its clients are told that the service stops, and can send it elsewhere."""
        self.ladder.hand_back()
        return self._give_up(Closed("the service is stopping"))

    # Bounds

    def rate_per_s(self) -> float | None:
        """Tokens per second, measured while more waited; None before that."""
        return self._rate.per_s(self._loop.time())

    def _load(self) -> float:
        permits = self.admission.permits
        return permits.held / permits.limit

    def _resize(self) -> None:
        now = self._loop.time()
        if now - self._resized_at >= _RESIZE_S:
            self._resized_at = now
            self.limit = self.limits.derived(self.rate_per_s())
            if self.limit.value != self.admission.permits.limit:
                self.admission.resize(self.limit.value, limit_bytes=self.limits.bytes_most)

    def _refused(self, refusal: Refusal, class_: ServiceClass) -> Refusal:
        self.refused[type(refusal).__name__, class_] += 1
        return refusal


@contextlib.asynccontextmanager
async def open_desk(embedder: Embedder, limits: DeskLimits | None = None) -> AsyncIterator[Desk]:
    """A desk at work; at the end its work is cancelled, and the embedder closed."""
    desk = Desk(embedder, limits)
    work = asyncio.create_task(desk.run(), name="desk")
    try:
        yield desk
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await embedder.aclose()
