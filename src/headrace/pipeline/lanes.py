"""Lanes: each runs one call at a time for one worker of a stage. One contract, and the kinds of calling behind it.

A lane never raises what the function raised: that is a `Failure`. It may give a call up that it cannot end; until that
call is over the lane is not free, and takes no other.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import monotonic
from typing import Any

from headrace.execution.outcome import DEADLINE, Failure, Raised, Success, describe

Outcome = Success[Any, Any] | Failure[Any]
JOIN_LIMIT_S = 1.0  # for a thread that has said that it is about to end


class Lane:
    """What all lanes have in common: giving up on a call, and knowing when that is over.

    Attributes:
        given_up_at: since when a call is running that was given up on, in seconds of the loop; None without one.
    """

    def __init__(self, deadline_s: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline_s = deadline_s
        self._given_up: asyncio.Future[Any] | None = None
        self._then: Callable[[], None] | None = None
        self.given_up_at: float | None = None

    async def open(self) -> None:
        """Loads what the function needs. Raises what that raised; leaves nothing behind then."""

    async def call(self, argument: Any) -> Outcome:
        """Calls the function. Cancelled, it has ended the call, or given it up."""
        raise NotImplementedError

    async def free(self) -> None:
        """Returns when no call is running, given up or not."""
        while self._given_up is not None:
            await asyncio.wait({self._given_up})
            await asyncio.sleep(0)  # so that its callback has run

    def when_free(self, then: Callable[[], None]) -> None:
        """Calls `then` as soon as the call is over, given up or not: usually at once; when closed, in any case."""
        if self._given_up is None:
            then()
        else:
            self._then = then

    async def aclose(self) -> None:
        """Waits until the lane is free. Cancelled, it leaves the running call behind."""
        try:
            await self.free()
        finally:
            self._call_then()

    def _give_up(self, running: asyncio.Future[Any]) -> None:
        self._given_up, self.given_up_at = running, self._loop.time()
        running.add_done_callback(self._over)

    def _over(self, _: asyncio.Future[Any]) -> None:
        self._given_up = self.given_up_at = None
        self._call_then()

    def _call_then(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()

    async def _within_deadline(self, running: asyncio.Future[Outcome], argument: Any, *, end: bool) -> Outcome:
        """Waits for a running call until the deadline; then ends it if that can be done, or gives it up."""
        try:
            await asyncio.wait({running}, timeout=self._deadline_s)
        finally:
            if not running.done():
                if end:
                    running.cancel()
                self._give_up(running)
        if running.done():
            return running.result()
        if end:
            await asyncio.wait({running}, timeout=0)  # one tick to obey
            await asyncio.sleep(0)
        detail = f"gave up waiting after {self._deadline_s:g} s"
        if self._given_up is not None:
            detail += "; the call is still running and cannot be ended from here"
        return Failure(argument, DEADLINE, detail, 1, self._deadline_s or 0.0, False, worker=os.getpid())


class InlineLane(Lane):
    """Calls a plain function in the event loop."""

    def __init__(self, function: Callable[[Any], Any], deadline_s: float | None = None) -> None:
        super().__init__(deadline_s)
        self._function = function

    async def call(self, argument: Any) -> Outcome:
        """Calls it and returns; other tasks get no turn meanwhile."""
        return outcome_of_call(self._function, argument)


class AsyncLane(Lane):
    """Awaits a coroutine function. At the deadline its task is cancelled; one that does not obey is given up."""

    def __init__(self, function: Callable[[Any], Any], deadline_s: float | None) -> None:
        super().__init__(deadline_s)
        self._function = function

    async def call(self, argument: Any) -> Outcome:
        """Awaits it; without a deadline in the caller's own task."""
        if self._deadline_s is None:
            return await self._await(argument)
        return await self._within_deadline(self._loop.create_task(self._await(argument)), argument, end=True)

    async def _await(self, argument: Any) -> Outcome:
        begun = self._loop.time()
        try:
            value = await self._function(argument)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            failure: BaseException = error  # nobody cancelled this task: it is what the function raised
        except Exception as error:
            failure = error
        else:
            return Success(argument, value, self._loop.time() - begun, 1, os.getpid())
        return failed(argument, failure, self._loop.time() - begun)


class ThreadLane(Lane):
    """Calls a plain function in a thread of its own. Nobody can end a thread: at the deadline it is given up.

    A daemon thread, so that one that never comes back does not keep the interpreter from ending.
    """

    def __init__(
        self,
        function: Callable[[Any], Any] | None,
        factory: Callable[[], Any] | None,
        deadline_s: float | None,
        name: str,
    ) -> None:
        super().__init__(deadline_s)
        self._function = function
        self._factory = factory
        self._mailbox: SimpleQueue[tuple[Any, asyncio.Future[Outcome], contextvars.Context] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()

    async def open(self) -> None:
        """Starts the thread; the factory, if there is one, runs in it."""
        self._thread.start()
        await self._ready

    async def call(self, argument: Any) -> Outcome:
        """Has the thread call it."""
        future: asyncio.Future[Outcome] = self._loop.create_future()
        self._mailbox.put((argument, future, contextvars.copy_context()))
        return await self._within_deadline(future, argument, end=False)

    async def aclose(self) -> None:
        """Waits until the thread has ended. Cancelled, it leaves it behind, to end when its call does."""
        self._mailbox.put(None)
        try:
            if self._thread.is_alive():
                await asyncio.wait({self._ended})
                self._thread.join(JOIN_LIMIT_S)
        finally:
            self._call_then()

    def _run(self) -> None:
        if self._factory is not None:
            try:
                self._function = self._factory()
            except BaseException as error:
                self._tell(self._ready, None, error)
                self._tell(self._ended, None)
                return
        assert self._function is not None
        self._tell(self._ready, None)
        while (job := self._mailbox.get()) is not None:
            argument, future, context = job
            outcome = context.run(outcome_of_call, self._function, argument, BaseException)
            self._tell(future, outcome)
            del job, argument, future, context, outcome  # nothing is kept while it waits
        self._tell(self._ended, None)

    def _tell(self, future: asyncio.Future[Any], result: Any, error: BaseException | None = None) -> None:
        try:
            self._loop.call_soon_threadsafe(_settle, future, result, error)
        except RuntimeError:
            self._mailbox.put(None)  # the loop is gone, and with it everybody who could ask for more


def outcome_of_call(
    function: Callable[[Any], Any], argument: Any, catch: type[BaseException] = Exception
) -> Success[Any, Any] | Failure[Any]:
    """Calls a plain function; what it raised is a failure."""
    begun = monotonic()
    try:
        value = function(argument)
    except catch as error:
        return failed(argument, error, monotonic() - begun)
    return Success(argument, value, monotonic() - begun, 1, os.getpid())


def failed(argument: Any, error: BaseException, elapsed_s: float, code: str | None = None) -> Failure[Any]:
    """What was raised, as a failure."""
    return failure_of(argument, describe(error, code), elapsed_s, error)


def failure_of(argument: Any, raised: Raised, elapsed_s: float, error: BaseException | None = None) -> Failure[Any]:
    """A failure in this process."""
    return Failure.of(
        argument, raised, attempt=1, elapsed_s=elapsed_s, retriable=False, exception=error, worker=os.getpid()
    )


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
