"""kill -9 during indexing: after the restart every receipt of the ledger is found once, by its words and by its vector.

    python bench/crash_index.py [--kills 50] [--receipts 400]

One workspace. In each round receipts are added to its ledger, an older one is corrected, and the indexing is started as a
process of its own and killed at a random moment; a process that had ended before does not count, and the moments are
drawn from the time that indexing takes here. Between the kills what is there is looked at: nothing is ever double.
Then the indexing is run once more, undisturbed, and every receipt is looked up. Exit code 1 when one is missing, double,
or found by a word that a correction took away.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import made_ledger

from headrace.search.null import NullEmbedder
from headrace.search.ranking import words_query
from headrace.search.receipt_text import TEXT_VERSION
from headrace.search.vector_index import index_file, opened
from headrace.storage.sqlite import SqliteStore

UPDATE = """
import asyncio, sys
from pathlib import Path
from headrace.search.indexing import update
from headrace.search.null import NullEmbedder
print("begins", flush=True)
asyncio.run(update(Path(sys.argv[1]), NullEmbedder()))
"""


def start(workspace: Path) -> subprocess.Popen[bytes]:
    """An update as a process of its own; returns when it is about to open the workspace."""
    process = subprocess.Popen(
        [sys.executable, "-c", UPDATE, str(workspace)], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    if process.stdout.readline() != b"begins\n":
        raise SystemExit("the update did not begin")
    return process


def undisturbed(workspace: Path) -> float:
    """Seconds that it takes."""
    process, began = start(workspace), time.monotonic()
    if code := process.wait(timeout=600):
        raise SystemExit(f"an update that nobody disturbed ended with {code}")
    return time.monotonic() - began


def wrong(workspace: Path, receipts: int, corrected: dict[int, int], *, whole: bool) -> list[str]:
    """What is not as it should be: missing (only when all must be there), double, or old."""
    found_wrong = []
    model = NullEmbedder().name
    with SqliteStore.read(workspace) as store:
        for number in range(1, receipts + 1):
            times = corrected.get(number, 0)
            hits = store.matching_words(words_query([made_ledger.mark(number, times)]), [], 10)
            if len(hits) > 1 or (whole and not hits):
                found_wrong.append(f"receipt {number} is found {len(hits)} times by its words")
            if whole and times and store.matching_words(words_query([made_ledger.mark(number)]), [], 10):
                found_wrong.append(f"receipt {number} is found by the word that was corrected")
        counts = store.search_counts(model, TEXT_VERSION)
        stored = [row.number for row in store.vectors_since(model, 0, limit=receipts + 1)]
    if len(stored) != len(set(stored)) or len(stored) > receipts:
        found_wrong.append(f"{len(stored)} vectors are stored, {len(set(stored))} of different receipts")
    if whole and (counts.entries_behind, counts.receipts, len(stored)) != (0, receipts, receipts):
        found_wrong.append(f"{counts}, {len(stored)} vectors, for {receipts} receipts")
    told = index_file(workspace, model)
    if told is not None:
        keys = [int(key) for key in opened(workspace, told, view=True).keys]
        if len(keys) != len(set(keys)) or not set(keys) <= set(stored):
            found_wrong.append(f"the file has {len(keys)} vectors, {len(set(keys) - set(stored))} of them unknown")
    return found_wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--receipts", type=int, default=400, help="added in each round")
    parser.add_argument("--seed", type=int, default=20261201)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        workspace = Path(scratch)
        made_ledger.add(workspace, 1, options.receipts)
        receipts = numbered = options.receipts
        usual_s = undisturbed(workspace)
        kills = ended = found_wrong = 0
        corrected: dict[int, int] = {}
        sequences = {number: number for number in range(1, receipts + 1)}  # corrections take sequences, too
        while kills < options.kills:
            made_ledger.add(workspace, receipts + 1, options.receipts)
            for number in range(receipts + 1, receipts + options.receipts + 1):
                numbered += 1
                sequences[number] = numbered
            receipts += options.receipts
            fixed = rng.randint(1, receipts)
            corrected[fixed] = corrected.get(fixed, 0) + 1
            made_ledger.correct(workspace, sequences[fixed], fixed, corrected[fixed])
            numbered += 1
            process = start(workspace)
            time.sleep(rng.uniform(0, usual_s))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
            else:
                ended += 1
            process.wait()
            if kills % 10 == 0:
                for line in (lines := wrong(workspace, receipts, {}, whole=False)):
                    print(line)
                found_wrong += len(lines)
                print(f"{kills} kills, {receipts} receipts", file=sys.stderr)
        undisturbed(workspace)
        for line in (lines := wrong(workspace, receipts, corrected, whole=True)):
            print(line)
        found_wrong += len(lines)
    said = {
        "kills": kills,
        "ended_before": ended,
        "receipts": receipts,
        "corrected": len(corrected),
        "wrong": found_wrong,
    }
    print(json.dumps(said))
    raise SystemExit(1 if found_wrong else 0)


if __name__ == "__main__":
    main()
