"""K34: what was accepted is there after kill -9 at once, and was on disk, not only in the page cache, by then."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.storage.blobs import Blobs
from headrace.storage.sqlite import SqliteStore

CHILD = Path(__file__).with_name("accepting_child.py")
# Rebuilt from the database at the next opening, or not ours: nothing of it need survive.
NOT_KEPT = ("-shm", "/place/lock", "pipe:", "socket:", "/dev/")


def test_k34_what_was_accepted_is_there_after_kill_9_at_once(tmp_path: Path) -> None:
    told: list[str] = []
    for last in (1, 2, 7, 40, 41):  # the word on so many documents is the last thing that the process says
        child = subprocess.Popen(
            [sys.executable, CHILD, tmp_path, str(1000 * last), str(10**6)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        level = child.stdout.readline()
        told += [child.stdout.readline().strip() for _ in range(last)]
        child.send_signal(signal.SIGKILL)
        told += [line.strip() for line in child.stdout if line.endswith("\n")]
        child.stdout.close()
        child.wait(timeout=60)
        assert "synced to disk" in level, "the level of durability is named"
        blobs = Blobs(tmp_path / "blobs")
        with SqliteStore.open(tmp_path) as store:
            batch = store.find_batch("k")
            assert batch is not None
            found = [document.uri for document in store.pending(batch.batch_id, 0, 10**6)]
        assert len(found) == len(set(found)), "accepted once, and there once"
        assert set(told) <= set(found), "accepted, then lost"
        assert all(blobs.path(sha256).stat().st_size for sha256 in told), "accepted without its bytes"
    assert len(told) >= 91


def unsynced_at(word: str, trace: str) -> list[set[str]]:
    """For each time that `word` was written to standard output: the files with writes that were not synced by then."""
    dirty: set[str] = set()
    found: list[set[str]] = []
    for line in trace.splitlines():
        call = re.search(r"(write|pwrite64|writev|fsync|fdatasync)\((\d+)<([^>]*)>(.*)", line)
        if call is None:
            continue
        name, descriptor, file, rest = call.groups()
        if name in ("fsync", "fdatasync"):
            dirty.discard(file)
        elif descriptor == "1" and re.search(word, rest):
            found.append({file for file in dirty if not any(part in file for part in NOT_KEPT)})
        else:
            dirty.add(file)
    return found


@pytest.mark.skipif(
    shutil.which("strace") is None, reason="needs strace to see what is synced before the word is given"
)
def test_k34_nothing_that_was_accepted_is_in_the_page_cache_only(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    calls = "trace=write,pwrite64,writev,fsync,fdatasync"
    place = tmp_path / "place"
    child = [sys.executable, str(CHILD), str(place), "0", "20"]
    done = subprocess.run(["strace", "-f", "-y", "-e", calls, "-o", trace, *child], check=False, capture_output=True)
    if done.returncode and b"ptrace" in done.stderr:
        pytest.skip("this machine lets nobody trace")
    assert done.returncode == 0, done.stderr
    unsynced = unsynced_at(r'"[0-9a-f]{32}', trace.read_text())
    assert len(unsynced) == 20
    assert not any(unsynced), f"accepted while it was not on disk: {set.union(*unsynced)}"


def test_k34_a_write_that_is_not_synced_when_the_word_is_given_is_seen() -> None:
    trace = 'write(5</w/db-wal>, "x") = 1\n%s\nwrite(1<pipe:[7]>, "word\\n") = 5\n'
    assert unsynced_at("word", trace % "") == [{"/w/db-wal"}]
    assert unsynced_at("word", trace % "fdatasync(5</w/db-wal>) = 0") == [set()]
