"""Every accepted document without an entry, in memory: who is next, and what may be committed next.

    waiting ──(class, age, fair turns)──> working ──outcome──> settled ──(order of its batch)──> ready

One that came alone is ready when it is settled. Those of one batch become ready in the order of their positions, so a
slow one holds back its batch. It never holds back the workers or another batch: a batch has only its share on its way,
and what is beyond waits behind it, outside the line. Bounded by the permits: each document here holds one.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Hashable, Mapping

from headrace.documents.document import Document
from headrace.flow import ClassBounds, Permit, ServiceClass
from headrace.flow.ladder_order import LadderOrder, Waiting
from headrace.ledger import Draft
from headrace.storage.sql_service import Waits
from headrace.storage.store import Telemetry


class Stand(enum.Enum):
    """Where a document is."""

    BEHIND = "behind"
    WAITING = "waiting"
    WORKING = "working"
    SETTLED = "settled"


class Held(Waiting):
    """A document with its permit.

    Attributes:
        document, book: what, and where its entry goes.
        fence: of its last lease.
        cancelled_by: who asked for its end. Set in the database thread, in which entries are decided too.
        on_way: whether it takes a place of its batch's share.
        draft, telemetry: its end; None until it is settled.
    """

    __slots__ = (
        "batch",
        "book",
        "cancelled_by",
        "document",
        "draft",
        "fence",
        "on_way",
        "permit",
        "stand",
        "telemetry",
    )

    def __init__(self, waits: Waits, permit: Permit, came_at: float, batch: BatchLine | None) -> None:
        super().__init__(ServiceClass(waits.service_class), waits.client, 1.0, came_at)
        self.document: Document = waits.document
        self.book = waits.book
        self.fence = waits.fence
        self.cancelled_by = waits.cancelled_by
        self.permit = permit
        self.batch = batch
        self.stand = Stand.BEHIND
        self.on_way = False
        self.draft: Draft | None = None
        self.telemetry = Telemetry()


class BatchLine:
    """The documents of one batch without an entry, in order."""

    __slots__ = ("behind", "on_way", "order")

    def __init__(self) -> None:
        self.order: deque[Held] = deque()
        self.behind: deque[Held] = deque()
        self.on_way = 0


class Line:
    """All of them.

    Args:
        bounds: the longest wait of each class; its room is the permits'.
        window: documents on their way, of batches that share it.
        least: what a batch may have on its way however many there are.
        weight_of: the weight of a client in the turns of its class.
        now: the clock.
    """

    def __init__(
        self,
        bounds: Mapping[ServiceClass, ClassBounds],
        *,
        window: int,
        least: int,
        weight_of: Callable[[Hashable], float] | None,
        now: Callable[[], float],
    ) -> None:
        self._order: LadderOrder[Held] = LadderOrder(bounds, weight_of=weight_of)
        self._window = window
        self._least = least
        self._now = now
        self._batches: dict[int, BatchLine] = {}
        self._held: dict[str, Held] = {}
        self.ready: deque[Held] = deque()
        self.rate_per_s: float | None = None

    def __len__(self) -> int:
        return len(self._held)

    @property
    def waiting(self) -> int:
        """How many could be started now."""
        return len(self._order)

    @property
    def share(self) -> int:
        """How many documents one batch may have on their way."""
        return max(self._least, self._window // max(1, len(self._batches)))

    def get(self, document_id: str) -> Held | None:
        """The document with this id; None when it has its entry, or never came."""
        return self._held.get(document_id)

    def everyone(self) -> list[Held]:
        """All."""
        return list(self._held.values())

    def in_class(self, class_: ServiceClass) -> int:
        """How many of a class could be started now."""
        return self._order.depth(class_)

    def oldest_age_s(self, class_: ServiceClass) -> float:
        """How long the oldest of those has waited."""
        return self._order.oldest_age_s(class_, self._now())

    def ahead_of(self, held: Held) -> int:
        """About how many are started before it."""
        return int(self._order.cost_before(held.class_))

    def add(self, waits: Waits, permit: Permit, waited_s: float = 0.0) -> Held:
        """One that was accepted. Those of a batch come in the order of their positions."""
        batch = None
        if not waits.single:
            batch = self._batches.setdefault(waits.document.batch_id, BatchLine())
        held = Held(waits, permit, self._now() - waited_s, batch)
        self._held[waits.document.document_id] = held
        if batch is None:
            self._push(held)
        else:
            batch.order.append(held)
            batch.behind.append(held)
            self._advance(batch)
        return held

    def take(self, most: int) -> list[Held]:
        """The next to be worked on, by class, age and turn."""
        taken: list[Held] = []
        while len(taken) < most and (held := self._order.peek(self._now(), self.rate_per_s)) is not None:
            self._order.take(held)
            held.stand = Stand.WORKING
            taken.append(held)
        return taken

    def put_back(self, held: Held) -> None:
        """One that was taken waits again."""
        self._push(held)

    def settle(self, held: Held, draft: Draft, telemetry: Telemetry) -> None:
        """It has its end: what may be committed now becomes ready."""
        if held.stand is Stand.WAITING:
            self._order.discard(held)
        elif held.stand is Stand.BEHIND and held.batch is not None:
            held.batch.behind.remove(held)  # and takes no place: those before it need the places to get done
        held.stand, held.draft, held.telemetry = Stand.SETTLED, draft, telemetry
        if held.batch is None:
            self.ready.append(held)
            return
        self._release(held.batch)

    def _release(self, batch: BatchLine) -> None:
        while batch.order and batch.order[0].draft is not None:
            self.ready.append(batch.order.popleft())

    def gone(self, held: Held) -> None:
        """It has its entry, or is somebody else's."""
        self._held.pop(held.document.document_id, None)
        batch = held.batch
        if batch is None:
            return
        batch.on_way -= held.on_way
        if held.draft is None:  # somebody else's: those behind it wait for it no more
            batch.order.remove(held)
            self._release(batch)
        if batch.order or batch.on_way:
            self._advance(batch)
        elif self._batches.get(held.document.batch_id) is batch:
            del self._batches[held.document.batch_id]

    def _advance(self, batch: BatchLine) -> None:
        while batch.behind and batch.on_way < self.share:
            batch.on_way += 1
            held = batch.behind.popleft()
            held.on_way = True
            self._push(held)

    def _push(self, held: Held) -> None:
        held.stand = Stand.WAITING
        self._order.push(held)

    def settled_behind(self) -> int:
        """How many have their outcome and wait for one before them in their batch."""
        return sum(held.draft is not None for batch in self._batches.values() for held in batch.order)
