"""The order of documents in a folder: by path, component by component, numbers by value, the same on every machine."""

from __future__ import annotations

import os
import re
import unicodedata

_DIGITS = re.compile(rb"[0-9]+")
_END = b"\x00"  # below every other byte, so that a name comes before the names it begins
_ESCAPES = ((b"\x01", b"\x01\x02"), (b"\x00", b"\x01\x01"))  # keeps _END out of the text, and the order of 0 and 1


def natural_key(relative_path: bytes | str) -> bytes:
    """Encodes a path so that plain comparison of the keys gives natural path order: a2 before a10, a/b before a.b.

    No locale takes part: text compares by code point of its NFC form, runs of ASCII digits by value. Names that are
    equal so far (`a1` and `a01`, composed and decomposed umlauts) compare by their raw bytes, within their folder.
    Different paths always have different keys.
    """
    raw = os.fsencode(relative_path)
    return _END.join(b"\x01" + _component(part) for part in raw.split(b"/")) + _END


def _component(raw: bytes) -> bytes:
    text = unicodedata.normalize("NFC", raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return _DIGITS.sub(_number, _escape(text)) + _END + _escape(raw)


def _number(match: re.Match[bytes]) -> bytes:
    # "0" keeps the place of digits among letters; then the number of digits, so that longer numbers are larger.
    digits = match.group().lstrip(b"0")
    size = len(digits)
    return b"0" + (bytes((size,)) if size < 0xFF else b"\xff" + size.to_bytes(8, "big")) + digits


def _escape(raw: bytes) -> bytes:
    for plain, escaped in _ESCAPES:
        raw = raw.replace(plain, escaped)
    return raw
