"""Three cases that every tool we tried fails in part. Each (case, peer) is a process of its own with a time limit.

slow head       item 0 takes 3 s, the rest 2 ms, the source never ends, window 8: how much is pulled while it runs?
lost worker     item 3 of 8 kills its worker: 7 results and 1 failure, in order?
hanging worker  item 2 of 8 spins for ever, deadline 1 s: 7 results and 1 failure, within 2 s?

usage: python bench/three_cases.py [peer ...]
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent / "out" / "three_cases.json"
COMPARED = ("headrace", "pebble", "mpire", "recipe")
CASES = ("slow head", "lost worker", "hanging worker")
LIMIT_S = 15
WINDOW = 8
AFTER_HEAD = 200


def run_case(case: str, name: str) -> None:
    """Prints a line of JSON after each step, so that what was reached is known also when it then hangs."""
    import peers

    function = {"slow head": peers.slow_head, "lost worker": peers.kills_third, "hanging worker": peers.spins_second}
    peer = peers.PEERS[name]()
    peer.open(function[case])
    seen: dict[str, Any] = {"outcomes": [], "pulled_at_first": None, "pulled": 0}
    begun = time.perf_counter()

    def source() -> Iterator[int]:
        # Endless for the slow head; some peers read it as far as memory goes, so it has an end after all.
        for item in range(300_000 if case == "slow head" else 8):
            seen["pulled"] += 1
            yield item

    def say() -> None:
        print(json.dumps({**seen, "at_s": round(time.perf_counter() - begun, 2)}), flush=True)

    def sink(outcome: Any) -> bool:
        if seen["pulled_at_first"] is None:
            seen["pulled_at_first"] = seen["pulled"]
        failed = isinstance(outcome, BaseException)
        seen["outcomes"].append((str(outcome) or type(outcome).__name__)[:60] if failed else outcome)
        say()
        return len(seen["outcomes"]) == AFTER_HEAD

    peer.run(source(), sink, window=WINDOW, deadline_s=1.0 if case == "hanging worker" else None)
    seen["finished"] = True
    say()
    os._exit(0)  # how peers end is not the question here


def observe(case: str, name: str) -> dict[str, Any]:
    # A file and no pipe: workers that outlive their parent would hold a pipe open.
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            [sys.executable, __file__, "--one", case, name],
            stdout=out,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            hung = True
        else:
            hung = False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it left running; only its own session
        process.wait()
        out.seek(0)
        lines = out.read().splitlines()
    last: dict[str, Any] = json.loads(lines[-1]) if lines else {"outcomes": [], "at_s": LIMIT_S}
    return {"case": case, "peer": name, "hung": hung, **last}


def verdict(seen: dict[str, Any]) -> tuple[bool, str]:
    outcomes = seen["outcomes"]
    values = [outcome for outcome in outcomes if isinstance(outcome, int)]
    failures = [outcome for outcome in outcomes if not isinstance(outcome, int)]
    if seen["case"] == "slow head":
        pulled = seen.get("pulled_at_first")
        in_order = values == list(range(len(values)))
        text = "hangs, no result"
        if pulled is not None:
            text = f"{pulled:,} pulled while it ran, then {len(values)} {'in order' if in_order else 'out of order'}"
        return (pulled is not None and pulled <= WINDOW and in_order and len(values) == AFTER_HEAD), text
    bad = 3 if seen["case"] == "lost worker" else 2
    right = len(outcomes) == 8 and values == [n for n in range(8) if n != bad] and outcomes[bad] == failures[0]
    if seen["case"] == "hanging worker":
        right = right and seen["at_s"] <= 2
    text = f"{len(values)} results, {len(failures)} failures"
    if failures:
        text += f" ({failures[0]})"
    return right, text + (f", then hangs (> {LIMIT_S} s)" if seen["hung"] else f", {seen['at_s']:.1f} s")


def main() -> None:
    import peers

    names = sys.argv[1:] or list(COMPARED)
    seen = {(case, name): observe(case, name) for case in CASES for name in names}
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"versions": peers.versions(), "runs": list(seen.values())}, indent=1))
    print("| peer | " + " | ".join(CASES) + " |")
    print("|---" * (len(CASES) + 1) + "|")
    good = True
    for name in names:
        cells = []
        for case in CASES:
            right, text = verdict(seen[case, name])
            good = good and (right or name != "headrace")
            cells.append(f"{'yes' if right else 'NO'}: {text}")
        print(f"| {name} | " + " | ".join(cells) + " |")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_case(*sys.argv[2:4])
    else:
        main()
