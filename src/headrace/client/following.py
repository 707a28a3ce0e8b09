"""Results in submission order, from a position on, for as long as it takes: over broken connections and restarts."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx

from headrace.client.answers import Batch, Result
from headrace.client.attempts import Attempts, Lane, Next, after
from headrace.client.connection import Connection
from headrace.client.errors import DeadlinePassed, ProblemError, UnexpectedAnswer, Unreachable

PAGE = 1000
"""How many results one answer may hold."""


class Following:
    """Iterates the results of one batch. `after` is the position of the last one that was handed out.

    A stream that ends is not the end: a server that stops ends its streams politely, in the middle of a batch. The end
    is the last document of a batch that is finished.

    Args:
        connection, attempts, lane: of the client.
        batch_id: which batch.
        after: results up to this position are left out.
        follow: wait for those that are still to come; without it, what is there now is all.
        deadline_s: how long the server may be away, or keep silent, without one new result; None sets no end.
    """

    def __init__(
        self,
        connection: Connection,
        attempts: Attempts,
        lane: Lane,
        batch_id: int,
        *,
        after: int = 0,
        follow: bool = True,
        deadline_s: float | None = None,
    ) -> None:
        self._connection = connection
        self._attempts = attempts
        self._lane = lane
        self._path = f"/v1/batches/{batch_id}"
        self._follow = follow
        self._deadline_s = deadline_s
        self._rng = random.Random()
        self.after = after

    async def __aiter__(self) -> AsyncGenerator[Result, None]:
        breaks = 0
        loop = asyncio.get_running_loop()
        until = self._until(loop.time())
        while True:
            batch = await self._batch(until)
            if self._follow and batch.finished and self.after >= batch.accepted:
                return
            broken: Exception | None = None
            handed_out = 0
            try:
                async with aclosing(self._stream(until)) as results:
                    async for result in results:
                        handed_out += 1
                        yield result
            except (httpx.TransportError, ProblemError) as error:
                if after(error) is Next.NEVER:
                    raise
                self._lane.later += isinstance(error, ProblemError)
                broken = error
            except TimeoutError as error:
                raise DeadlinePassed(f"no result came within {self._deadline_s:g} s") from error
            if broken is None and not self._follow and handed_out < PAGE:
                return
            # What the consumer did between two results is not the server's time.
            if handed_out:
                breaks, until = 0, self._until(loop.time())
            else:
                breaks += 1
                await self._pause(broken, breaks, until)

    async def _stream(self, until: float | None) -> AsyncGenerator[Result, None]:
        """The results that one connection brings."""
        params: dict[str, str | int] = {"after": self.after, "limit": PAGE}
        if self._follow:
            params["follow"] = 1
        async with self._connection.lines(f"{self._path}/results", params=params) as lines:
            while True:
                async with asyncio.timeout_at(until):
                    line = await anext(lines, None)
                if line is None:
                    return
                result = _result(line)
                if result.position <= self.after:
                    continue  # seen already
                self.after = result.position
                yield result
                until = self._until(asyncio.get_running_loop().time())

    async def _batch(self, until: float | None) -> Batch:
        left_s = None if until is None else max(0.0, until - asyncio.get_running_loop().time())
        answer = await self._attempts.call(
            lambda: self._connection.ask("GET", self._path), self._lane, deadline_s=left_s
        )
        return Batch.read(answer.told)

    async def _pause(self, broken: Exception | None, breaks: int, until: float | None) -> None:
        asked_s = None
        if isinstance(broken, ProblemError):
            asked_s = broken.problem.retry_after_s
        delay_s = self._attempts.policy.delay_s(breaks, self._rng, asked_s)
        if until is not None and asyncio.get_running_loop().time() + delay_s >= until:
            problem = broken.problem if isinstance(broken, ProblemError) else None
            raise DeadlinePassed(f"no result came within {self._deadline_s:g} s", problem) from broken
        if broken is not None and until is None and asked_s is None and breaks > self._attempts.policy.attempts:
            raise Unreachable(f"{broken} ({breaks} streams in a row broke without a result)") from broken
        await asyncio.sleep(delay_s)

    def _until(self, now: float) -> float | None:
        return None if self._deadline_s is None else now + self._deadline_s


def _result(line: bytes) -> Result:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnexpectedAnswer("a line of the results is no JSON; is this a headrace service?") from error
    if not isinstance(told, dict):
        raise UnexpectedAnswer("a line of the results is no object; is this a headrace service?")
    return Result.read(told)
