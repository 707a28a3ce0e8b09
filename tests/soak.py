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


def run(path: str, unit: int) -> tuple[int, str]:
    """Runs one file in a process; returns how many schedules that were, and its output if it failed."""
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
    return int(found[1]) if found else 0, "" if done.returncode == 0 else done.stdout + done.stderr


def how_to_replay(output: str) -> str:
    seeds = re.findall(r"schedule seed (\d+)", output)
    tests = re.findall(r"^FAILED ([^\s\[]+)", output, re.MULTILINE)
    if not (seeds and tests):
        return "no seed was named: see the output above"
    seed = int(seeds[-1])
    # A test that does not know HEADRACE_TEST_SEED yet runs up to the seed instead.
    return f"seed {seed} failed; replay: HEADRACE_TEST_SEED={seed} {VARIABLE}={seed + 1} pytest '{tests[-1]}'"


def main(total: int) -> int:
    paths = [
        str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/*/test_*.py")) if VARIABLE in path.read_text()
    ]
    began = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:

        def run_all(unit: int, took: dict[str, float] | None = None) -> list[tuple[int, str]]:
            def timed(path: str) -> tuple[int, str]:
                started = time.monotonic()
                result = run(path, unit)
                if took is not None:
                    took[path] = time.monotonic() - started
                return result

            return list(pool.map(timed, paths))

        low = sum(count for count, _ in run_all(PROBES[0]))
        took: dict[str, float] = {}
        high = sum(count for count, _ in run_all(PROBES[1], took))
        paths.sort(key=lambda path: -took[path])  # the longest first, so that no core is idle in the end
        by_unit = (high - low) / (PROBES[1] - PROBES[0])
        if by_unit <= 0:
            print("the short runs failed, or no test multiplies by", VARIABLE, file=sys.stderr)
            return 1
        unit = int(total / by_unit) + 1
        print(f"{len(paths)} files, {VARIABLE}={unit}, about {unit * by_unit:,.0f} schedules", flush=True)
        results = dict(zip(paths, run_all(unit), strict=True))
    for path, (count, output) in results.items():
        print(f"{path:48} {count:>10,} schedules {'FAILED' if output else 'ok'}")
    for output in filter(None, (output for _, output in results.values())):
        print(output, how_to_replay(output), sep="\n")
    done = sum(count for count, _ in results.values())
    print(f"{done:,} schedules in {time.monotonic() - began:.0f} s")
    return int(any(output for _, output in results.values()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.exit(pytest.main(sys.argv[2:], plugins=[Count()]))
    sys.exit(main(int(sys.argv[1].replace(",", "").replace("_", "")) if len(sys.argv) > 1 else 1_000_000))
