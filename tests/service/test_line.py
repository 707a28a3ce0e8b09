"""The line against a plain model, under random orders of everything that can happen to it."""

from __future__ import annotations

import asyncio

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.documents.document import Document
from headrace.documents.status import DocumentState
from headrace.flow import ClassBounds, Permits, ServiceClass
from headrace.ledger import Draft
from headrace.service.line import Held, Line, Stand
from headrace.storage.sql_service import Waits
from headrace.storage.store import Telemetry

BOUNDS = {class_: ClassBounds(1000, 30.0) for class_ in ServiceClass}


def waits(batch_id: int, position: int, class_: int, *, single: bool) -> Waits:
    document = Document(f"{batch_id}/{position}", batch_id, position, "", b"0" * 64, "blob", 1, 0, "2026-01-01")
    return Waits(document, f"client {batch_id % 3}", class_, 0.0, single=single, book="main")


def end_of(held: Held) -> Draft:
    failure = {"code": "cancelled"}
    return Draft(held.document, None, 1, None, DocumentState.CANCELLED, failure)


@settings(max_examples=150, deadline=None)
@example([("a", 0), ("a", 0), ("a", 0), ("c", 2)], 1)  # cancelled behind: it held the last place, for ever
@given(st.lists(st.tuples(st.sampled_from("abstttcdk"), st.integers(0, 40)), max_size=120), st.integers(1, 6))
def test_each_document_becomes_ready_once_and_those_of_a_batch_in_their_order(
    steps: list[tuple[str, int]], window: int
) -> None:
    async def main() -> None:
        line = Line(BOUNDS, window=window, least=1, weight_of=None, now=lambda: 0.0)
        permits = Permits(1000)
        positions = {1: 0, 2: 0}
        singles = 100
        added: list[Held] = []
        working: list[Held] = []
        committed: list[Held] = []

        def take(most: int) -> None:
            working.extend(line.take(most))

        def commit() -> None:
            while line.ready:
                held = line.ready.popleft()
                committed.append(held)
                line.gone(held)
                held.permit.done()

        for what, number in steps:
            if what in "ab":
                batch_id = 1 if what == "a" else 2
                positions[batch_id] += 1
                its = waits(batch_id, positions[batch_id], batch_id % 3, single=False)
                added.append(line.add(its, permits.try_acquire()))
            elif what == "s":
                singles += 1
                added.append(line.add(waits(singles, 1, number % 3, single=True), permits.try_acquire()))
            elif what == "t":
                take(number % 4)
            elif what == "c" and added:
                held = added[number % len(added)]
                if held.stand in (Stand.WAITING, Stand.BEHIND):
                    line.settle(held, end_of(held), Telemetry())
            elif what == "d" and working:
                held = working.pop(number % len(working))
                line.settle(held, end_of(held), Telemetry())
            elif what == "k":
                commit()
            for batch_id in (1, 2):
                on_way = [
                    h for h in added if h.document.batch_id == batch_id and h.stand in (Stand.WAITING, Stand.WORKING)
                ]
                assert len(on_way) <= max(1, window), "a batch has more on its way than its share"
            assert len(line) == len(added) - len(committed)
        for _ in range(len(added) + 1):
            take(1000)
            while working:
                line.settle(working[-1], end_of(working.pop()), Telemetry())
            commit()
        assert len(committed) == len(added) == len({held.document.document_id for held in committed})
        for batch_id, last in positions.items():
            its_order = [held.document.position for held in committed if held.document.batch_id == batch_id]
            assert its_order == list(range(1, last + 1))
        assert len(line) == permits.held == 0

    asyncio.run(main())
