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


class UrlForbidden(ReceptionError):
    """This address is not one that we let ourselves be sent to."""

    http_status = 422
    code = "source-url-forbidden"


class WebhooksFull(ReceptionError):
    """There are as many webhooks as there may be."""
