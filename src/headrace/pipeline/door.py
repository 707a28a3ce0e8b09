"""The door into a channel of passages: weighs what goes through, and knows since when it waits for room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from headrace.flow import ChannelStatistics, Full, Receiver, Sender, channel
from headrace.pipeline.lanes import failed
from headrace.pipeline.passage import Passage
from headrace.pipeline.stage import Stage


class Door:
    """One channel, and the way into it. One task at a time goes through.

    Args:
        stage: whose inbound channel this is; None for the channel of outcomes.
        capacity: the most items in the channel.

    Attributes:
        blocked_since: since when it has been waiting for room, in seconds of the loop; None while it does not.
    """

    def __init__(self, stage: Stage | None, capacity: int) -> None:
        self._now = asyncio.get_running_loop().time
        self.capacity = capacity
        self.blocked_since: float | None = None
        self._weighing: tuple[Stage, Callable[[Any], int]] | None = None
        ends: tuple[Sender[Passage], Receiver[Passage]]
        if stage is None or stage.weigh is None or stage.weight_capacity is None:
            ends = channel(capacity)
        else:
            self._weighing = (stage, stage.weigh)
            ends = channel(capacity, weight_capacity=stage.weight_capacity, weigh=_weight)
        self._sender, self.receiver = ends

    def try_send(self, passage: Passage) -> bool:
        """Lets it in if there is room now; says whether it did.

        What cannot be weighed fails in the stage that it cannot get into. Raises Closed when the run was closed.
        """
        if self._weighing is not None:
            passage.weight = self._weigh(passage, *self._weighing)
        else:
            passage.weight = 0
        try:
            self._sender.try_send(passage)
        except Full:
            return False
        passage.entered_at = self._now()
        return True

    async def send(self, passage: Passage) -> None:
        """Waits for room and lets it in, as `try_send`. Cancelled, it is not in."""
        if self.try_send(passage):
            return
        self.blocked_since = self._now()
        try:
            await self._sender.send(passage)
        finally:
            self.blocked_since = None
        passage.entered_at = self._now()

    def close(self) -> None:
        """No more comes through."""
        self._sender.close()

    @property
    def depth(self) -> int:
        """How many are in the channel."""
        return self.receiver.depth

    def statistics(self) -> ChannelStatistics:
        """Of the channel."""
        return self.receiver.statistics()

    @staticmethod
    def _weigh(passage: Passage, stage: Stage, weigh: Callable[[Any], int]) -> int:
        if passage.failure is not None:
            return 0
        try:
            weight = weigh(passage.value)
            if weight < 0:
                raise ValueError(f"an item cannot weigh {weight}")
        except Exception as error:
            passage.take(failed(passage.item, error, 0.0), stage.name, 1)
            return 0
        return weight


def _weight(passage: Passage) -> int:
    return passage.weight
