"""What follows from machine, settings and engine: numbers, and the sums that led to them."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.flow.machine import Machine
from headrace.flow.sizing import GIB, Derived
from headrace.ingest.bounds import WINDOW_AT_MOST, UnsafeSettings, derive
from headrace.ingest.engine_costs import ENGINE_COSTS, EngineCost
from headrace.ingest.runtime import worker_pool
from headrace.ingest.settings import RunSettings
from headrace.ocr.limits import DECODED_BYTES_PER_PIXEL, ReadLimits

# Round figures of our own: what is tested here is the arithmetic, and the measured costs change.
MB = 10**6
RAPIDOCR = EngineCost("rapidocr", 160 * MB, 800 * MB, 3, 1.7)
TESSERACT = EngineCost("tesseract", 80 * MB, 450 * MB, 3, 0.45)
NULL = EngineCost("null", 40 * MB, 80 * MB, 0, 0.001)


def machine(cores: int, memory_bytes: int) -> Machine:
    return Machine(Derived(cores, "cores", "as told"), Derived(memory_bytes, "bytes", "as told"))


BIG = machine(2, 24 * GIB)


def test_the_tree_ceiling_is_the_sum_of_its_parts_and_under_the_limit() -> None:
    bounds = derive(RunSettings(), BIG, RAPIDOCR)
    assert bounds.tree_ceiling_bytes == bounds.parent_ceiling_bytes + bounds.workers * bounds.worker_ceiling_bytes
    assert bounds.tree_ceiling_bytes <= bounds.memory_limit_bytes


@given(
    cores=st.integers(1, 256),
    memory_bytes=st.integers(1, 2**42),
    engine=st.sampled_from(sorted(ENGINE_COSTS)),
    window=st.none() | st.integers(1, 100_000),
    workers=st.none() | st.integers(1, 500),
)
def test_a_plan_is_under_the_memory_limit_or_refused(
    cores: int, memory_bytes: int, engine: str, window: int | None, workers: int | None
) -> None:
    settings = RunSettings(engine=engine, window=window, workers=workers)
    try:
        bounds = derive(settings, machine(cores, memory_bytes), ENGINE_COSTS[engine])
    except UnsafeSettings:
        return
    assert 0 < bounds.tree_ceiling_bytes <= bounds.memory_limit_bytes <= memory_bytes
    assert bounds.workers >= 1
    assert bounds.window == (window or bounds.window)
    assert window or bounds.window >= bounds.workers
    assert bounds.worker_recycle_rss_bytes < bounds.worker_ceiling_bytes
    assert bounds.byte_budget_bytes >= settings.max_document_bytes


def test_the_ceiling_does_not_depend_on_how_many_documents_there_are() -> None:
    assert derive(RunSettings(), BIG, NULL) == derive(RunSettings(), BIG, NULL)


WORKERS = [
    ("one a core", RAPIDOCR, machine(2, 24 * GIB), 2),
    ("memory binds", RAPIDOCR, machine(64, 8 * GIB), 5),
    ("a lighter engine fits more often", TESSERACT, machine(64, 8 * GIB), 7),
]


@pytest.mark.parametrize(("why", "cost", "there", "expected"), WORKERS, ids=[row[0] for row in WORKERS])
def test_workers_follow_from_cores_and_memory(why: str, cost: Any, there: Machine, expected: int) -> None:
    assert derive(RunSettings(engine=cost.engine), there, cost).workers == expected


def test_the_window_covers_a_slow_head_and_has_a_largest_size() -> None:
    assert derive(RunSettings(), BIG, RAPIDOCR).window == 36  # 2 / 1.7 s x 30 s
    assert derive(RunSettings(engine="null"), BIG, NULL).window == WINDOW_AT_MOST


def test_what_is_set_wins_and_says_so() -> None:
    settings = RunSettings.load({"workers": "1", "window": "7", "byte_budget_bytes": "1GiB"})
    bounds = derive(settings, BIG, RAPIDOCR)
    assert (bounds.workers, bounds.window, bounds.byte_budget_bytes) == (1, 7, GIB)
    assert "cli --workers" in bounds.sums["workers"].because


def test_more_workers_than_the_memory_can_take_are_refused_with_the_sum() -> None:
    with pytest.raises(UnsafeSettings, match=r"40 x .* over the memory limit .*--workers") as refusal:
        derive(RunSettings(workers=40), BIG, RAPIDOCR)
    assert refusal.value.exit_code == 9


def test_a_machine_too_small_for_one_worker_is_told_what_to_do() -> None:
    with pytest.raises(UnsafeSettings, match=r"not even one worker fits.*--engine tesseract"):
        derive(RunSettings(), machine(2, GIB), RAPIDOCR)


def test_a_worker_limit_below_what_the_engine_takes_at_rest_is_refused() -> None:
    with pytest.raises(UnsafeSettings, match="at rest"):
        derive(RunSettings(worker_memory_limit_bytes=100 * 10**6), BIG, RAPIDOCR)


def test_a_limit_above_what_is_free_is_taken_and_pointed_out() -> None:
    bounds = derive(RunSettings(memory_limit_bytes=64 * GIB), BIG, RAPIDOCR)
    assert bounds.memory_limit_bytes == 64 * GIB
    assert "more than there is now" in bounds.sums["memory_limit_bytes"].because


def test_a_page_never_has_longer_than_its_document() -> None:
    assert derive(RunSettings(document_timeout_s=5), BIG, RAPIDOCR).page_timeout_s == 5
    assert derive(RunSettings(), BIG, RAPIDOCR).page_timeout_s == 60


def test_the_promised_delay_counts_the_time_of_every_neighbour_once_since_a_deadline_is_final() -> None:
    bounds = derive(RunSettings(workers=2, window=8, document_timeout_s=10, attempts=3), BIG, RAPIDOCR)
    assert bounds.worst_delay_s == 8 / 2 * 10
    assert bounds.sums["worst_delay_s"].because.endswith("4 rounds x 10 s = 40 s")


def test_what_a_page_may_take_to_decode_is_what_the_worker_ceiling_counts() -> None:
    bounds = derive(RunSettings(max_pixels=50_000_000), BIG, RAPIDOCR)
    pool = worker_pool(RunSettings(max_pixels=50_000_000), bounds, dt.date(2026, 3, 4))
    limits = ReadLimits(**pickle.loads(pool._factory).limits)
    assert limits.page_bytes == bounds.page_bytes == RAPIDOCR.bytes_per_pixel * 50_000_000
    assert bounds.worker_ceiling_bytes - derive(RunSettings(max_pixels=1), BIG, RAPIDOCR).worker_ceiling_bytes == (
        bounds.page_bytes - RAPIDOCR.bytes_per_pixel
    )


def test_library_and_settings_agree_on_the_largest_page() -> None:
    assert ReadLimits().max_pixels == RunSettings().max_pixels
    engines = [cost for cost in ENGINE_COSTS.values() if cost.bytes_per_pixel]
    assert {cost.bytes_per_pixel for cost in engines} == {DECODED_BYTES_PER_PIXEL}


def test_every_bound_carries_its_sum() -> None:
    bounds = derive(RunSettings(), BIG, RAPIDOCR)
    numbers = {name: getattr(bounds, name) for name in bounds.__slots__ if name != "sums"}
    assert {name: bound.value for name, bound in bounds.sums.items()} == numbers
    assert all(bound.because and bound.unit for bound in bounds.sums.values())
