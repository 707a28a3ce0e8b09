"""When to try again, how often, and what a Retry-After says."""

from __future__ import annotations

import random
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.flow.retry import RetryBudget, RetryPolicy, parse_retry_after

NOW = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the moment of RFC 9110's own examples


@pytest.mark.parametrize(
    ("value", "expected_s"),
    [
        # what the standard allows
        ("120", 120.0),
        ("0", 0.0),
        ("  7 ", 7.0),
        ("Sun, 06 Nov 1994 08:49:57 GMT", 20.0),
        ("Sunday, 06-Nov-94 08:49:57 GMT", 20.0),
        ("Sun Nov  6 08:49:57 1994", 20.0),
        # what is met besides
        ("0.503", 0.503),
        ("1.", 1.0),
        ("Sun, 06 Nov 1994 09:49:57 +0100", 20.0),
        (b"30", 30.0),
        (3, 3.0),
        (2.5, 2.5),
        # a date that has passed
        ("Sun, 06 Nov 1994 08:49:36 GMT", 0.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        # more than anyone would wait
        ("99999999999", 600.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 600.0),
        (1e300, 600.0),
        # nothing that can be understood
        (None, None),
        ("", None),
        ("soon", None),
        ("-1", None),
        (-1, None),
        ("+5", None),
        ("1e3", None),
        ("0x10", None),
        ("5s", None),
        ("5, 6", None),
        ("NaN", None),
        (float("nan"), None),
        ("inf", None),
        (float("inf"), None),
        ("٣", None),  # a digit elsewhere, not in HTTP
        ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 99:99:99 GMT", None),
        ("9" * 5000, None),
        (b"\xff\xfe", None),
    ],
)
def test_k24_every_form_of_retry_after_is_a_bounded_wait_or_nothing(value: object, expected_s: float | None) -> None:
    """K24: "0.503" or a date breaks clients (urllib3 #2861, SpaceTraders #24, mcp-context-forge #5674)."""
    found = parse_retry_after(value, now_unix_s=NOW, cap_s=600.0)  # type: ignore[arg-type]
    assert found == (None if expected_s is None else pytest.approx(expected_s))


@given(st.text(max_size=80) | st.binary(max_size=80) | st.floats() | st.integers())
def test_k24_nothing_that_a_remote_can_send_raises_or_asks_for_too_much(value: str | bytes | float) -> None:
    found = parse_retry_after(value, now_unix_s=NOW, cap_s=60.0)
    assert found is None or 0.0 <= found <= 60.0


@given(st.integers(-(10**6), 10**6))
def test_a_date_says_the_same_as_the_seconds_until_then(seconds: int) -> None:
    found = parse_retry_after(formatdate(NOW + seconds, usegmt=True), now_unix_s=NOW, cap_s=1e9)
    assert found == max(0, seconds)


@given(st.integers(1, 500), st.integers(0, 10**6), st.floats(0, 1))
def test_a_delay_stays_within_what_the_policy_says(failures: int, seed: int, jitter: float) -> None:
    policy = RetryPolicy(first_delay_s=0.5, factor=2.0, longest_delay_s=30.0, jitter=jitter)
    most_s = min(30.0, 0.5 * 2.0 ** (failures - 1))
    delay_s = policy.delay_s(failures, random.Random(seed))
    assert (1 - jitter) * most_s - 1e-9 <= delay_s <= most_s + 1e-9
    asked = policy.delay_s(failures, random.Random(seed), retry_after_s=100.0)
    assert 100.0 <= asked <= 100.0 + most_s + 1e-9


def test_those_who_failed_together_do_not_come_back_together() -> None:
    policy, rng = RetryPolicy(first_delay_s=10.0), random.Random(1)
    delays = sorted(policy.delay_s(1, rng) for _ in range(1000))
    assert delays[100] == pytest.approx(1.0, abs=0.4)
    assert delays[900] == pytest.approx(9.0, abs=0.4)


def test_retries_are_a_part_of_all_calls() -> None:
    budget = RetryBudget(ratio=0.1, reserve=5.0)
    assert [budget.spend() for _ in range(7)] == [True] * 5 + [False] * 2
    for _ in range(1000):
        budget.earn()
        budget.spend()
    assert 5 + 99 <= budget.spent <= 5 + 100  # a tenth, but for the grain of floats
    assert budget.refused == 2 + 1000 - (budget.spent - 5)
    for _ in range(10**4):
        budget.earn()
    assert budget.kept == 5.0


def test_a_budget_of_nothing_earns_nothing() -> None:
    budget = RetryBudget(ratio=0.0, reserve=1.0)
    assert budget.spend()
    for _ in range(100):
        budget.earn()
    assert not budget.spend()


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0},
        {"factor": 0.5},
        {"jitter": 1.5},
        {"first_delay_s": -1.0},
        {"first_delay_s": 30.0},
        {"longest_delay_s": float("inf")},
        {"longest_delay_s": float("nan")},
    ],
)
def test_nonsense_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="needs attempts"):
        RetryPolicy(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ratio"):
        RetryBudget(ratio=-0.1)
    with pytest.raises(ValueError, match="reserve"):
        RetryBudget(reserve=0.5)
