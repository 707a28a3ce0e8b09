"""The vector index: a usearch file beside the store, made from the stored vectors and thrown away at will.

workspace/search/
  index.json         names the file that holds, its model, and the last change of the vectors that is in it
  vectors-*.usearch  that file

The new file is synced before `index.json` is renamed onto the old one, so a killed process leaves one or the other.
What was written after the change is not in the file: `Search` reads that from the store.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np

from headrace.search.embedder import Vector
from headrace.search.errors import EmbedderMissing, VectorsDiffer
from headrace.storage.sql_search import Embedded
from headrace.storage.sqlite import SqliteStore

FOLDER = "search"
TAIL_MOST = 20_000
"""Vectors that a search compares one by one because the file does not have them yet: 30 MB of 384 dimensions."""

_TAIL_USUAL, _TAIL_SHARE = 1000, 100  # a file is written anew for as many, or for a hundredth of what it has
_REPLACED_SHARE = 5  # a removed vector stays in the graph as a dead end: beyond a fifth it is built afresh
_PAGE = 1000
# Measured by bench/search.py: the least that finds 98 of 100.
_CONNECTIVITY, _EXPANSION_ADD, _EXPANSION_SEARCH = 32, 128, 512


@dataclass(frozen=True, slots=True)
class IndexFile:
    """What `index.json` says."""

    file: str
    model: str
    dimensions: int
    change: int
    count: int
    replaced: int
    size_bytes: int


def index_file(workspace: Path, model: str) -> IndexFile | None:
    """The index of this model that holds; None when there is none, or its file is not what was written."""
    try:
        told = IndexFile(**json.loads((workspace / FOLDER / "index.json").read_bytes()))
        whole = (workspace / FOLDER / told.file).stat().st_size == told.size_bytes
    except (OSError, ValueError, TypeError):
        return None
    return told if whole and told.model == model else None


def opened(workspace: Path, told: IndexFile, *, view: bool) -> Any:
    """The usearch index of the file; `view` maps it read-only instead of loading it.

    Raises:
        FileNotFoundError: a newer one has taken its place; ask `index_file` again.
    """
    path = workspace / FOLDER / told.file
    path.stat()
    index = _new(told.dimensions)
    (index.view if view else index.load)(str(path))
    return index


def save_index(store: SqliteStore, workspace: Path, model: str, *, afresh: bool = False, always: bool = False) -> bool:
    """Takes the vectors that the file lacks into it, or makes it afresh; returns whether it was written.

    Holds the whole index in memory: about 1 KB for each receipt with 384 dimensions.

    Args:
        store: its vectors are the truth. The caller has the lock of `SqliteStore.open_beside`.
        workspace: where the file is.
        model: whose vectors.
        afresh: leave out what the file has.
        always: also for a few vectors, that a search would compare one by one.

    Raises:
        VectorsDiffer: vectors of several widths under one name.
    """
    told = None if afresh else index_file(workspace, model)
    if told and told.replaced * _REPLACED_SHARE > told.count:
        told = None
    last = store.search_counts(model, 0).last_change
    if told and told.change > last:  # the store was restored from a copy: another history
        told = None
    behind = last - (told.change if told else 0)
    if told and (behind == 0 or (not always and behind < max(_TAIL_USUAL, told.count // _TAIL_SHARE))):
        return False
    index = opened(workspace, told, view=False) if told else None
    change, replaced = (told.change, told.replaced) if told else (0, 0)
    while page := store.vectors_since(model, change, limit=_PAGE):
        index = index if index is not None else _new(len(page[0].vector) // 4)
        replaced += _add(index, page)
        change = page[-1].change
    if index is None:
        return False
    _write(workspace, index, model, change, replaced)
    return True


def as_vectors(rows: list[Embedded], dimensions: int) -> Any:
    """Stored vectors as the rows of an array.

    Raises:
        VectorsDiffer: one has another width.
    """
    if any(len(row.vector) != 4 * dimensions for row in rows):
        raise VectorsDiffer(
            f"the stored vectors are not all of {dimensions} dimensions: the model behind its name has changed; "
            "give the new one a name of its own"
        )
    return np.frombuffer(b"".join(row.vector for row in rows), dtype="<f4").reshape(len(rows), dimensions)


def as_bytes(vector: Vector) -> bytes:
    """A vector as it is stored."""
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()


def _new(dimensions: int) -> Any:
    # onnxruntime first: 1.32 dies of a segmentation fault when it is loaded into a process that has usearch 2.26.
    import onnxruntime  # noqa: F401

    try:
        from usearch.index import Index
    except ModuleNotFoundError as error:
        raise EmbedderMissing("search needs usearch: pip install 'headrace[search]'") from error
    return Index(
        ndim=dimensions,
        metric="cos",
        dtype="f16",
        connectivity=_CONNECTIVITY,
        expansion_add=_EXPANSION_ADD,
        expansion_search=_EXPANSION_SEARCH,
    )


def _add(index: Any, page: list[Embedded]) -> int:
    """Takes a page in; returns how many of it were there before."""
    vectors = as_vectors(page, index.ndim)
    keys = np.asarray([row.number for row in page], dtype=np.uint64)
    there = keys[np.asarray(index.contains(keys))]
    for key in there:
        index.remove(int(key))
    index.add(keys, vectors)
    return len(there)


def _write(workspace: Path, index: Any, model: str, change: int, replaced: int) -> None:
    folder = workspace / FOLDER
    folder.mkdir(exist_ok=True)
    path = folder / f"vectors-{change}-{token_hex(4)}.usearch"  # never a name that `index.json` has had
    part = folder / f"{path.name}.tmp"
    index.save(str(part))
    _sync(part)
    part.replace(path)
    told = IndexFile(path.name, model, index.ndim, change, len(index), replaced, path.stat().st_size)
    note = folder / "index.json.tmp"
    note.write_text(json.dumps(asdict(told), indent=1))
    _sync(note)
    note.replace(folder / "index.json")
    _sync(folder)
    for old in folder.glob("vectors-*"):
        if old != path:
            with suppress(OSError):  # who has it mapped keeps it
                old.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
