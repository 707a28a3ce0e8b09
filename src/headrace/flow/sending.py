"""Ways of sending in more than one step: a batch on its way, and room held for an item that is yet to be made."""

from __future__ import annotations

import warnings
from collections.abc import Coroutine, Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.flow.errors import Closed, Refusal, with_item

if TYPE_CHECKING:
    from headrace.flow.sender import Sender
    from headrace.flow.slots import Slots

T = TypeVar("T")


class BatchRoom:
    """What a sender of many waits for: `want` slots, or as many of them as are free; `have` is what it was given."""

    __slots__ = ("have", "want")

    def __init__(self, want: int) -> None:
        self.want = want
        self.have = 0


class Sending(Coroutine[Any, Any, int], Generic[T]):
    """A batch on its way into a channel: see `Sender.send_many`. Await it once, or make a task of it.

    Attributes:
        accepted: how many items, from the first on, are in the channel (or have been received) by now.
    """

    __slots__ = ("_items", "_sender", "_slots", "_steps", "accepted")

    def __init__(self, sender: Sender[T], items: Sequence[T], deadline_s: float | None) -> None:
        self.accepted = 0
        self._sender = sender
        self._slots = sender._slots
        self._items = items
        self._steps = self._run(deadline_s)

    async def _run(self, deadline_s: float | None) -> int:
        s, items = self._slots, self._items
        if len(s.buffer) + len(items) <= s.room and not self._sender._closed:  # nothing is special: see `Sender.send`
            s.buffer.extend(items)
            self.accepted = len(items)
            return self.accepted
        give_up_at = None if deadline_s is None else s.loop.time() + deadline_s
        try:
            while not self._put_now():
                left_s = None if give_up_at is None else give_up_at - s.loop.time()
                left = len(items) - self.accepted
                # As `Slots.receivers_come`: this is the whole price of a batch, and a call would be a good part of it.
                early = left_s is None and s.plain and not s.senders_waiting and (s.wanted > 0 or s.claimed > 0)
                if early:
                    await s.step_back(left, 0)
                    self.accepted += (count := s.put_many_first(items[self.accepted :] if self.accepted else items))
                    if self.accepted == len(items):
                        break
                    if count:
                        continue
                need = BatchRoom(left) if s.plain else s.weight_of(items[self.accepted])
                await s.senders_line.outcome(s.line_up(need, left_s, early), need)
                self._fill(need)
        except Refusal as refusal:
            raise with_item(refusal, items[self.accepted :]) from None
        return self.accepted

    def _put_now(self) -> bool:
        """Puts in what there is room for; whether that was the rest."""
        s, items = self._slots, self._items
        if s.plain:
            full = s.room >= 0 and len(s.buffer) >= s.capacity - s.reserved  # and open, or there would be no room
            if not full or s.threads.spare or self._sender._closed:
                self.accepted += s.put_many(items[self.accepted :] if self.accepted else items, self._sender._closed)
        else:
            while self.accepted < len(items) and s.put(items[self.accepted], self._sender._closed):
                self.accepted += 1
        return self.accepted == len(items)

    def _fill(self, need: int | BatchRoom) -> None:
        """Fills the room that was granted."""
        s, items = self._slots, self._items
        if isinstance(need, int):
            s.fill(items[self.accepted], need, need)
            self.accepted += 1
        else:
            s.reserved -= need.have
            if s.closed:
                raise Closed("the channel was closed while its room was being filled")
            s.extend(items[self.accepted : self.accepted + need.have])
            self.accepted += need.have

    def __await__(self) -> Generator[Any, None, int]:
        return self._steps.__await__()

    def send(self, value: Any) -> Any:
        """As of any coroutine; for the task that runs it."""
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """As of any coroutine; for the task that runs it."""
        return self._steps.throw(*error)

    def close(self) -> None:
        """As of any coroutine; for who will not await it."""
        self._steps.close()


class Slot(Generic[T]):
    """Room in a channel for one item, held until it is filled or released; leaving its `with` block releases it."""

    __slots__ = ("_open", "_slots", "weight")

    def __init__(self, slots: Slots[T], weight: int) -> None:
        self._slots = slots
        self._open = True
        self.weight = weight

    def send(self, item: T) -> None:
        """Fills the slot, without waiting.

        Raises:
            Closed: no more comes in; the item is on the error and the slot is gone.
            ValueError: the item is heavier than what was reserved (the slot stays), or the slot was used before.
        """
        if not self._open:
            raise ValueError("this slot was filled or released before")
        scale = self._slots.scale
        actual = 0 if scale is None else scale.weight_of(item)
        if actual > self.weight:
            raise ValueError(f"reserved for a weight of {self.weight}, the item weighs {actual}")
        self._open = False
        self._slots.fill(item, self.weight, actual)

    def release(self) -> None:
        """Gives the room to the next in line; changes nothing once the slot is filled or released."""
        if self._open:
            self._open = False
            self._slots.unreserve(self.weight)

    def __del__(self) -> None:
        if self._open:
            self._slots.unreserve_soon(self.weight)
            warnings.warn("a slot of a channel was neither filled nor released", ResourceWarning, stacklevel=1)

    def __enter__(self) -> Slot[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.release()
