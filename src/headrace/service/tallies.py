"""What was measured of the documents that ended, added up since the start: pages, and the time that each stage took."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from headrace.storage.store import Telemetry

STAGES = ("read", "decode", "recognise", "extract")
"""What a worker does with a document; nothing else becomes a label."""

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""From a text layer to a document that uses its whole time."""


class Tallies:
    """Sums that only grow.

    Attributes:
        pages: how many were read.
        counts: by stage, how many documents took at most each of `BUCKETS_S`, and how many more than the last.
        seconds: by stage, all of them together.
    """

    def __init__(self) -> None:
        self.pages = 0
        self.counts = {stage: [0] * (len(BUCKETS_S) + 1) for stage in STAGES}
        self.seconds = dict.fromkeys(STAGES, 0.0)

    def add(self, measured: Iterable[Telemetry]) -> None:
        """Adds what was measured of documents that are in the ledger now."""
        for its in measured:
            self.pages += its.pages
            for stage, seconds in its.stages_s.items():
                if stage in self.counts:
                    self.counts[stage][bisect_left(BUCKETS_S, seconds)] += 1
                    self.seconds[stage] += seconds

    def buckets(self, stage: str) -> list[tuple[str, float]]:
        """Prometheus' own: upper bound and how many are at or below it, the last one without a bound."""
        total = 0
        found = []
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self.counts[stage], strict=True):
            total += count
            found.append((bound, float(total)))
        return found
