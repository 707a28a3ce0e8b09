"""The channel: a bounded line of items with two ends.

    sender, receiver = channel(64)
    await sender.send(item)          # waits for room
    async for item in receiver: ...  # until the last sender is closed and everything has been received

What it promises, under any cancellation and timeout: an item that `send` accepted is received exactly once, in order;
an item that was refused or whose send was cancelled is not in the channel; the bounds hold at every instant; whoever
waits is served in order of arrival and never sleeps while what it waits for is free.

`close` means that no more comes in. It never throws away what is in: that stays readable until `Ended`.

The rules are in `headrace.flow.slots`; this file holds the two ends and their fast paths. Belongs to one event loop;
`send_blocking` and `recv_blocking` alone may be called from other threads.
"""

from __future__ import annotations

from asyncio import CancelledError, timeout
from collections.abc import Callable, Sequence
from threading import get_ident
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from headrace.flow.channel_statistics import ChannelStatistics, statistics_of
from headrace.flow.clock import Clock
from headrace.flow.collecting import Collecting
from headrace.flow.errors import Closed, Empty, Ended, Expired, Full
from headrace.flow.gauges import Gauge
from headrace.flow.sending import Sending, Slot, with_item
from headrace.flow.slots import Slots
from headrace.flow.threads import outcome_in_loop

T = TypeVar("T")


def channel(
    capacity: int,
    *,
    weight_capacity: int | None = None,
    weigh: Callable[[Any], int] | None = None,
    depth_gauge: Gauge | None = None,
    clock: Clock | None = None,
) -> tuple[Sender[Any], Receiver[Any]]:
    """A new channel: its first sender and its first receiver. Call it where its event loop runs.

    Args:
        capacity: the most items it holds. 0 is a rendezvous: an item is let in only for a receiver that waits for one
            (should that receiver be cancelled in the same tick, the item is there for the next).
        weight_capacity: the most that its items may weigh together; goes with `weigh`. An item that is heavier than
            all of it is let in when the channel is empty.
        weigh: the weight of an item, such as its bytes; not negative, cheap, and the same on every call.
        depth_gauge: shows the depth after every change, for a `Gate`; costs some speed.
        clock: what tells the age of items; the running loop's when not given.

    Raises:
        ValueError: a capacity makes no sense, or only one of `weight_capacity` and `weigh` is given.
    """
    if capacity < 0 or (weight_capacity is not None and weight_capacity < 1):
        raise ValueError(f"a capacity cannot be negative, nor a weight capacity below 1: {capacity}, {weight_capacity}")
    if (weigh is None) != (weight_capacity is None):
        raise ValueError("weigh and weight_capacity go together")
    slots: Slots[Any] = Slots(capacity, weight_capacity, weigh, depth_gauge, clock)
    return Sender(slots), Receiver(slots)


class _End(Generic[T]):
    """What both ends have in common: they can be cloned, closed once each, and used as a block."""

    __slots__ = ("_closed", "_slots")

    def __init__(self, slots: Slots[T]) -> None:
        self._slots = slots
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether this end was closed, or no more comes in at all."""
        return self._closed or self._slots.closed

    @property
    def depth(self) -> int:
        """How many items are in the channel."""
        return len(self._slots.buffer)

    def statistics(self) -> ChannelStatistics:
        """A frozen snapshot of the channel."""
        return statistics_of(self._slots)


class _NoWay:
    """What the fast path of a closed sender sees: no room."""

    buffer = ()
    room = -1
    credit = 0


class Sender(_End[T]):
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
        if s.credit and (weight := s.scale(item)) >= 0 and (total := s.weight + weight) <= s.weight_limit:
            s.credit -= 1
            buffer.append(item)
            s.weights.append(weight)
            s.weight = total
            return
        s = self._slots
        if s.put(item, self._closed):
            return
        weight = 0 if s.weigh is None else s.weigh(item)
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
        elif s.credit and (weight := s.scale(item)) >= 0 and (total := s.weight + weight) <= s.weight_limit:
            s.credit -= 1
            buffer.append(item)
            s.weights.append(weight)
            s.weight = total
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


class Receiver(_End[T]):
    """The end where items come out. An async iterator that ends when the channel does."""

    __slots__ = ()

    def __init__(self, slots: Slots[T]) -> None:
        super().__init__(slots)
        slots.receivers += 1

    async def recv(self) -> T:
        """Receives the next item, waiting for one in line.

        A cancelled or timed-out recv takes nothing: the item stays for the next. So `asyncio.timeout` is safe here.

        Raises:
            Ended: no more comes in, and everything that was in has been received.
        """
        s = self._slots
        buffer = s.buffer
        if len(buffer) > s.promised:  # nothing is special: no length is above it when anything is
            s.taken += 1
            return buffer.popleft()
        if len(buffer) > s.claimed + s.wanted:
            return s.take()
        early = s.owed > 0 and not s.receivers_waiting  # a sender is about to run, and nobody is before
        if early:
            await s.step_back_for(1)
            if len(buffer) > s.claimed:
                return s.take()
        waiter = s.line_up_for(1, early)
        try:
            refusal = await waiter
        except CancelledError:
            s.receivers_line.abandon(waiter, 1)
            raise
        if refusal is not None:
            raise refusal()
        return s.take_claimed()

    def try_recv(self) -> T:
        """The next item, if there is one that no waiting receiver has been promised.

        Raises:
            Empty: there is none now.
            Ended: there will never be one.
        """
        s = self._slots
        if len(s.buffer) > s.claimed + s.wanted:
            return s.take()
        if s.ended:
            raise Ended
        raise Empty

    def recv_blocking(self, *, deadline_s: float | None = None) -> T:
        """Receives the next item in another thread, which waits in the same line as everybody else.

        Raises:
            Expired: none came within `deadline_s` seconds; nothing was taken.
            Ended: no more comes in, and everything that was in has been received.
            Closed: the event loop is gone.
            RuntimeError: called in the thread of the event loop, which would wait for itself.
        """

        async def recv() -> T:
            try:
                async with timeout(deadline_s):
                    return await self.recv()
            except TimeoutError:
                raise Expired(f"nothing came within {deadline_s} s") from None

        return outcome_in_loop(self._slots.loop, self._slots.threads.loop_thread, recv)

    async def recv_many(self, max_items: int, *, linger_s: float = 0.0) -> list[T]:
        """Receives at least one item, and as many as there are up to `max_items`.

        A cancelled call takes nothing, not even what came while it lingered.

        Args:
            max_items: the most to take, at least 1.
            linger_s: how long to go on collecting after the first item came. It stops earlier when it has all it may
                take, when the channel is full or closed, or when a sender has to wait.

        Raises:
            Ended: no more comes in, and everything that was in has been received.
        """
        if max_items < 1:
            raise ValueError(f"needs at least one item to receive, got {max_items}")
        s = self._slots
        if linger_s > 0.0:
            return await Collecting(s, min(max_items, s.capacity or 1), linger_s).recv()
        free = len(s.buffer) - s.claimed - s.wanted
        if free > 0:
            return s.pop_many(min(max_items, free))
        ask = max_items if max_items < s.capacity else s.capacity or 1
        early = s.owed > 0 and not s.receivers_waiting
        if early:
            await s.step_back_for(ask)
            if (there := len(s.buffer) - s.claimed) > 0:
                return s.pop_many(there if there < max_items else max_items)
        waiter = s.line_up_for(ask, early)
        try:
            refusal = await waiter
        except CancelledError:
            s.receivers_line.abandon(waiter, ask)
            raise
        if refusal is not None:
            raise refusal()
        return s.take_granted(ask, max_items)

    def clone(self) -> Receiver[T]:
        """Another receiver of the same channel, to be closed on its own: each item goes to one of them."""
        return Receiver(self._slots)

    def close(self) -> None:
        """Closes this receiver; with the last one the channel: no more comes in, and senders get Closed.

        What is in stays readable, through a closed receiver too, until `Ended`. Closing twice changes nothing.
        """
        if not self._closed:
            self._closed = True
            self._slots.receivers -= 1
            if not self._slots.receivers:
                self._slots.close()

    def __aiter__(self) -> Receiver[T]:
        return self

    async def __anext__(self) -> T:
        try:
            return await self.recv()
        except Ended:
            raise StopAsyncIteration from None

    def __enter__(self) -> Receiver[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
