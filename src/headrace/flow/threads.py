"""How other threads take part: the door through which they send into a channel, and waiting for what the loop says.

A thread that had to ask the event loop for every item would wait for two thread switches each time. So the loop hands
this door the free slots in advance (they count as reserved, so the bound of the channel stays exact), and a thread that
finds one puts its item into the inbox and goes on; one call into the loop then brings in a whole burst. A thread that
finds none waits in the same line as everybody else. Slots that are not used go back as soon as someone waits for room;
after that the door takes only half of the free ones, until it had its way undisturbed.
"""

from __future__ import annotations

import asyncio
import enum
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent import futures
from contextlib import suppress
from functools import partial
from itertools import repeat, starmap
from threading import get_ident
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.flow.errors import Closed, Expired, Refusal

if TYPE_CHECKING:
    from headrace.flow.slots import Slots
    from headrace.flow.waiters import Waiter

T = TypeVar("T")

# A loop that dies wakes nobody, so a waiting thread looks this often whether its loop is still there.
_LOOP_GONE_CHECK_S = 1.0


def outcome_in_loop(loop: asyncio.AbstractEventLoop, loop_thread: int, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs `call()` in the event loop for another thread, which waits for what comes of it.

    Deadlines belong into `call`: then the loop alone decides what was first, and nothing is lost in between.

    Raises:
        RuntimeError: called in the thread of the event loop, which would wait for itself.
        Closed: the event loop is gone.
    """
    if get_ident() == loop_thread and not loop.is_closed():
        raise RuntimeError("a blocking call in the thread of the event loop would wait for itself; await the other one")
    coroutine = call()
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:
        coroutine.close()
        raise Closed("the event loop is gone") from None
    while not future.done() and not loop.is_closed():
        futures.wait([future], timeout=_LOOP_GONE_CHECK_S)
    if not future.done():
        raise Closed("the event loop is gone")
    return future.result()


class _State(enum.Enum):
    WAITS = enum.auto()
    GRANTED = enum.auto()  # a slot is the thread's
    REFUSED = enum.auto()
    WITHDRAWN = enum.auto()  # given up, by the thread


class _Ticket(Generic[T]):
    """One thread that waits for room. `state` changes once, under the lock of the door: that decides who was first."""

    __slots__ = ("item", "refusal", "settled", "state", "waiter", "weight")

    def __init__(self, item: T, weight: int) -> None:
        self.item = item
        self.weight = weight
        self.state = _State.WAITS
        self.refusal: Exception | None = None
        self.settled = threading.Lock()  # taken until the answer is there; an Event would be three times as dear
        self.settled.acquire()
        self.waiter: Waiter | None = None


class ThreadDoor(Generic[T]):
    """Takes items from threads into the slots of one channel. `send` is for threads, the rest for the loop.

    A slot that the loop gives the threads is reserved in the channel. It is spare, or lent to one ticket, or its item
    is in the inbox or about to be; `_fill` brings the item in.

    The way of an item that finds a spare slot takes no lock: a lock would cost as much as all of the rest. It relies on
    three orders instead, each step being atomic: an item is put in before `called` is read, and `called` is cleared
    before the inbox is read, so no item is left in it unseen; and `closed` is read after the item was put in, and set
    before the inbox is read for the last time, so a thread that finds it set knows that it must look for its item.
    """

    def __init__(self, slots: Slots[T], loop: asyncio.AbstractEventLoop) -> None:
        self._slots = slots
        self._loop = loop
        self.loop_thread = get_ident()
        self.spare: deque[None] = deque()  # slots for whoever comes: who pops one has it
        self.inbox: deque[T] = deque()  # accepted; no more than there are slots for
        self._given = 0  # slots with the threads: spare, lent, on the way, in the inbox; counted by the loop
        self.called = False  # the loop was asked to come, and has not come yet
        self.closed = False
        self._disturbed = False  # others wanted the slots that were given
        self._lock = threading.Lock()  # guards the two below, and taking an item back
        self._tickets: list[_Ticket[T]] = []  # not seen by the loop yet; one per blocked thread at most
        self._lent: dict[_Ticket[T], int] = {}  # granted to a thread that has not woken yet, with their weight

    def check_thread(self) -> None:
        """Raises RuntimeError in the thread of the event loop."""
        if get_ident() == self.loop_thread and not self._loop.is_closed():
            raise RuntimeError("send_blocking in the thread of the event loop would wait for itself; use send")

    def knock(self, item: T) -> None:
        """What is to be done after an item was put into the inbox while the loop was not called, or it was closed."""
        if self.closed:
            self._take_back(item)
        else:
            self._call(item)

    def reclaim(self) -> bool:
        """Gives the spare slots back to the channel; whether there were any."""
        count = 0
        with suppress(IndexError):
            while True:
                self.spare.pop()
                count += 1
        if count:
            self._disturbed = True
            self._given -= count
            self._slots.set_aside(-count)
        return count > 0

    def close(self) -> None:
        """Brings in what was accepted and refuses the rest."""
        with self._lock:
            self.closed = True
            lent, self._lent = self._lent, {}
        self.reclaim()
        self._fill()
        for weight in lent.values():
            self._slots.unreserve(weight)
        self._slots.set_aside(len(lent) - self._given)  # the rest is with threads that will see that it is closed
        self._given = 0
        self._come()

    def _come(self) -> None:
        self.called = False
        came = not self.closed and self._fill()
        if came and self._tickets:
            # Receivers run first. Else the threads would get only the room that this burst has left, and would come
            # back for the rest: a switch of threads costs more than all else together.
            self._loop.call_soon(self._serve_tickets)
        else:
            self._serve_tickets()

    def _serve_tickets(self) -> None:
        if self._tickets:
            with self._lock:
                tickets, self._tickets = self._tickets, []
            for ticket in tickets:
                self._line_up(ticket)
        self._give_spare()

    def _fill(self) -> bool:
        items = list(starmap(self.inbox.popleft, repeat((), len(self.inbox))))
        if items:
            self._given -= len(items)
            self._slots.fill_spare(items)
        return bool(items)

    def _line_up(self, ticket: _Ticket[T]) -> None:
        if self.closed:
            self._refuse(ticket, Closed("the channel is closed"))
        elif self._slots.admit_now(ticket.weight):
            self._grant(ticket)
        else:
            ticket.waiter = self._slots.line_up(ticket.weight)
            ticket.waiter.add_done_callback(partial(self._answer, ticket))

    def _answer(self, ticket: _Ticket[T], waiter: Waiter) -> None:
        if waiter.cancelled():
            return  # withdrawn
        refusal = waiter.result()
        if refusal is not None:
            self._refuse(ticket, refusal())
        else:
            self._grant(ticket)
            self._give_spare()

    def _grant(self, ticket: _Ticket[T]) -> None:
        """Gives a thread the slot that is reserved for it. It puts its item in when it wakes, and goes on with more."""
        with self._lock:
            granted = ticket.state is _State.WAITS and not self.closed
            if granted:
                ticket.state = _State.GRANTED
                self._lent[ticket] = ticket.weight
                self._given += 1
        if granted:
            ticket.settled.release()
        else:
            self._slots.unreserve(ticket.weight)
            self._refuse(ticket, Closed("the channel is closed"))

    def _refuse(self, ticket: _Ticket[T], refusal: Exception) -> None:
        with self._lock:
            if ticket.state is not _State.WAITS:
                return
            ticket.state = _State.REFUSED
        ticket.refusal = refusal
        ticket.settled.release()

    def _give_spare(self) -> None:
        """Gives the free room to the threads, unless someone waits for it or it cannot be counted."""
        slots = self._slots
        if slots.senders_waiting or slots.scale is not None or self.closed:
            return
        count = slots.capacity - slots.reserved - len(slots.buffer)
        if self._disturbed:
            self._disturbed = False
            count //= 2
        if count > 0:
            slots.set_aside(count)
            self._given += count
            self.spare.extend(repeat(None, count))

    def send_by_ticket(self, item: T, deadline_s: float | None) -> None:
        """Sends from a thread that found no spare slot: it waits in line."""
        ticket = _Ticket(item, self._slots.weight_of(item))
        with self._lock:
            if self.closed:
                raise Closed("the channel is closed", item=ticket.item)
            self._tickets.append(ticket)
        if not self.called:
            self._call(ticket.item)
        self._wait(ticket, deadline_s)
        if isinstance(ticket.refusal, Refusal):
            ticket.refusal.item = ticket.item
        if ticket.refusal is not None:
            raise ticket.refusal
        with self._lock:
            if self._lent.pop(ticket, None) is None:
                raise Closed("the channel is closed", item=ticket.item)
            self.inbox.append(ticket.item)
        if not self.called:
            self._call(ticket.item)

    def _wait(self, ticket: _Ticket[T], deadline_s: float | None) -> None:
        """Waits, in the thread, for the loop's answer. Whoever decides first, the loop or the deadline, is right."""
        give_up_at = None if deadline_s is None else time.monotonic() + deadline_s
        patience_s = _LOOP_GONE_CHECK_S
        while True:
            if give_up_at is not None:
                patience_s = max(0.0, min(_LOOP_GONE_CHECK_S, give_up_at - time.monotonic()))
            if ticket.settled.acquire(timeout=patience_s):
                return
            gone = self._loop.is_closed()
            late = give_up_at is not None and time.monotonic() >= give_up_at
            if gone or late:
                with self._lock:
                    withdrawn = ticket.state is _State.WAITS
                    if withdrawn:
                        ticket.state = _State.WITHDRAWN
                if gone:
                    raise Closed("the event loop of the channel is gone", item=ticket.item)
                if withdrawn:
                    self._call(ticket.item, partial(self._withdraw, ticket))
                    raise Expired(f"no room within {deadline_s} s", item=ticket.item)
                give_up_at = None  # the loop was first: its answer is on the way
                patience_s = _LOOP_GONE_CHECK_S

    def _take_back(self, item: T) -> None:
        """The door was closed when the item was in: it is refused, unless it was taken along by the closing."""
        with self._lock:
            for at, other in enumerate(list(self.inbox)):  # a copy: others may be putting theirs in
                if other is item:
                    del self.inbox[at]
                    raise Closed("the channel is closed", item=item)

    def _withdraw(self, ticket: _Ticket[T]) -> None:
        if ticket.waiter is not None and ticket.waiter.cancel():
            self._slots.senders_line.leave(ticket.waiter)

    def _call(self, item: T, callback: Callable[[], Any] | None = None) -> None:
        if callback is None:
            callback = self._come
            self.called = True
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            self.called = False
            raise Closed("the event loop of the channel is gone", item=item) from None
