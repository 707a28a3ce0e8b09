"""A process that takes documents in as the service does: bytes, then the row, then the word. Run by test_accepting.py.

Prints the digest of each document once it is accepted; what was printed must be there whatever happens then.
"""

from __future__ import annotations

import sys
from io import BytesIO
from itertools import count
from pathlib import Path

from headrace.storage.blobs import Blobs
from headrace.storage.sqlite import SqliteStore
from headrace.storage.store import Registration


def main(workspace: Path, begin: int, most: int) -> None:
    blobs = Blobs(workspace / "blobs")
    with SqliteStore.open(workspace) as store:
        batch = store.find_batch("k") or store.open_batch("main", "k", "2026-03-04", "{}")
        print(store.durability, flush=True)
        for number in count(begin):
            if number == begin + most:
                return
            sha256, size = blobs.put(BytesIO(f"receipt {number}".encode()))
            store.register(batch.batch_id, [Registration(sha256, sha256.encode(), size_bytes=size, mtime_ns=1)])
            print(sha256, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
