"""The bytes of arrivals, made durable in a thread of their own, and taken back when no row came of them.

    received ──> kept (hashed, logged, one sync for a group) ──> row committed ──> accepted
                      this thread                              the database thread

While the rows of one group are committed, the bytes of the next one are synced. A row comes only after its bytes.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.flow import Permit
from headrace.service.errors import DigestMismatch
from headrace.service.spool import Spool, Spooled, translated
from headrace.service.views import Submission
from headrace.storage.arrivals import Arrival as KeptBytes
from headrace.storage.blobs import Blobs
from headrace.storage.sql_accept import NewDocument
from headrace.storage.sqlite import SqliteStore


@dataclass(slots=True)
class Arrival:
    """A document whose bytes are here, on its way through the groups; `permit` goes on with it."""

    spooled: Spooled
    submission: Submission
    permit: Permit
    new: NewDocument | None = None


class Keeping:
    """Keeps bytes, and counts who needs them: the same bytes may come twice at a time.

    Args:
        spool: knows what must stay free.
        blobs: where they go.
        store: says whether a row needs them; used in the database thread only.
    """

    def __init__(self, spool: Spool, blobs: Blobs, store: SqliteStore) -> None:
        self._spool = spool
        self._blobs = blobs
        self._store = store
        self._lock = threading.Lock()
        self._needed: Counter[str] = Counter()  # by arrivals that have no row yet; bounded by the permits

    def keep_all(self, arrivals: Sequence[Arrival]) -> list[Exception | None]:
        """Hashes and syncs a group. In one thread.

        Returns:
            For each None, or DigestMismatch.

        Raises:
            StorageFull: no room; asked again, it does what is left to do.
        """
        answers: list[Exception | None] = []
        good = []
        for arrival in arrivals:
            try:
                arrival.spooled.seal()
            except DigestMismatch as error:
                answers.append(error)
            else:
                answers.append(None)
                good.append(arrival.spooled)
        with self._lock:
            for one in good:
                if not one.needed:
                    one.needed = True
                    self._needed[one.sha256] += 1
        try:
            self._adopt([one for one in good if not one.adopted])
        except OSError as error:
            raise translated(error) from error
        return answers

    def has_row(self, spooled: Spooled) -> None:
        """Its row needs the bytes from here on."""
        with self._lock:
            self._need_no_more(spooled)

    def discard_all(self, spooled: Sequence[Spooled]) -> list[None]:
        """Takes back what no row came of. In the database thread."""
        for one in spooled:
            if not one.adopted:
                with self._lock:
                    self._need_no_more(one)
                if one.path is not None:
                    one.path.unlink(missing_ok=True)
                    self._blobs.release(one.size_bytes)
                continue
            known = self._store.knows_bytes(one.sha256)
            with self._lock:  # whoever needs the same bytes has said so before it looks whether they are here
                self._need_no_more(one)
                if not known and one.sha256 not in self._needed:
                    self._blobs.delete(one.sha256)
        return [None] * len(spooled)

    def drop(self, digests: Sequence[str]) -> int:
        """Removes bytes that no row needs any more, unless an arrival needs them. In the database thread.

        Returns:
            How many there were.
        """
        count = 0
        for sha256 in digests:
            with self._lock:  # for one file at a time: the event loop takes it, too
                count += sha256 not in self._needed and self._blobs.delete(sha256)
        return count

    def _need_no_more(self, spooled: Spooled) -> None:
        if not spooled.needed:
            return
        spooled.needed = False
        self._needed[spooled.sha256] -= 1
        if not self._needed[spooled.sha256]:
            del self._needed[spooled.sha256]

    def _adopt(self, spooled: Sequence[Spooled]) -> None:
        files = [one for one in spooled if one.path is not None]
        small = [one for one in spooled if one.path is None]
        if files:
            arrived = [(one.path, one.sha256) for one in files if one.path is not None]
            self._are_kept(files, self._blobs.adopt(arrived))
        if small:
            size_bytes = sum(one.size_bytes for one in small)
            self._spool.need_free(size_bytes)
            self._blobs.reserve(size_bytes)
            try:
                are_new = self._blobs.log([KeptBytes(one.sha256, one.pieces, one.size_bytes) for one in small])
            except BaseException:
                self._blobs.release(size_bytes)
                raise
            self._are_kept(small, are_new)

    def _are_kept(self, spooled: Sequence[Spooled], are_new: Sequence[bool]) -> None:
        for one, is_new in zip(spooled, are_new, strict=True):
            one.adopted = True
            if not is_new:
                self._blobs.release(one.size_bytes)
