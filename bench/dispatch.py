"""What it costs to send an item to a worker and back, 2 workers: trivial items one by one and in chunks, items of 5 ms.

Every (round, case, peer) is a fresh process; peers take turns inside a round, and the ratios are of the same round: on
a shared machine only those can be read. Figures are medians. In flight: ours a window of 256 (4,096 for chunks), the
recipe 8 as it is copied, raw pipes 32; pebble, mpire and Pool.imap choose for themselves. "headrace auto" chooses its
chunk. Items of 5 ms take that much of the processor. usage: python bench/dispatch.py [rounds] [peer ...]
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

WARM_UP = 300
OUT = Path(__file__).parent / "out" / "dispatch.json"
COMPARED = ("headrace", "pebble", "mpire", "recipe", "Pool.imap", "raw pipes")
AUTO = "headrace auto"
OURS = ("headrace", AUTO)


class Case(NamedTuple):
    """What is sent: how many items, at once, and of which kind."""

    items: int
    chunk: int
    function: str
    window: int


CASES = {
    "chunk 1": Case(20_000, 1, "trivial", 256),
    "chunk 50": Case(200_000, 50, "trivial", 4_096),
    "5 ms": Case(400, 1, "takes_5_ms", 256),
}


def measure(case_name: str, name: str) -> dict[str, float]:
    import peers

    case = CASES[case_name]
    peer = peers.PEERS["headrace" if name == AUTO else name]()
    peer.open(getattr(peers, case.function))
    options: dict[str, Any] = {
        "window": case.window if name in OURS else None,
        "deadline_s": None,
        "chunk": "auto" if name == AUTO else case.chunk,
    }
    following = 0

    def sink(value: Any) -> bool:
        nonlocal following
        assert value == following, (value, following)
        following += 1
        return False

    peer.run(iter(range(min(WARM_UP, case.items // 10))), sink, **options)
    following = 0
    cpu_s, begun = _cpu_s(), time.perf_counter()
    peer.run(iter(range(case.items)), sink, **options)
    wall_s, cpu_s = time.perf_counter() - begun, _cpu_s() - cpu_s
    assert following == case.items
    peer.close()
    return {"items_per_s": case.items / wall_s, "parent_cpu_us": cpu_s / case.items * 1e6}


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


Runs = dict[str, list[dict[str, float]]]


def compare(rounds: int, names: list[str]) -> dict[str, Runs]:
    results: dict[str, Runs] = {case: {name: [] for name in (*names, AUTO)} for case in CASES}
    for number in range(rounds):
        for case, runs in results.items():
            for name in runs:
                done = subprocess.run(
                    [sys.executable, __file__, "--one", case, name],
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
                if done.returncode:
                    raise SystemExit(f"{case}, {name} failed:\n{done.stderr}")
                runs[name].append(json.loads(done.stdout))
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return results


def table(case: str, results: Runs) -> str:
    def median(name: str, key: str) -> float:
        return statistics.median(run[key] for run in results[name])

    def ratio(ours: str, name: str, key: str) -> float:
        pairs = zip(results[ours], results[name], strict=True)
        return statistics.median(mine[key] / theirs[key] for mine, theirs in pairs)

    lines = [
        f"| {case} | items/s | parent CPU, us/item | headrace is faster by | its parent CPU is | auto is faster by |",
        "|---|---|---|---|---|---|",
    ]
    for name in results:
        lines.append(
            f"| {name} | {median(name, 'items_per_s'):,.0f} | {median(name, 'parent_cpu_us'):.1f} "
            f"| {ratio('headrace', name, 'items_per_s'):.2f}x | {ratio('headrace', name, 'parent_cpu_us'):.2f}x "
            f"| {ratio(AUTO, name, 'items_per_s'):.2f}x |"
        )
    return "\n".join(lines)


def main() -> None:
    import peers

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    names = sys.argv[2:] or list(COMPARED)
    if "headrace" not in names:
        names.insert(0, "headrace")
    results = compare(rounds, names)
    OUT.parent.mkdir(exist_ok=True)
    told = {name: case._asdict() for name, case in CASES.items()}
    OUT.write_text(
        json.dumps({"cases": told, "versions": peers.versions(), "load": os.getloadavg(), "rounds": results}, indent=1)
    )
    print("\n\n".join(table(case, runs) for case, runs in results.items()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(*sys.argv[2:4])))
    else:
        main()
