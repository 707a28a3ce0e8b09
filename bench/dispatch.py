"""What it costs to send an item to a worker and back: 20,000 trivial items, 2 workers, one item at a time.

Every (round, peer) is a fresh process; peers take turns inside a round, and the ratios are of the same round: on a
shared machine only those can be read. Figures are medians. In flight: ours a window of 256, the recipe 8 as it is
copied, raw pipes 32; pebble, mpire and Pool.imap choose for themselves. usage: python bench/dispatch.py [rounds] [peer ...]
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ITEMS = 20_000
WARM_UP = 300
OUT = Path(__file__).parent / "out" / "dispatch.json"
COMPARED = ("headrace", "pebble", "mpire", "recipe", "Pool.imap", "raw pipes")


def measure(name: str) -> dict[str, float]:
    import peers

    peer = peers.PEERS[name]()
    peer.open(peers.trivial)
    following = 0

    def sink(value: Any) -> bool:
        nonlocal following
        assert value == following, (value, following)
        following += 1
        return False

    peer.run(iter(range(WARM_UP)), sink, window=None, deadline_s=None)
    following = 0
    cpu_s, begun = _cpu_s(), time.perf_counter()
    peer.run(iter(range(ITEMS)), sink, window=None, deadline_s=None)
    wall_s, cpu_s = time.perf_counter() - begun, _cpu_s() - cpu_s
    assert following == ITEMS
    peer.close()
    return {"items_per_s": ITEMS / wall_s, "parent_cpu_us": cpu_s / ITEMS * 1e6}


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def compare(rounds: int, names: list[str]) -> dict[str, list[dict[str, float]]]:
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            done = subprocess.run(
                [sys.executable, __file__, "--one", name], capture_output=True, text=True, timeout=120, check=False
            )
            if done.returncode:
                raise SystemExit(f"{name} failed:\n{done.stderr}")
            results[name].append(json.loads(done.stdout))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return results


def table(results: dict[str, list[dict[str, float]]]) -> str:
    def median(name: str, key: str) -> float:
        return statistics.median(run[key] for run in results[name])

    def ratio(name: str, key: str) -> float:
        pairs = zip(results["headrace"], results[name], strict=True)
        return statistics.median(ours[key] / theirs[key] for ours, theirs in pairs)

    lines = [
        "| peer | items/s | parent CPU, us/item | headrace is faster by | headrace parent CPU is |",
        "|---|---|---|---|---|",
    ]
    for name in results:
        lines.append(
            f"| {name} | {median(name, 'items_per_s'):,.0f} | {median(name, 'parent_cpu_us'):.1f} "
            f"| {ratio(name, 'items_per_s'):.2f}x | {ratio(name, 'parent_cpu_us'):.2f}x |"
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
    OUT.write_text(json.dumps({"items": ITEMS, "versions": peers.versions(), "rounds": results}, indent=1))
    print(table(results))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2])))
    else:
        main()
