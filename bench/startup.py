"""How soon headrace answers: `headrace --help`, and `headrace run` on one receipt from start to line.

    python bench/startup.py [--runs 15] [--receipt FILE]

Beside it stands the same interpreter doing nothing, and importing Typer, so that the machine's part can be told from
ours. Prints a table and writes it as JSON to bench/out/startup.json. Targets: --help under 0.3 s, one receipt under
5 s.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

OUT = Path(__file__).parent / "out"
TARGETS_S = {"headrace --help": 0.3, "headrace run --help": 0.3, "headrace run, one receipt": 5.0}


def seconds(command: list[str], folder: Path) -> float:
    """Wall time of a command from start to its end; it must succeed, or have had a document that failed."""
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    took = time.perf_counter() - started
    if done.returncode not in (0, 3, 4):
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr.decode(errors='replace')}")
    return took


def seconds_to_line(receipt: Path, engine: str) -> float:
    """Wall time from the start of a run in an empty workspace to its first line on standard output."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "headrace", "run", str(receipt), "--engine", engine, "--quiet"]
        started = time.perf_counter()
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            took = time.perf_counter() - started
            _, errors = process.communicate()
        if not line:
            sys.exit(f"headrace run wrote no line (exit code {process.returncode}):\n{errors.decode(errors='replace')}")
        json.loads(line)
        return took


def draw_receipt(path: Path) -> None:
    """A plain receipt in black on white, when none was given."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("L", (620, 800), 255)
    font = ImageFont.load_default(28)
    text = "CORNER SHOP\n12 High Street\n\n2026-03-04\n\nCoffee     3.20\nBread      2.80\n\nTOTAL EUR  6.00"
    ImageDraw.Draw(image).multiline_text((40, 40), text, fill=0, font=font, spacing=14)
    image.save(path)


def measure(runs: int, receipt: Path, engine: str) -> dict[str, list[float]]:
    """All series, interleaved, so that a busy minute hits each of them alike."""
    python = [sys.executable]
    with tempfile.TemporaryDirectory() as folder:
        plain = {
            "python -c pass (floor)": [*python, "-c", "pass"],
            "python -c 'import typer' (peer)": [*python, "-c", "import typer"],
            "headrace --help": [*python, "-m", "headrace", "--help"],
            "headrace run --help": [*python, "-m", "headrace", "run", "--help"],
        }
        series: dict[str, list[float]] = {name: [] for name in (*plain, "headrace run, one receipt")}
        for _ in range(runs):
            for name, command in plain.items():
                series[name].append(seconds(command, Path(folder)))
            series["headrace run, one receipt"].append(seconds_to_line(receipt, engine))
    return series


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--receipt", type=Path, help="a file to read; one is drawn when none is given")
    parser.add_argument("--engine", default="rapidocr")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        receipt = options.receipt.absolute() if options.receipt else Path(folder) / "receipt.png"
        if not options.receipt:
            draw_receipt(receipt)
        series = measure(options.runs, receipt, options.engine)

    rows = {
        name: {
            "median_s": round(statistics.median(times), 4),
            "least_s": round(min(times), 4),
            "most_s": round(max(times), 4),
            "target_s": TARGETS_S.get(name),
        }
        for name, times in series.items()
    }
    place = f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    print(f"Start-up, {options.runs} runs, {options.engine}, {place}\n")
    print("| | median s | least s | most s | target s |\n|---|---|---|---|---|")
    for name, row in rows.items():
        print(
            f"| {name} | {row['median_s']:.3f} | {row['least_s']:.3f} | {row['most_s']:.3f} | {row['target_s'] or ''} |"
        )
    OUT.mkdir(exist_ok=True)
    result = {"runs": options.runs, "engine": options.engine, "load": os.getloadavg()[0], "series": rows}
    (OUT / "startup.json").write_text(json.dumps(result, indent=1) + "\n")
    missed = [name for name, row in rows.items() if row["target_s"] and (row["median_s"] or 0) > row["target_s"]]
    for name in missed:
        print(f"missed: {name}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
