"""What may be done to a resumable upload, decided without waiting, disk or HTTP."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from headrace.documents.errors import PayloadTooLarge
from headrace.flow import ServiceClass
from headrace.flow.sizing import Derived
from headrace.service.errors import LengthMismatch, OffsetMismatch, UploadCompleted, UploadGone
from headrace.service.upload_files import Kept, Phase
from headrace.service.views import ServiceLimits, Submission

_PLACES_MOST = 1024


class TooLong(LengthMismatch):
    """More came than was said; the draft wants such an upload to be no more."""


@dataclass(slots=True, eq=False)
class Upload:
    """One upload. Belongs to `ResumableUploads`; others only look at it.

    `alone` is held by the request that is at it; `newest` counts requests, `reading` ends the one that reads.

    Attributes:
        kept: what was said of it, and how it ended.
        offset_bytes: how much of it is on disk, synced.
    """

    kept: Kept
    offset_bytes: int = 0
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    newest: int = 0
    reading: asyncio.Timeout | None = None

    @property
    def whole(self) -> bool:
        """Whether all bytes are here that were announced."""
        return self.kept.length_bytes is not None and self.offset_bytes >= self.kept.length_bytes

    def submission(self, size_bytes: int | None) -> Submission:
        """What the intake is asked, and told."""
        kept = self.kept
        key = kept.idempotency_key
        if key is None and kept.batch_id is not None:
            key = f"upload/{kept.upload_id}"  # the same bytes may be twice in a batch, but not by one upload
        return Submission(
            kept.client,
            ServiceClass(kept.service_class),
            kept.filename,
            size_bytes,
            kept.sha256,
            key,
            kept.batch_id,
            kept.external_id,
        )


@dataclass(frozen=True, slots=True)
class Part:
    """What one request adds.

    Attributes:
        offset_bytes: where it begins.
        completes: whether the upload is complete with it; None: as soon as its length is reached.
        declared_bytes: how long the part is; None when that is not known.
        length_bytes: of the whole upload, where this request says it.
        digest: algorithm (`sha256`, `sha1`) and value; a part with other bytes, or with half of them, is not kept.
    """

    offset_bytes: int
    completes: bool | None
    declared_bytes: int | None = None
    length_bytes: int | None = None
    digest: tuple[str, bytes] | None = None


def places(limits: ServiceLimits, max_document_bytes: int) -> Derived[int]:
    """How many uploads may be unfinished: as many as fit what accepted documents may hold, were they all the largest.

    Args:
        limits: a number that was set wins.
        max_document_bytes: the largest document.
    """
    if limits.unfinished_uploads is not None:
        return Derived(limits.unfinished_uploads, "uploads", f"set: {limits.unfinished_uploads}")
    wanted = limits.accepted_bytes // max(1, max_document_bytes)
    value = max(1, min(_PLACES_MOST, wanted))
    because = f"{limits.accepted_bytes} accepted bytes / {max_document_bytes} the largest document = {wanted}"
    return Derived(value, "uploads", because if value == wanted else f"{because}, kept between 1 and {_PLACES_MOST}")


def check(upload: Upload, part: Part, most_bytes: int) -> None:
    """Whether this part may be added now.

    Raises:
        OffsetMismatch, LengthMismatch, UploadCompleted, UploadGone, PayloadTooLarge: why not.
    """
    kept = upload.kept
    if kept.phase is Phase.COMPLETE:
        if part.declared_bytes != 0:
            raise LengthMismatch(f"the upload is complete with {upload.offset_bytes} bytes")
        raise UploadCompleted("the upload is complete")
    require_open(upload)
    if part.offset_bytes != upload.offset_bytes:
        raise OffsetMismatch(upload.offset_bytes, part.offset_bytes)
    end_bytes = part.offset_bytes + (part.declared_bytes or 0)
    told = [kept.length_bytes, part.length_bytes]
    if part.completes and part.declared_bytes is not None:
        told.append(end_bytes)
    lengths = sorted({length for length in told if length is not None})
    if len(lengths) > 1:
        raise LengthMismatch(f"the upload was said to have {' and '.join(map(str, lengths))} bytes")
    require_size(max([end_bytes, *lengths]), most_bytes)
    if lengths and end_bytes > lengths[0]:
        raise LengthMismatch(f"with this part the upload has more than its {lengths[0]} bytes")


def may_complete(upload: Upload, part: Part) -> tuple[bool, int | None]:
    """Whether the upload can be complete with this part, and how long it is then; None: that is not known."""
    length = upload.kept.length_bytes if part.length_bytes is None else part.length_bytes
    end_bytes = None if part.declared_bytes is None else part.offset_bytes + part.declared_bytes
    if part.completes is None:
        return length is not None and (end_bytes is None or end_bytes >= length), length
    return part.completes, end_bytes if length is None else length


def require_size(size_bytes: int, most_bytes: int) -> None:
    """Raises PayloadTooLarge."""
    if size_bytes > most_bytes:
        raise PayloadTooLarge(f"the upload has {size_bytes:,} bytes or more; the limit is {most_bytes:,}")


def require_open(upload: Upload) -> None:
    """Raises UploadGone when it failed, or its time is over."""
    kept = upload.kept
    if kept.phase is Phase.FAILED:
        raise UploadGone(f"the upload failed: {kept.why}")
    if kept.phase is Phase.EXPIRED or is_over(upload):
        raise UploadGone("the upload was not finished in time, and is removed")


def is_over(upload: Upload) -> bool:
    """Whether its time is over."""
    return upload.kept.phase is Phase.OPEN and upload.kept.expires_at <= time.time()
