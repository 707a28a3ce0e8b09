"""Admitted work: an item together with the permit that it holds; and a batch of them with one permit for all."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.flow.errors import Ended, Expired, PermitSpent
from headrace.flow.permits import Ending

if TYPE_CHECKING:
    from headrace.flow.intake import Intake

T = TypeVar("T")


class Work(Generic[T]):
    """An admitted item, with the permit that it holds. Ends once, as a `Permit` does; its `with` block gives the item.

    Work that is forgotten is not lost: when it is collected its permit ends as ignore, with a ResourceWarning.

    Attributes:
        item: what was admitted.
        received_at: when it was received; 0.0 unless somebody observes the endings.
    """

    __slots__ = ("_intake", "item", "received_at")

    # Filled in by `Intake`: a constructor with arguments would cost as much as all the rest of receiving.
    _intake: Intake[Any] | None
    item: T
    received_at: float

    @property
    def count(self) -> int:
        """How many permits it holds."""
        return 1

    @property
    def ended(self) -> bool:
        """Whether the permit was given back."""
        return self._intake is None

    def done(self) -> None:
        """Ends the permit: the work was done. Raises PermitSpent when it had ended."""
        intake = self._intake
        if intake is None:
            raise PermitSpent("this work had ended before it was done")
        self._intake = None
        ended = intake.done + 1
        if ended < intake.mark:
            intake.done = ended
        else:
            intake.end(Ending.DONE, 1, self.received_at)

    def ignore(self) -> None:
        """Ends the permit: the work says nothing about the resource (not started, cancelled). Raises PermitSpent."""
        self._end(Ending.IGNORE)

    def dropped(self) -> None:
        """Ends the permit: the resource was overloaded (timeout, refusal by a remote). Raises PermitSpent."""
        self._end(Ending.DROPPED)

    def _end(self, ending: Ending) -> None:
        intake, self._intake = self._intake, None
        if intake is None:
            raise PermitSpent(f"this work had ended before it was {ending.value}")
        intake.end(ending, self.count, self.received_at)

    def __enter__(self) -> T:
        if self._intake is None:
            raise PermitSpent("this work had ended before its block began")
        return self.item

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._intake is None:
            return
        self._end(ending_by(kind))

    def __del__(self) -> None:
        intake = self._intake
        if intake is not None and intake.forgotten(self.count):
            warnings.warn("work was never ended", ResourceWarning, stacklevel=1, source=self)


class Batch(Work[list[T]], Generic[T]):
    """Several admitted items that are worked on, and end, together: one permit for all of them."""

    __slots__ = ()

    @property
    def count(self) -> int:
        """How many permits it holds."""
        return len(self.item)

    def done(self) -> None:
        """Ends the permit: the work was done. Raises PermitSpent when it had ended."""
        self._end(Ending.DONE)


class Lane(Generic[T]):
    """One worker's way of receiving: one item at a time, whose permit ends when the worker comes back for the next.

        with intake.lane() as lane:
            async for item in lane:
                ...

    The fastest way, for nothing is made for each item. Asking for the next item says that the last one is done;
    `ignore` and `dropped` end it otherwise. Leaving the block ends it as `Work` would: by TimeoutError or Expired as
    dropped, by another exception as ignore. A lane that is forgotten with an item gives the permit back as ignore, with
    a ResourceWarning. One task at a time may use a lane.
    """

    __slots__ = ("_buffer", "_holds", "_intake", "_received_at")

    def __init__(self, intake: Intake[T]) -> None:
        self._intake = intake
        self._buffer = intake.buffer
        self._holds = False
        self._received_at = 0.0

    @property
    def holds(self) -> bool:
        """Whether an item was received and has not ended."""
        return self._holds

    async def recv(self) -> T:
        """Ends the item before as done, and receives the next one, waiting for it in line.

        A cancelled recv takes nothing: the item stays for the next. The one before has ended all the same.

        Raises:
            Ended: no more comes in, and everything that was in has been received.
        """
        intake, buffer = self._intake, self._buffer
        if self._holds:
            ended = intake.done + 1
            if ended < intake.mark:
                intake.done = ended
            else:
                self._end(Ending.DONE)
        if len(buffer) > intake.promised:
            self._holds = True
            return buffer.popleft()
        self._holds = False
        await intake.claim()
        self._holds = True
        item, self._received_at = intake.take_claimed()
        return item

    def done(self) -> None:
        """Ends the item in hand: it was done. Raises PermitSpent when there is none."""
        self._end(Ending.DONE)

    def ignore(self) -> None:
        """Ends the item in hand: it says nothing about the resource. Raises PermitSpent when there is none."""
        self._end(Ending.IGNORE)

    def dropped(self) -> None:
        """Ends the item in hand: the resource was overloaded. Raises PermitSpent when there is none."""
        self._end(Ending.DROPPED)

    def _end(self, ending: Ending) -> None:
        if not self._holds:
            raise PermitSpent("this lane holds no item")
        self._holds = False
        self._intake.end(ending, 1, self._received_at)

    def __aiter__(self) -> Lane[T]:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.recv()
        except Ended:
            raise StopAsyncIteration from None

    def __enter__(self) -> Lane[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._holds:
            self._end(ending_by(kind))

    def __del__(self) -> None:
        if self._holds and self._intake.forgotten(1):
            warnings.warn("a lane was left with an item in hand", ResourceWarning, stacklevel=1, source=self)


def ending_by(kind: type[BaseException] | None) -> Ending:
    """How a block that is left by `kind` ends what it holds."""
    if kind is None:
        return Ending.DONE
    return Ending.DROPPED if issubclass(kind, TimeoutError | Expired) else Ending.IGNORE
