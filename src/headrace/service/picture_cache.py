"""Pictures of pages on disk: so many bytes and files at most, and the one that was wanted longest ago goes first.

What is in it can be made again at any time: nothing is synced, and a start begins with an empty folder.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import OrderedDict
from pathlib import Path

FILES_AT_MOST = 4096


class PictureCache:
    """A folder of its own. Belongs to one event loop; only `clear` touches many files.

    Args:
        folder: everything in it is ours, and removed.
        limit_bytes: of all pictures together; the newest stays, however large it is.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def clear(self) -> None:
        """Empties and makes the folder. May block.

        Raises:
            OSError: it cannot be made.
        """
        self._sizes.clear()
        self.size_bytes = 0
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """Where a picture is, or is to be written."""
        return self.folder / name

    def get(self, name: str) -> Path | None:
        """A picture that is there; it is the last to go now."""
        if name not in self._sizes:
            return None
        self._sizes.move_to_end(name)
        path = self.path(name)
        if path.exists():
            return path
        self._forget(name)  # somebody emptied the folder
        return None

    def added(self, name: str, size_bytes: int) -> None:
        """A picture was written; the oldest ones make room for it."""
        self._forget(name)
        self._sizes[name] = size_bytes
        self.size_bytes += size_bytes
        while len(self._sizes) > 1 and (self.size_bytes > self.limit_bytes or len(self._sizes) > FILES_AT_MOST):
            oldest = next(iter(self._sizes))
            self._forget(oldest)
            with contextlib.suppress(OSError):
                self.path(oldest).unlink()

    def _forget(self, name: str) -> None:
        self.size_bytes -= self._sizes.pop(name, 0)
