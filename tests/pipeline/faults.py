"""Functions for worker processes, which import them: good ones, and one for every way to go wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any


def work(number: int) -> Any:
    """10 crashes, 11 hangs, 12 raises, 13 returns what cannot be pickled, 14 takes long."""
    if number == 10:
        os._exit(3)
    if number == 11:
        time.sleep(60)
    if number == 12:
        raise ValueError("twelve")
    if number == 13:
        return lambda: None
    if number == 14:
        time.sleep(0.5)
    return number


def batch(numbers: list[int]) -> list[Any]:
    return [work(number) for number in numbers]


def pid(_: Any) -> int:
    return os.getpid()


class CrashesOnce:
    """Crashes its worker on the first call for each item, which it marks in a folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, number: int) -> int:
        try:
            os.close(os.open(f"{self.folder}/{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return number
        os._exit(3)


def load_multiplier() -> Callable[[int], int]:
    factor = 7
    return lambda number: number * factor


def fail_to_load() -> Callable[[int], int]:
    raise OSError("the model is not there")


class WaitsForFile:
    """Waits with the number 0 until there is a file of this name; returns every other number at once."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, number: int) -> int:
        while number == 0 and not os.path.exists(self.path):
            time.sleep(0.005)
        return number
