"""A glob pattern as a walk reads it: one name at a time, so that no folder is ever listed into memory."""

from __future__ import annotations

import fnmatch
import re
import unicodedata
from collections.abc import Iterable

States = frozenset[int]

_MAGIC = re.compile(r"[*?\[]")


def has_magic(text: str) -> bool:
    """Whether the text is a pattern: it has `*`, `?` or `[`."""
    return _MAGIC.search(text) is not None


class Pattern:
    """The components of a pattern (`**` is any number of folders) as the states of a small automaton.

    A state is the number of components matched so far; a set of them says where a folder may stand. As in the shell, a
    hidden name is matched only by a component that begins with a dot. Names match whatever their Unicode normal form.
    """

    def __init__(self, components: Iterable[str]) -> None:
        self._components = tuple(unicodedata.normalize("NFC", c) for c in components)
        self._matches = tuple(re.compile(fnmatch.translate(c)).match for c in self._components)
        self._end = len(self._components)
        self.start = self._with_empty_runs({0})

    def step(self, states: States, name: str) -> States:
        """Where the walk stands after this name; empty when nothing below or at it can match."""
        name = unicodedata.normalize("NFC", name)
        hidden = name.startswith(".")
        after = set()
        for state in states - {self._end}:
            component = self._components[state]
            if component == "**":
                if not hidden:
                    after.add(state)
            elif (not hidden or component.startswith(".")) and self._matches[state](name):
                after.add(state + 1)
        return self._with_empty_runs(after)

    def takes(self, states: States) -> bool:
        """Whether the name that led here matches the whole pattern."""
        return self._end in states

    def goes_on(self, states: States) -> bool:
        """Whether names below here can match."""
        return any(state < self._end for state in states)

    def _with_empty_runs(self, states: set[int]) -> States:
        # "**" matches no folder at all, too.
        todo = list(states)
        while todo:
            state = todo.pop()
            if state < self._end and self._components[state] == "**" and state + 1 not in states:
                states.add(state + 1)
                todo.append(state + 1)
        return frozenset(states)
