"""headrace whose null engine takes a fixed time for each document, as a model behind an API or on a GPU does.

    python bench/fixed_time.py SECONDS  ARGUMENTS OF headrace...

Sleeps in the worker after the document was read as always; the derived bounds are told what it costs. Only the load
tests use this: nothing of it is in headrace.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.documents.document import Document
from headrace.ingest.reading import ReadDocuments, Reading


@dataclass(frozen=True, slots=True)
class ReadInFixedTime:
    """As `ReadDocuments`, and then so many seconds more."""

    read_documents: ReadDocuments
    seconds: float

    def __call__(self) -> Callable[[Document], Reading]:
        """Loads the engine and returns the function."""
        read = self.read_documents()

        def read_slowly(document: Document) -> Reading:
            began = time.perf_counter()
            reading = read(document)
            time.sleep(max(0.0, self.seconds - (time.perf_counter() - began)))
            return reading

        return read_slowly


def install(seconds: float) -> None:
    """Makes the null engine of this process take so long."""
    from headrace.ingest import engine_costs, runtime  # not in the workers, whose memory is measured

    def factory(*arguments: object) -> ReadInFixedTime:
        return ReadInFixedTime(ReadDocuments(*arguments), seconds)  # type: ignore[arg-type]

    costs = dict(engine_costs.ENGINE_COSTS)
    costs["null"] = replace(costs["null"], seconds_per_page=seconds)
    engine_costs.ENGINE_COSTS = costs  # type: ignore[assignment]
    runtime.ReadDocuments = factory  # type: ignore[assignment,attr-defined]


def main() -> None:
    # Under its own name: workers import the class from there, and not this script.
    import fixed_time

    fixed_time.install(float(sys.argv[1]))
    from headrace.cli.app import exit_with_code

    sys.argv = ["headrace", *sys.argv[2:]]
    exit_with_code()


if __name__ == "__main__":
    main()
