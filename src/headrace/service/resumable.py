"""Resumable uploads: the rules, for every dialect, with no HTTP in them.

          create            append            all is here, and accepted
    ---------------> OPEN ----------> OPEN ---------------------------------> COMPLETE (a document)
                      |                  \\---- no document that is read ------> FAILED
                      \\------ its time is over ------------------------------> EXPIRED

An open upload holds its bytes, which count as blobs, and one of a bounded number of places; no permit. A request that
may complete it gets the permit before it is read. What is on disk is synced before its offset is told, so an upload
goes on after `kill -9` where it was. One request at a time has an upload: a newer one ends the one before, unless that
one is completing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from functools import partial

from headrace.documents.errors import DocumentError, UnsupportedMediaType
from headrace.flow import Admitted, Closed, Full, Permit
from headrace.service.errors import (
    BatchClosed,
    IdempotencyMismatch,
    LengthMismatch,
    NoStorage,
    NotFound,
    UploadTakenOver,
)
from headrace.service.intake import Intake
from headrace.service.spool import PIECE_BYTES, Spool
from headrace.service.upload_files import Kept, PartFile, Phase, UploadFiles
from headrace.service.upload_rules import (
    Part,
    TooLong,
    Upload,
    check,
    is_over,
    may_complete,
    places,
    require_open,
    require_size,
)
from headrace.service.views import Accepted, Bound, ServiceLimits, Submission
from headrace.storage.blobs import Blobs
from headrace.storage.errors import StorageFull, StoreUnavailable

_LOG = logging.getLogger("headrace.service")
_ID = re.compile(r"[0-9a-f]{32}")
_SWEEP_S = 10.0
_FULL_RETRY_S = 5
_NEWER = "a newer request to this upload came; what had arrived by then is kept"
_FINAL = (DocumentError, IdempotencyMismatch, BatchClosed, NotFound)
"""What another try of the same bytes would end with, too."""


class ResumableUploads:
    """All uploads of the service. Belongs to one event loop.

    Args:
        intake: decides and accepts.
        spool: its threads write; its buffer bounds what is in memory.
        blobs: where the bytes are, and are counted.
        limits: of the service; replaced as a whole by a reload.
        most_bytes: the largest document.
        serving: whether new work is taken.
    """

    def __init__(
        self,
        intake: Intake,
        spool: Spool,
        blobs: Blobs,
        limits: ServiceLimits,
        *,
        most_bytes: int,
        serving: Callable[[], bool],
    ) -> None:
        self.limits = limits
        self.most_bytes = most_bytes
        self._intake = intake
        self._spool = spool
        self._files = UploadFiles(blobs, spool.need_free)
        self._serving = serving
        self._open: dict[str, Upload] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()  # ids; their JSON is on disk

    async def load(self) -> None:
        """Finds what the last process left."""
        opened, ended = await self._spool.step(self._files.load)
        self._open = {kept.upload_id: Upload(kept, offset_bytes) for kept, offset_bytes in opened}
        self._ended = OrderedDict.fromkeys(ended)

    async def run(self) -> None:
        """Ends uploads whose time is over, until it is cancelled."""
        while True:
            await self.sweep()
            await asyncio.sleep(_SWEEP_S)

    async def sweep(self) -> None:
        """Ends uploads whose time is over; one that a request is at is left to it."""
        for upload in list(self._open.values()):
            ended = upload.kept.phase is not Phase.OPEN  # and could not be written down when it did
            if (ended or is_over(upload)) and not upload.alone.locked():
                async with upload.alone:
                    await self._end(upload, upload.kept.phase if ended else Phase.EXPIRED, why=upload.kept.why)

    def bounds(self) -> tuple[Bound, ...]:
        """How many places and how much of the disk are taken."""
        most = places(self.limits, self.most_bytes)
        kept = self.limits.ended_uploads_kept
        return (
            Bound("unfinished_uploads", "uploads", len(self._open), most.value, most.because),
            Bound("ended_uploads", "uploads", len(self._ended), kept, "set; the oldest is forgotten"),
        )

    async def create(self, submission: Submission, length_bytes: int | None, metadata: str = "") -> Upload:
        """A new upload, durable, without bytes. It is whose the submission is.

        Raises:
            PayloadTooLarge: it is to be larger than a document may be.
            Full: all places are taken, or half of them by this client.
            Closed: the service stops, or the disk is full.
        """
        self._need_serving()
        require_size(length_bytes or 0, self.most_bytes)
        most = places(self.limits, self.most_bytes).value
        own = sum(upload.kept.client == submission.client for upload in self._open.values())
        if len(self._open) >= most or own >= math.ceil(most / 2):
            told = (
                f"{len(self._open)} uploads are unfinished, {own} of them yours; {most} may be, and half of them yours"
            )
            raise Full(told, retry_after_s=_FULL_RETRY_S)
        now = time.time()
        kept = Kept(
            secrets.token_hex(16),
            submission.client,
            int(submission.service_class),
            submission.filename,
            submission.sha256,
            submission.idempotency_key,
            submission.batch_id,
            submission.external_id,
            metadata,
            length_bytes,
            now,
            now + self.limits.upload_keep_s,
        )
        upload = self._open[kept.upload_id] = Upload(kept)
        try:
            await self._spool.step(partial(self._files.create, kept))
        except BaseException as error:
            del self._open[kept.upload_id]
            self._note(error)
            if isinstance(error, asyncio.CancelledError):  # nobody was told of it
                await self._spool.step(partial(self._files.remove, kept.upload_id))
            raise
        return upload

    async def find(self, client: str | None, upload_id: str) -> Upload:
        """An upload of this client; None sees those of all.

        Raises:
            NotFound: there is none, or it is another client's.
            UploadGone: it expired or failed.
        """
        upload = self._open.get(upload_id)
        if upload is None and upload_id in self._ended:
            kept = await self._spool.step(partial(self._files.read, upload_id))
            upload = None if kept is None else Upload(kept, kept.length_bytes or 0)
        if upload is None or (client is not None and upload.kept.client != client):
            raise NotFound(f"there is no upload {upload_id if _ID.fullmatch(upload_id) else ''}".rstrip())
        if upload.kept.phase is not Phase.COMPLETE and not upload.alone.locked():
            require_open(upload)
        return upload

    async def append(self, upload: Upload, part: Part, body: AsyncIterator[bytes]) -> Accepted | None:
        """Adds a part; the document, when the upload is complete with it.

        Whatever ends the request early, what came of it by then is kept, unless the part has a digest. Cancelled: the
        same.

        Raises:
            OffsetMismatch, LengthMismatch, UploadCompleted, PartMismatch: nothing of it was kept.
            UploadTakenOver: a newer request came.
            UploadGone: it expired meanwhile, or failed.
            Full, Shed, Closed, RateLimited: it would complete the upload, and there is no room; nothing was read.
            StorageFull: no room on the disk.
            As `Reception.accept`: what the bytes are no document for ends the upload; for an outage it stays open.
        """
        async with self._alone(upload):
            self._need_serving()
            check(upload, part, self.most_bytes)
            possible, size_bytes = may_complete(upload, part)
            permit = self._permit(upload, size_bytes) if possible else None  # before anything is read
            try:
                await self._learn_length(upload, part)
                await self._receive(upload, part, body)
                complete = upload.whole if part.completes is None else part.completes
                if complete:
                    await self._seal(upload)
            except BaseException as error:
                if permit is not None:
                    permit.ignore()
                self._note(error)
                if isinstance(error, UnsupportedMediaType | TooLong):
                    await self._end(upload, Phase.FAILED, why=str(error))
                raise
            if permit is None or not complete:
                if permit is not None:
                    permit.ignore()
                return None
            return await self._complete(upload, permit)

    async def settle(self, upload: Upload, *, completes: bool = False) -> Accepted | None:
        """Ends the request that is at the upload, so that its offset holds until the next part comes.

        Args:
            upload: which.
            completes: for a dialect in which an upload with all its bytes is a document: makes it one, if a crash or a
                refusal came between.

        Raises:
            As `append`.
        """
        async with self._alone(upload):
            if upload.kept.phase is Phase.COMPLETE:
                return None
            require_open(upload)
            if not (completes and upload.whole):
                return None
            self._need_serving()
            return await self._complete(upload, self._permit(upload, upload.offset_bytes))

    async def cancel(self, upload: Upload) -> None:
        """Removes an upload, and ends the request that is at it. A document that it became stays."""
        async with self._alone(upload):
            self._open.pop(upload.kept.upload_id, None)
            self._ended.pop(upload.kept.upload_id, None)
            upload.kept.phase = Phase.EXPIRED  # for requests that wait behind this one
            await self._spool.step(partial(self._files.remove, upload.kept.upload_id))

    # Inside

    @contextlib.asynccontextmanager
    async def _alone(self, upload: Upload) -> AsyncIterator[None]:
        upload.newest += 1
        mine = upload.newest
        reading, upload.reading = upload.reading, None
        if reading is not None:
            reading.reschedule(0.0)
        async with upload.alone:
            if mine != upload.newest:
                raise UploadTakenOver(_NEWER)
            yield

    def _permit(self, upload: Upload, size_bytes: int | None) -> Permit:
        decision = self._intake.decide(upload.submission(size_bytes))
        if isinstance(decision, Admitted):
            return decision.permit
        raise decision

    async def _learn_length(self, upload: Upload, part: Part) -> None:
        length = part.length_bytes
        if length is None and part.completes and part.declared_bytes is not None:
            length = part.offset_bytes + part.declared_bytes
        if length is not None and upload.kept.length_bytes is None:
            upload.kept.length_bytes = length
            await self._write(upload.kept)

    async def _seal(self, upload: Upload) -> None:
        """Before the file gets another name among the blobs, it is written down that nothing is added to it any more.

        Raises:
            LengthMismatch: the client says that this is all, and it is not.
        """
        if upload.kept.length_bytes is None:
            upload.kept.length_bytes = upload.offset_bytes
            await self._write(upload.kept)
        if not upload.whole:
            raise LengthMismatch(f"the upload ends at {upload.offset_bytes}, and has {upload.kept.length_bytes} bytes")

    async def _receive(self, upload: Upload, part: Part, body: AsyncIterator[bytes]) -> None:
        """Takes the bytes of one request; when this returns or raises, `offset_bytes` is on disk and synced."""
        file = PartFile(self._files, upload.kept, upload.offset_bytes, part.digest)
        mine = upload.newest
        pieces: list[bytes] = []
        held = 0
        coming = upload.offset_bytes
        whole = False
        reading = asyncio.timeout(None)
        try:
            async with reading:
                upload.reading = reading
                if mine != upload.newest:  # it came while the length was written down
                    raise UploadTakenOver(_NEWER)
                async for piece in body:
                    coming += len(piece)
                    if upload.kept.length_bytes is not None and coming > upload.kept.length_bytes:
                        raise TooLong(f"more came than the {upload.kept.length_bytes} bytes of the upload")
                    require_size(coming, self.most_bytes)
                    pieces.append(bytes(piece))
                    held += len(piece)
                    self._spool.buffered_bytes += len(piece)
                    if held >= PIECE_BYTES or self._spool.buffered_bytes > self._spool.buffer_bytes:
                        written, pieces = pieces, []
                        await self._spool.step(partial(file.write, written))
                        self._spool.buffered_bytes -= held
                        held = 0
                whole = True
        except TimeoutError:
            if not reading.expired():
                raise
            raise UploadTakenOver(_NEWER) from None
        finally:
            upload.reading = None
            try:
                await self._spool.step(partial(file.settle, pieces, whole))
            except Closed:
                file.close()  # the threads are gone; what is there is found by the next start
                raise
            finally:
                upload.offset_bytes = file.end_bytes
                self._spool.buffered_bytes -= held

    async def _complete(self, upload: Upload, permit: Permit) -> Accepted:
        """Makes a document of it. The permit goes on with the document, or is ended."""
        submission = upload.submission(upload.offset_bytes)
        try:
            accepted = await self._intake.accept(submission, permit, self._files.path(upload.kept.upload_id))
        except _FINAL as error:
            await self._end(upload, Phase.FAILED, why=str(error))
            raise
        upload.kept.document_id = accepted.document_id
        await self._end(upload, Phase.COMPLETE)
        return accepted

    async def _end(self, upload: Upload, phase: Phase, *, why: str = "") -> None:
        """Ends an upload. One whose end cannot be written down keeps its place, and `sweep` tries again."""
        kept = upload.kept
        kept.phase, kept.why = phase, why
        try:
            await self._spool.step(partial(self._files.end, kept))
            self._open.pop(kept.upload_id, None)
            self._ended[kept.upload_id] = None
            while len(self._ended) > self.limits.ended_uploads_kept:
                oldest, _ = self._ended.popitem(last=False)
                await self._spool.step(partial(self._files.remove, oldest))
        except (OSError, StoreUnavailable, Closed) as error:
            _LOG.warning("the end of upload %s is not written yet: %s", kept.upload_id, error)

    async def _write(self, kept: Kept) -> None:
        try:
            await self._spool.step(partial(self._files.write, kept))
        except BaseException:
            kept.length_bytes = None
            raise

    def _note(self, error: BaseException) -> None:
        if isinstance(error, StorageFull):
            self._spool.full = str(error.strerror)

    def _need_serving(self) -> None:
        if not self._serving():
            raise Closed("the service takes nothing now", retry_after_s=5)
        if self._spool.full:
            raise NoStorage(f"storage is full: {self._spool.full}", retry_after_s=5)
