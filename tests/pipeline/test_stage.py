"""What a stage and a pipeline refuse, and what they derive, before anything starts."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from headrace.execution import WorkerPool
from headrace.pipeline import Batching, Pipeline, Stage
from pipeline.support import same

POOL: Any = WorkerPool.of(abs, workers=2)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"function": same, "factory": same},
        {"function": same, "kind": "fiber"},
        {"function": same, "workers": 0},
        {"function": same, "workers": True},
        {"function": same, "workers": 1.5},
        {"function": same, "capacity": 0},
        {"function": same, "window": 0},
        {"function": same, "window": 3, "batching": Batching(max_items=4)},
        {"function": same, "attempts": 0},
        {"function": same, "weigh": len},
        {"function": same, "weight_capacity": 5},
        {"function": same, "weigh": len, "weight_capacity": 0},
        {"function": same, "deadline_s": 0.0},
        {"function": same, "deadline_s": float("nan")},
        {"function": same, "deadline_s": float("inf")},
        {"function": abs, "kind": "inline", "deadline_s": 1.0},
        {"function": same, "pool_options": {"recycle_after": 3}},
        {"function": same, "streamed": True},
        {"function": same, "attempts_of": len},
        {"function": same, "on_charge": same},
        {"function": same, "byte_budget": 5, "weigh": len},
        {"pool": POOL, "attempts_of": len},
        {"pool": POOL, "on_charge": same},
        {"pool": POOL, "byte_budget": 5, "weigh": len},
        {"pool": POOL, "streamed": True, "byte_budget": 5},
        {"pool": POOL, "streamed": True, "byte_budget": 0, "weigh": len},
        {"pool": POOL, "streamed": True, "weigh": len},
        {"pool": POOL, "streamed": True, "batching": Batching(max_items=2)},
        {"pool": POOL, "streamed": True, "permits": object()},
        {"pool": POOL, "streamed": True, "backoff": lambda _: 1.0},
    ],
)
def test_a_stage_of_nonsense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Stage(**options)


@pytest.mark.parametrize(
    ("stages", "options"),
    [
        ([], {}),
        ([Stage(same), Stage(same)], {}),
        ([Stage(same)], {"ready": 0}),
        ([Stage(same)], {"window": 0}),
        ([Stage(same)], {"on_error": "ignore"}),
        ([Stage(same)], {"close_s": float("nan")}),
    ],
)
def test_a_pipeline_of_nonsense_is_refused(stages: list[Stage], options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Pipeline(stages, **options)


class Model:
    async def __call__(self, value: int) -> int:
        return value


@pytest.mark.parametrize(
    ("stage", "kind", "name"),
    [
        (Stage(same), "async", "same"),
        (Stage(functools.partial(same)), "async", "same"),
        (Stage(Model()), "async", "Model"),
        (Stage(abs), "thread", "abs"),
        (Stage(lambda value: value), "thread", "lambda"),
        (Stage(abs, kind="inline", name="size"), "inline", "size"),
        (Stage(pool=WorkerPool.of(abs, workers=3)), "process", "WorkerPool"),
    ],
)
def test_kind_and_name_come_from_the_function_when_they_are_not_given(stage: Stage, kind: str, name: str) -> None:
    assert (stage.kind, stage.name) == (kind, name)


def test_bounds_are_derived_from_workers_and_batches() -> None:
    padded = Batching(max_items=8, weigh=len, padded=True)
    cases = [
        (Stage(same, workers=4), 4, 8),
        (Stage(same, workers=2, batching=Batching(max_items=8)), 16, 32),
        (Stage(same, batching=padded), 32, 8 + 32),
        (Stage(same, workers=4, capacity=9, window=5), 9, 5),
    ]
    for stage, capacity, window in cases:
        assert (stage.capacity_for(stage.workers), stage.window_for(stage.workers)) == (capacity, window)
