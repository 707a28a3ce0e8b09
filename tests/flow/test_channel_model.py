"""The channel against a plain deque: whatever is done to it, it answers as the model does."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.flow import Closed, Empty, Ended, Full, Slot, channel
from headrace.flow.testing import run_virtual

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 7)),
        st.tuples(st.just("recv"), st.just(0)),
        st.tuples(st.just("recv_many"), st.integers(1, 5)),
        st.tuples(st.just("reserve"), st.integers(0, 7)),
        st.tuples(st.just("fill"), st.integers(0, 3)),
        st.tuples(st.just("release"), st.integers(0, 3)),
        st.tuples(st.just("sleep"), st.integers(1, 3)),
        st.tuples(st.just("close"), st.just(0)),
    ),
    max_size=80,
)


class Model:
    """What a channel is to those who never wait for it."""

    def __init__(self, capacity: int, weight_capacity: int | None) -> None:
        self.capacity, self.weight_capacity = capacity, weight_capacity
        self.items: deque[tuple[int, float]] = deque()
        self.reserved: list[int] = []
        self.closed = False

    @property
    def weight(self) -> int:
        return sum(item for item, _ in self.items)

    def has_room(self, weight: int) -> bool:
        used = len(self.items) + len(self.reserved)
        if used >= self.capacity:
            return False
        if self.weight_capacity is None or not used:
            return True
        return self.weight + sum(self.reserved) + weight <= self.weight_capacity


@settings(max_examples=300, deadline=None)
@given(capacity=st.integers(1, 5), weight_capacity=st.one_of(st.none(), st.integers(1, 12)), steps=STEPS)
def test_a_channel_answers_as_a_deque_with_bounds(
    capacity: int, weight_capacity: int | None, steps: list[tuple[str, int]]
) -> None:
    run_virtual(_compare(capacity, weight_capacity, steps))


async def _compare(capacity: int, weight_capacity: int | None, steps: list[tuple[str, int]]) -> None:
    options: dict[str, Any] = {}
    if weight_capacity is not None:
        options = {"weight_capacity": weight_capacity, "weigh": lambda item: item}
    sender, receiver = channel(capacity, **options)
    model = Model(capacity, weight_capacity)
    slots: list[Slot[int]] = []
    loop = asyncio.get_running_loop()

    for step, n in steps:
        if step == "send":
            expected: Any = Closed if model.closed else None if model.has_room(n) else Full
            if expected is None:
                sender.try_send(n)
                model.items.append((n, loop.time()))
            else:
                with pytest.raises(expected) as refused:
                    sender.try_send(n)
                assert refused.value.item == n
        elif step == "recv":
            if model.items:
                assert receiver.try_recv() == model.items.popleft()[0]
            else:
                with pytest.raises(Ended if model.closed else Empty):
                    receiver.try_recv()
        elif step == "recv_many" and model.items:
            expected = [model.items.popleft()[0] for _ in range(min(n, len(model.items)))]
            assert await receiver.recv_many(n) == expected
        elif step == "reserve" and not model.closed and model.has_room(n):
            slots.append(await sender.reserve(weight=n if weight_capacity is not None else 0))
            model.reserved.append(n if weight_capacity is not None else 0)
        elif step in ("fill", "release") and n < len(slots):
            slot = slots.pop(n)
            weight = model.reserved.pop(n)
            if step == "release":
                slot.release()
            elif model.closed:
                with pytest.raises(Closed) as late:
                    slot.send(weight)
                assert late.value.item == weight
            else:
                slot.send(weight)
                model.items.append((weight, loop.time()))
        elif step == "sleep":
            await asyncio.sleep(n)
        elif step == "close":
            receiver.close()
            model.closed = True

        s = receiver.statistics()
        assert (s.depth, s.reserved, s.closed) == (len(model.items), len(model.reserved), model.closed)
        assert s.weight == (model.weight if weight_capacity is not None else 0)
        assert s.oldest_age_s == (loop.time() - model.items[0][1] if model.items else 0.0)
    for slot in slots:
        slot.release()
