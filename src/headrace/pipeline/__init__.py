"""Pipelines of slow or fragile stages: bounded, ordered, and ready to say what they wait for. Knows no receipts.

pipeline = Pipeline([Stage(read, workers=4), Stage(embed, batching=Batching(max_items=32)), Stage(index)])
async with pipeline.run(paths) as outcomes:
    async for outcome in outcomes:
        ...
"""

from headrace.execution import Failure, Success
from headrace.pipeline.batching import Batching
from headrace.pipeline.pipeline import Pipeline
from headrace.pipeline.run import PipelineBroken, Run
from headrace.pipeline.stage import Stage, StageKind
from headrace.pipeline.statistics import RunStatistics, StageStatistics

__all__ = [
    "Batching",
    "Failure",
    "Pipeline",
    "PipelineBroken",
    "Run",
    "RunStatistics",
    "Stage",
    "StageKind",
    "StageStatistics",
    "Success",
]
