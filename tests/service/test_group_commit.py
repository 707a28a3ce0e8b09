from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from headrace.flow import Closed
from headrace.service.bell import Bell
from headrace.service.group_commit import GroupCommit

DEADLINE_S = 30.0


class Ledger:
    """Work that can be held up, and counts its groups."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.begun = threading.Event()
        self.groups: list[list[int]] = []
        self.committed: list[int] = []
        self._open: list[int] = []

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._open = []
        yield
        self.committed += self._open

    def write(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.begun.set()
        self.may_go.wait(DEADLINE_S)
        self.groups.append(list(numbers))
        if 13 in numbers:
            raise OSError("the disk does not like 13")
        self._open += numbers
        return [LookupError("7 is refused") if number == 7 else number * 2 for number in numbers]


def test_all_that_wait_while_a_group_is_done_are_the_next_group() -> None:
    event_count = 50

    async def main() -> None:
        ledger = Ledger()
        commits = GroupCommit("test", most=1000, around=ledger.transaction)
        first = asyncio.create_task(commits.run(ledger.write, 0))
        await asyncio.to_thread(ledger.begun.wait, DEADLINE_S)
        rest = [asyncio.create_task(commits.run(ledger.write, n)) for n in range(20, 20 + event_count)]
        await asyncio.sleep(0)
        ledger.may_go.set()
        assert await asyncio.gather(first, *rest) == [0, *(2 * n for n in range(20, 20 + event_count))]
        assert ledger.groups == [[0], list(range(20, 20 + event_count))]
        await commits.aclose()
        with pytest.raises(Closed):
            await commits.run(ledger.write, 1)

    asyncio.run(main())


def test_one_that_breaks_its_group_fails_alone() -> None:
    async def main() -> None:
        ledger = Ledger()
        commits = GroupCommit("test", most=1000, around=ledger.transaction)
        tasks = [asyncio.create_task(commits.run(ledger.write, n)) for n in (5, 7, 13, 20)]
        await asyncio.sleep(0)
        ledger.may_go.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(answer) for answer in answers] == [int, LookupError, OSError, int]
        assert sorted(ledger.committed) == [5, 7, 20]
        await commits.aclose()

    asyncio.run(main())


def test_a_cancelled_wait_takes_its_item_out_or_the_owner_hears_of_it_once() -> None:
    async def main() -> None:
        ledger = Ledger()
        commits = GroupCommit("test", most=1000, around=ledger.transaction)
        heard: list[tuple[int, object]] = []

        def run(number: int) -> asyncio.Task[int]:
            return asyncio.create_task(commits.run(ledger.write, number, lambda answer: heard.append((number, answer))))

        taken = run(1)
        await asyncio.to_thread(ledger.begun.wait, DEADLINE_S)
        waiting = run(2)
        await asyncio.sleep(0)
        for task in (taken, waiting):
            task.cancel()
        await asyncio.wait({taken, waiting})
        assert [(number, type(answer)) for number, answer in heard] == [(2, asyncio.CancelledError)]
        ledger.may_go.set()
        await commits.aclose()
        assert heard[1:] == [(1, 2)]
        assert ledger.committed == [1]

    asyncio.run(main())


def test_a_bell_that_rings_between_the_look_and_the_wait_is_heard() -> None:
    async def main() -> None:
        bell, done = Bell(), False

        async def is_so() -> bool:
            nonlocal done
            before, done = done, True
            bell.ring("x")
            return before

        assert await bell.until("x", is_so, DEADLINE_S)
        assert not await bell.until("y", never, 0.0)
        assert len(bell) == 0

    async def never() -> bool:
        return False

    asyncio.run(main())
