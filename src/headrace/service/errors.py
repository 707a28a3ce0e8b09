"""How the service says no, apart from load (`flow.errors`) and from bad documents (`documents.errors`).

Refusal
  RateLimited            this client's own quota is used up; everybody else is served
  NoStorage (a Closed)   the disk is full: an outage; it passes by itself
DocumentError
  DigestMismatch         the bytes are not those that the client promised
ReceptionError           the request cannot be done as things stand
  IdempotencyInUse       another request with this key is being received now
  IdempotencyMismatch    the key was used for something else
  NotFound               unknown, or another client's
  BatchClosed            no more documents can be added
  NotCancellable         the document has its end already
  NotReplayable          it has not failed, or is being run again already
  NotReviewable          there is no receipt to review or correct
  EditConflict           somebody was faster; says which version it is now
  InvalidCorrection      the corrected receipt would not be one; says where
  UrlForbidden           an address that we do not let ourselves be sent to
  WebhooksFull           there are as many webhooks as there may be
  OffsetMismatch         a part of an upload that does not begin where the upload ends
  UploadCompleted        the upload is a document already
  LengthMismatch         an upload that is longer or shorter than was said
  PartMismatch           a part of an upload with another digest than was promised
  UploadTakenOver        a newer request to the same upload came
  UploadGone             the upload expired, or failed
  BadSearch              nothing to look for, or a filter that nothing can pass
  SearchUnavailable      the extra `search` is not installed, or has other vectors
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from headrace.documents.errors import DocumentError
from headrace.flow import Closed, Refusal


class RateLimited(Refusal):
    """This client's own quota is used up."""


class NoStorage(Closed):
    """There is no room for bytes now; looked at again every second."""


class DigestMismatch(DocumentError):
    """The bytes are not those that the client promised."""

    code = "digest-mismatch"
    stage = "read"


class ReceptionError(Exception):
    """What was asked cannot be done as things stand; the message says why. `http_status` is for the edge."""

    http_status: ClassVar[int] = 409
    code: ClassVar[str] = "conflict"


class IdempotencyInUse(ReceptionError):
    """Another request with this key is being received at this moment."""

    code = "idempotency-key-in-use"
    retry_after_s = 1


class IdempotencyMismatch(ReceptionError):
    """The key was used for other bytes, another class or another batch."""

    http_status = 422
    code = "idempotency-key-mismatch"


class NotFound(ReceptionError):
    """There is no such thing, or it is another client's."""

    http_status = 404
    code = "not-found"


class BatchClosed(ReceptionError):
    """The batch takes no more documents."""

    code = "batch-closed"


class NotCancellable(ReceptionError):
    """The document has its entry in the ledger already."""

    code = "not-cancellable"


class NotReplayable(ReceptionError):
    """The document has not failed, or is being run again already."""

    code = "not-replayable"


class NotReviewable(ReceptionError):
    """The document has no receipt of its own: it is not done, it failed, or it is a duplicate."""

    code = "not-reviewable"


class EditConflict(ReceptionError):
    """Somebody else changed it first; `version` is what it is now."""

    http_status = 412
    code = "edit-conflict"

    def __init__(self, detail: str, version: int) -> None:
        super().__init__(detail)
        self.version = version


class InvalidCorrection(ReceptionError):
    """The corrected receipt would break the schema; `errors` holds (JSON pointer, what is wrong) pairs."""

    http_status = 422
    code = "invalid-correction"

    def __init__(self, errors: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{pointer}: {detail}" for pointer, detail in errors))
        self.errors = tuple(errors)


class PageUnreadable(ReceptionError):
    """A page cannot be made into a picture; `reason` is what became of the worker that tried."""

    http_status = 422
    code = "page-unreadable"

    def __init__(self, detail: str, reason: str | None = None, page: int | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.page = page


class UrlForbidden(ReceptionError):
    """This address is not one that we let ourselves be sent to."""

    http_status = 422
    code = "source-url-forbidden"


class WebhooksFull(ReceptionError):
    """There are as many webhooks as there may be."""


class OffsetMismatch(ReceptionError):
    """A part of an upload that does not begin where the upload ends."""

    code = "mismatching-upload-offset"

    def __init__(self, expected_bytes: int, provided_bytes: int) -> None:
        super().__init__(f"the upload ends at {expected_bytes}, and this part begins at {provided_bytes}")
        self.expected_bytes, self.provided_bytes = expected_bytes, provided_bytes


class UploadCompleted(ReceptionError):
    """The upload is a document already, and takes nothing more."""

    http_status = 400
    code = "completed-upload"


class LengthMismatch(ReceptionError):
    """The upload is longer or shorter than was said."""

    http_status = 400
    code = "inconsistent-upload-length"


class PartMismatch(ReceptionError):
    """A part of an upload has another digest than was promised; nothing of it was kept."""

    http_status = 422
    code = "digest-mismatch"


class UploadTakenOver(ReceptionError):
    """A newer request to the same upload came; what had arrived by then is kept."""

    code = "upload-taken-over"


class UploadGone(ReceptionError):
    """The upload was kept for a while, and is gone."""

    http_status = 410
    code = "result-expired"


class BadSearch(ReceptionError):
    """There is nothing to look for, or a filter that nothing can pass."""

    http_status = 400
    code = "malformed-request"


class SearchUnavailable(ReceptionError):
    """Search cannot work until somebody changes something; the message says what."""

    http_status = 503
    code = "search-unavailable"
