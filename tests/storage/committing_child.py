"""A process that registers documents and commits their entries until it is done or killed. Run by test_sqlite.py.

Prints the number of entries after each commit; what was printed must be on disk whatever happens then.
"""

from __future__ import annotations

import sys
from pathlib import Path

from made_entries import commit_next, numbered

from headrace.storage.sqlite import SqliteStore


def main(workspace: Path, documents: int, group: int) -> None:
    with SqliteStore.open(workspace) as store:
        batch = store.find_batch("k") or store.open_batch("main", "k", "2026-03-04", "{}")
        if not store.listed(batch.batch_id):
            store.stage_listing(
                batch.batch_id, 0, ((f"{n:09d}".encode(), row) for n, row in enumerate(numbered(documents)))
            )
            store.settle_listing(batch.batch_id, 0)
        store.finish_listing(batch.batch_id)
        print(store.head("main").sequence, flush=True)
        failed = {f"{n}.jpg" for n in range(5, documents, 7)}
        while commit_next(store, batch, group, failed=failed):
            print(store.head("main").sequence, flush=True)
        store.finish_batch(batch.batch_id)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
