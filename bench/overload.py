"""Under load that never waits: 0.5 to 10 times of what can be served, headrace beside two services as they are usually built.

    python bench/overload.py                                a fixed service time per document (40 ms, 2 workers)
    python bench/overload.py --engine rapidocr --loads 0.5 1 3 10 --seconds 60 --delay 15 [--data DIR]
    python bench/overload.py --loads 1 10 --seconds 8       a short look

Each cell starts a server afresh. The load is an open loop from separate processes (`http_load.py`): a Poisson schedule
that does not slow down when answers do. Capacity is what headrace finishes per second when it always has work; all peers
get the same arrivals. After a warm-up, a window is measured:

    goodput            documents finished in the window, not later than the promised delay after their 202
    finished           all documents finished in the window
    p50, p99           from the client's 202 to the ledger (twins: to the end of the work); those not done at the end
                       count with the age they had, so the true figure is higher (marked >)
    refusal p99        from the moment the schedule sent it to the refusal, the generator's own delay included
    RSS                peak of the process tree, beside the ceiling that headrace printed at its start

The delay that headrace is told to accept is short (`--delay`), so that a window of seconds sees the steady state. The
bounded twin has as much room as headrace, less the tenth that headrace keeps. The twins keep nothing on disk; headrace syncs everything before its 202.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from chart import Panel, draw
from serving import HERE, Answer, Load, Server, Watch, ends, get, headrace, load_average, quantile, twin

ROOM = 0.9  # of what fits into the delay, as the ladder of headrace has it: else all who wait longest are a moment late
PEERS = ("headrace", "unbounded", "bounded")
NAMES = {
    "headrace": "headrace",
    "unbounded": "FastAPI + asyncio.Queue",
    "bounded": "FastAPI + bounded queue + semaphore",
}


def server_of(peer: str, folder: Path, options: argparse.Namespace, capacity: float) -> Server:
    if peer == "headrace":
        return headrace(
            folder, "--workers", str(options.workers), engine=options.engine,
            service_time_s=options.service_time if options.engine == "null" else 0.0,
            limits={"service": {"acceptable_delay_s": f"{options.delay}s"}},
        )  # fmt: skip
    most = max(1, round(ROOM * capacity * options.delay))
    return twin(
        peer, folder, "--workers", str(options.workers), "--engine", options.engine, "--service-time",
        str(options.service_time), "--most", str(most),
    )  # fmt: skip


def measure_capacity(folder: Path, options: argparse.Namespace) -> float:
    """Documents per second that headrace finishes when more are always waiting."""
    with server_of("headrace", folder, options, 0.0) as server:
        load = Load(
            "open", server.port, 1, seed=77, rate=options.expected * 1.5, seconds=options.capacity_seconds,
            bytes=options.bytes, real=options.real, linger=2,
        )  # fmt: skip
        load.wait()
        offset = time.time() - time.monotonic()
        began = load.starts_at + offset + options.capacity_seconds / 4
        until = load.starts_at + offset + options.capacity_seconds
        done = sum(began <= at < until for at in ends(folder).values())
    return float(done / (until - began))


def cell(peer: str, multiple: float, capacity: float, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    rate = capacity * multiple
    with server_of(peer, folder, options, capacity) as server, Watch(server.process.pid) as watch:
        at_rest = get(server.port, "/livez") is not None
        load = Load(
            "open", server.port, options.processes, seed=int(multiple * 10), rate=rate / options.processes,
            seconds=options.warm_up + options.seconds, bytes=options.bytes, real=options.real,
        )  # fmt: skip
        answers, unsent = load.wait()
        time.sleep(options.delay)
        done = ends(folder) if peer == "headrace" else dict(get(server.port, "/done", 60.0))
        looked_at = time.time()
        at_rest = at_rest and get(server.port, "/livez") is not None
        ceiling = server.ceiling_bytes()
    began = load.starts_at + options.warm_up
    return {
        "peer": peer, "multiple": multiple, "offered_per_s": rate, "load_average": load_average(), "alive": at_rest,
        "rss_peak_mb": watch.peak_bytes / 1e6, "ceiling_mb": ceiling / 1e6 if ceiling else None, "unsent": unsent,
    } | evaluate(answers, done, began, options, looked_at)  # fmt: skip


def evaluate(
    answers: list[Answer], done: dict[str, float], began: float, options: argparse.Namespace, looked_at: float
) -> dict[str, Any]:
    """The figures of a window; see the top of the file."""
    until = began + options.seconds
    offset = time.time() - time.monotonic()
    accepted_at = {a.document_id: a.accepted_at for a in answers if a.document_id}
    in_window = [name for name, at in done.items() if began <= at - offset < until]
    delays = {name: done.get(name, looked_at) - at for name, at in accepted_at.items()}
    of_window = [a for a in answers if began <= a.due < until]
    taken = [a.document_id for a in of_window if a.document_id]
    refused = [a for a in of_window if a.status in (429, 503)]
    late_ms = [(a.sent - a.due) * 1000 for a in of_window]
    waits = [delays[name] for name in taken]
    return {
        "goodput_per_s": sum(delays.get(name, 0.0) <= options.delay for name in in_window) / options.seconds,
        "finished_per_s": len(in_window) / options.seconds,
        "delay_p50_s": quantile(waits, 0.5),
        "delay_p99_s": quantile(waits, 0.99),
        "unfinished": sum(name not in done for name in accepted_at),
        "refused_share": len(refused) / len(of_window) if of_window else 0.0,
        "refusal_p50_ms": quantile([(a.answered - a.due) * 1000 for a in refused], 0.5),
        "refusal_p99_ms": quantile([(a.answered - a.due) * 1000 for a in refused], 0.99),
        "refusal_p99_from_sent_ms": quantile([(a.answered - a.sent) * 1000 for a in refused], 0.99),
        "accept_p99_ms": quantile([(a.answered - a.due) * 1000 for a in of_window if a.document_id], 0.99),
        "generator_late_p99_ms": quantile(late_ms, 0.99),
        "retry_after": sorted({a.retry_after for a in refused}),
        "answers": dict(Counter(a.status for a in of_window)),
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| load | peer | offered/s | goodput/s | finished/s | 202 to ledger p50 / p99, s | refused | refusal p50 / p99, ms "
        "| Retry-After, s | 202 p99, ms | peak RSS, MB (ceiling) | answers | generator late p99, ms | load average |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        more = ">" if row["unfinished"] else ""
        ceiling = f" ({row['ceiling_mb']:.0f})" if row["ceiling_mb"] else ""
        retry = row["retry_after"]
        told = "-" if not retry else f"{retry[0]}" if len(retry) == 1 else f"{retry[0]} to {retry[-1]}"
        refusals = "-" if not retry else f"{row['refusal_p50_ms']:.1f} / {row['refusal_p99_ms']:.1f}"
        answers = ", ".join(f"{status}: {count:,}" for status, count in sorted(row["answers"].items()))
        lines.append(
            f"| {row['multiple']:g}x | {NAMES[row['peer']]} | {row['offered_per_s']:.1f} | {row['goodput_per_s']:.2f} "
            f"| {row['finished_per_s']:.2f} | {more}{row['delay_p50_s']:.2f} / {more}{row['delay_p99_s']:.2f} "
            f"| {row['refused_share']:.0%} | {refusals} | {told} | {row['accept_p99_ms']:.0f} "
            f"| {row['rss_peak_mb']:.0f}{ceiling} | {answers} | {row['generator_late_p99_ms']:.1f} "
            f"| {row['load_average']} |"
        )
    return "\n".join(lines)


def verdicts(rows: list[dict[str, Any]], options: argparse.Namespace) -> list[str]:
    """What the issue asks for, beside what was measured, for headrace."""
    ours = [row for row in rows if row["peer"] == "headrace"]
    best = max(row["goodput_per_s"] for row in ours)
    most = max(ours, key=lambda row: float(row["multiple"]))
    slowest = max(row["delay_p99_s"] for row in ours)
    told = [
        f"goodput at {most['multiple']:g}x is {most['goodput_per_s'] / best if best else 0:.3f} of the best (asked: 0.95)",
        f"202 to ledger, the worst p99: {slowest:.2f} s of the {options.delay:g} s that were promised",
        f"refusals at {most['multiple']:g}x: p99 {most['refusal_p99_ms']:.1f} ms from the schedule, "
        f"{most['refusal_p99_from_sent_ms']:.1f} ms from the sending (asked: 10)",
    ]
    if most["ceiling_mb"]:
        peak = max(row["rss_peak_mb"] for row in ours)
        told.append(f"peak RSS {peak:.0f} MB under a ceiling of {most['ceiling_mb']:.0f} MB")
    return told


def chart(rows: list[dict[str, Any]], options: argparse.Namespace, capacity: float) -> str:
    def lines(key: str) -> dict[str, list[tuple[float, float]]]:
        peers = dict.fromkeys(row["peer"] for row in rows)
        return {NAMES[p]: [(row["multiple"], row[key]) for row in rows if row["peer"] == p] for p in peers}

    ceiling = next((row["ceiling_mb"] for row in rows if row["ceiling_mb"]), None)
    work = f"{options.service_time * 1000:g} ms a document" if options.engine == "null" else options.engine
    return draw(
        [
            Panel("goodput, documents/s", lines("goodput_per_s"), (capacity, "capacity")),
            Panel("202 to ledger, p99, s", lines("delay_p99_s"), (options.delay, "promised"), logarithmic=True),
            Panel("peak RSS, MB", lines("rss_peak_mb"), (ceiling, "ceiling printed at the start") if ceiling else None),
        ],
        across="offered load / capacity",
        ticks=options.loads,
        note=f"{work}, {options.workers} workers, {options.bytes // 1000} KB documents; bench/overload.py. "
        "Goodput: finished within the promised delay.",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loads", type=float, nargs="+", default=[0.5, 1, 2, 3, 5, 10])
    parser.add_argument("--peers", nargs="+", default=list(PEERS), choices=PEERS)
    parser.add_argument("--engine", default="null")
    parser.add_argument("--service-time", type=float, default=0.04, help="of a document, with the null engine, in s")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--bytes", type=int, default=20_000)
    parser.add_argument("--data", type=Path, help="documents for real OCR; without it, receipts are drawn")
    parser.add_argument("--delay", type=float, default=3.0, help="the delay that headrace is told to accept, in s")
    parser.add_argument("--warm-up", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=11.0)
    parser.add_argument("--capacity-seconds", type=float, default=12.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--chart", type=Path)
    options = parser.parse_args()
    options.real = None
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        if options.engine != "null":
            options.real = options.data or _draw(root / "drawn")
        options.expected = options.workers / options.service_time if options.engine == "null" else options.workers * 1.5
        numbers = itertools.count()
        capacity = measure_capacity(root / "capacity", options)
        print(f"capacity of headrace: {capacity:.2f} documents/s, load average {load_average()}", flush=True)
        rows = []
        for multiple, peer in itertools.product(options.loads, options.peers):
            row = cell(peer, multiple, capacity, root / str(next(numbers)), options)
            rows.append(row)
            print(table([row]).splitlines()[-1], flush=True)
    print("\n" + table(rows) + "\n")
    if "headrace" in options.peers:
        print("\n".join(verdicts(rows, options)))
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    name = f"overload_{options.engine}"
    (out / f"{name}.json").write_text(json.dumps({"capacity_per_s": capacity, "rows": rows}, indent=1))
    (options.chart or out / f"{name}.svg").write_text(chart(rows, options, capacity))


def _draw(folder: Path) -> Path:
    from headrace.simulation.receipts import draw_collection

    draw_collection(folder, count=24, seed=7)
    return folder


if __name__ == "__main__":
    main()
