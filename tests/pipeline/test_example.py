"""The example runs as it is printed, finds what it should, and a broken file stops nobody."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "ingest_embed_index.py"


def test_the_example_finds_the_right_file_and_names_the_broken_one(tmp_path: Path) -> None:
    texts = {"rivers.txt": "water runs down to the sea", "bread.txt": "flour and salt and an oven", "empty.txt": ""}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    for number in range(40):
        (tmp_path / f"noise-{number:02}.txt").write_text(f"nothing of note {number} " * (1 + number * 7 % 50))
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(tmp_path), "salt", "flour"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines()[0].endswith("bread.txt")
    assert len(done.stdout.splitlines()) == 3
    assert "binary.txt: read failed: UnicodeDecodeError" in done.stderr
    assert done.stderr.count("failed") == 1
    assert "files in flight: 1 at the door + read (channel 4 + window 8)" in done.stderr


def test_the_example_stays_an_example() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 80
