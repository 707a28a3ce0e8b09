"""What a scale promises: the weight of what is in, exactly, and no memory of what has left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.flow.weights import Scale


@given(st.lists(st.one_of(st.integers(0, 9), st.just("take"), st.just("settle"), st.just("reserve"))))
def test_a_scale_shows_what_a_plain_sum_would_and_forgets_what_has_left(steps: list[int | str]) -> None:
    scale: Scale[int] = Scale(lambda item: item, 20)
    inside: list[int] = []
    taken = 0
    for step in steps:
        if isinstance(step, int):
            if len(inside) < 5:
                scale.put(step)
                inside.append(step)
        elif step == "take" and inside:
            inside.pop(0)
            taken += 1
        elif step == "reserve":
            scale.reserve(1)
        else:
            assert scale.settle(taken) == sum(inside)
            assert len(scale.totals) <= 2 * len(inside)
        assert scale.ceiling - scale.total <= 20 - sum(inside) - scale.reserved, "too generous"
    for weight in range(30):
        assert scale.fits(weight, taken) == (sum(inside) + scale.reserved + weight <= 20)
    assert scale.ceiling - scale.total == 20 - sum(inside) - scale.reserved


def test_a_negative_weight_is_refused() -> None:
    scale: Scale[int] = Scale(lambda item: item, 20)
    with pytest.raises(ValueError, match="cannot weigh -1"):
        scale.weight_of(-1)
