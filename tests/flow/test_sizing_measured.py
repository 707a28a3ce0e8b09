"""Sums from measured service times."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.flow.sizing import (
    MIB,
    ServiceTimes,
    expected_wait,
    longest_wait,
    low_water,
    permits,
    room,
    service_rate,
    workers_for,
    worst_case_held_bytes,
)

HALF_A_SECOND = ServiceTimes.measured([0.5] * 20)


def exponential(mean_s: float) -> ServiceTimes:
    return ServiceTimes(1000, mean_s, mean_s, mean_s * math.log(2), 3 * mean_s, 9 * mean_s)


def test_measured_times_are_summed_up() -> None:
    times = ServiceTimes.measured([float(i) for i in range(1, 101)])
    assert (times.count, times.mean_s, times.p50_s, times.p95_s, times.longest_s) == (100, 50.5, 50.0, 95.0, 100.0)
    assert times.deviation_s == pytest.approx(28.866, abs=0.001)
    assert ServiceTimes.measured([3.0]).p95_s == 3.0


@pytest.mark.parametrize("times_s", [[], [-1.0], [float("nan")], [float("inf")]])
def test_nonsense_is_not_summed_up(times_s: list[float]) -> None:
    with pytest.raises(ValueError, match="service time"):
        ServiceTimes.measured(times_s)


def test_workers_are_enough_and_not_always_busy() -> None:
    assert service_rate(4, HALF_A_SECOND).value == 8.0
    found = workers_for(6.0, HALF_A_SECOND)
    assert found.value == 4
    assert found.because == "6 per s x 0.5 s / 0.8 busy = 4"
    assert workers_for(0.001, HALF_A_SECOND).value == 1
    assert workers_for(8.0, HALF_A_SECOND, most_busy=0.5).value == 8
    with pytest.raises(ValueError, match="below 1"):
        workers_for(1.0, HALF_A_SECOND, most_busy=1.0)


@pytest.mark.parametrize(
    ("arrival_per_s", "workers", "wait_s"),
    [(0.5, 1, 1.0), (0.8, 1, 4.0), (0.9, 1, 9.0), (1.5, 2, 9 / 7), (4.0, 5, 0.55411)],
)
def test_the_expected_wait_is_erlangs_for_exponential_times(arrival_per_s: float, workers: int, wait_s: float) -> None:
    """Known values of M/M/c with a mean of one second: rho/(1-rho) for c = 1, and the tables for the others."""
    assert expected_wait(arrival_per_s, workers, exponential(1.0)).value == pytest.approx(wait_s, rel=1e-4)


def test_even_times_halve_the_wait_and_too_much_has_no_end() -> None:
    even = ServiceTimes.measured([1.0] * 10)
    assert expected_wait(0.8, 1, even).value == pytest.approx(2.0)
    assert expected_wait(2.0, 2, even).value == math.inf
    assert "without end" in expected_wait(2.0, 2, even).because
    assert expected_wait(990.0, 1000, even).value < 0.1  # no factorial overflows


def test_the_expected_wait_is_what_a_simulation_finds() -> None:
    rng, free, waits, now = random.Random(1), [0.0] * 3, [], 0.0
    for _ in range(60_000):
        now += rng.expovariate(2.4)
        first = min(range(3), key=free.__getitem__)
        began = max(now, free[first])
        waits.append(began - now)
        free[first] = began + rng.uniform(0.5, 1.5)
    times = ServiceTimes.measured([0.5 + i / 1000 for i in range(1001)])
    assert expected_wait(2.4, 3, times).value == pytest.approx(sum(waits) / len(waits), rel=0.1)


def test_permits_are_the_workers_and_what_is_on_its_way() -> None:
    assert permits(4, HALF_A_SECOND).value == 4
    assert permits(4, HALF_A_SECOND, refill_s=0.01).value == 5
    assert permits(4, HALF_A_SECOND, refill_s=1.0).value == 12
    with pytest.raises(ValueError, match="refill_s"):
        permits(4, HALF_A_SECOND, refill_s=-1.0)


def test_what_a_ladder_can_promise_is_the_time_to_serve_all_it_holds() -> None:
    found = longest_wait({"interactive": 64, "batch": 255}, 8.0)
    assert found.value == 40.0
    assert found.because == "(64 interactive + 255 batch + 1) / 8 per s = 40 s"
    with pytest.raises(ValueError, match="batch"):
        longest_wait({"batch": 0}, 8.0)


@pytest.mark.parametrize(("rate_per_s", "delay_s"), [(5.0, 8.0), (50.0, 3.0), (4.0, 60.0)])
def test_with_as_many_as_there_is_room_for_99_of_100_are_in_time(rate_per_s: float, delay_s: float) -> None:
    """Two workers that are never idle, times that differ as much as they last; each round is a line by itself."""
    rng, held = random.Random(7), room(rate_per_s, delay_s).value
    late = 0
    for _ in range(3_000):
        free = [0.0, 0.0]
        for _ in range(held):
            first = free.index(min(free))
            free[first] += rng.expovariate(rate_per_s / 2)
        late += max(free) > delay_s
    assert late / 3_000 < 0.02
    assert held > 0.6 * rate_per_s * delay_s


def test_room_without_variation_is_littles_law() -> None:
    assert room(10, 30, variation=0).value == 300
    assert room(0.1, 1).value == 1
    assert room(5.4, 8).because == "8 s x 5.4 per s = 43.2, less 15 as times differ (p99) = 27"
    with pytest.raises(ValueError, match="variation"):
        room(1, 1, variation=-1.0)


def test_a_gate_opens_again_after_a_quiet_time() -> None:
    assert low_water(64, 8.0, 5.0).value == 24.0
    assert low_water(64, 100.0, 5.0).value == 0.0


@given(st.dictionaries(st.text("abc", min_size=1), st.tuples(st.integers(0, 99), st.integers(0, 10**9)), max_size=5))
@settings(max_examples=50, deadline=None)
def test_the_worst_case_is_every_place_full_of_the_largest(held: dict[str, tuple[int, int]]) -> None:
    assert worst_case_held_bytes(held).value == sum(count * size for count, size in held.values())


def test_the_worst_case_shows_its_sum() -> None:
    found = worst_case_held_bytes({"channel": (64, MIB), "workers": (2, 300 * MIB)})
    assert found.because == "64 x 1 MiB in channel + 2 x 300 MiB in workers = 664 MiB"
    with pytest.raises(ValueError, match="negative"):
        worst_case_held_bytes({"x": (-1, 1)})
