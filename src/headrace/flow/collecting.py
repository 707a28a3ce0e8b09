"""Receiving many with patience: what a lingering receiver has been promised, and when it stops waiting for more."""

from __future__ import annotations

import sys
from asyncio import TimerHandle
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from headrace.flow.slots import Slots

T = TypeVar("T")


class Collecting(Generic[T]):
    """One lingering receiver. Items it has collected stay in the buffer, claimed, until it takes them all at once."""

    __slots__ = ("_linger_s", "_slots", "_timer", "_want", "have")

    def __init__(self, slots: Slots[T], want: int, linger_s: float) -> None:
        self._slots = slots
        self._want = want
        self._linger_s = linger_s  # 0 once it is over
        self._timer: TimerHandle | None = None
        self.have = 0

    async def recv(self) -> list[T]:
        """Takes at least one item, and waits for more for a while; see `Receiver.recv_many`."""
        slots = self._slots
        if not slots.claim_now(self):
            waiter = slots.line_up_for(self)
            try:
                await slots.receivers_line.outcome(waiter, self)
            except BaseException:
                self._stop()
                raise
        count = self.have
        self.forget()
        return slots.pop_many(count)

    def claim(self, free: int) -> bool:
        """Claims what it can use of `free` items; True when it should go and take them, False when it waits on."""
        slots = self._slots
        count = min(self._want - self.have, free)
        if count > 0:
            self.have += count
            slots.claimed += count
            slots.promised = sys.maxsize
        if not self.have:
            return False
        if self.have >= self._want or self._linger_s <= 0.0 or slots.closed or slots.senders_waiting:
            return True
        if self._timer is None:
            self._timer = slots.loop.call_later(self._linger_s, self._linger_over)
        return False

    def forget(self) -> None:
        """Claims nothing any more."""
        self._slots.claimed -= self.have
        self.have = 0
        if self._timer is not None:
            self._timer.cancel()

    def _linger_over(self) -> None:
        self._linger_s = 0.0
        self._slots.receivers_line.advance()

    def _stop(self) -> None:
        """Leaves to the others what it had collected, whether it was granted or still waited for more."""
        if self.have:
            self.forget()
            self._slots.shut_fast_ways()
            self._slots.receivers_line.advance()
        elif self._timer is not None:
            self._timer.cancel()
