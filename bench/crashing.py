"""headrace with one fault: the whole tree dies (SIGKILL) at the n-th call of a function.

    python bench/crashing.py MODULE:CLASS.METHOD before|after|halfway N  ARGUMENTS OF headrace...

`halfway` is for `write` functions: half of the bytes reach the file, as when the machine stops in the middle.
"""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import sys
from typing import Any


def install(target: str, when: str, number: int) -> None:
    """Makes the `number`-th call of the function `target` the last thing that this process group does."""
    module_name, _, path = target.partition(":")
    class_name, _, method_name = path.partition(".")
    owner = getattr(importlib.import_module(f"headrace.{module_name}"), class_name)
    original = getattr(owner, method_name)
    calls = itertools.count(1)

    def crashing(self: Any, *args: Any, **kwargs: Any) -> Any:
        now = next(calls) == number
        if now and when == "before":
            die()
        if now and when == "halfway":
            self._file = Half(self._file)
        result = original(self, *args, **kwargs)
        if now and when == "after":
            die()
        return result

    setattr(owner, method_name, crashing)


class Half:
    """A file whose next write is the last one, and only half of it arrives."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        self._file.write(data[: len(data) // 2])
        self._file.flush()
        die()
        return 0


def die() -> None:
    os.killpg(0, signal.SIGKILL)
    signal.pause()  # nothing more, until the signal is there


def main() -> None:
    target, when, number = sys.argv[1:4]
    install(target, when, int(number))
    from headrace.cli.app import exit_with_code

    sys.argv = ["headrace", *sys.argv[4:]]
    exit_with_code()


if __name__ == "__main__":
    main()
