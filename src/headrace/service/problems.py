"""Problems: every answer that is no success, as `application/problem+json` (RFC 9457), and the table of their types.

A `Problem` is raised anywhere and becomes the answer at one place. What others raise (documents that cannot be read,
the reception's own errors, a full disk) is translated here, too, and nowhere else.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException

from headrace.documents.errors import DocumentError
from headrace.flow import Closed, Expired, Full, Refusal, Shed
from headrace.ocr.media import MEDIA_TYPES
from headrace.service.errors import (
    EditConflict,
    IdempotencyInUse,
    InvalidCorrection,
    NoStorage,
    OffsetMismatch,
    PageUnreadable,
    RateLimited,
    ReceptionError,
    UploadTakenOver,
)
from headrace.storage.errors import StorageFull, StoreError

MEDIA_TYPE = "application/problem+json"
ACCEPTED_TYPES = ", ".join(MEDIA_TYPES)


_IANA = "https://iana.org/assignments/http-problem-types#"


class Kind(NamedTuple):
    """One type of problem: its status, what it is called, and its URI where that is not ours."""

    status: int
    title: str
    uri: str = ""


KINDS: Mapping[str, Kind] = {
    "malformed-request": Kind(400, "The request makes no sense"),
    "bad-manifest-line": Kind(400, "A line of the manifest names no document"),
    "completed-upload": Kind(400, "Upload Is Completed", f"{_IANA}completed-upload"),
    "inconsistent-upload-length": Kind(400, "Inconsistent Upload Length Values", f"{_IANA}inconsistent-upload-length"),
    "idempotency-key-missing": Kind(400, "An Idempotency-Key is required here"),
    "unauthorized": Kind(401, "No key, or an unknown one"),
    "forbidden": Kind(403, "This key may not do that"),
    "not-found": Kind(404, "There is no such thing, or it is not yours"),
    "method-not-allowed": Kind(405, "Not with this method"),
    "not-acceptable": Kind(406, "There is no answer of the kind that was asked for"),
    "body-too-slow": Kind(408, "The body came too slowly"),
    "conflict": Kind(409, "Not as things stand"),
    "idempotency-key-in-use": Kind(409, "A request with this key is being worked on"),
    "batch-closed": Kind(409, "The batch takes no more documents"),
    "mismatching-upload-offset": Kind(409, "Mismatching Upload Offset", f"{_IANA}mismatching-upload-offset"),
    "upload-taken-over": Kind(409, "A newer request to this upload came"),
    "not-cancellable": Kind(409, "The document has its end already"),
    "not-replayable": Kind(409, "Only what failed can be run again"),
    "not-reviewable": Kind(409, "There is no receipt to review"),
    "result-expired": Kind(410, "It was kept for a while, and is gone"),
    "edit-conflict": Kind(412, "Somebody else changed it first"),
    "unsupported-tus-version": Kind(412, "This version of tus is not spoken"),
    "payload-too-large": Kind(413, "More bytes than the limit"),
    "unsupported-media-type": Kind(415, "Not a kind of file that is read"),
    "batch-rejected": Kind(422, "The batch breaks off"),
    "empty-file": Kind(422, "There are no bytes"),
    "image-too-large": Kind(422, "More pixels than the limit"),
    "too-many-pages": Kind(422, "More pages than the limit"),
    "corrupt-document": Kind(422, "The content is broken"),
    "encrypted-document": Kind(422, "The document needs a password"),
    "page-unreadable": Kind(422, "The page cannot be made into a picture"),
    "digest-mismatch": Kind(422, "The bytes are not those that were promised"),
    "source-url-forbidden": Kind(422, "This address is not fetched"),
    "idempotency-key-mismatch": Kind(422, "The key was used for something else"),
    "invalid-correction": Kind(422, "The corrected receipt would not be one"),
    "precondition-required": Kind(428, "If-Match is required here"),
    "queue-full": Kind(429, "No room now"),
    "class-shed": Kind(429, "This class is refused at the present load"),
    "deadline-expired": Kind(429, "It could not start within your deadline"),
    "rate-limited": Kind(429, "Your own quota is used up"),
    "checksum-mismatch": Kind(460, "The part of the upload has another checksum"),
    "internal-error": Kind(500, "A bug of ours"),
    "draining": Kind(503, "The service is stopping"),
    "storage-full": Kind(503, "The disk is full"),
    "store-unavailable": Kind(503, "The store cannot be written"),
    "embedder-failed": Kind(503, "The embedder gave no vectors"),
    "search-unavailable": Kind(503, "Search is not set up here"),
}
"""Every type of problem, by the last part of its URI (`/problems/queue-full`)."""

_BY_STATUS = {
    401: "unauthorized",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    413: "payload-too-large",
}
_OUTAGE_RETRY_S = 5


class Problem(HTTPException):
    """An answer that is no success.

    Args:
        code: one of `KINDS`.
        detail: one sentence for a person: what is wrong and what to do.
        headers: what the answer must carry.
        members: further members of the problem (`limit`, `actual`, `page`, `errors`, ...).
    """

    def __init__(self, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **members: Any) -> None:
        kind = KINDS[code]
        super().__init__(kind.status, detail, headers=dict(headers or {}))
        self.code = code
        self.members = {name: value for name, value in members.items() if value is not None}

    def as_dict(self, *, instance: str = "", trace_id: str = "") -> dict[str, Any]:
        """The members of the problem, in a fixed order."""
        problem = {
            "type": type_of(self.code),
            "title": KINDS[self.code].title,
            "status": self.status_code,
            "detail": self.detail,
            "code": self.code,
        }
        if instance:
            problem["instance"] = instance
        if trace_id:
            problem["trace_id"] = trace_id
        return problem | self.members

    def body(self, *, instance: str = "", trace_id: str = "") -> bytes:
        """The problem as JSON."""
        return json.dumps(self.as_dict(instance=instance, trace_id=trace_id), separators=(",", ":")).encode()


def type_of(code: str) -> str:
    """The URI of a type of problem."""
    return KINDS[code].uri or f"/problems/{code}"


def malformed(pointer: str, detail: str) -> Problem:
    """400: a part of the request makes no sense; `pointer` says which."""
    return Problem("malformed-request", detail, errors=[{"pointer": pointer, "detail": detail}])


def too_large(limit_bytes: int, actual_bytes: int | None = None) -> Problem:
    """413: over the byte limit. The connection ends, since the rest of the body is not read."""
    return Problem(
        "payload-too-large",
        f"the body has more than {limit_bytes} bytes",
        headers={"Connection": "close"},
        limit=limit_bytes,
        limit_bytes=limit_bytes,
        actual=actual_bytes,
    )


def problem_of(error: BaseException) -> Problem:
    """What an error is to a client. What nobody foresaw is a bug of ours, of which nothing internal is said."""
    match error:
        case Problem():
            return error
        case Refusal():
            return refused(error)
        case DocumentError():
            return _of_document(error)
        case ReceptionError():
            return _of_reception(error)
        case StorageFull():
            return _outage("storage-full", "there is no room for the bytes; it is taken again as soon as there is")
        case StoreError():
            return _outage("store-unavailable", "the store cannot be used now")
        case HTTPException():
            code = _BY_STATUS.get(error.status_code, "malformed-request")
            return Problem(code, str(error.detail), headers=error.headers)
    return Problem("internal-error", "something went wrong on our side; trace_id finds it in the log")


_REFUSALS: Mapping[type[Refusal], str] = {
    Full: "queue-full",
    Shed: "class-shed",
    Expired: "deadline-expired",
    RateLimited: "rate-limited",
    NoStorage: "storage-full",
    Closed: "draining",
}


def refused(refusal: Refusal, *, outage: str = "draining", headers: Mapping[str, str] | None = None) -> Problem:
    """A refusal as an answer: load is 429, outage 503; both with a whole number of seconds in Retry-After.

    Args:
        refusal: what the reception said.
        outage: what Closed means at this moment: `draining`, `storage-full` or `store-unavailable`.
        headers: further ones.
    """
    code = next((code for kind, code in _REFUSALS.items() if isinstance(refusal, kind)), "queue-full")
    if code == "draining":
        code = outage
    after_s = _outage_retry() if refusal.retry_after_s is None else retry_after(refusal.retry_after_s)
    return Problem(
        code, str(refusal), headers={**(headers or {}), "Retry-After": str(after_s)}, retry_after_seconds=after_s
    )


def retry_after(seconds: float) -> int:
    """Whole seconds, at least 1, at most 120. The jitter is in the estimate already (`flow.drain_rate.RetryAfter`)."""
    return max(1, min(120, round(seconds)))


def _of_document(error: DocumentError) -> Problem:
    code = error.code if error.code in KINDS else "corrupt-document"
    headers: dict[str, str] = {}
    if code == "unsupported-media-type":
        headers["Accept"] = ACCEPTED_TYPES
    if code == "payload-too-large":
        headers["Connection"] = "close"
    return Problem(code, error.detail, headers=headers, page=error.page)


def _of_reception(error: ReceptionError) -> Problem:
    code = error.code if error.code in KINDS else "conflict"
    match error:
        case IdempotencyInUse():
            after_s = retry_after(error.retry_after_s)
            headers = {"Retry-After": str(after_s)}
            return Problem(code, str(error), headers=headers, retry_after_seconds=after_s)
        case EditConflict():
            return Problem(code, str(error), headers={"ETag": f'"{error.version}"'})
        case OffsetMismatch():
            problem = Problem(code, str(error))
            problem.members = {"expected-offset": error.expected_bytes, "provided-offset": error.provided_bytes}
            return problem
        case UploadTakenOver():
            return Problem(code, str(error), headers={"Connection": "close"})
        case PageUnreadable():
            return Problem(code, str(error), page=error.page, reason=error.reason)
        case InvalidCorrection():
            errors = [{"pointer": pointer, "detail": detail} for pointer, detail in error.errors]
            return Problem(code, str(error), errors=errors)
    return Problem(code, str(error))


def _outage(code: str, detail: str) -> Problem:
    after_s = _outage_retry()
    return Problem(code, detail, headers={"Retry-After": str(after_s)}, retry_after_seconds=after_s)


def _outage_retry() -> int:
    # How long an outage lasts nobody knows; what matters is that clients do not come back all at once.
    return retry_after(_OUTAGE_RETRY_S * random.uniform(0.8, 1.2))
