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


def main() -> None:
    target, when, number = sys.argv[1:4]
    module_name, _, path = target.partition(":")
    class_name, _, method_name = path.partition(".")
    owner = getattr(importlib.import_module(f"headrace.{module_name}"), class_name)
    original = getattr(owner, method_name)
    calls = itertools.count(1)

    def crashing(self: Any, *args: Any, **kwargs: Any) -> Any:
        now = next(calls) == int(number)
        if now and when == "before":
            die()
        if now and when == "halfway":
            write = self._file.write

            class Half:
                def write(self, data: bytes) -> None:
                    write(data[: len(data) // 2])
                    file.flush()
                    die()

            file, self._file = self._file, Half()
        result = original(self, *args, **kwargs)
        if now and when == "after":
            die()
        return result

    setattr(owner, method_name, crashing)
    from headrace.cli.app import main as headrace

    sys.argv = ["headrace", *sys.argv[4:]]
    headrace()


def die() -> None:
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
