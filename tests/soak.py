"""Runs the seeded schedules of all parts, a million by default, on all cores. Called by `script/soak`.

Every test that is marked `schedules` takes part with as many seeds as every other; each core runs its share of the
seeds of each. The first that fails ends it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Only the files that have such a test: collecting the others takes longer than a short campaign.
FILES = [str(path) for path in sorted(ROOT.glob("tests/*/test_*.py")) if "pytest.mark.schedules" in path.read_text()]
OPTIONS = ["-q", "-x", "-m", "schedules", "-p", "no:cacheprovider", "-o", "timeout=0"]
PYTEST = [sys.executable, "-m", "pytest", *OPTIONS, *FILES]
LINE = re.compile(r"^schedules: (\d+) in ([\d.]+) s of (.+)$", re.MULTILINE)


def tests_that_take_part() -> int:
    done = subprocess.run([*PYTEST, "--collect-only"], cwd=ROOT, capture_output=True, text=True, check=True)
    return sum("::" in line for line in done.stdout.splitlines())


class Share:
    """One process with its share of the seeds. Its output goes to a file: a pipe that nobody reads would fill up."""

    def __init__(self, share: int, shares: int, count: int) -> None:
        environment = {**os.environ, "HEADRACE_TEST_SCHEDULES": str(count), "HEADRACE_TEST_SHARE": f"{share}/{shares}"}
        environment.pop("HEADRACE_TEST_SEED", None)
        self._output = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed with its share
        self.process = subprocess.Popen(
            PYTEST, cwd=ROOT, env=environment, stdout=self._output, stderr=subprocess.STDOUT, text=True
        )

    def output(self) -> str:
        self._output.seek(0)
        return self._output.read()


def main(total: int) -> int:
    began = time.monotonic()
    tests, shares = tests_that_take_part(), os.cpu_count() or 1
    count = -(-total // tests)
    print(f"{tests} tests x {count:,} seeds on {shares} cores", flush=True)
    running = [Share(share, shares, count) for share in range(1, shares + 1)]
    failed, made, took_s = "", defaultdict[str, int](int), defaultdict[str, float](float)
    while running and not failed:
        share = next((share for share in running if share.process.poll() is not None), None)
        if share is None:
            time.sleep(0.2)
            continue
        running.remove(share)
        output = share.output()
        for schedules, seconds, test in LINE.findall(output):
            made[test] += int(schedules)
            took_s[test] += float(seconds)
        failed = output if share.process.returncode else ""
    for share in running:  # one has failed: the others need not go on
        share.process.terminate()
        share.process.wait()
    for test in made:
        print(f"{made[test]:>10,} schedules {made[test] / max(took_s[test], 0.1):>7,.0f} per s  {test}")
    seconds = time.monotonic() - began
    print(f"{sum(made.values()):,} schedules in {seconds:.0f} s, {sum(made.values()) / seconds:,.0f} per s")
    if failed:
        print(failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1].replace(",", "").replace("_", "")) if len(sys.argv) > 1 else 1_000_000))
