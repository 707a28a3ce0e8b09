"""A test kit for asynchronous code: virtual time, seeded schedules, cancellation everywhere, and a check for leaks.

    run_virtual(scenario())                                   # an hour of sleeping takes no time
    run_virtual(scenario(), schedule=Schedule(seed=7))        # ready callbacks run in an order drawn from the seed

Nothing here sleeps for real: when every task waits, time jumps to the next timer; when there is no timer either, the
run ends with `Deadlock`, which is how a test finds a waiter that nobody will wake.
"""

from __future__ import annotations

import asyncio
import os
import random
import selectors
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Deadlock(AssertionError):
    """Every task waits, and nothing is left that could wake one."""


class Schedule:
    """The choices of one run, all drawn from one seed: the same seed gives the same run.

    Args:
        seed: names the run; print it when it fails.
        cancel_probability: after each callback, the chance that one of the `victims` is cancelled.

    Attributes:
        watch: called after each callback, if it is set; what it raises ends the run.
        failure: what it raised.
    """

    def __init__(self, seed: int, *, cancel_probability: float = 0.0) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.cancel_probability = cancel_probability
        self.victims: set[asyncio.Task[Any]] = set()
        self.watch: Callable[[], object] | None = None
        self.failure: BaseException | None = None

    def victim(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a task that may be cancelled at any of its awaits."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self.victims.add(task)
        task.add_done_callback(self.victims.discard)
        return task

    def strike(self) -> None:
        """Cancels a victim, or not. The loop calls it between callbacks."""
        if self.victims and self.random.random() < self.cancel_probability:
            # Sorted by name: the order in a set depends on addresses, and a seed must replay.
            self.random.choice(sorted(self.victims, key=_task_number)).cancel()


def schedules(count: int, cancel_probabilities: Sequence[float] = (0.0, 0.02, 0.1)) -> Iterator[Schedule]:
    """The schedules of one test, with seeds from 0 on.

        for schedule in schedules(600):
            run_virtual(scenario(schedule), schedule=schedule)

    With HEADRACE_TEST_SEED in the environment it is that one alone, so a seed that failed replays at once.

    Args:
        count: how many.
        cancel_probabilities: of the first, the second, and so on in turn.
    """
    only = os.environ.get("HEADRACE_TEST_SEED")
    for seed in range(count) if only is None else [int(only)]:
        yield Schedule(seed, cancel_probability=cancel_probabilities[seed % len(cancel_probabilities)])


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

    Args:
        schedule: permutes the ready callbacks and cancels its victims; without one, order is as in any loop.
    """

    def __init__(self, schedule: Schedule | None = None) -> None:
        self._selector_of_time = _JumpingSelector()
        self._schedule = schedule
        self._due: list[tuple[asyncio.Handle, Callable[..., object], tuple[Any, ...], Context | None]] = []
        super().__init__(self._selector_of_time)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._selector_of_time.now

    def call_soon(  # type: ignore[override]  # a variadic tuple of types cannot be kept in a list
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As in any loop, but under a schedule it says only that the callback runs, not in which order."""
        schedule = self._schedule
        if schedule is None:
            return super().call_soon(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        self._due.append((handle, callback, args, context))
        super().call_soon(self._run_any, schedule)
        return handle

    def _run_any(self, schedule: Schedule) -> None:
        handle, callback, args, context = self._due.pop(schedule.random.randrange(len(self._due)))
        if not handle.cancelled():
            if context is None:
                callback(*args)
            else:
                context.run(callback, *args)
        schedule.strike()
        if schedule.watch is not None and schedule.failure is None:
            try:
                schedule.watch()
            except BaseException as failure:  # a loop would only log it
                schedule.failure = failure
                self.stop()


def run_virtual(main: Coroutine[Any, Any, T], *, schedule: Schedule | None = None) -> T:
    """Runs a coroutine to its end on a new virtual loop, like `asyncio.run`.

    Args:
        main: what to run; unfinished tasks are cancelled when it ends.
        schedule: see `Schedule`; a failure is given a note that names the seed.

    Raises:
        Deadlock: every task waits, and no timer is set.
    """
    try:
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(schedule)) as runner:
            result = runner.run(main)
        if schedule is not None and schedule.failure is not None:
            raise schedule.failure
        return result
    except BaseException as error:
        if schedule is None:
            raise
        first = schedule.failure or error  # what the watch found comes before what its stopping the run led to
        first.add_note(f"schedule seed {schedule.seed}, cancel probability {schedule.cancel_probability}")
        if first is error:
            raise
        raise first from None


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


def _task_number(task: asyncio.Task[Any]) -> tuple[int, str]:
    name = task.get_name()
    return (len(name), name)
