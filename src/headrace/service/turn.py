"""The order of documents that come one behind the other, while the bytes of several are being made durable."""

from __future__ import annotations

import asyncio


class Turn:
    """One document's place in a stream: its row is written behind the row of the one before.

    Whoever has a turn ends it by `pass_on`, also when nothing came of it.

    Args:
        before: the turn of the one before; None for the first.
    """

    __slots__ = ("_before", "_passed")

    def __init__(self, before: Turn | None = None) -> None:
        self._before = before
        self._passed = asyncio.Event()

    async def comes(self) -> None:
        """Returns when all before have passed on. A cancelled wait changes nothing."""
        before = self._before
        while before is not None:  # one that failed early passed on before its own turn came
            await before._passed.wait()
            before = before._before
        self._before = None

    def pass_on(self) -> None:
        """The next one may. Twice does not harm."""
        self._passed.set()
