"""The window against plain models: sorted for the order, a sum for the bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.execution.window import Chunk, UnorderedWindow, Window

choices = st.lists(st.integers(0, 2**16), max_size=120)
Windows = Window[int, int]


class Model:
    """What a window should be: items and their weights, those that run, and those to be handed on."""

    def __init__(self, window: Windows, weights: list[int]) -> None:
        self.window = window
        self.weights = weights
        self.running: list[Chunk[int, int]] = []
        self.inside: list[int] = []
        self.admitted = 0

    def weight(self, item: int) -> int:
        return self.weights[item % len(self.weights)]

    def admit(self, pick: int) -> None:
        """Up to three at once, as far as there is room; more of them to the last chunk when that is not sent yet."""
        items: list[int] = []
        for item in range(self.admitted, self.admitted + 1 + pick % 3):
            weight = sum(map(self.weight, [*items, item]))
            fits = self.window.fits(weight) if self.inside or not items else weight <= (self.window.budget or weight)
            if not fits or self.window.room == len(items):
                break
            items.append(item)
        if not items:
            return
        self.admitted += len(items)
        self.inside += items
        weights = [self.weight(item) for item in items]
        if self.running and self.running[-1].end == items[0] and pick % 5 == 0:
            self.window.extend(self.running[-1], items, weights)
        else:
            self.running.append(self.window.admit(items, weights, now=float(items[0])))

    def settle(self, pick: int) -> None:
        if self.running:
            chunk = self.running.pop(pick % len(self.running))
            self.window.settle(chunk, list(chunk.items))

    def split(self, pick: int) -> None:
        if self.running:
            place = pick % len(self.running)
            self.running[place : place + 1] = self.window.split(self.running[place])

    def take(self) -> int:
        item = self.window.ready.popleft()
        self.inside.remove(item)
        return item

    def check(self) -> None:
        window, running = self.window, [item for chunk in self.running for item in chunk.items]
        assert window.used == len(self.inside) <= window.limit
        assert window.room == window.limit - len(self.inside)
        assert (window.admitted, window.released) == (self.admitted, self.admitted - len(self.inside))
        assert window.weight == sum(map(self.weight, self.inside))
        assert window.budget is None or window.weight <= window.budget or len(self.inside) == 1
        assert window.settled == len(self.inside) - len(running)
        assert window.items == tuple(sorted(self.inside))
        assert [chunk.position for chunk in window] == sorted({chunk.position for chunk in window})


@given(choices, st.integers(1, 9), st.integers(1, 40), st.lists(st.integers(0, 60), min_size=1, max_size=20))
def test_whatever_order_chunks_settle_in_items_are_released_in_order_and_the_bounds_hold(
    picks: list[int], limit: int, budget: int, weights: list[int]
) -> None:
    model = Model(Window(limit, budget), weights)
    released: list[int] = []
    for pick in picks:
        match pick % 4:
            case 0:
                model.admit(pick // 4)
            case 1:
                model.settle(pick // 4)
            case 2:
                model.split(pick // 4)
            case _:
                while model.window.ready and len(released) % 4 != pick // 4 % 4:
                    released.append(model.take())
        model.check()
        # Nothing that can be released is kept: what is not ready waits behind an item that runs.
        waiting = model.inside[len(model.window.ready) :]
        assert not waiting or any(chunk.items[0] == waiting[0] for chunk in model.running)
        assert model.window.unsettled == tuple(waiting)
    assert released == list(range(len(released)))


@given(choices, st.integers(1, 9))
def test_without_order_each_outcome_is_released_at_once_and_the_bounds_hold(picks: list[int], limit: int) -> None:
    model = Model(UnorderedWindow(limit), [1])
    for pick in picks:
        match pick % 4:
            case 0:
                model.admit(pick // 4)
            case 1:
                model.settle(pick // 4)
            case 2:
                model.split(pick // 4)
            case _:
                if model.window.ready:
                    model.take()
        model.check()
        assert sorted(model.window.unsettled) == sorted(item for chunk in model.running for item in chunk.items)


def test_the_head_item_is_admitted_whatever_it_weighs() -> None:
    window: Window[str, str] = Window(4, budget=10)
    assert window.fits(1_000)
    chunk = window.admit(["heavy"], [1_000])
    assert window.room
    assert not window.fits(1)
    window.settle(chunk, ["heavy"])
    assert window.ready.popleft() == "heavy"
    assert window.fits(1)


def test_what_stands_behind_an_unsettled_item_counts_as_unsettled() -> None:
    window: Window[str, str] = Window(4)
    first, _, third = (window.admit([item]) for item in "abc")
    window.settle(first, ["A"])
    window.settle(third, ["C"])
    assert window.unsettled == ("b", "c")


def test_the_oldest_is_of_what_was_not_handed_on() -> None:
    window: Window[str, str] = Window(4)
    assert window.oldest_at is None
    first, _ = window.admit(["a", "b"], now=1.0), window.admit(["c"], now=2.0)
    window.settle(first, ["A", "B"])
    assert window.oldest_at == 1.0
    window.ready.popleft()
    assert window.oldest_at == 1.0
    window.ready.popleft()
    assert window.oldest_at == 2.0


def test_what_is_withdrawn_is_handed_on_no_more_and_stays_in_the_window() -> None:
    window: Window[str, str] = Window(4)
    window.settle(window.admit(["a", "b", "c"]), ["A", "B", "C"])
    assert window.ready.popleft() == "A"
    window.withdraw()
    assert not window.ready
    assert window.items == ("b", "c")
    assert (window.released, window.used, window.settled) == (1, 2, 2)


def test_an_item_that_was_taken_is_not_kept_by_its_chunk() -> None:
    window: Window[str, str] = Window(4)
    chunk = window.admit(["a", "b", "c"])
    window.settle(chunk, ["A", "B", "C"])
    window.ready.popleft()
    assert window.room == 2
    assert (chunk.position, chunk.items) == (2, ["b", "c"])


@pytest.mark.parametrize(("limit", "budget"), [(0, None), (-1, None), (1, 0)])
def test_a_window_without_room_is_refused(limit: int, budget: int | None) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Window(limit, budget)
