"""Folders and glob patterns: a walk that holds one open listing for each level it is deep, and nothing else."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import NamedTuple

from headrace.documents.document import printable
from headrace.documents.errors import UnreadableSource
from headrace.ingest.sources import selection
from headrace.ingest.sources.order import natural_key
from headrace.ingest.sources.pattern import Pattern, States
from headrace.ingest.sources.source import BrokenSource, Found, found_file

MAX_DEPTH = 100
"""Folders below folders that a walk follows; each level holds one open directory."""

EVERYTHING = Pattern(["**", "*"])


class _Level(NamedTuple):
    """One folder that is being listed: its entries, how to close them, its path below the root, where it stands."""

    entries: Iterator[os.DirEntry[bytes]]
    close: Callable[[], None]
    above: bytes
    states: States


class Folder:
    """All documents below a folder, or those a pattern takes: in the order of the listing, to be sorted by the store.

    Hidden names, the workspace and links to folders (loops) are left out and counted, and so is what `selection` names.

    Args:
        key: see `Source.key`.
        root: the folder, absolute.
        prefix: what the uris begin with, as the user wrote it, with its slash; empty for the current folder.
        pattern: what to take below the root.
        workspace: a folder to stay out of, because it is headrace's own.
    """

    ordered = False

    def __init__(
        self, key: str, root: bytes, prefix: bytes, *, pattern: Pattern = EVERYTHING, workspace: bytes | None = None
    ) -> None:
        self.key = key
        self._root = root
        self._prefix = prefix
        self._pattern = pattern
        self._workspace = os.path.realpath(workspace) if workspace is not None else None
        self._skipped: Counter[str] = Counter()

    @property
    def skipped(self) -> Mapping[str, int]:
        """What the latest pass left out, by reason."""
        return dict(self._skipped)

    def __iter__(self) -> Generator[Found]:
        """Walks depth first. A folder inside that cannot be listed is a problem of its own.

        Raises:
            BrokenSource: the root itself cannot be listed.
        """
        self._skipped.clear()
        levels: list[_Level] = []
        try:
            try:
                levels.append(_list(self._root, b"", self._pattern.start))
            except OSError as error:
                raise BrokenSource(f"{printable(self._root)} cannot be listed: {error.strerror}", items=0) from error
            while levels:
                level = levels[-1]
                try:
                    entry = next(level.entries, None)
                except OSError as error:  # the listing broke off: what it gave is good, the rest of this folder is not
                    entry = None
                    yield self._unlistable(level.above.rstrip(b"/"), error)
                if entry is None:
                    levels.pop().close()
                    continue
                relative = level.above + entry.name
                states = self._pattern.step(level.states, os.fsdecode(entry.name))
                if _is_dir(entry):
                    if self._enters(entry, level.states, states):
                        try:
                            if len(levels) > MAX_DEPTH:
                                raise OSError(0, f"it is more than {MAX_DEPTH} folders deep")
                            levels.append(_list(entry.path, relative + b"/", states))
                        except OSError as error:
                            yield self._unlistable(relative, error)
                elif self._takes(entry, level.states, states):
                    yield found_file(printable(self._prefix + relative), entry.path, sort_key=natural_key(relative))
        finally:
            for level in levels:
                level.close()

    def matches_any(self) -> bool:
        """Whether anything is found, or left out for a reason; walks no further than that."""
        walk = iter(self)
        try:
            return next(walk, None) is not None or bool(self._skipped)
        finally:
            walk.close()

    def _takes(self, entry: os.DirEntry[bytes], before: States, after: States) -> bool:
        if self._hidden(entry, before, after) or not self._pattern.takes(after):
            return False
        reason = selection.reason_to_skip(entry.name)
        if reason is not None and reason != selection.HIDDEN:  # a hidden name comes this far only by its own pattern
            self._skipped[reason] += 1
            return False
        return True

    def _enters(self, entry: os.DirEntry[bytes], before: States, after: States) -> bool:
        if self._hidden(entry, before, after) or not after:
            return False
        if entry.is_symlink():
            self._skipped[selection.LINKED_FOLDER] += 1
        elif self._workspace is not None and os.path.realpath(entry.path) == self._workspace:
            self._skipped[selection.WORKSPACE] += 1
        elif self._pattern.goes_on(after):
            return True
        else:
            self._skipped[selection.FOLDER] += 1
        return False

    def _hidden(self, entry: os.DirEntry[bytes], before: States, after: States) -> bool:
        """Counts what is left out only because its name begins with a dot."""
        if after or not entry.name.startswith(b"."):
            return False
        if self._pattern.step(before, os.fsdecode(entry.name).lstrip(".")):
            self._skipped[selection.HIDDEN] += 1
        return True

    def _unlistable(self, relative: bytes, error: OSError) -> Found:
        uri = printable(self._prefix + relative)
        problem = UnreadableSource(f"the folder {uri} cannot be listed: {error.strerror}")
        return Found(uri, None, sort_key=natural_key(relative), problem=problem)


def _list(path: bytes, above: bytes, states: States) -> _Level:
    entries = os.scandir(path)
    return _Level(entries, entries.close, above, states)


def _is_dir(entry: os.DirEntry[bytes]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False
