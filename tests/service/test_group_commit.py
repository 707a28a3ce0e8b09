from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from headrace.flow import Closed
from headrace.service.bell import Bell
from headrace.service.group_commit import GroupCommit, Then

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


def test_while_one_group_is_in_the_second_step_the_next_one_is_in_the_first() -> None:
    async def main() -> None:
        first, second = Ledger(), Ledger()
        kept, rows = GroupCommit("first", most=1), GroupCommit("second", most=1, around=second.transaction)
        first.may_go.set()

        def run(number: int) -> asyncio.Task[int]:
            return asyncio.create_task(
                kept.run_both(first.write, number, lambda answer: None, Then(rows, second.write))
            )

        one = run(1)
        await asyncio.to_thread(second.begun.wait, DEADLINE_S)  # 1 is held up in the second step
        first.begun.clear()
        two = run(2)
        await asyncio.to_thread(first.begun.wait, DEADLINE_S)
        assert not second.committed
        second.may_go.set()
        assert await asyncio.gather(one, two) == [2, 4]
        assert (first.groups, second.groups) == ([[1], [2]], [[1], [2]])
        await kept.aclose()
        await rows.aclose()

    asyncio.run(main())


def test_what_fails_in_the_first_step_or_is_taken_out_between_the_two_never_comes_to_the_second() -> None:
    async def main() -> None:
        first, second = Ledger(), Ledger()
        kept, rows = GroupCommit("first", most=9), GroupCommit("second", most=1, around=second.transaction)
        first.may_go.set()
        heard: list[tuple[int, object]] = []

        def run(number: int) -> asyncio.Task[int]:
            def hear(answer: int | BaseException) -> None:
                heard.append((number, answer if isinstance(answer, int) else type(answer)))

            return asyncio.create_task(kept.run_both(first.write, number, hear, Then(rows, second.write)))

        begun = run(1)
        await asyncio.to_thread(second.begun.wait, DEADLINE_S)
        between, refused, broken = run(3), run(7), run(13)
        await asyncio.wait({refused, broken})
        assert rows.waiting == 1
        between.cancel()
        await asyncio.wait({between})
        second.may_go.set()
        assert await begun == 2
        await kept.aclose()
        await rows.aclose()
        assert second.committed == [1]
        assert sorted(heard, key=lambda one: one[0]) == [
            (1, 2), (3, asyncio.CancelledError), (7, LookupError), (13, OSError)
        ]  # fmt: skip

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
