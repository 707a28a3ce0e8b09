"""How the drain rate is measured, and what is made of it."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.flow import Admission, Admitted
from headrace.flow.drain_rate import DrainRate, GaugeDrain, RetryAfter
from headrace.flow.gate import WaterMarks
from headrace.flow.gauges import Gauge


def fed(rate: DrainRate, began: float, gaps_s: list[float]) -> float:
    now = began
    rate.resume(now)
    for gap_s in gaps_s:
        now += gap_s
        rate.record(1, now)
    return now


def test_it_is_unknown_until_enough_was_measured() -> None:
    rate = DrainRate()
    assert rate.per_s(5.0) is None
    now = fed(rate, 0.0, [0.5] * 3)
    assert rate.per_s(now) is None
    assert rate.time_for_s(10, now) is None
    now = fed(rate, now, [0.5])
    assert rate.per_s(now) == pytest.approx(2.0)
    assert rate.time_for_s(10, now) == pytest.approx(5.0)
    assert rate.time_for_s(-10, now) == 0.0


@pytest.mark.parametrize("gap_s", [0.001, 0.1, 1.0, 60.0])
def test_it_finds_any_rate(gap_s: float) -> None:
    rate = DrainRate()
    now = fed(rate, 0.0, [gap_s] * 100)
    assert rate.per_s(now) == pytest.approx(1 / gap_s)


def test_time_in_which_nothing_waited_does_not_count() -> None:
    rate = DrainRate()
    now = fed(rate, 0.0, [0.1] * 50)
    rate.pause(now)
    rate.record(1000, now + 5)  # who leaves then was not waited for
    now += 3600
    assert rate.per_s(now) == pytest.approx(10.0)
    now = fed(rate, now, [0.1] * 50)
    assert rate.per_s(now) == pytest.approx(10.0)


def test_it_falls_while_a_stall_lasts_and_recovers_at_once_when_it_is_over() -> None:
    rate = DrainRate()
    now = fed(rate, 0.0, [0.1] * 160)
    during = rate.per_s(now + 300)
    assert during is not None
    assert during < 1.0
    now = fed(rate, now, [300.0, *[0.1] * 10])
    after = rate.per_s(now)
    assert after is not None
    assert after > 8.0


def test_it_believes_that_things_are_slow_when_they_stay_so() -> None:
    rate = DrainRate()
    now = fed(rate, 0.0, [0.01] * 1600)
    now = fed(rate, now, [2.0] * 17)
    assert rate.per_s(now) == pytest.approx(0.5)


def test_two_slow_stretches_in_a_row_are_believed() -> None:
    rate = DrainRate()
    now = fed(rate, 0.0, [0.01] * 1600)
    now = fed(rate, now, [2.0] * 4)
    found = rate.per_s(now)
    assert found is not None
    assert found < 80.0  # 12 stretches of 100 per s and 4 of one in 2 s


def test_a_gauge_is_measured_only_while_its_gate_is_closed() -> None:
    now = 0.0
    gauge = Gauge("depth")
    drain = GaugeDrain(gauge, WaterMarks(10, 2), lambda: now)
    gauge.set(9)
    gauge.set(0)  # open: what leaves may be followed by what comes
    assert drain.time_until_low_s() is None
    gauge.set(10)
    for level in (9, 8, 7, 6):
        now += 0.5
        gauge.set(level)
    assert drain.time_until_low_s() == pytest.approx(2.0)  # four more at two per second


@given(st.floats(0, 1e6) | st.none(), st.integers(0, 1000))
def test_an_answer_is_a_whole_number_of_seconds_within_its_bounds(estimate_s: float | None, seed: int) -> None:
    answer = RetryAfter(random.Random(seed)).after(estimate_s)
    assert type(answer) is int
    assert 1 <= answer <= 120
    expected_s = 5.0 if estimate_s is None else estimate_s
    assert answer >= min(0.8 * expected_s, 120)
    assert answer <= 1.2 * expected_s + 1


def test_answers_are_spread_and_replay() -> None:
    def answers(seed: int) -> list[int]:
        after = RetryAfter(random.Random(seed))
        return [after.after(50.0) for _ in range(100)]

    assert answers(1) == answers(1)
    assert len(set(answers(1))) > 10
    assert all(40 <= answer <= 60 for answer in answers(1))


@pytest.mark.parametrize("options", [{"jitter": 1.0}, {"cap_s": 0}, {"unknown_s": 0.0}, {"unknown_s": float("nan")}])
def test_nonsense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="needs"):
        RetryAfter(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="slices"):
        DrainRate(slice_s=0)


def test_a_meter_that_its_owner_keeps_is_only_read() -> None:
    async def scenario() -> None:
        rate = DrainRate()
        admission = Admission(1, drain_rate=rate, keeps_rate=False)
        for _ in range(10):
            decision = admission.decide()
            assert isinstance(decision, Admitted)
            assert not isinstance(admission.decide(), Admitted)
            decision.permit.done()
        assert rate.paused
        assert admission.statistics().drain_rate_per_s is None
        now = fed(rate, 0.0, [0.5] * 4)
        rate.pause(now)
        assert admission.statistics().drain_rate_per_s == pytest.approx(2.0)

    asyncio.run(scenario())
