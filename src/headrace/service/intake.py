"""Documents in: may it come, take its bytes, make it durable, hand it on. All or nothing, at every await."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headrace.documents.document import printable
from headrace.flow import Admission, Admitted, Expired, Full, Permit, Refusal, Shed
from headrace.flow.rate import TokenBucket
from headrace.ingest.settings import RunSettings
from headrace.service.bell import Bell
from headrace.service.errors import (
    BatchClosed,
    IdempotencyInUse,
    IdempotencyMismatch,
    NoStorage,
    NotFound,
    RateLimited,
)
from headrace.service.group_commit import GroupCommit, Then
from headrace.service.keeping import Arrival, Keeping
from headrace.service.spool import Spool, Spooled
from headrace.service.turn import Turn
from headrace.service.views import Accepted, ServiceLimits, Submission
from headrace.storage.blobs import Blobs
from headrace.storage.errors import BatchListed, KeyUsed, StorageFull, UnknownBatch
from headrace.storage.sql_accept import NewDocument, Placed
from headrace.storage.sql_service import Waits, placed_document
from headrace.storage.sqlite import SqliteStore

NAME_CHARS = 512
"""What is kept of a file name; it is for display only."""

ROOM = "room"
"""What the bell rings when permits have ended."""

_CLIENTS = 4096  # buckets in memory; the one that was used longest ago goes, and comes back full


class Intake:
    """Admission, quotas, spool and group commit. Belongs to one event loop.

    Args:
        admission: its permits are for accepted documents without an entry.
        arrivals: one thread that makes bytes durable.
        commits: the database thread.
        add: is given each new document, with its permit, in the moment it is accepted.
        bell: rings `ROOM` when there is room again.

    Attributes:
        accepted, replayed: so far.
    """

    def __init__(
        self,
        settings: RunSettings,
        limits: ServiceLimits,
        *,
        admission: Admission,
        spool: Spool,
        blobs: Blobs,
        store: SqliteStore,
        arrivals: GroupCommit,
        commits: GroupCommit,
        add: Callable[[Waits, Permit], None],
        bell: Bell,
    ) -> None:
        self.limits = limits
        self._settings = settings
        self._admission = admission
        self._spool = spool
        self._store = store
        self._arrivals = arrivals
        self._commits = commits
        self.keeping = Keeping(spool, blobs, store)
        self._keep_all = self.keeping.keep_all
        self._add = add
        self._bell = bell
        self._now = asyncio.get_running_loop().time
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self._keys: set[tuple[str, str]] = set()  # of requests that are being received; bounded by the permits
        self._told = json.dumps({"engine": settings.engine, "sources": ["service"], "service": True})
        self.accepted = self.replayed = 0
        self.rate_limited = 0

    # May it come

    def decide(self, submission: Submission) -> Admitted | Refusal:
        """See `Reception.decide`."""
        refusal = self._refusal(submission)
        if refusal is not None:
            return refusal
        decision = self._admission.decide(
            submission.service_class, client=submission.client, size_bytes=self._size_bytes(submission)
        )
        if isinstance(decision, Admitted):
            self._take_token(submission.client)
            return decision
        return self._in_words(decision, submission)

    def _in_words(self, refusal: Refusal, submission: Submission) -> Refusal:
        """A refusal for load, in words of what is full and what to do."""
        if not isinstance(refusal, Full | Shed):
            return refusal
        now = self._admission.permits.statistics()
        taken = f"{now.held:,} of {now.limit:,} documents are accepted and not done yet"
        if now.limit_bytes is not None and now.held_bytes + self._size_bytes(submission) > now.limit_bytes:
            taken = f"{now.held_bytes:,} of {now.limit_bytes:,} bytes are accepted and not done yet"
        consequence = "no more is taken until some are done"
        if isinstance(refusal, Shed):
            consequence = f"only classes above {submission.service_class.name.lower()} are taken until some are done"
        told = f"{taken}: {consequence}; send it again after the seconds in Retry-After"
        return type(refusal)(told, retry_after_s=refusal.retry_after_s)

    async def admit(self, submission: Submission, deadline_s: float | None) -> Admitted | Refusal:
        """See `Reception.admit`: load makes it wait, an end does not."""
        ends_at = math.inf if deadline_s is None else self._now() + deadline_s
        while True:
            refusal = self._refusal(submission)
            wait_s = 0.0
            if refusal is None:
                decision = await self._admission.admit(
                    submission.service_class,
                    client=submission.client,
                    size_bytes=self._size_bytes(submission),
                    deadline_s=None if deadline_s is None else max(0.0, ends_at - self._now()),
                )
                if isinstance(decision, Admitted):
                    self._take_token(submission.client)
                    return decision
                if not isinstance(decision, Full | Shed):
                    return decision
            elif isinstance(refusal, RateLimited):
                wait_s = float(refusal.retry_after_s or 1)
            else:
                return refusal
            left_s = ends_at - self._now()
            if left_s <= 0:
                return Expired("there was no room within the deadline", retry_after_s=1)
            if wait_s:
                await asyncio.sleep(min(wait_s, left_s))
            else:
                await self._bell.next_ring(ROOM, min(1.0, left_s))

    def _refusal(self, submission: Submission) -> Refusal | None:
        if self._spool.full:
            return NoStorage(f"storage is full: {self._spool.full}", retry_after_s=5)
        bucket = self._bucket(submission.client)
        if bucket is None or (wait_s := bucket.wait_s(1, self._now())) <= 0:
            return None
        self.rate_limited += 1
        rate = bucket.rate
        return RateLimited(
            f"this client may send {rate.per_s:g} documents per second", retry_after_s=max(1, math.ceil(wait_s))
        )

    def _bucket(self, client: str) -> TokenBucket | None:
        quota = self.limits.quotas.get(client, self.limits.default_quota)
        if quota.rate is None:
            return None
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = TokenBucket(quota.rate, self._now())
            if len(self._buckets) > _CLIENTS:
                self._buckets.popitem(last=False)
        elif bucket.rate != quota.rate:
            bucket.change_rate(quota.rate, self._now())
        self._buckets.move_to_end(client)
        return bucket

    def tokens(self, client: str) -> tuple[float, float, float] | None:
        """What is left of a client's quota: tokens, burst, tokens per second; None when it has none."""
        bucket = self._bucket(client)
        return None if bucket is None else (bucket.tokens(self._now()), bucket.rate.burst, bucket.rate.per_s)

    def _take_token(self, client: str) -> None:
        bucket = self._bucket(client)
        if bucket is not None:
            bucket.take(1, self._now())

    def _size_bytes(self, submission: Submission) -> int:
        declared = submission.declared_bytes
        return self.limits.assumed_bytes if declared is None else min(declared, self._settings.max_document_bytes)

    # Take it in

    async def accept(
        self, submission: Submission, permit: Permit, body: AsyncIterator[bytes] | Path, turn: Turn | None = None
    ) -> Accepted:
        """See `Reception.accept`. A path is a file that `Spool.take` can take."""
        key = submission.idempotency_key
        in_use = None if key is None else (submission.client, key)
        claimed = handed_over = False
        try:
            if in_use is not None:
                if in_use in self._keys:
                    raise IdempotencyInUse("another request with this key is being received")
                self._keys.add(in_use)
                claimed = True
            if isinstance(body, Path):
                spooled = await self._spool.take(body, sha256=submission.sha256)
            else:
                spooled = await self._spool.receive(
                    body, declared_bytes=submission.declared_bytes, sha256=submission.sha256
                )
            arrival = Arrival(spooled, submission, permit)
            # From here on `_arrived` sees to permit and bytes, whether or not anybody still waits.
            handed_over = True
            if turn is not None:
                await self._behind(turn, arrival)
            placed = await self._arrivals.run_both(
                self._keep_all, arrival, partial(self._arrived, arrival), Then(self._commits, self._accept_all)
            )
        except (KeyUsed, UnknownBatch, BatchListed) as error:
            raise _explained(error) from error
        except BaseException:
            if not handed_over:
                permit.ignore()
            raise
        finally:
            if claimed and in_use is not None:
                self._keys.discard(in_use)
        return Accepted(
            placed.document_id, placed.batch_id, placed.position, spooled.sha256, spooled.size_bytes, placed.again
        )

    async def again(self, new: NewDocument, permit: Permit, mark: Callable[[SqliteStore, int], None]) -> Placed:
        """Accepts a document whose bytes are among the blobs already, as one more. The permit goes on with it.

        Args:
            mark: called in the same transaction, with the store and the new batch.
        """
        return await self._commits.run(self._accept_again, (new, mark), partial(self._placed, new, permit))

    async def _behind(self, turn: Turn, arrival: Arrival) -> None:
        """Waits for its turn. A cancelled wait leaves nothing of the arrival behind."""
        try:
            await turn.comes()
        except BaseException as error:
            self._arrived(arrival, error)
            raise
        turn.pass_on()  # whoever comes next runs only after this one has joined the group

    def _arrived(self, arrival: Arrival, answer: Placed | BaseException) -> None:
        """In the loop, once for each arrival: the document goes on, or everything of it goes."""
        self._spool.let_go(arrival.spooled)
        if isinstance(answer, BaseException):
            arrival.permit.ignore()
            if isinstance(answer, StorageFull):
                self._spool.full = str(answer.strerror)
            self._commits.submit(self.keeping.discard_all, arrival.spooled).add_done_callback(_look)
            return
        self.keeping.has_row(arrival.spooled)
        assert arrival.new is not None
        self._placed(arrival.new, arrival.permit, answer)

    def _placed(self, new: NewDocument, permit: Permit, answer: Placed | BaseException) -> None:
        if isinstance(answer, BaseException):
            permit.ignore()
        elif answer.again:
            self.replayed += 1
            permit.ignore()
        else:
            self.accepted += 1
            document = placed_document(answer, new.sha256, new.size_bytes, answer.today)
            single = new.batch_id is None
            waits = Waits(document, new.client, new.service_class, answer.at, single=single, book=self._settings.book)
            self._add(waits, permit)

    # In the database thread

    def _accept_all(self, arrivals: Sequence[Arrival]) -> list[Placed | Exception]:
        new = [_new(arrival.submission, arrival.spooled) for arrival in arrivals]
        for arrival, its in zip(arrivals, new, strict=True):
            arrival.new = its
        return self._store_all(new)

    def _store_all(self, new: Sequence[NewDocument]) -> list[Placed | Exception]:
        # The day by the clock on the wall: receipts are dated by such clocks, too.
        today = dt.date.today().isoformat()  # noqa: DTZ011
        return self._store.accept(
            new,
            book=self._settings.book,
            today=today,
            settings_json=self._told,
            key_age_s=self.limits.idempotency_s,
        )

    def _accept_again(
        self, wanted: Sequence[tuple[NewDocument, Callable[[SqliteStore, int], None]]]
    ) -> list[Placed | Exception]:
        placed = self._store_all([new for new, _ in wanted])
        for (_, mark), where in zip(wanted, placed, strict=True):
            if isinstance(where, Placed):
                mark(self._store, where.batch_id)
        return placed


def _look(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


def _new(submission: Submission, spooled: Spooled) -> NewDocument:
    key = submission.idempotency_key
    used_for = f"{spooled.sha256}/{int(submission.service_class)}/{submission.batch_id or ''}"
    return NewDocument(
        submission.client,
        int(submission.service_class),
        spooled.sha256,
        spooled.size_bytes,
        printable(submission.filename)[:NAME_CHARS],
        key,
        used_for if key is not None else "",
        submission.batch_id,
        submission.external_id,
    )


def _explained(error: Exception) -> Exception:
    if isinstance(error, KeyUsed):
        return IdempotencyMismatch("this Idempotency-Key was used for another request")
    if isinstance(error, BatchListed):
        return BatchClosed(str(error))
    return NotFound(str(error))
