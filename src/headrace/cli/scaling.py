"""How throughput grows with workers on this machine: the same work in one process, then in as many as there are cores.

N workers of N threads each can be fifty times slower than one (tesseract-ocr/tesseract#3109), and nothing fails. So
each process is given the thread environment of a worker before its native library loads, does matrix products (what
recognition spends its time on) and counts its own threads. The module imports nothing heavy: it is loaded by each
child before the environment is set.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

READY_WITHIN_S = 60.0
"""Importing a library on a busy machine may take this long; a child that takes longer is given up."""

GOOD_SCALING = 0.8
CORE_OF_ITS_OWN = 0.85


@dataclass(frozen=True, slots=True)
class Work:
    """What one process did.

    Attributes:
        products: matrix products finished.
        wall_s, cpu_s: how long it worked, and how much processor time that took.
        threads: of the process, when it was done.
    """

    products: int
    wall_s: float
    cpu_s: float
    threads: int


@dataclass(frozen=True, slots=True)
class Scaling:
    """One process against many.

    Attributes:
        workers: how many processes ran at once.
        one_per_s, many_per_s: products per second, of one process alone and of all together.
        efficiency: many / (workers x one); 1 is perfect.
        core_share: how much of a core each of the many got, on average.
        threads: the most threads that a process had.
    """

    workers: int
    one_per_s: float
    many_per_s: float
    efficiency: float
    core_share: float
    threads: int

    @property
    def oversubscribed(self) -> bool:
        """Whether a worker used more than the one thread that it is allowed."""
        return self.threads > 1


def compare(one: Work, many: Iterable[Work]) -> Scaling:
    """The arithmetic of the test.

    Raises:
        ValueError: nothing was done, so nothing can be said.
    """
    together = list(many)
    if not together or one.products < 1 or one.wall_s <= 0:
        raise ValueError("the self-test did no work; the machine is too busy to be measured")
    one_per_s = one.products / one.wall_s
    many_per_s = sum(work.products / work.wall_s for work in together if work.wall_s > 0)
    return Scaling(
        workers=len(together),
        one_per_s=one_per_s,
        many_per_s=many_per_s,
        efficiency=many_per_s / (len(together) * one_per_s),
        core_share=sum(work.cpu_s for work in together) / max(1e-9, sum(work.wall_s for work in together)),
        threads=max(work.threads for work in (one, *together)),
    )


def explain(scaling: Scaling) -> tuple[bool, str]:
    """Whether that is well, and the reason in one sentence for a person."""
    together = scaling.efficiency * scaling.workers
    shown = f"{scaling.workers} workers do {together:.2f} times the work of one ({scaling.efficiency:.0%} of perfect)"
    if scaling.oversubscribed:
        return False, f"{shown}: a worker runs {scaling.threads} threads instead of 1 (oversubscription)"
    if scaling.efficiency >= GOOD_SCALING or scaling.workers == 1:
        return True, shown
    if scaling.core_share < CORE_OF_ITS_OWN:
        return True, f"{shown}: each got {scaling.core_share:.0%} of a core, other programs took the rest"
    return True, f"{shown}: cores share their caches or are two threads of one; fewer --workers may be as fast"


def measure(workers: int, seconds: float, environment: dict[str, str]) -> Scaling:
    """Runs the test: about twice `seconds`, and the start of the processes.

    Args:
        workers: how many processes at once.
        seconds: how long each round works.
        environment: what a worker is given before it loads anything, see `ocr.registry.thread_environment`.

    Raises:
        TimeoutError: a process did not start or answer. None is left behind, whatever happens.
        ValueError: nothing was done.
    """
    (one,) = _round(1, seconds, environment)
    return compare(one, _round(workers, seconds, environment))


def _round(workers: int, seconds: float, environment: dict[str, str]) -> list[Work]:
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(workers)]
    children = [context.Process(target=_work, args=(there, seconds, environment), daemon=True) for _, there in pipes]
    try:
        for child in children:
            child.start()
        for _, there in pipes:
            there.close()
        for here, _ in pipes:
            _receive(here)  # ready: all start together
        for here, _ in pipes:
            here.send("start")
        return [Work(*_receive(here)) for here, _ in pipes]
    finally:
        for child in children:
            if child.pid is not None:
                child.kill()
                child.join()
        for here, _ in pipes:
            here.close()


def _receive(pipe: Connection) -> tuple[int, float, float, int]:
    if not pipe.poll(READY_WITHIN_S):
        raise TimeoutError(f"a process of the self-test did not answer within {READY_WITHIN_S:g} s")
    try:
        answer: tuple[int, float, float, int] = pipe.recv()
    except EOFError:
        raise TimeoutError("a process of the self-test died") from None
    return answer


def _work(pipe: Connection, seconds: float, environment: dict[str, str]) -> None:
    os.environ.update(environment)  # before the library loads: it looks once
    import numpy as np

    left = np.random.default_rng(1).random((384, 384), dtype=np.float32)
    product = left @ left
    pipe.send(())
    pipe.recv()
    started, cpu_before, products = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - started < seconds:
        np.matmul(left, left, out=product)
        products += 1
    wall_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_before
    pipe.send((products, wall_s, cpu_s, _threads()))


def _threads() -> int:
    try:
        return len(list(Path("/proc/self/task").iterdir()))
    except OSError:  # no /proc: then only the scaling speaks
        return 1
