"""What the two ends of a channel have in common."""

from __future__ import annotations

from typing import Generic, TypeVar

from headrace.flow.channel_statistics import ChannelStatistics, statistics_of
from headrace.flow.slots import Slots

T = TypeVar("T")


class End(Generic[T]):
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
