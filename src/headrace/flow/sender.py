"""The end of a channel where items come in, with its fast paths."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Sequence
from threading import get_ident
from types import TracebackType
from typing import TypeVar, cast

from headrace.flow.channel_end import End
from headrace.flow.errors import Closed, Full, with_item
from headrace.flow.sending import Sending, Slot
from headrace.flow.slots import Slots

T = TypeVar("T")


class _NoWay:
    """What the fast path of a closed sender sees: no room."""

    buffer = ()
    room = -1
    scale = None


class Sender(End[T]):
    """The end where items come in."""

    __slots__ = ("_way",)

    def __init__(self, slots: Slots[T]) -> None:
        super().__init__(slots)
        slots.senders += 1
        self._way = slots  # `_slots`, until this sender is closed: saves a test for every item

    # `deadline_s` is not keyword-only, since that would make each call slower by a fiftieth.
    async def send(self, item: T, deadline_s: float | None = None) -> None:
        """Sends one item, waiting for room in line.

        A cancelled send has sent nothing.

        Args:
            item: what to send.
            deadline_s: the longest wait for room, in seconds from now; None waits as long as it takes.

        Raises:
            Expired: there was no room by the deadline; the item is on the error.
            Closed: no more comes in; the item is on the error.
        """
        s = self._way
        buffer = s.buffer
        if len(buffer) < s.room:  # nothing is special: room is negative when anything is
            buffer.append(item)
            return
        if (
            (scale := s.scale) is not None
            and scale.credit
            and scale.total <= (total := scale.total + scale.weigh(item)) <= scale.ceiling
        ):
            scale.credit -= 1
            buffer.append(item)
            scale.totals.append(total)
            scale.total = total
            return
        s = self._slots
        if s.put(item, self._closed):
            return
        weight = 0 if s.scale is None else s.scale.weight_of(item)
        early = deadline_s is None and s.receivers_come()
        if early:
            await s.step_back(1, weight)
            if s.put_first(item, weight):
                return
        waiter = s.line_up(weight, deadline_s, early)
        try:
            refusal = await waiter
        except CancelledError:
            s.senders_line.abandon(waiter, weight)
            raise
        if refusal is not None:
            raise with_item(refusal(), item)
        s.fill(item, weight, weight)

    def try_send(self, item: T) -> None:
        """Sends one item if there is room and nobody waits for it.

        Raises:
            Full: there is no room now; the item is on the error.
            Closed: no more comes in; the item is on the error.
        """
        s = self._way
        buffer = s.buffer
        if len(buffer) < s.room:
            buffer.append(item)
        elif (
            (scale := s.scale) is not None
            and scale.credit
            and scale.total <= (total := scale.total + scale.weigh(item)) <= scale.ceiling
        ):
            scale.credit -= 1
            buffer.append(item)
            scale.totals.append(total)
            scale.total = total
        elif not self._slots.put(item, self._closed):
            raise Full("the channel can take no more now", item=item)

    def send_many(self, items: Sequence[T], *, deadline_s: float | None = None) -> Sending[T]:
        """Sends items in their order, as many at once as there is room for; to be awaited.

        The value that it returns when awaited is how many that were: all of them. Others who wait for room are served
        in between, so a batch is not one unbroken row in a channel with several senders.

        Whatever ends it early, a refusal or a cancellation, the `Sending` says how many items were `accepted` (the
        first ones); the others are not in the channel:

            sending = sender.send_many(items)
            try:
                await sending
            finally:
                left = items[sending.accepted:]

        Args:
            items: what to send; not to be changed before the end.
            deadline_s: the longest wait for room, all in all, in seconds from the moment it is awaited.

        Raises:
            Expired: there was not room for all by the deadline; the items that are left are on the error.
            Closed: no more comes in; the items that are left are on the error.
        """
        return Sending(self, items, deadline_s)

    def send_blocking(self, item: T, *, deadline_s: float | None = None) -> None:
        """Sends one item from another thread, which waits for room in the same line as everybody else.

        Returns when the item is accepted: it will be received even if the channel is closed at this moment.

        Raises:
            Expired: there was no room within `deadline_s` seconds; the item is on the error.
            Closed: no more comes in, or the event loop is gone; the item is on the error.
            RuntimeError: called in the thread of the event loop, which would wait for itself.
        """
        if self._closed:
            raise Closed("this sender was closed", item=item)
        door = self._slots.threads
        if get_ident() == door.loop_thread:
            door.check_thread()
        try:
            door.spare.pop()  # a slot that the loop has given to threads in advance
        except IndexError:
            door.send_by_ticket(item, deadline_s)
            return
        door.inbox.append(item)
        if door.closed or not door.called:
            door.knock(item)

    async def reserve(self, *, weight: int = 0, deadline_s: float | None = None) -> Slot[T]:
        """Waits for room first, so that a costly item is made only once it can be sent.

        A cancelled call has reserved nothing. The slot counts as taken until it is filled or released.

        Args:
            weight: what the item will weigh, in a channel that weighs.
            deadline_s: the longest wait, in seconds from now.

        Raises:
            Expired: there was no room by the deadline.
            Closed: no more comes in.
        """
        s = self._slots
        if not s.admit_now(weight, self._closed):
            await s.senders_line.outcome(s.line_up(weight, deadline_s), weight)
            if s.closed:  # granted first, closed in the same tick
                s.unreserve(weight)
                raise Closed("the channel is closed")
        return Slot(s, weight)

    def clone(self) -> Sender[T]:
        """Another sender of the same channel, to be closed on its own. Raises Closed after the last was closed."""
        if self._closed:
            raise Closed("this sender was closed")
        return Sender(self._slots)

    def close(self) -> None:
        """Closes this sender; with the last one the channel: no more comes in. Closing twice changes nothing.

        Sends that are waiting through other senders go on; after the last close they end with Closed.
        """
        if not self._closed:
            self._closed = True
            self._way = cast("Slots[T]", _NoWay)
            self._slots.senders -= 1
            if not self._slots.senders:
                self._slots.close()

    def __enter__(self) -> Sender[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
