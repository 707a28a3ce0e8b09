"""The two ways in which clients speak of resumable uploads; one set of rules is behind both (`resumable`).

    Draft    draft-ietf-httpbis-resumable-upload: Upload-Complete says when it is all; problems of its own
    Tus      tus 1.0.0 (creation, creation-with-upload, creation-defer-length, checksum, expiration, termination):
             an upload is complete when its length is reached

A dialect reads headers and writes headers. What is said in headers that make no sense is ignored where the draft wants
that, and 400 everywhere else.
"""

from __future__ import annotations

import base64
import binascii
import re
import time
from dataclasses import dataclass
from email.utils import formatdate
from typing import ClassVar

from headrace.service.edge import Exchange
from headrace.service.problems import Problem, malformed
from headrace.service.request_headers import display_name, promised_sha256
from headrace.service.upload_files import Phase
from headrace.service.upload_rules import Part, Upload

PARTIAL, OFFSET = "application/partial-upload", "application/offset+octet-stream"
TUS_VERSION = "1.0.0"
TUS_EXTENSIONS = "creation,creation-with-upload,creation-defer-length,checksum,expiration,termination"
_ALGORITHMS = {"sha1": ("sha1", 20), "sha256": ("sha256", 32)}
_METADATA_CHARACTERS = 4096
_INTEGER = re.compile(r"\s*(\d{1,15})\s*(?:;.*)?")  # a Structured Fields integer; its parameters mean nothing here
_BOOLEAN = re.compile(r"\s*\?([01])\s*(?:;.*)?")

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Beginning:
    """What the first request says.

    Attributes:
        length_bytes: of the whole; None when it is not known yet.
        part: what comes in its body; None when nothing does.
        whole: everything comes in this one request.
        metadata, filename: of tus.
    """

    length_bytes: int | None
    part: Part | None
    whole: bool = False
    metadata: str = ""
    filename: str = ""


class Draft:
    """The IETF draft."""

    looked_status: ClassVar[int] = 204
    completes_at_length: ClassVar[bool] = False

    def beginning(self, exchange: Exchange) -> Beginning:
        """What a POST says. Raises Problem: 400, it does not say whether this is all."""
        whole = _boolean(exchange, b"upload-complete")
        if whole is None:
            detail = "send Upload-Complete: ?0 (more will come) or ?1 (this is all), or Tus-Resumable: 1.0.0"
            raise malformed("/headers/Upload-Complete", detail)
        declared = exchange.body.declared_bytes
        length = _integer(exchange, b"upload-length")
        part = Part(0, whole, declared, length, _content_digest(exchange))
        return Beginning(length, part if whole or declared != 0 else None, whole)

    def part(self, exchange: Exchange) -> Part:
        """What a PATCH says. Raises Problem: 400, 415."""
        _require_type(exchange, PARTIAL)
        complete, offset = _boolean(exchange, b"upload-complete"), _integer(exchange, b"upload-offset")
        if complete is None or offset is None:
            missing = "Upload-Complete: ?0 or ?1" if complete is None else "Upload-Offset, a whole number"
            raise malformed(f"/headers/{missing.partition(':')[0].partition(',')[0]}", f"send {missing}")
        declared = exchange.body.declared_bytes
        return Part(offset, complete, declared, _integer(exchange, b"upload-length"), _content_digest(exchange))

    def standing(self, upload: Upload, most_bytes: int) -> Headers:
        """Where an upload stands."""
        kept = upload.kept
        # All bytes came, and were no document: that is an answer to the whole, and not to this part.
        complete = kept.phase is Phase.COMPLETE or (kept.phase is Phase.FAILED and upload.whole)
        headers = [
            (b"upload-offset", b"%d" % upload.offset_bytes),
            (b"upload-complete", b"?1" if complete else b"?0"),
            (b"upload-limit", limit_header(most_bytes, max(0, int(kept.expires_at - time.time()))).encode()),
        ]
        if kept.length_bytes is not None:
            headers.append((b"upload-length", b"%d" % kept.length_bytes))
        return headers + _document(upload)

    def looked(self, upload: Upload) -> Headers:
        """What HEAD says beside that."""
        return []

    def says(self, problem: Problem, *, of_part: bool) -> Problem:
        """A problem in its own words."""
        return problem


class Tus:
    """tus 1.0.0."""

    looked_status: ClassVar[int] = 200
    completes_at_length: ClassVar[bool] = True

    def __init__(self, exchange: Exchange) -> None:
        if exchange.header(b"tus-resumable").strip() != TUS_VERSION:
            headers = {"Tus-Version": TUS_VERSION, "Tus-Resumable": TUS_VERSION}
            raise Problem("unsupported-tus-version", f"only tus {TUS_VERSION} is spoken", headers=headers)

    def beginning(self, exchange: Exchange) -> Beginning:
        """What a POST says. Raises Problem: 400, 415."""
        length = _integer(exchange, b"upload-length")
        deferred = exchange.header(b"upload-defer-length").strip()
        if deferred not in ("", "1") or (length is None) == (deferred == ""):
            raise malformed("/headers/Upload-Length", "send either Upload-Length or Upload-Defer-Length: 1")
        declared = exchange.body.declared_bytes
        if declared != 0:
            _require_type(exchange, OFFSET)
        part = Part(0, None, declared, None, _checksum(exchange)) if declared != 0 or length == 0 else None
        metadata = exchange.header(b"upload-metadata").strip()
        return Beginning(length, part, metadata=metadata, filename=_name_in(metadata))

    def part(self, exchange: Exchange) -> Part:
        """What a PATCH says. Raises Problem: 400, 415."""
        _require_type(exchange, OFFSET)
        offset = _integer(exchange, b"upload-offset")
        if offset is None:
            raise malformed("/headers/Upload-Offset", "send Upload-Offset, a whole number")
        declared = exchange.body.declared_bytes
        return Part(offset, None, declared, _integer(exchange, b"upload-length"), _checksum(exchange))

    def standing(self, upload: Upload, most_bytes: int) -> Headers:
        """Where an upload stands."""
        expires = formatdate(upload.kept.expires_at, usegmt=True).encode()
        headers = [(b"upload-offset", b"%d" % upload.offset_bytes), (b"tus-resumable", TUS_VERSION.encode())]
        if upload.kept.phase is Phase.OPEN:
            headers.append((b"upload-expires", expires))
        return headers + _document(upload)

    def looked(self, upload: Upload) -> Headers:
        """What HEAD says beside that."""
        kept = upload.kept
        length = (b"upload-defer-length", b"1")
        if kept.length_bytes is not None:
            length = (b"upload-length", b"%d" % kept.length_bytes)
        metadata = [(b"upload-metadata", kept.metadata.encode("latin-1"))] if kept.metadata else []
        return [length, *metadata]

    def says(self, problem: Problem, *, of_part: bool) -> Problem:
        """A problem in its own words: 460 where a part has another checksum."""
        if of_part and problem.code == "digest-mismatch":
            problem = Problem("checksum-mismatch", str(problem.detail), headers=problem.headers)
        problem.headers = {**(problem.headers or {}), "Tus-Resumable": TUS_VERSION}
        return problem


Dialect = Draft | Tus


def dialect_of(exchange: Exchange) -> Dialect:
    """Which one a request speaks. Raises Problem: 412, another version of tus."""
    return Tus(exchange) if b"tus-resumable" in exchange.headers else Draft()


def limit_header(most_bytes: int, age_s: int) -> str:
    """`Upload-Limit`."""
    return f"max-size={most_bytes}, max-age={age_s}"


def options_headers(most_bytes: int, age_s: int) -> Headers:
    """What OPTIONS says of both."""
    told = {
        "accept-patch": f"{PARTIAL}, {OFFSET}",
        "upload-limit": limit_header(most_bytes, age_s),
        "tus-resumable": TUS_VERSION,
        "tus-version": TUS_VERSION,
        "tus-extension": TUS_EXTENSIONS,
        "tus-max-size": str(most_bytes),
        "tus-checksum-algorithm": ",".join(_ALGORITHMS),
    }
    return [(name.encode(), value.encode()) for name, value in told.items()]


def _document(upload: Upload) -> Headers:
    if upload.kept.document_id is None:
        return []
    return [(b"content-location", f"/v1/documents/{upload.kept.document_id}".encode())]


def _integer(exchange: Exchange, name: bytes) -> int | None:
    match = _INTEGER.fullmatch(exchange.header(name))
    return int(match[1]) if match else None


def _boolean(exchange: Exchange, name: bytes) -> bool | None:
    match = _BOOLEAN.fullmatch(exchange.header(name))
    return match[1] == "1" if match else None


def _require_type(exchange: Exchange, kind: str) -> None:
    if exchange.header(b"content-type").partition(";")[0].strip().lower() != kind:
        detail = f"the bytes of an upload come as {kind}"
        raise Problem("unsupported-media-type", detail, headers={"Accept-Patch": f"{PARTIAL}, {OFFSET}"})


def _content_digest(exchange: Exchange) -> tuple[str, bytes] | None:
    promised = promised_sha256("", exchange.header(b"content-digest"))
    return None if promised is None else ("sha256", bytes.fromhex(promised))


def _checksum(exchange: Exchange) -> tuple[str, bytes] | None:
    if b"upload-checksum" not in exchange.headers:
        return None
    name, _, text = exchange.header(b"upload-checksum").strip().partition(" ")
    algorithm, size_bytes = _ALGORITHMS.get(name.lower(), ("", 0))
    try:
        value = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if not algorithm or len(value) != size_bytes:
        detail = f"Upload-Checksum is one of {', '.join(_ALGORITHMS)}, a space, and the value in base64"
        raise malformed("/headers/Upload-Checksum", detail)
    return algorithm, value


def _name_in(metadata: str) -> str:
    """The file name in `Upload-Metadata`. Raises Problem: 400, it is no such list, or too long to be kept."""
    if len(metadata) > _METADATA_CHARACTERS:
        raise malformed("/headers/Upload-Metadata", f"Upload-Metadata has more than {_METADATA_CHARACTERS} characters")
    told: dict[str, str] = {}
    for pair in metadata.split(",") if metadata else ():
        name, _, value = pair.strip().partition(" ")
        try:
            told[name] = base64.b64decode(value, validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError) as error:
            detail = "Upload-Metadata is a list of names with values in base64"
            raise malformed("/headers/Upload-Metadata", detail) from error
    return display_name(told.get("filename") or told.get("name") or "")
