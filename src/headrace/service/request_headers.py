"""What clients say in headers: Prefer, Idempotency-Key, digests, trace, file names, entity tags. Parsing only."""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import quote, unquote

from headrace.documents.document import printable
from headrace.service.problems import Problem, malformed

_WAIT = re.compile(r"(?:^|[,;\s])wait\s*=\s*\"?(\d{1,9})\"?(?=$|[,;\s])", re.IGNORECASE)
_QUOTED_KEY = re.compile(r'"([\x20-\x21\x23-\x5b\x5d-\x7e]{1,255})"')
_BARE_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_SHA256 = re.compile(r"(?:^|,)\s*sha-256\s*=\s*:([A-Za-z0-9+/=]*):", re.IGNORECASE)
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_FILENAME_EXTENDED = re.compile(r"filename\*\s*=\s*(utf-8|iso-8859-1)'[^']*'([^;\s]+)", re.IGNORECASE)
_FILENAME = re.compile(r"filename\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^;\s]+))", re.IGNORECASE)
_ENTITY_TAG = re.compile(r'(W/)?"([^"]*)"')
_TAG_VERSION = re.compile(r"(\d{1,9})r?")
FILENAME_CHARACTERS = 255


def prefer_wait_s(header: str) -> int | None:
    """The seconds of `Prefer: wait=10` (RFC 7240); None when it is not asked for. What is not understood is ignored."""
    match = _WAIT.search(header)
    return int(match[1]) if match else None


def idempotency_key(header: str) -> str | None:
    """The key, quoted as the IETF draft has it, or bare; None when there is no header.

    Raises:
        Problem: 400, it is neither.
    """
    text = header.strip()
    if not text:
        return None
    if match := _QUOTED_KEY.fullmatch(text):
        return match[1]
    if _BARE_KEY.fullmatch(text) and '"' not in text:
        return text
    raise malformed("/headers/Idempotency-Key", "Idempotency-Key is no string of 1 to 255 printable ASCII characters")


def promised_sha256(repr_digest: str, content_digest: str) -> str | None:
    """The hex SHA-256 that `Repr-Digest` or `Content-Digest` (RFC 9530) promise; other algorithms are ignored.

    Raises:
        Problem: 400, it is no SHA-256; 422, the two promise different bytes.
    """
    found: set[str] = set()
    for name, header in (("Repr-Digest", repr_digest), ("Content-Digest", content_digest)):
        if match := _SHA256.search(header):
            try:
                digest = base64.b64decode(match[1], validate=True)
            except (binascii.Error, ValueError):
                digest = b""
            if len(digest) != 32:
                raise malformed(f"/headers/{name}", f"{name} has a sha-256 that is not the base64 of 32 bytes")
            found.add(digest.hex())
    if len(found) > 1:
        raise Problem("digest-mismatch", "Repr-Digest and Content-Digest promise different bytes")
    return found.pop() if found else None


def digest_header(sha256: str) -> str:
    """A hex SHA-256 as `Repr-Digest` has it."""
    return f"sha-256=:{base64.b64encode(bytes.fromhex(sha256)).decode()}:"


def trace_of(header: str) -> tuple[str, str] | None:
    """Trace id and flags of a `traceparent`; None when there is none, or one that is not to be trusted."""
    match = _TRACEPARENT.fullmatch(header.strip())
    if match is None or not int(match[1], 16) or not int(match[2], 16):
        return None
    return match[1], match[3]


def request_id(header: str) -> str | None:
    """The caller's own id of the request when it can be echoed as it is."""
    return header if _REQUEST_ID.fullmatch(header) else None


def filename(disposition: str) -> str:
    """The name in a `Content-Disposition`, for display only: `filename*` (RFC 8187) before `filename`; else ""."""
    if match := _FILENAME_EXTENDED.search(disposition):
        try:
            return display_name(unquote(match[2], match[1].lower(), errors="strict"))
        except (LookupError, UnicodeDecodeError):
            pass
    if match := _FILENAME.search(disposition):
        return display_name(re.sub(r"\\(.)", r"\1", match[1]) if match[1] is not None else match[2])
    return ""


def display_name(name: str) -> str:
    """A name as text that is safe everywhere, and no longer than 255 characters."""
    return printable(name)[:FILENAME_CHARACTERS]


def attachment(name: str) -> str:
    """A `Content-Disposition` that browsers of any age understand."""
    return _disposition("attachment", name)


def inline(name: str) -> str:
    """The same for what is to be shown and not saved."""
    return _disposition("inline", name)


def _disposition(kind: str, name: str) -> str:
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"\\/' else "_" for c in name) or "document"
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name or 'document', safe='')}"


def matches(header: str, tag: str) -> bool:
    """Whether If-None-Match names this entity tag, by weak comparison."""
    if header.strip() == "*":
        return True
    return any(match[2] == tag.removeprefix("W/").strip('"') for match in _ENTITY_TAG.finditer(header))


def version_of(header: str) -> int | None:
    """The version that an If-Match names, as our entity tags spell it; None for `*`.

    Raises:
        Problem: 412, it names something that none of our tags is.
    """
    if header.strip() == "*":
        return None
    tag = _ENTITY_TAG.fullmatch(header.strip())
    version = _TAG_VERSION.fullmatch(tag[2]) if tag and not tag[1] else None
    if version is None:
        raise Problem("edit-conflict", "If-Match names no version of this receipt; read it again for its ETag")
    return int(version[1])
