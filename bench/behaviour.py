"""How ordered maps behave when something goes wrong: one case after the other, each in a process of its own.

head          item 0 takes 2 s, the rest 1 ms, window 64: how many are pulled while it runs?
exit, abort   item 37 of 200 ends its worker: 199 results and 1 failure? In chunks of 1, of 10, and chosen.
hang          item 37 never returns, limit 1 s (for those that know one)
unpicklable   the result of item 37 cannot be sent back
source        the source raises after 50 items: 50 results, then that error?
break         the loop is left after 10 of 4,000: how long until the pool is gone?
interrupt     SIGINT to the parent alone: how long until it is gone? Also with a worker that hangs.
kill          SIGKILL to the parent: how many processes are left 1 s later?
memory        what the parent grows by for each of 400,000 references over 1,000 of them, chunk 16

usage: python bench/behaviour.py [peer ...]
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent / "out" / "behaviour.json"
COMPARED = ("headrace", "pebble", "mpire", "recipe", "Pool.imap")
FAULTS = ("exit", "abort", "hang", "unpicklable")
CHUNKS = ("1", "10", "auto")
CASES = (
    "head",
    *(f"{fault}, chunk {chunk}" for fault in FAULTS for chunk in CHUNKS),
    *("source", "break", "interrupt", "interrupt, worker hangs", "kill"),
    *("memory 1000", "memory 400000"),
)
WINDOW = 64
BAD = 37
LIMIT_S = {"memory 400000": 150.0, "break": 30.0}
USUAL_LIMIT_S = 10.0
TAG = "HEADRACE_BENCH_TAG"


# Work.


def head(item: int) -> int:
    time.sleep(2.0 if item == 0 else 0.001)
    return item


def exits(item: int) -> int:
    time.sleep(0.002)
    return os._exit(1) if item == BAD else item


def aborts(item: int) -> int:
    time.sleep(0.002)
    return os.abort() if item == BAD else item


def hangs(item: int) -> int:
    time.sleep(3600 if item == BAD else 0.002)
    return item


def returns_a_function(item: int) -> Any:
    time.sleep(0.002)
    return (lambda: 1) if item == BAD else item


def takes_2_ms(item: int) -> int:
    time.sleep(0.002)
    return item


def reference(item: tuple[str, int, str]) -> dict[str, Any]:
    return {"key": item[0], "total": item[1], "sha": item[2]}


FUNCTIONS = {"head": head, "exit": exits, "abort": aborts, "hang": hangs, "unpicklable": returns_a_function}


def run_case(name: str, case: str) -> None:
    """Says what was seen, as a line of JSON after each step: so much is known also when it then hangs."""
    import behaviour  # the workers must find the functions in a module, not in a main script
    import peers

    kind = case.partition(",")[0].split()[0]
    function: Any = behaviour.FUNCTIONS.get(kind, behaviour.takes_2_ms)
    count = {"head": 100_000, "break": 4_000, "interrupt": 4_000, "kill": 4_000}.get(kind, 200)
    chunk: Any = case.rpartition(" ")[2] if ", chunk" in case else "1"
    chunk = chunk if chunk == "auto" else int(chunk)
    if case == "interrupt, worker hangs":
        function = behaviour.hangs
    if kind == "memory":
        function, count, chunk = behaviour.reference, int(case.split()[1]), 16
    seen: dict[str, Any] = {"good": 0, "bad": 0, "pulled": 0, "error": "", "grown": 0, "done": False}

    left: list[float] = []

    def say(**more: Any) -> None:
        seen.update(more)
        print(json.dumps(seen), flush=True)

    def source() -> Iterator[Any]:
        for item in range(count):
            if kind == "source" and item == 50:
                raise ValueError("the source's own error")
            seen["pulled"] += 1
            yield (f"batch-{item % 997}/key-{item:09d}", item, "0" * 40) if kind == "memory" else item

    def sink(outcome: Any) -> bool:
        failed = isinstance(outcome, BaseException)
        if failed and isinstance(outcome, ValueError):
            seen["error"] = "ValueError"
            return True
        seen["bad" if failed else "good"] += 1
        if failed and not seen["error"]:
            seen["error"] = (str(outcome) if name == "headrace" else type(outcome).__name__)[:40]
        if kind == "head":
            say(done=True)
            os._exit(0)
        if kind != "memory":
            say()
        if kind == "break" and seen["good"] == 10:
            left.append(time.perf_counter())
        return bool(left)

    peer = peers.PEERS[name]()
    peer.open(function)
    if kind == "memory":
        warm = ((f"batch-{item}/key", item, "0" * 40) for item in range(300))
        peer.run(warm, lambda _: False, window=WINDOW, deadline_s=None, chunk=chunk)
    before = _peak_bytes()
    window = WINDOW if name == "headrace" else None
    # A library for threads has a limit for tasks only where it kills what passes it.
    deadline_s = 1.0 if kind == "hang" else None
    try:
        peer.run(source(), sink, window=window, deadline_s=deadline_s, chunk=chunk)
    except ValueError:
        say(error="ValueError")
    left.append(time.perf_counter())
    seen["grown"] = _peak_bytes() - before
    peer.close()
    say(done=True, close_s=round(time.perf_counter() - left[0], 3))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Watching.


def tagged(tag: str) -> list[int]:
    """Living processes of one run."""
    found, needle = [], f"{TAG}={tag}".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and needle in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(int(pid))
    return found


def observe(name: str, case: str) -> dict[str, Any]:
    tag, limit_s = uuid.uuid4().hex, LIMIT_S.get(case, USUAL_LIMIT_S)
    seen: dict[str, Any] = {"peer": name, "case": case, "hung": False, "good": 0, "bad": 0, "pulled": 0, "error": ""}
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        with said.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, __file__, "--one", name, case],
                stdout=out,
                stderr=subprocess.DEVNULL,
                env={**os.environ, TAG: tag},
                start_new_session=True,
            )
        begun, signalled = time.monotonic(), 0.0
        number = {"interrupt": signal.SIGINT, "kill": signal.SIGKILL}.get(case.partition(",")[0])
        while process.poll() is None:
            if number is not None and not signalled and _last(said).get("good", 0) >= 20:
                time.sleep(0.5)  # the worker that hangs does so by now
                signalled = time.monotonic()
                process.send_signal(number)
            if time.monotonic() - (signalled or begun) > limit_s:
                seen["hung"] = True
                break
            time.sleep(0.005)
        seen["took_s"] = round(time.monotonic() - (signalled or begun), 2)
        if signalled and number == signal.SIGKILL:
            time.sleep(1.0)
        seen["left"] = len(tagged(tag)) if not seen["hung"] else 0
        for pid in tagged(tag):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        seen.update(_last(said))
    return seen


def _last(said: Path) -> dict[str, Any]:
    lines = said.read_text().splitlines()
    with contextlib.suppress(IndexError, ValueError):
        last: dict[str, Any] = json.loads(lines[-1])
        return last
    return {}


def verdict(seen: dict[str, Any]) -> tuple[bool, str]:
    case, good, bad = seen["case"], seen["good"], seen["bad"]
    if seen["hung"]:
        return False, f"hangs after {good}"
    if case == "head":
        return seen["pulled"] == WINDOW, f"{seen['pulled']:,} pulled"
    if ", chunk" in case:
        return (good, bad) == (199, 1), f"{good} + {bad} {seen['error']}"
    if case == "source":
        return good == 50 and seen["error"] == "ValueError", f"{good}, then {seen['error'] or 'dies'}"
    if case == "break":
        close_s = seen.get("close_s", 99.0)
        return close_s < 0.1, f"{close_s:.2f} s, {seen['pulled']} pulled"
    if case.startswith("interrupt"):
        return seen["took_s"] < 0.2, f"{seen['took_s']:.2f} s"
    return seen["left"] == 0, f"{seen['left']} left"


def main() -> None:
    import peers

    names = sys.argv[1:] or list(COMPARED)
    runs: list[dict[str, Any]] = []
    rows: dict[str, list[str]] = {}
    right = True
    for case in CASES:
        for name in names:
            if "auto" in case and name != "headrace":
                rows.setdefault(case, []).append("-")
                continue
            seen = observe(name, case)
            runs.append(seen)
            if case.startswith("memory"):
                continue
            good, text = verdict(seen)
            right = right and (good or name != "headrace")
            rows.setdefault(case, []).append(f"{'yes' if good else 'NO'}: {text}")
        print(case, file=sys.stderr, flush=True)
    for name in names:
        few, many = (next(r for r in runs if (r["peer"], r["case"]) == (name, case)) for case in CASES[-2:])
        if few.get("done") and many.get("done"):
            grown = (many["grown"] - few["grown"]) / 399_000
            good, text = grown < 1.0, f"{max(0.0, grown):.1f} B"
        else:
            good, text = False, "did not end"
        right = right and (good or name != "headrace")
        rows.setdefault("memory per reference", []).append(f"{'yes' if good else 'NO'}: {text}")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"versions": peers.versions(), "load": os.getloadavg(), "runs": runs}, indent=1))
    print("| case | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for case, cells in rows.items():
        print(f"| {case} | " + " | ".join(cells) + " |")
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_case(*sys.argv[2:4])
    else:
        main()
