"""Seeded schedules: a loop that runs what is ready in an order drawn from a seed, and cancels at any await.

It has no sockets, threads or signals, so that it costs a few microseconds to make and a run of a few hundred callbacks
about a millisecond: many short runs find more than few long ones. For what needs the rest there is `VirtualLoop`.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import random
import sys
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")

# Far more than any schedule has: one that makes so many is going round in a circle.
_MOST_CALLBACKS = 1_000_000


class Deadlock(AssertionError):
    """Every task waits, and nothing is left that could wake one."""


class Livelock(AssertionError):
    """A schedule has made a million callbacks, and has not come to its end."""


class Schedule:
    """The choices of one run, all drawn from one seed: the same seed gives the same run.

    Args:
        seed: names the run; print it when it fails.
        cancel_probability: after each callback, the chance that one of the `victims` is cancelled.

    Attributes:
        watch: called after each callback, if it is set; what it raises ends the run.
        failure: what ended the run: the watch, or a callback that raised (which other loops would only log).
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
    """The schedules of one test, with seeds from 0 on; `run_schedules` runs a scenario under each.

    The environment changes which: HEADRACE_TEST_SEED is the one seed, so that one that failed replays at once;
    HEADRACE_TEST_SCHEDULES is how many instead of `count`; HEADRACE_TEST_SHARE=2/4 is the second quarter of them.

    Args:
        count: how many.
        cancel_probabilities: of the first, the second, and so on in turn.
    """
    only = os.environ.get("HEADRACE_TEST_SEED")
    seeds: Sequence[int] = [int(only)] if only is not None else range(0)
    if only is None:
        share, shares = (int(number) for number in os.environ.get("HEADRACE_TEST_SHARE", "1/1").split("/"))
        seeds = range(share - 1, int(os.environ.get("HEADRACE_TEST_SCHEDULES", count)), shares)
    for seed in seeds:
        yield Schedule(seed, cancel_probability=cancel_probabilities[seed % len(cancel_probabilities)])


def run_schedules(
    scenario: Callable[[Schedule], Coroutine[Any, Any, object]],
    count: int,
    cancel_probabilities: Sequence[float] = (0.0, 0.02, 0.1),
) -> None:
    """Runs a scenario under each of the `schedules`, up to the first that fails; its error names the seed."""
    for schedule in schedules(count, cancel_probabilities):
        run_scheduled(scenario(schedule), schedule)


def run_scheduled(main: Coroutine[Any, Any, T], schedule: Schedule) -> T:
    """Runs a coroutine to its end under a schedule; see `headrace.flow.testing.run_virtual`."""
    loop = ScheduledLoop(schedule)  # type: ignore[abstract]  # what it lacks raises NotImplementedError
    try:
        return loop.run_until_complete(main)
    except BaseException as error:
        chance = schedule.cancel_probability
        error.add_note(f"schedule seed {schedule.seed} (HEADRACE_TEST_SEED), cancel probability {chance}")
        raise
    finally:
        loop.close()


class _NumberedTask(asyncio.Task[T]):
    """Hashed by number and not by address: a set of tasks has the same order whenever a seed is run."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, T], **options: Any) -> None:
        self._number = number  # first: a task is in a set from its beginning
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class ScheduledLoop(asyncio.AbstractEventLoop):
    """An event loop of tasks, futures and timers only, in virtual time and random order.

    Of all that is ready one is drawn at a time. Time stands while anything is ready, then jumps to the next timer. What
    a callback raises ends the run. `call_soon_threadsafe` is `call_soon`: there is one thread.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._draw = schedule.random.random
        self._now = 0.0
        self._ready: list[asyncio.Handle] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_made = self._tasks_made = 0
        self._running = False
        self._closed = False
        self._generators: weakref.WeakSet[AsyncGenerator[Any, Any]] = weakref.WeakSet()
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None

    # What runs

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """As of any loop; raises Deadlock, and what the watch or a callback raised."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generators.add, finalizer=self._finalize)
        asyncio._set_running_loop(self)
        self._running = True
        try:
            task = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]
            self._run_until(task)
            return task.result()
        finally:
            self._running = False
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _run_until(self, task: asyncio.Future[Any]) -> None:
        schedule, ready, timers, draw = self._schedule, self._ready, self._timers, self._draw
        for _ in range(_MOST_CALLBACKS):
            if task.done():
                return
            if not ready:
                self._jump()
            elif timers and timers[0][0] <= self._now:
                self._wake_due()
            # The last takes the place of the one that was drawn: cheaper than closing the gap, and as random.
            last = ready.pop()
            place = int(draw() * (len(ready) + 1))
            if place < len(ready):
                ready[place], last = last, ready[place]
            if not last._cancelled:
                last._run()
            schedule.strike()
            if schedule.watch is not None and schedule.failure is None:
                try:
                    schedule.watch()
                except BaseException as failure:
                    schedule.failure = failure
            if schedule.failure is not None:
                raise schedule.failure
        raise Livelock(f"no end after {_MOST_CALLBACKS} callbacks")

    def _jump(self) -> None:
        while self._timers and self._timers[0][2]._cancelled:
            heapq.heappop(self._timers)
        if not self._timers:
            raise Deadlock("every task waits, and no timer is set that could wake one")
        self._now = max(self._now, self._timers[0][0])
        self._wake_due()

    def _wake_due(self) -> None:
        timers = self._timers
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            if not timer._cancelled:
                self._ready.append(timer)

    def close(self) -> None:
        """Cancels what is left, lets it end, and closes; nothing is struck or watched any more."""
        if self._closed:
            return
        self._schedule.victims.clear()
        self._schedule.watch = None
        self._schedule.failure = None
        left = asyncio.all_tasks(self)
        if left or self._generators:
            for task in left:
                task.cancel()
            self.run_until_complete(self._end_of(left))
        self._closed = True

    async def _end_of(self, left: set[asyncio.Task[Any]]) -> None:
        await asyncio.gather(*left, return_exceptions=True)
        for generator in list(self._generators):
            await generator.aclose()

    def _finalize(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators.discard(generator)
        if not self._closed:
            self.create_task(generator.aclose())

    # What is to run

    def call_soon(  # type: ignore[override]  # a handle takes a tuple of any types
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Says that it runs, not in which order."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """In `delay` virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """At a virtual time."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        """As of any loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        """As of any loop."""
        self._tasks_made += 1
        return _NumberedTask(self._tasks_made, coro, loop=self, name=name, context=context)

    # What else a loop is asked

    def is_running(self) -> bool:
        """As of any loop."""
        return self._running

    def is_closed(self) -> bool:
        """As of any loop."""
        return self._closed

    def get_debug(self) -> bool:
        """Never."""
        return False

    def get_task_factory(self) -> None:
        """None."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What a callback raised ends the run; what else is reported goes to the log."""
        error = context.get("exception")
        if "handle" in context and error is not None and self._schedule.failure is None:
            self._schedule.failure = error
        else:
            asyncio.BaseEventLoop.default_exception_handler(self, context)  # type: ignore[arg-type]


def _task_number(task: asyncio.Task[Any]) -> tuple[int, str]:
    name = task.get_name()
    return (len(name), name)
