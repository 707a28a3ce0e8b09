"""A process that indexes a workspace with the null embedder, and may be killed. Run by test_index_crashes.py.

    python indexing_child.py WORKSPACE [CALL]

It dies before the given call of what makes a step last: a transaction, a sync, a rename; none means never. At its end
it prints how many there were.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.search import indexing, rebuild, update, vector_index
from headrace.search.null import NullEmbedder
from headrace.storage.sqlite import SqliteStore


def main(workspace: Path, last: int) -> None:
    calls = itertools.count(1)
    made = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            nonlocal made
            made = next(calls)
            if made == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*args, **kwargs)

        return step

    for owner, name in (
        (SqliteStore, "take_in"),
        (SqliteStore, "keep_vectors"),
        (SqliteStore, "_take_in"),
        (vector_index, "_sync"),
        (Path, "replace"),
        (Path, "unlink"),
    ):
        setattr(owner, name, counted(getattr(owner, name)))
    setattr(indexing, "GROUP", 16)  # noqa: B010 - more transactions than there would be
    embedder = NullEmbedder()
    asyncio.run(update(workspace, embedder))
    asyncio.run(rebuild(workspace, embedder.name))
    print(made)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
