"""Functions and items for workers: good ones, and one for every way to go wrong. Importable by the workers."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Job:
    n: int
    kind: str = "ok"
    argument: Any = None


def work(job: Job) -> Any:
    if job.kind == "ok":
        return job.n
    return FAULTS[job.kind](job)


def work_or_echo(item: Any) -> Any:
    return work(item) if isinstance(item, Job) else item


def double(n: int) -> int:
    return 2 * n


def sleep_20_ms(n: int) -> int:
    time.sleep(0.02)
    return n


def sleep_for(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def sleep_a_minute(n: int) -> int:
    time.sleep(60)
    return n


def slow_head(n: int) -> int:
    time.sleep(1.0 if n == 0 else 0.002)
    return n


def pid_of(_: Any) -> int:
    return os.getpid()


def scheduling(_: Any) -> int:
    return os.sched_getscheduler(0)


def environment_of(name: str) -> str | None:
    return os.environ.get(name)


def print_much(n: int) -> int:
    print("noise on stdout", flush=True)
    os.write(1, b"more noise\n")
    return n


def size_of(data: bytes) -> int:
    return len(data)


def echo(value: Any) -> Any:
    return value


class NamedError(Exception):
    """Like an error of the domain: it brings its own code."""

    code = "corrupt-document"
    stage = "decode"
    retriable = False

    def __init__(self, detail: str, *, page: int) -> None:
        super().__init__(detail)
        self.page = page

    def __reduce__(self) -> Any:
        return _named_error, (str(self), self.page)


def _named_error(detail: str, page: int) -> NamedError:
    return NamedError(detail, page=page)


class Unrebuildable(Exception):
    """Pickles, and cannot be built again from what was pickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def _named(job: Job) -> Any:
    raise NamedError("broken on page 3", page=3)


def _unrebuildable(job: Job) -> Any:
    raise Unrebuildable("one", "two")


def _raise(job: Job) -> Any:
    raise ValueError(f"no good: {job.n}")


def _base_exception(job: Job) -> Any:
    raise GeneratorExit("not even an Exception")


def _compute(job: Job) -> int:
    """Takes so much time of a processor: the clock does not do it, as it would end a sleep."""
    end_s = time.process_time() + job.argument
    while time.process_time() < end_s:
        pass
    return job.n


def _spin(job: Job) -> Any:
    while True:
        pass


def _kill(job: Job) -> Any:
    os.kill(os.getpid(), job.argument)
    time.sleep(60)


def _segfault(job: Job) -> Any:
    ctypes.string_at(0)


def _bloat(job: Job) -> Any:
    block = bytearray(job.argument)
    block[:: os.sysconf("SC_PAGE_SIZE")] = b"x" * len(block[:: os.sysconf("SC_PAGE_SIZE")])
    time.sleep(60)


kept: list[bytes] = []


def _leak(job: Job) -> Any:
    kept.append(b"x" * job.argument)
    time.sleep(0.06)  # the worker reads its memory every 50 ms
    return job.n


def _close_descriptors(job: Job) -> Any:
    os.closerange(3, 256)
    time.sleep(0.05)
    return job.n


FAULTS: dict[str, Callable[[Job], Any]] = {
    "exit": lambda job: os._exit(job.argument),
    "sys-exit": lambda job: sys.exit(job.argument),
    "abort": lambda job: os.abort(),
    "segfault": _segfault,
    "signal": _kill,
    "spin": _spin,
    "compute": _compute,
    "sleep": lambda job: time.sleep(job.argument) or job.n,
    "raise": _raise,
    "named": _named,
    "unrebuildable": _unrebuildable,
    "base-exception": _base_exception,
    "lambda": lambda job: lambda: 1,
    "lock": lambda job: threading.Lock(),
    "return": lambda job: job.argument,
    "make": lambda job: globals()[job.argument](),
    "much": lambda job: b"x" * job.argument,
    "bloat": _bloat,
    "leak": _leak,
    "close-descriptors": _close_descriptors,
}


# Things that fail when they are pickled or read back, here or there.


def _raise_value_error() -> Any:
    raise ValueError("cannot be read back")


class ErrorAtPickle:
    def __reduce__(self) -> Any:
        raise ValueError("cannot be pickled")


class ExitAtPickle:
    def __reduce__(self) -> Any:
        sys.exit(1)


class CrashAtPickle:
    def __reduce__(self) -> Any:
        os.kill(os.getpid(), signal.SIGSEGV)


class HangAtPickle:
    def __reduce__(self) -> Any:
        time.sleep(60)
        return str, ()


class ErrorAtUnpickle:
    def __reduce__(self) -> Any:
        return _raise_value_error, ()


class ExitAtUnpickle:
    def __reduce__(self) -> Any:
        return sys.exit, (3,)


class CrashAtUnpickle:
    def __reduce__(self) -> Any:
        return os._exit, (4,)


class HangAtUnpickle:
    def __reduce__(self) -> Any:
        return time.sleep, (60,)


# Factories.


def failing_factory() -> Callable[[Any], Any]:
    raise RuntimeError("the model is not there")


def exiting_factory() -> Callable[[Any], Any]:
    os._exit(9)


def hanging_factory() -> Callable[[Any], Any]:
    time.sleep(60)
    return echo


class FailsAfter:
    """Starts so many workers well, and no more; counts them by files in a folder."""

    def __init__(self, folder: str, good: int) -> None:
        self.folder, self.good = folder, good

    def __call__(self) -> Callable[[Job], Any]:
        for number in range(1000):
            try:
                os.close(os.open(f"{self.folder}/{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            if number >= self.good:
                raise RuntimeError("no more workers")
            return work
        raise AssertionError


class Counting:
    """A factory whose calls can be counted from outside, by files in a folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self) -> Callable[[Any], Any]:
        open(f"{self.folder}/{os.getpid()}", "w").close()
        return echo


class CrashAtExit:
    """Its workers die in their exit handlers."""

    def __call__(self) -> Callable[[Any], Any]:
        import atexit

        atexit.register(os._exit, 7)
        return echo


class HangAtExit:
    """Its workers hang in their exit handlers."""

    def __call__(self) -> Callable[[Any], Any]:
        import atexit

        atexit.register(time.sleep, 60)
        return echo
