"""What a channel says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.flow.slots import Slots


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """A channel at one moment.

    Attributes:
        depth: items in it.
        limit: the most it holds (0: only what a waiting receiver has asked for).
        weight: what the items weigh together; 0 when nothing is weighed.
        weight_limit: the most they may weigh, but for one single heavier item; None when nothing is weighed.
        reserved: slots that are reserved and not filled yet.
        waiting_senders: senders that wait for room, threads included.
        waiting_receivers: receivers that wait for an item.
        oldest_age_s: how long the next item to be received has been in; 0.0 when there is none. Never too
            low, and at most a hundredth of a second too high (or one turn of the event loop, if that took longer).
        senders: open senders.
        receivers: open receivers.
        closed: whether no more comes in.
    """

    depth: int
    limit: int
    weight: int
    weight_limit: int | None
    reserved: int
    waiting_senders: int
    waiting_receivers: int
    oldest_age_s: float
    senders: int
    receivers: int
    closed: bool


def statistics_of(s: Slots[Any]) -> ChannelStatistics:
    """The state of a channel at this moment."""
    return ChannelStatistics(
        depth=len(s.buffer),
        limit=s.capacity,
        weight=s.scale.settle(s.taken) if s.scale is not None else 0,
        weight_limit=s.scale.limit if s.scale is not None else None,
        reserved=s.reserved - s.owed - len(s.threads.spare),
        waiting_senders=len(s.senders_line) + s.senders_stepping,
        waiting_receivers=len(s.receivers_line) + s.receivers_stepping,
        oldest_age_s=s.stamps.age_s(s.taken) if s.buffer else 0.0,
        senders=s.senders,
        receivers=s.receivers,
        closed=s.closed,
    )
