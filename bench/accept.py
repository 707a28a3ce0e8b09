"""Durable accepts per second of 100 KB documents over HTTP, and what the limit is.

    python bench/accept.py              5 rounds of 4 s each, alternated
    python bench/accept.py --rounds 3 --seconds 3 --connections 32

    bare           uvicorn and a handler that only reads the body: the limit of the server and of this machine's cores
    write+fsync    the same, and a thread writes, syncs and renames each body: durable, without any database
    headrace       `headrace serve`: hashed, synced, a row in the store, and then 202; behind it one worker reads, which
                   takes 0.2 s for each document, about what OCR takes
    headrace, null the same with the null engine: whatever was accepted is leased, made a file, read and committed
                   meanwhile, on the same cores
    disk           no HTTP: files of 100 KB written and synced one after the other; from 8 threads; and appended to one
                   log that is synced once for as many as there are connections, which is the best that groups can do

The load is a closed loop from separate processes. Every round measures all of them, in another order; the ratios are those
of one round, and medians of rounds are printed. headrace's limit is set so high that nothing is refused; a refusal or
an error ends the run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from serving import HERE, Load, Server, get, headrace, load_average, quantile, twin

SERVERS = ("bare", "write+fsync", "headrace", "headrace, null")
READING_S = 0.2
DISKS = ("disk, a file each", "disk, a file each, 8 threads", "disk, one log")


def server_of(name: str, folder: Path, options: argparse.Namespace) -> Server:
    if name == "bare":
        return twin("bare", folder, ready_path=None)
    if name == "write+fsync":
        return twin("write_fsync", folder, "--folder", str(folder / "files"), ready_path=None)
    most = 10_000_000
    service = {"documents": most, "documents_most": most, "accepted_bytes": 1 << 40}
    seconds = 0.0 if name.endswith("null") else READING_S
    return headrace(folder, "--workers", str(options.workers), service_time_s=seconds, limits={"service": service})


def accepts(name: str, folder: Path, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    with server_of(name, folder, options) as server:
        if name.startswith("headrace"):
            get(server.port, "/v1/capacity")
        cpu_before = _cpu_s(server)
        load = Load(
            "closed", server.port, options.processes, seed=seed, connections=options.connections // options.processes,
            seconds=options.warm_up + options.seconds, bytes=options.bytes,
        )  # fmt: skip
        answers, _ = load.wait()
        cpu_s = _cpu_s(server) - cpu_before
        began = load.starts_at + options.warm_up
        until = began + options.seconds
        wrong = Counter(a.status for a in answers if a.status != 202)
        if wrong:
            raise SystemExit(f"{name}: answers that are not 202: {dict(wrong)}\n{server.said()}")
        good = [a for a in answers if began <= a.answered < until]
        row: dict[str, Any] = {
            "per_s": len(good) / options.seconds,
            "p50_ms": quantile([(a.answered - a.sent) * 1000 for a in good], 0.5),
            "p99_ms": quantile([(a.answered - a.sent) * 1000 for a in good], 0.99),
            "cpu_ms": cpu_s * 1000 / max(1, len(answers)),
        }
        if name.startswith("headrace"):
            told = get(server.port, "/v1/capacity", 30.0)
            row |= {"accepted": told["accepted"], "done": told["done"]}
            if told["accepted"] != len(answers):
                raise SystemExit(f"{len(answers)} were answered with 202, but {told['accepted']} are accepted")
        return row


def _cpu_s(server: Server) -> float:
    times = psutil.Process(server.process.pid).cpu_times()
    return float(times.user + times.system)


def disk(folder: Path, options: argparse.Namespace, threads: int) -> dict[str, Any]:
    """Files that are written, synced and renamed, their folder synced too; as many as fit into half of the time."""
    folder.mkdir(parents=True)
    body = random.Random(1).randbytes(options.bytes)
    fd = os.open(folder, os.O_RDONLY)
    ends = time.monotonic() + options.seconds / 2

    def write(thread: int) -> list[float]:
        took: list[float] = []
        while (began := time.monotonic()) < ends:
            path = folder / f"{thread}-{len(took)}"
            with open(f"{path}.part", "wb", buffering=0) as file:
                file.write(body)
                os.fsync(file.fileno())
            os.rename(f"{path}.part", path)
            os.fsync(fd)
            took.append(time.monotonic() - began)
        return took

    began = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        took = [s for one in pool.map(write, range(threads)) for s in one]
    elapsed_s = time.monotonic() - began
    os.close(fd)
    return {
        "per_s": len(took) / elapsed_s, "p50_ms": quantile(took, 0.5) * 1000, "p99_ms": quantile(took, 0.99) * 1000,
        "cpu_ms": 0.0,
    }  # fmt: skip


def log(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One file, appended to in groups, each synced; as many as fit into half of the time."""
    folder.mkdir(parents=True)
    body = random.Random(1).randbytes(options.bytes)
    took = []
    began = time.monotonic()
    with open(folder / "log", "wb", buffering=0) as file:
        while (group_began := time.monotonic()) < began + options.seconds / 2:
            for _ in range(options.connections):
                file.write(body)
            os.fdatasync(file.fileno())
            took.append(time.monotonic() - group_began)
    return {
        "per_s": len(took) * options.connections / sum(took), "p50_ms": quantile(took, 0.5) * 1000,
        "p99_ms": quantile(took, 0.99) * 1000, "cpu_ms": 0.0,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warm-up", type=float, default=1.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--bytes", type=int, default=100_000)
    parser.add_argument("--scratch", type=Path, help="where to write; default: a temporary folder")
    options = parser.parse_args()
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in (*SERVERS, *DISKS)}
    loads = []
    for number in range(options.rounds):
        order = list(rows)
        random.Random(number).shuffle(order)
        for name in order:
            with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
                folder = Path(scratch) / "data"
                if name in DISKS:
                    row = log(folder, options) if "log" in name else disk(folder, options, 8 if "8" in name else 1)
                else:
                    row = accepts(name, folder, options, number + 1)
            rows[name].append(row)
            print(f"round {number + 1}: {name}: {row}, load average {load_average()}", flush=True)
        loads.append(float(load_average()))
    print(
        f"\n| {options.bytes // 1000} KB, {options.connections} connections | accepts/s | of bare | of write+fsync | p50 / p99, ms | server CPU, ms each |"
    )
    print("|---|---|---|---|---|---|")
    for name, its in rows.items():
        of_bare = median(row["per_s"] / bare["per_s"] for row, bare in zip(its, rows["bare"], strict=True))
        of_plain = median(row["per_s"] / plain["per_s"] for row, plain in zip(its, rows["write+fsync"], strict=True))
        figures = {key: median(row[key] for row in its) for key in ("per_s", "p50_ms", "p99_ms", "cpu_ms")}
        print(
            f"| {name} | {figures['per_s']:,.0f} | {of_bare:.2f} | {of_plain:.2f} "
            f"| {figures['p50_ms']:.1f} / {figures['p99_ms']:.1f} | {figures['cpu_ms'] or float('nan'):.2f} |"
        )
    print(f"\nmedians of {options.rounds} rounds, ratios of one round each; load average {min(loads)} to {max(loads)}")
    behind = [f"{row['done']:,} of {row['accepted']:,}" for row in rows["headrace, null"]]
    print(f"entries that the null engine had committed by the end of each round: {', '.join(behind)}")
    out = HERE / "out"
    out.mkdir(exist_ok=True)
    (out / "accept.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
