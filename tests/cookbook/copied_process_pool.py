"""The second recipe as it is passed on, told in our own words: it is here to show what breaks. Do not use it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from itertools import islice
from typing import Any


def in_order(executor: Executor, function: Callable[[Any], Any], source: Iterable[Any], limit: int) -> Iterator[Any]:
    numbered = enumerate(source)
    running: dict[Future[Any], int] = {}

    def refill(count: int) -> None:
        for number, item in islice(numbered, count):
            running[executor.submit(function, item)] = number

    refill(limit)  # prime
    finished: list[tuple[int, Any]] = []
    next_number = 0
    while running:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            heapq.heappush(finished, (running.pop(future), future.result()))
            refill(1)  # one for each that is done, whether it could be handed on or not
        while finished and finished[0][0] == next_number:
            yield heapq.heappop(finished)[1]
            next_number += 1
