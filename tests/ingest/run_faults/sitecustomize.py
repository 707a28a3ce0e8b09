"""Faults as a plugin: put on PYTHONPATH, it makes the workers of a run misbehave on documents of certain names.

    poison-exit*        the worker exits           poison-kill*        it is killed by SIGSEGV
    poison-hang*        it spins for ever          poison-bloat*       it takes 300 MB
    poison-unpicklable* its result cannot be sent  poison-raise*       a bug: ValueError
    broken*             it cannot be read          slow*               it takes 0.1 s
    noisy*              a library prints           gate*               it waits until there is a file `.open`

Several may be joined, as in `gate-broken.jpg`; the wait comes first. What is begun is noted in the folder's `.begun`,
one name a line. Production code knows nothing of this file.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

PLAIN = ("r", "x")  # names that begin like this are good documents


def misbehave(path: bytes) -> dict[str, Any]:
    """Does what the name says; what comes back is added to the durations of the reading."""
    folder, name = os.path.split(os.fsdecode(path))
    if name.startswith(PLAIN):
        return {}
    with open(os.path.join(folder, ".begun"), "a", errors="surrogateescape") as begun:
        begun.write(f"{name}\n")
    while "gate" in name and not os.path.exists(os.path.join(folder, ".open")):
        time.sleep(0.01)
    if "slow" in name:
        time.sleep(0.1)
    if "noisy" in name:
        os.write(1, b"a native library says something\n")
    if "poison-exit" in name:
        os._exit(1)
    if "poison-kill" in name:
        os.kill(os.getpid(), signal.SIGSEGV)
    if "poison-hang" in name:
        while True:
            pass
    if "poison-bloat" in name:
        kept = b"x" * (300 << 20)
        time.sleep(30)
        del kept
    if "poison-raise" in name:
        raise ValueError("a bug in a decoder")
    if "poison-unpicklable" in name:
        return {"cannot be sent": lambda: None}
    if "broken" in name:
        from headrace.documents.errors import CorruptDocument

        raise CorruptDocument("it says so itself")
    return {}


def install() -> None:
    """Puts the faults around the real reading."""
    import headrace.ocr.read as reading

    real = reading.read_document

    def read_document(path: bytes, *arguments: Any, **options: Any) -> Any:
        more = misbehave(path)
        text = real(path, *arguments, **options)
        text.durations_ms.update(more)
        return text

    reading.read_document = read_document


if sys.orig_argv[-1:] == ["headrace-worker"]:
    install()
