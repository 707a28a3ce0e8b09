"""The window against plain models: sorted for the order, a sum for the bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.execution.window import Slot, UnorderedWindow, Window

choices = st.lists(st.integers(0, 2**16), max_size=120)


@given(choices, st.integers(1, 9), st.integers(1, 40), st.lists(st.integers(0, 60), min_size=1, max_size=20))
def test_whatever_order_items_settle_in_they_are_released_in_order_and_the_bounds_hold(
    picks: list[int], limit: int, budget: int, weights: list[int]
) -> None:
    window: Window[int, int] = Window(limit, budget)
    running: list[Slot[int, int]] = []
    released: list[int] = []
    in_window: list[Slot[int, int]] = []
    for step, pick in enumerate(picks):
        weight = weights[step % len(weights)]
        if pick % 2 and window.has_room and window.fits(weight):
            slot = window.admit(window.admitted, weight, now=float(step))
            running.append(slot)
            in_window.append(slot)
        elif running:
            slot = running.pop(pick % len(running))
            window.settle(slot, slot.item)
            while (outcome := window.release()) is not None:
                released.append(outcome)
                in_window.pop(0)
        assert window.used == len(in_window) <= limit
        assert window.weight == sum(slot.weight for slot in in_window)
        assert window.weight <= budget or len([slot for slot in in_window if slot.weight]) == 1
        assert window.oldest is (in_window[0] if in_window else None)
        assert window.settled == len(in_window) - len(running)
        assert list(window) == in_window
    assert released == list(range(len(released)))
    # Nothing that can be released is kept: what is left waits behind an item that runs.
    assert not in_window or in_window[0] in running


@given(choices, st.integers(1, 9))
def test_without_order_each_outcome_is_released_at_once_and_the_bounds_hold(picks: list[int], limit: int) -> None:
    window: UnorderedWindow[int, int] = UnorderedWindow(limit)
    running: list[Slot[int, int]] = []
    expected: list[int] = []
    released: list[int] = []
    for pick in picks:
        if pick % 2 and window.has_room:
            running.append(window.admit(window.admitted))
        elif running:
            slot = running.pop(pick % len(running))
            window.settle(slot, slot.item)
            expected.append(slot.item)
            assert window.ready
            outcome = window.release()
            assert outcome is not None
            released.append(outcome)
        assert window.used == len(running) <= limit
        assert sorted(slot.item for slot in window.unsettled) == sorted(slot.item for slot in running)
        assert window.oldest is min(running, key=lambda slot: slot.position, default=None)
    assert released == expected


def test_the_head_item_is_admitted_whatever_it_weighs() -> None:
    window: Window[str, str] = Window(4, budget=10)
    assert window.fits(1_000)
    slot = window.admit("heavy", 1_000)
    assert window.has_room
    assert not window.fits(1)
    window.settle(slot, "heavy")
    assert window.release() == "heavy"
    assert window.fits(1)


def test_what_stands_behind_an_unsettled_item_counts_as_unsettled() -> None:
    window: Window[str, str] = Window(4)
    first, second, third = (window.admit(item) for item in "abc")
    window.settle(first, "A")
    window.settle(third, "C")
    assert window.unsettled == (second, third)


@pytest.mark.parametrize(("limit", "budget"), [(0, None), (-1, None), (1, 0)])
def test_a_window_without_room_is_refused(limit: int, budget: int | None) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Window(limit, budget)
