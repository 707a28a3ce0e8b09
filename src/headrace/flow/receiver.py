"""The end of a channel where items come out, with its fast paths."""

from __future__ import annotations

from asyncio import CancelledError, timeout
from types import TracebackType
from typing import TypeVar

from headrace.flow.channel_end import End
from headrace.flow.collecting import Collecting
from headrace.flow.errors import Empty, Ended, Expired
from headrace.flow.slots import Slots
from headrace.flow.threads import outcome_in_loop

T = TypeVar("T")


class Receiver(End[T]):
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
            if len(buffer) > s.claimed and not (s.receivers_waiting and s.receivers_line.someone_is_early()):
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
            there = len(s.buffer) - s.claimed
            if there > 0 and not (s.receivers_waiting and s.receivers_line.someone_is_early()):
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
