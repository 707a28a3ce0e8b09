"""Work in few threads that is done for many at once: what comes while a group is being synced is the next group.

await commits.run(accept, document)        # alone: one transaction; under load: one for hundreds
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, NamedTuple, TypeVar

from headrace.flow import Closed

T = TypeVar("T")
R = TypeVar("R")

Work = Callable[[Sequence[T]], Sequence[R | Exception]]
"""Does something for all of a group; gives a result, or an exception, for each."""


class _Item(Generic[T, R]):
    __slots__ = ("answer", "future", "item", "on_done", "then", "work")

    def __init__(
        self,
        work: Work[T, R],
        item: T,
        future: asyncio.Future[R],
        on_done: Callable[[R | BaseException], None] | None,
        then: Then[T, R] | None,
    ) -> None:
        self.work = work
        self.item = item
        self.future = future
        self.on_done = on_done
        self.then = then
        self.answer: R | BaseException | None = None


class Then(NamedTuple, Generic[T, R]):
    """What is done with an item next, and by whose threads, unless the answer so far is an exception."""

    commits: GroupCommit
    work: Work[T, R]


class GroupCommit:
    """Threads that take all that waits, and do it as one group.

    Items of the same work that wait together come to it together, in their order. Bounded by who may wait: each item
    has a caller, and each caller has a permit or is one of a fixed number of tasks.

    Args:
        name: of the threads.
        most: items in a group at most.
        threads: how many groups at once; 1 keeps the order of groups.
        around: entered around a group, such as a transaction. When it raises, each item of the group is done again,
            alone, so that the one whose fault it is fails by itself.

    Attributes:
        groups, items: done so far.
        last: items in the last group.
    """

    def __init__(
        self,
        name: str,
        *,
        most: int,
        threads: int = 1,
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._most = most
        self._around = around
        self._waiting: deque[_Item[Any, Any]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.groups = self.items = self.last = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"headrace-{name}-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Items in no group yet."""
        return len(self._waiting)

    def submit(
        self, work: Work[T, R], item: T, on_done: Callable[[R | BaseException], None] | None = None
    ) -> asyncio.Future[R]:
        """Has `work` done for this item, together with all that wait; see `run`. Raises nothing itself."""
        return self._submit(_Item(work, item, self._loop.create_future(), on_done, None))

    async def run(self, work: Work[T, R], item: T, on_done: Callable[[R | BaseException], None] | None = None) -> R:
        """Does `work` for this item, together with all that wait, and gives its result.

        Cancelled: an item that is in no group yet is taken out, and nothing is done for it. One that is in a group is
        done, and its result is dropped: only `on_done` sees it.

        Args:
            work: the same object for what belongs together.
            item: for what.
            on_done: called in the loop exactly once, whether or not somebody still waits: with the result or the
                exception; with a CancelledError when it was taken out, with Closed when it was not taken in.

        Raises:
            Closed: no more is taken.
        """
        future = self.submit(work, item, on_done)
        try:
            return await future
        except asyncio.CancelledError:
            self._withdraw(future)
            raise

    async def run_both(
        self, work: Work[T, Any], item: T, on_done: Callable[[R | BaseException], None], then: Then[T, R]
    ) -> R:
        """As `run`, and then what `then` says, unless that went wrong; gives the result of the second.

        The order stays. While a group is in the second threads, the next one is in these. Cancelled in between, it is
        taken out, and `on_done` sees to what was done.
        """
        future: asyncio.Future[R] = self._submit(_Item(work, item, self._loop.create_future(), on_done, then))
        try:
            return await future
        except asyncio.CancelledError:
            self._withdraw(future)
            then.commits._withdraw(future)
            raise

    def _submit(self, one: _Item[T, R]) -> asyncio.Future[R]:
        if not self._take([one]):
            one.answer = Closed("the service has stopped")
            _deliver([one])
        return one.future

    def _take(self, items: Sequence[_Item[Any, Any]]) -> bool:
        """Puts items at the end of those that wait; False when no more is taken."""
        with self._changed:
            if self._closed:
                return False
            self._waiting.extend(items)
            self._changed.notify()
            return True

    def _withdraw(self, future: asyncio.Future[Any]) -> None:
        with self._changed:
            for one in self._waiting:
                if one.future is future:
                    self._waiting.remove(one)
                    break
            else:
                return
        if one.on_done is not None:
            one.on_done(asyncio.CancelledError())

    async def aclose(self) -> None:
        """Takes no more, does what waits, and returns when the threads have ended."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        await asyncio.sleep(0)  # the last answers were sent before the threads ended

    def _work(self) -> None:
        while group := self._next():
            try:
                with self._around():
                    self._do(group)
            except BaseException as error:
                if len(group) == 1:
                    group[0].answer = error
                else:
                    self._each_alone(group)
            self.groups += 1
            self.items += len(group)
            self.last = len(group)
            if not (ended := self._hand_on(group)):
                continue
            try:
                self._loop.call_soon_threadsafe(_deliver, ended)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    @staticmethod
    def _hand_on(group: list[_Item[Any, Any]]) -> list[_Item[Any, Any]]:
        """Gives the items of a group to those who are next; returns those that have their answer."""
        ended: list[_Item[Any, Any]] = []
        going_on: dict[GroupCommit, list[_Item[Any, Any]]] = {}
        for one in group:
            if one.then is None or isinstance(one.answer, BaseException):
                ended.append(one)
            else:
                going_on.setdefault(one.then.commits, []).append(one)
                one.work, one.then = one.then.work, None
        for commits, items in going_on.items():
            if not commits._take(items):
                for one in items:
                    one.answer = Closed("the service has stopped")
                ended += items
        return ended

    def _next(self) -> list[_Item[Any, Any]]:
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return []
                self._changed.wait()
            return [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]

    def _do(self, group: Sequence[_Item[Any, Any]]) -> None:
        by_work: dict[Any, list[_Item[Any, Any]]] = {}
        for one in group:
            by_work.setdefault(one.work, []).append(one)
        for work, items in by_work.items():
            answers = work([one.item for one in items])
            for one, answer in zip(items, answers, strict=True):
                one.answer = answer

    def _each_alone(self, group: Sequence[_Item[Any, Any]]) -> None:
        for one in group:
            try:
                with self._around():
                    self._do([one])
            except BaseException as error:
                one.answer = error


def _deliver(group: Sequence[_Item[Any, Any]]) -> None:
    for one in group:
        answer, future = one.answer, one.future
        if one.on_done is not None:
            one.on_done(answer)
        if future.done():
            continue
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
