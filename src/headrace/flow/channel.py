"""The channel: a bounded line of items with two ends.

    sender, receiver = channel(64)
    await sender.send(item)          # waits for room
    async for item in receiver: ...  # until the last sender is closed and everything has been received

What it promises, under any cancellation and timeout: an item that `send` accepted is received exactly once, in order;
an item that was refused or whose send was cancelled is not in the channel; the bounds hold at every instant; whoever
waits is served in order of arrival and never sleeps while what it waits for is free.

`close` means that no more comes in. It never throws away what is in: that stays readable until `Ended`.

The ends are in `headrace.flow.sender` and `headrace.flow.receiver`, the rules behind them in `headrace.flow.slots`.
Belongs to one event loop; `send_blocking` and `recv_blocking` alone may be called from other threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.flow.clock import Clock
from headrace.flow.gauges import Gauge
from headrace.flow.receiver import Receiver
from headrace.flow.sender import Sender
from headrace.flow.slots import Slots
from headrace.flow.weights import Scale


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
    scale = Scale(weigh, weight_capacity) if weigh is not None and weight_capacity is not None else None
    slots: Slots[Any] = Slots(capacity, scale, depth_gauge, clock)
    return Sender(slots), Receiver(slots)
