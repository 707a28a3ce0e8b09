"""What a worker and its parent say to each other: frames over a socket pair, and one page of shared memory.

A request is a header and the pickle of one item (or of a list of `count` items); it is answered by one reply, in order.
Before its reply, a request may have news of its progress, which answers nothing.
The page is for what no message can say in time: which item the worker is on and since when (written by the worker
before each item; read when the worker died or may be hanging), and up to where it may go on (written by the parent).
Its words are single aligned 64-bit stores and are written in an order that makes every mixture of old and new harmless.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
from enum import IntEnum
from typing import NamedTuple

REQUEST = struct.Struct("<QQI")  # bytes of payload, position of the first item, items
REPLY = struct.Struct("<QBQQ")  # bytes of payload, kind, ns in the function, resident bytes
PROGRESS = struct.Struct("<IQQ")  # place of the item in its chunk, steps done, steps in all

STARTED, RUNNING, CEILING = range(3)  # the words of the page
PAGE_BYTES = 3 * 8
INDEX_BITS = 20
MAX_PLACE = (1 << INDEX_BITS) - 1
MAX_CHUNK = MAX_PLACE - 1
NO_CEILING = (1 << 64) - 1


class Kind(IntEnum):
    """What a reply is."""

    READY = 0  # the factory has run; no payload
    START_FAILED = 1  # text
    VALUE = 2  # the pickled value of a request of one item
    ERROR = 3  # of one item: pickled (Raised, pickled exception or None)
    VALUES = 4  # of a chunk: pickled (values, seconds of each, {index: error as above})
    RETURNED = 5  # not begun: beyond the ceiling, or the worker is being replaced; no payload
    UNREADABLE = 6  # a chunk with an item that cannot be unpickled: to be sent one by one; no payload
    PROGRESS = 7  # news of the item that runs, and no answer: may be left out; `PROGRESS`


ANSWERED = (Kind.VALUE, Kind.ERROR, Kind.VALUES)
"""Replies of items that were run."""

PARENT_DECIDES = (signal.SIGINT, signal.SIGTERM)
"""Signals that a terminal or a service manager sends to the whole group, and that a worker does not obey."""

RETIRING = 0x80  # added to the kind: the worker has grown too large and begins nothing more


class Doing(NamedTuple):
    """What a worker is on. `place` is the item's in its chunk, None while the chunk is read or answered."""

    position: int
    place: int | None
    started_ns: int


class Page:
    """The parent's end of the shared page. `fd` is for the child to inherit; close it with `close_fd` after that."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("headrace-page", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, PAGE_BYTES)
        self._map = mmap.mmap(self.fd, PAGE_BYTES)
        self._words = memoryview(self._map).cast("Q")
        self.set_ceiling(NO_CEILING)

    def doing(self) -> Doing | None:
        """What the worker is on; None when it is on nothing.

        The running word is read before the start time and written after it: the pair read here can be too young, which
        puts a deadline off, but never too old, which would kill an innocent.
        """
        running = self._words[RUNNING]
        started_ns = self._words[STARTED]
        if running == 0:
            return None
        index = (running & MAX_PLACE) - 1
        return Doing(running >> INDEX_BITS, None if index < 0 else index, started_ns)

    def set_ceiling(self, position: int) -> None:
        """The worker gives back, not begun, every request that starts beyond this position."""
        self._words[CEILING] = position

    def close_fd(self) -> None:
        """Closes the file; the mapping stays."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def close(self) -> None:
        """Gives the page back."""
        self.close_fd()
        self._words.release()
        self._map.close()
