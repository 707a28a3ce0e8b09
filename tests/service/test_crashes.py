from __future__ import annotations

import hashlib
import random
import signal
import subprocess
import sys
from pathlib import Path

from headrace.ledger import verify
from headrace.storage.sqlite import SqliteStore

KILLS = 8
DOCUMENTS = 2000
CHILD = Path(__file__).with_name("crashing_service.py")


class Child:
    """One life of the service; what it said is in `acknowledged`."""

    def __init__(self, workspace: Path, first: int) -> None:
        command = [sys.executable, str(CHILD), str(workspace), str(first), str(DOCUMENTS)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.acknowledged: dict[int, str] = {}
        self.finished = False

    def listen(self, until_accepted: int) -> None:
        """Reads what it says until it has accepted so many, or has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._hear(line)
            if len(self.acknowledged) >= until_accepted or self.finished:
                return

    def kill(self) -> None:
        """Ends it without warning; what it had said by then counts."""
        self.process.send_signal(signal.SIGKILL)
        rest, _ = self.process.communicate()
        for line in rest.splitlines():
            if line.count(" ") == 2:  # the last one may be half a line
                self._hear(line)

    def _hear(self, line: str) -> None:
        word, *rest = line.split()
        if word == "accepted":
            self.acknowledged[int(rest[0])] = rest[1]
        self.finished = self.finished or word == "done"


def test_kill_9_at_any_moment_loses_nothing_that_was_accepted_and_doubles_nothing(tmp_path: Path) -> None:
    """Clients that repeat what was not acknowledged, with its key: one document and one entry for each number."""
    chance = random.Random(8)
    acknowledged: dict[int, str] = {}
    kills = 0
    while True:
        first = next((n for n in range(1, DOCUMENTS + 1) if n not in acknowledged), DOCUMENTS + 1)
        child = Child(tmp_path / "ws", first)
        child.listen(chance.randint(1, 2 * DOCUMENTS // KILLS) if kills < KILLS else 2 * DOCUMENTS)
        if child.finished:
            child.process.communicate()
        else:
            child.kill()
            kills += 1
        for number, name in child.acknowledged.items():
            assert acknowledged.setdefault(number, name) == name, "a repeated request made another document"
        if child.finished and len(acknowledged) == DOCUMENTS:
            break
    assert kills >= 4
    with SqliteStore.read(tmp_path / "ws") as store:
        entries = store.entries(book="main", limit=2 * DOCUMENTS)
        assert verify(entries, store.books()[0]).holds
        assert len(entries) == DOCUMENTS
        assert {entry.document_id for entry in entries} == set(acknowledged.values())
        assert {str(entry.state) for entry in entries} == {"succeeded"}
        assert all(store.accounts(batch.batch_id).holds for batch in store.batches())
        assert store.waits() == []
        happened = store.happened(0, 10 * DOCUMENTS)
        accepted = [event.document_id for event in happened if event.kind == "document.accepted"]
        assert sorted(accepted) == sorted(acknowledged.values())
    blobs = [path for path in (tmp_path / "ws" / "blobs").glob("*/*") if path.is_file()]
    for path in blobs:
        assert path.parent.name + path.name == hashlib.sha256(path.read_bytes()).hexdigest()
    assert DOCUMENTS <= len(blobs) <= DOCUMENTS + 40 * kills
