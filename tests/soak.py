"""Runs the seeded schedules of all parts, a million by default, on all cores. Called by `script/soak`.

Whatever test reads HEADRACE_TEST_SCHEDULES takes part; a test must multiply by it, so that two short runs tell how many
schedules there are to one unit of it. A schedule counts when its virtual loop is made.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
VARIABLE = "HEADRACE_TEST_SCHEDULES"
PROBES = (30, 60)


class Count:
    """The part that runs inside of pytest: counts the loops that run under a schedule."""

    def __init__(self) -> None:
        from headrace.flow import testing

        self.schedules = 0
        make = testing.VirtualLoop.__init__

        def counted(loop: testing.VirtualLoop, schedule: testing.Schedule | None = None) -> None:
            self.schedules += schedule is not None
            make(loop, schedule)

        testing.VirtualLoop.__init__ = counted  # type: ignore[method-assign]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.line(f"schedules: {self.schedules}")


class Result(NamedTuple):
    """What came of one file; `output` is empty unless it failed."""

    schedules: int
    took_s: float
    output: str


def run(path: str, unit: int) -> Result:
    began = time.monotonic()
    options = ["-x", "-q", "-p", "no:cacheprovider", "-o", "timeout=0"]
    done = subprocess.run(
        [sys.executable, __file__, "--inside", path, *options],
        cwd=ROOT,
        env={**os.environ, VARIABLE: str(unit)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"schedules: (\d+)", done.stdout)
    output = "" if done.returncode == 0 else done.stdout + done.stderr
    return Result(int(found[1]) if found else 0, time.monotonic() - began, output)


def how_to_replay(output: str) -> str:
    seeds = re.findall(r"schedule seed (\d+)", output)
    tests = re.findall(r"^FAILED ([^\s\[]+)", output, re.MULTILINE)
    if not (seeds and tests):
        return "no seed was named: see the output above"
    seed = int(seeds[-1])
    # A test that does not know HEADRACE_TEST_SEED yet runs up to the seed instead.
    return f"seed {seed} failed; replay: HEADRACE_TEST_SEED={seed} {VARIABLE}={seed + 1} pytest '{tests[-1]}'"


def failures_in(results: dict[str, Result]) -> bool:
    failed = [result.output for result in results.values() if result.output]
    for output in failed:
        print(output, how_to_replay(output), sep="\n")
    return bool(failed)


def main(total: int) -> int:
    paths = [
        str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/*/test_*.py")) if VARIABLE in path.read_text()
    ]
    began = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:

        def run_all(unit: int) -> dict[str, Result]:
            return dict(zip(paths, pool.map(lambda path: run(path, unit), paths), strict=True))

        short, longer = (run_all(unit) for unit in PROBES)
        if failures_in(short) or failures_in(longer):
            return 1
        grown = sum(longer[path].schedules - short[path].schedules for path in paths)
        unit = int(total * (PROBES[1] - PROBES[0]) / grown) + 1
        print(f"{len(paths)} files, {VARIABLE}={unit}", flush=True)
        paths.sort(key=lambda path: -longer[path].took_s)  # the longest first, so that no core is idle in the end
        results = run_all(unit)
    for path, result in results.items():
        print(f"{path:48} {result.schedules:>10,} schedules {'FAILED' if result.output else 'ok'}")
    print(f"{sum(result.schedules for result in results.values()):,} schedules in {time.monotonic() - began:.0f} s")
    return int(failures_in(results))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.exit(pytest.main(sys.argv[2:], plugins=[Count()]))
    sys.exit(main(int(sys.argv[1].replace(",", "").replace("_", "")) if len(sys.argv) > 1 else 1_000_000))
