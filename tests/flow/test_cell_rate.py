"""What the bucket in one number promises: the same as the bucket that counts its tokens."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.flow.cell_rate import CellRate
from headrace.flow.rate import Rate, TokenBucket

RATES = st.builds(Rate, st.sampled_from([0.5, 1.0, 4.0, 16.0]), st.sampled_from([1.0, 2.0, 8.0]))


@given(RATES, st.lists(st.tuples(st.integers(0, 64), st.sampled_from(["take", "whole", "wait", "change"]))))
def test_it_lets_through_exactly_what_a_token_bucket_does(rate: Rate, steps: list[tuple[int, str]]) -> None:
    now = 100.0
    cells, bucket = CellRate(rate, now), TokenBucket(rate, now)
    for sixteenths, step in steps:
        now += sixteenths / 16  # exact in binary, so that both round alike
        assert cells.tokens(now) == pytest.approx(bucket.tokens(now))
        if step == "take":
            free = bucket.wait_s(1, now) == 0.0
            assert cells.take(now) == free
            if free:
                bucket.take(1, now)
        elif step == "whole":
            count = cells.whole(now)
            assert count == int(bucket.tokens(now) + 1e-9)
            cells.use(count)
            if count:
                bucket.take(count, now)
        elif step == "wait":
            assert cells.wait_s(now) == pytest.approx(bucket.wait_s(1, now))
        else:
            rate = Rate(rate.per_s, 4.0)
            cells.change(rate, now)
            bucket.change_rate(rate, now)


def test_without_a_rate_there_is_always_a_token() -> None:
    cells = CellRate(None, 5.0)
    assert not cells.limited
    assert (cells.tokens(5.0), cells.wait_s(5.0, 1000)) == (math.inf, 0.0)


def test_a_long_quiet_time_earns_no_more_than_the_burst() -> None:
    cells = CellRate(Rate(1.0, 10.0), 0.0)
    assert cells.wait_s(1e6, 20) == pytest.approx(10.0)
    assert cells.whole(1e6) == 10
