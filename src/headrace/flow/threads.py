"""The door through which other threads send into a channel.

A thread that had to ask the event loop for every item would wait for two thread switches each time. So the loop hands
this door a few slots in advance (they count as reserved, so the bound of the channel stays exact), and a thread that
finds one puts its item into the inbox and goes on; one call into the loop then brings in a whole burst. A thread that
finds none waits in the same line as everybody else. Slots that are not used go back as soon as someone waits for room.
"""

from __future__ import annotations

import asyncio
import enum
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.flow.errors import Closed, Expired, Refusal

if TYPE_CHECKING:
    from headrace.flow.slots import Slots
    from headrace.flow.waiters import Waiter

T = TypeVar("T")

# A loop that dies wakes nobody, so a waiting thread looks this often whether its loop is still there.
_LOOP_GONE_CHECK_S = 1.0


class _State(enum.Enum):
    WAITS = enum.auto()
    ENDED = enum.auto()  # accepted or refused, by the loop
    WITHDRAWN = enum.auto()  # given up, by the thread


class _Ticket(Generic[T]):
    """One thread that waits for room. `state` changes once, under the lock of the door: that decides who was first."""

    __slots__ = ("item", "refusal", "settled", "state", "waiter", "weight")

    def __init__(self, item: T, weight: int) -> None:
        self.item = item
        self.weight = weight
        self.state = _State.WAITS
        self.refusal: Exception | None = None
        self.settled = threading.Event()
        self.waiter: Waiter | None = None

    def settle(self, refusal: Exception | None) -> None:
        if isinstance(refusal, Refusal):
            refusal.item = self.item
        self.refusal = refusal
        self.settled.set()


class ThreadDoor(Generic[T]):
    """Takes items from threads into the slots of one channel. `send` is for threads, the rest for the loop."""

    def __init__(self, slots: Slots[T], loop: asyncio.AbstractEventLoop) -> None:
        self._slots = slots
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._lock = threading.Lock()  # guards everything below; held for a few lines only
        self.spare = 0  # slots that were reserved in advance for whoever comes
        self._inbox: deque[T] = deque()  # accepted; never more than were spare
        self._tickets: deque[_Ticket[T]] = deque()  # not seen by the loop yet; one per blocked thread at most
        self._called = False  # the loop was asked to come, and has not come yet
        self._closed = False

    def send(self, item: T, deadline_s: float | None) -> None:
        """See `Sender.send_blocking`."""
        if threading.get_ident() == self._loop_thread and not self._loop.is_closed():
            raise RuntimeError("send_blocking in the thread of the event loop would wait for itself; use send")
        weight = self._slots.weight_of(item)
        ticket: _Ticket[T] | None = None
        with self._lock:
            if self._closed:
                raise Closed("the channel is closed", item=item)
            if not self._called:
                self._call(self._come, item)
                self._called = True
            if self.spare:
                self.spare -= 1
                self._inbox.append(item)
            else:
                ticket = _Ticket(item, weight)
                self._tickets.append(ticket)
        if ticket is not None:
            self._wait(ticket, deadline_s)

    def reclaim(self) -> bool:
        """Gives the spare slots back to the channel; whether there were any."""
        if not self.spare:  # only the loop adds to it, so 0 stays 0
            return False
        with self._lock:
            count, self.spare = self.spare, 0
        self._slots.set_aside(-count)
        return count > 0

    def close(self) -> None:
        """Brings in what was accepted and refuses the rest."""
        with self._lock:
            self._closed = True
        self._come()
        self.reclaim()

    def _come(self) -> None:
        with self._lock:
            self._called = False
            items, tickets = list(self._inbox), list(self._tickets)
            self._inbox.clear()
            self._tickets.clear()
        if items:
            self._slots.fill_spare(items)
        for ticket in tickets:
            self._line_up(ticket)
        self._spare_some()

    def _line_up(self, ticket: _Ticket[T]) -> None:
        if self._closed:
            self._refuse(ticket, Closed("the channel is closed"))
        elif self._slots.admit_now(ticket.weight):
            self._accept(ticket)
        else:
            ticket.waiter = self._slots.line_up(ticket.weight)
            ticket.waiter.add_done_callback(partial(self._granted, ticket))

    def _granted(self, ticket: _Ticket[T], waiter: Waiter) -> None:
        if waiter.cancelled():
            return  # withdrawn
        refusal = waiter.result()
        if refusal is not None:
            self._refuse(ticket, refusal())
        else:
            self._accept(ticket)
            self._spare_some()

    def _accept(self, ticket: _Ticket[T]) -> None:
        """Ends a ticket for which a slot is reserved."""
        if not self._decide(ticket):
            self._slots.unreserve(ticket.weight)
            return
        try:
            self._slots.fill(ticket.item, ticket.weight, ticket.weight)
        except Closed as refusal:
            ticket.settle(refusal)
        else:
            ticket.settle(None)

    def _refuse(self, ticket: _Ticket[T], refusal: Exception) -> None:
        if self._decide(ticket):
            ticket.settle(refusal)

    def _decide(self, ticket: _Ticket[T]) -> bool:
        with self._lock:
            if ticket.state is not _State.WAITS:
                return False
            ticket.state = _State.ENDED
            return True

    def _spare_some(self) -> None:
        """Sets half of the free room aside for the threads, unless someone waits for it or it cannot be counted."""
        slots = self._slots
        if slots.senders_waiting or slots.weight_capacity is not None or self._closed:
            return
        count = (slots.capacity - slots.reserved - len(slots.buffer)) // 2
        if count > 0:
            slots.set_aside(count)
            with self._lock:
                self.spare += count

    def _wait(self, ticket: _Ticket[T], deadline_s: float | None) -> None:
        """Waits, in the thread, for the loop's answer. Whoever decides first, the loop or the deadline, is right."""
        give_up_at = None if deadline_s is None else time.monotonic() + deadline_s
        while True:
            patience_s = _LOOP_GONE_CHECK_S
            if give_up_at is not None:
                patience_s = max(0.0, min(patience_s, give_up_at - time.monotonic()))
            if ticket.settled.wait(patience_s):
                break
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
                    self._call(partial(self._withdraw, ticket), ticket.item)
                    raise Expired(f"no room within {deadline_s} s", item=ticket.item)
                give_up_at = None  # the loop was first: its answer is on the way
        if ticket.refusal is not None:
            raise ticket.refusal

    def _withdraw(self, ticket: _Ticket[T]) -> None:
        if ticket.waiter is not None and ticket.waiter.cancel():
            self._slots.senders_line.leave(ticket.waiter)

    def _call(self, callback: Callable[[], Any], item: T) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            raise Closed("the event loop of the channel is gone", item=item) from None
