"""A test kit for asynchronous code: virtual time, seeded schedules, cancellation everywhere, and a check for leaks.

    run_virtual(scenario())                                   # an hour of sleeping takes no time
    run_virtual(scenario(), schedule=Schedule(seed=7))        # ready callbacks run in an order drawn from the seed
    run_schedules(scenario, 1000)                             # a thousand seeds, each given to the scenario

Nothing here sleeps for real: when every task waits, time jumps to the next timer; when there is no timer either, the
run ends with `Deadlock`, which is how a test finds a waiter that nobody will wake.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from headrace.flow.schedule import Deadlock, Livelock, Schedule, ScheduledLoop, run_scheduled, run_schedules, schedules

__all__ = [
    "Deadlock",
    "HasStatistics",
    "Livelock",
    "Schedule",
    "ScheduledLoop",
    "VirtualClock",
    "VirtualLoop",
    "assert_nothing_leaked",
    "cancelled_at",
    "outcome_of",
    "run_schedules",
    "run_virtual",
    "schedules",
    "turns",
]

T = TypeVar("T")


class VirtualClock:
    """The time of the running virtual loop, as a `Clock`."""

    def now(self) -> float:
        """Virtual seconds since the start of the run."""
        return asyncio.get_running_loop().time()

    async def sleep(self, duration_s: float) -> None:
        """Waits in virtual time."""
        await asyncio.sleep(max(0.0, duration_s))


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting, moves the time of its loop to the moment until which it was to wait."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events and timeout is None:
            raise Deadlock("every task waits, and no timer is set that could wake one")
        if not events and timeout is not None and timeout > 0:
            self.now += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps as soon as all its tasks wait.

    Real sockets work, but nothing waits for them: a run that depends on threads or processes needs a real loop.
    """

    def __init__(self) -> None:
        self._selector_of_time = _JumpingSelector()
        super().__init__(self._selector_of_time)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._selector_of_time.now


def run_virtual(main: Coroutine[Any, Any, T], *, schedule: Schedule | None = None) -> T:
    """Runs a coroutine to its end on a new virtual loop, like `asyncio.run`.

    Args:
        main: what to run; unfinished tasks are cancelled when it ends.
        schedule: permutes what is ready and cancels its victims, in a `ScheduledLoop`; what a watch or a callback
            raises ends the run, and an error is given a note that names the seed. Without one: the order of any loop.

    Raises:
        Deadlock: every task waits, and no timer is set.
        Livelock: under a schedule, it never comes to its end.
    """
    if schedule is not None:
        return run_scheduled(main, schedule)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


async def cancelled_at(suspension: int, coroutine: Coroutine[Any, Any, object]) -> bool:
    """Runs a coroutine and cancels it at its n-th suspension, counted from 0.

    Returns:
        Whether it got that far: False means that it had ended before, so that all its awaits have been tried.
    """
    task = asyncio.get_running_loop().create_task(_interrupted(coroutine, suspension))
    await asyncio.wait([task])
    if task.cancelled():
        return True
    task.result()
    return False


class _interrupted(Coroutine[Any, Any, Any]):
    """Drives a coroutine and asks for the cancellation of its own task at the n-th value that it yields."""

    def __init__(self, inner: Coroutine[Any, Any, Any], suspension: int) -> None:
        self._inner = inner
        self._left = suspension

    def send(self, value: Any) -> Any:
        yielded = self._inner.send(value)
        self._left -= 1
        if self._left == -1:
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)
        return yielded

    def throw(self, *error: Any) -> Any:
        return self._inner.throw(*error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()


class HasStatistics(Protocol):
    """Anything with a frozen snapshot: channel ends, permits, rates, gates."""

    def statistics(self) -> Any:
        """The snapshot."""
        ...


# What must be 0 in a snapshot when nothing is going on.
_AT_REST = ("held", "held_bytes", "reserved", "waiting", "waiting_senders", "waiting_receivers")


@asynccontextmanager
async def assert_nothing_leaked(*parts: HasStatistics, settle_s: float = 0.0) -> AsyncIterator[None]:
    """Fails when the block leaves a task, a thread, a held permit, a reserved slot or a waiter behind.

    Args:
        parts: whose statistics must be at rest in the end.
        settle_s: how long what is ending may take to end; virtual seconds on a virtual loop.

    Raises:
        AssertionError: something is left; the message names it.
    """
    tasks, threads = asyncio.all_tasks(), set(threading.enumerate())
    yield
    await asyncio.sleep(settle_s)
    for _ in range(10):  # a cancelled task needs a few turns of the loop to end
        await asyncio.sleep(0)
    left = [f"task {task.get_name()}: {task.get_coro()!r}" for task in asyncio.all_tasks() - tasks]
    left += [f"thread {thread.name}" for thread in threading.enumerate() if thread not in threads]
    for part in parts:
        snapshot = part.statistics()
        left += [f"{name} in {snapshot}" for name in _AT_REST if getattr(snapshot, name, 0)]
    assert not left, "left behind: " + "; ".join(left)


async def turns(count: int) -> None:
    """Lets everything else that is ready run, `count` times over."""
    for _ in range(count):
        await asyncio.sleep(0)


async def outcome_of(awaitable: Awaitable[T]) -> T | BaseException:
    """What came of it, as a value: the result, or the error (a cancellation from outside is not caught)."""
    (result,) = await asyncio.gather(awaitable, return_exceptions=True)
    return result
