"""The choice of batches, by tables and by properties. Nothing waits here."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline import Batching

weights = st.lists(st.integers(0, 300), min_size=1, max_size=60)
limits = st.one_of(st.none(), st.integers(1, 600))


def identity(weight: int) -> int:
    return weight


def batches(batching: Batching, waiting: list[int]) -> list[list[int]]:
    """All batches of what waits, as a stage would take them: positions in the order of arrival."""
    line, taken = list(range(len(waiting))), []
    while line:
        seen = line[: batching.sight]
        chosen = batching.choose([waiting[place] for place in seen], final=True)
        assert chosen is not None
        assert chosen[0] == 0, "the oldest is always in the next batch"
        assert chosen == sorted(set(chosen)), "positions rise, each once"
        taken.append([seen[place] for place in chosen])
        line = [place for place in line if place not in set(taken[-1])]
    return taken


@given(weights, st.integers(1, 9), limits)
def test_a_batch_is_never_over_its_weight_unless_it_is_a_single_item(
    waiting: list[int], max_items: int, max_weight: int | None
) -> None:
    batching = Batching(max_items=max_items, max_weight=max_weight, weigh=identity)
    for batch in batches(batching, waiting):
        assert len(batch) <= max_items
        cost = batching.cost([waiting[place] for place in batch])
        assert max_weight is None or cost <= max_weight or len(batch) == 1


@given(weights, st.integers(1, 9), limits)
def test_without_padding_batches_are_the_stream_cut_into_pieces(
    waiting: list[int], max_items: int, max_weight: int | None
) -> None:
    batching = Batching(max_items=max_items, max_weight=max_weight, weigh=identity)
    together = [place for batch in batches(batching, waiting) for place in batch]
    assert together == list(range(len(waiting)))


@given(weights, st.integers(1, 9), limits)
def test_without_padding_no_batch_could_have_taken_the_next_item(
    waiting: list[int], max_items: int, max_weight: int | None
) -> None:
    batching = Batching(max_items=max_items, max_weight=max_weight, weigh=identity)
    cut = batches(batching, waiting)
    for batch, after in itertools.pairwise(cut):
        too_heavy = max_weight is not None and sum(waiting[p] for p in [*batch, after[0]]) > max_weight
        assert len(batch) == max_items or too_heavy


@given(weights, st.integers(1, 9), limits, st.floats(0, 1))
def test_a_padded_batch_keeps_cost_and_padding_within_their_limits_and_loses_no_item(
    waiting: list[int], max_items: int, max_weight: int | None, max_padding: float
) -> None:
    batching = Batching(
        max_items=max_items, max_weight=max_weight, weigh=identity, padded=True, max_padding=max_padding
    )
    taken = batches(batching, waiting)
    assert sorted(place for batch in taken for place in batch) == list(range(len(waiting)))
    for batch in taken:
        lengths = [waiting[place] for place in batch]
        cost = max(lengths) * len(lengths)
        assert batching.cost(lengths) == cost
        assert len(batch) <= max_items
        assert max_weight is None or cost <= max_weight or len(batch) == 1
        assert cost - sum(lengths) <= max_padding * cost + 1e-9


@given(st.lists(st.integers(1, 300), min_size=1, max_size=200), st.integers(1, 16))
def test_with_padding_an_item_is_passed_over_by_no_more_than_the_lookahead(waiting: list[int], max_items: int) -> None:
    batching = Batching(max_items=max_items, weigh=identity, padded=True, max_padding=0.1)
    begun: set[int] = set()
    for batch in batches(batching, waiting):
        oldest = min(set(range(len(waiting))) - begun)
        assert max(batch) < oldest + len(begun) - sum(place < oldest for place in begun) + batching.sight
        begun |= set(batch)


def test_items_of_similar_length_are_padded_together() -> None:
    batching = Batching(max_items=3, weigh=identity, padded=True, max_padding=0.2)
    assert batches(batching, [100, 10, 98, 11, 12, 102]) == [[0, 2, 5], [1, 3, 4]]


def test_grouping_by_length_wastes_less_than_cutting_the_stream() -> None:
    lengths = [10, 500] * 64
    padded = Batching(max_items=16, weigh=identity, padded=True)
    cut = [lengths[start : start + 16] for start in range(0, len(lengths), 16)]
    grouped = [[lengths[place] for place in batch] for batch in batches(padded, lengths)]
    assert sum(map(padded.cost, cut)) == 128 * 500
    assert sum(map(padded.cost, grouped)) == 64 * 500 + 64 * 10


@pytest.mark.parametrize(
    ("waiting", "full"),
    [([1, 1], False), ([1, 1, 1], True), ([5, 5], False), ([5, 6], True), ([11], False), ([11, 1], True)],
)
def test_a_batch_that_can_still_grow_waits_and_a_full_one_does_not(waiting: list[int], full: bool) -> None:
    batching = Batching(max_items=3, max_weight=10, weigh=identity, linger_s=1.0)
    assert (batching.choose(waiting, final=False) is not None) is full
    assert batching.choose(waiting, final=True) is not None


@pytest.mark.parametrize(
    "options",
    [
        {"max_items": 0},
        {"max_items": True},
        {"max_items": 2.0},
        {"max_items": 1, "max_weight": 5},
        {"max_items": 1, "padded": True},
        {"max_items": 1, "max_weight": 0, "weigh": identity},
        {"max_items": 1, "linger_s": float("nan")},
        {"max_items": 1, "linger_s": float("inf")},
        {"max_items": 1, "linger_s": -1.0},
        {"max_items": 4, "lookahead": 8},
        {"max_items": 4, "lookahead": 3, "padded": True, "weigh": identity},
        {"max_items": 4, "max_padding": 1.5},
        {"max_items": 4, "max_padding": float("nan")},
    ],
)
def test_nonsense_is_refused_before_anything_starts(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Batching(**options)
