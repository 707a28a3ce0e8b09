"""Small PDF files written by hand: text layers, scans, and the standard security handler for locked ones.

Enough of ISO 32000-1 for a receipt: pages, the standard font Courier, one JPEG a page, and encryption by RC4 with
128 bits (revision 3, sections 7.6.3.3 and 7.6.3.4), which every reader knows. Nothing here protects anything: the
locked files exist to be refused.
"""

from __future__ import annotations

import hashlib
import struct
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise

from PIL import Image

from headrace.simulation.paper import Paper, Run, Shape

_POINTS_PER_PX = 72 / 200  # a till prints about 200 dots an inch
_COURIER_ADVANCE = 0.6  # of the size, for every letter
_PADDING = bytes.fromhex("28BF4E5E4E758A4164004E56FFFA01082E2E00B6D0683E802F0CA9FE6453697A")
_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Lock:
    """The passwords of a PDF. With an empty `user` anyone can open it, and only changing it is locked."""

    user: str
    owner: str


def text_pdf(paper: Paper, lock: Lock | None = None) -> bytes:
    """The paper as a PDF with a real text layer, one page for each break."""
    edges = [0, *paper.breaks, paper.height_px]
    pages = []
    for top, bottom in pairwise(edges):
        width, height = paper.width_px * _POINTS_PER_PX, (bottom - top) * _POINTS_PER_PX
        marks = [_shape(s, bottom) for s in paper.shapes if top <= s.box[1] < bottom]
        marks += [_run(r, paper.face.spell(r.text), bottom) for r in paper.runs if top <= r.top < bottom]
        pages.append(_Page(width, height, "\n".join(marks).encode("cp1252")))
    return _write(pages, lock)


def scan_pdf(images: Sequence[Image.Image], quality: int = 80) -> bytes:
    """The images as a PDF of scans: one JPEG a page, no text."""
    pages = []
    for image in images:
        jpeg = BytesIO()
        image.save(jpeg, "JPEG", quality=quality)
        width, height = image.width * _POINTS_PER_PX, image.height * _POINTS_PER_PX
        content = f"q {width:.2f} 0 0 {height:.2f} 0 0 cm /Im Do Q".encode()
        pages.append(_Page(width, height, content, jpeg.getvalue(), image.size, len(image.getbands())))
    return _write(pages, None)


@dataclass(frozen=True, slots=True)
class _Page:
    width: float
    height: float
    content: bytes
    jpeg: bytes = b""
    jpeg_size: tuple[int, int] = (0, 0)
    jpeg_bands: int = 1


def _run(run: Run, text: str, bottom: int) -> str:
    """The run in Courier, squeezed to the width that it has on the paper."""
    size, letters = run.size * 0.95, _in_cp1252(text)
    squeeze = 100 * run.width / (_COURIER_ADVANCE * size * len(letters))
    x, y = run.left * _POINTS_PER_PX, (bottom - run.top - 1.1 * run.size) * _POINTS_PER_PX
    escaped = letters.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    font = "F2" if run.bold else "F1"
    return f"BT /{font} {size * _POINTS_PER_PX:.2f} Tf {squeeze:.1f} Tz {x:.2f} {y:.2f} Td ({escaped}) Tj ET"


def _shape(shape: Shape, bottom: int) -> str:
    left, top, right, low = (v * _POINTS_PER_PX for v in shape.box)
    low, top = bottom * _POINTS_PER_PX - low, bottom * _POINTS_PER_PX - top
    if shape.kind == "disc":  # a dot with a round cap is a disc
        x, y = (left + right) / 2, (low + top) / 2
        return f"q 1 J {right - left:.2f} w {x:.2f} {y:.2f} m {x:.2f} {y:.2f} l S Q"
    paint = "S" if shape.kind == "frame" else "f"
    return f"{left:.2f} {low:.2f} {right - left:.2f} {top - low:.2f} re {paint}"


def _in_cp1252(text: str) -> str:
    """Letters that the encoding of the standard fonts lacks lose their mark, as on many tills."""
    kept = []
    for char in text:
        try:
            char.encode("cp1252")
        except UnicodeEncodeError:
            char = {"ł": "l", "Ł": "L"}.get(char) or unicodedata.normalize("NFD", char)[0]
        kept.append(char)
    return "".join(kept)


def _write(pages: Sequence[_Page], lock: Lock | None) -> bytes:
    """Objects 1 catalog, 2 pages, 3 and 4 fonts, then three for each page: page, content, image (or null)."""
    first = 5
    kids = " ".join(f"{first + 3 * at} 0 R" for at in range(len(pages)))
    objects: list[tuple[bytes, bytes | None]] = [
        (b"<< /Type /Catalog /Pages 2 0 R >>", None),
        (f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(), None),
        (_font("Courier"), None),
        (_font("Courier-Bold"), None),
    ]
    for at, page in enumerate(pages):
        number = first + 3 * at
        image = f"/XObject << /Im {number + 2} 0 R >>" if page.jpeg else ""
        objects.append(
            (
                f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {page.width:.2f} {page.height:.2f}] /Contents "
                f"{number + 1} 0 R /Resources << /Font << /F1 3 0 R /F2 4 0 R >> {image} >> >>".encode(),
                None,
            )
        )
        objects.append((f"<< /Length {len(page.content)} >>".encode(), page.content))
        objects.append(_image(page) if page.jpeg else (b"null", None))
    file_id = hashlib.md5(b"".join(page.content + page.jpeg for page in pages), usedforsecurity=False).digest()
    out, offsets = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"), []
    trailer = f"<< /Size {len(objects) + (2 if lock else 1)} /Root 1 0 R /ID [<{file_id.hex()}> <{file_id.hex()}>]"
    key = b""
    if lock:
        key, dictionary = _lock(lock, file_id)
        objects.append((dictionary, None))
        trailer += f" /Encrypt {len(objects)} 0 R"
    for number, (dictionary, stream) in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n".encode() + dictionary
        if stream is not None:
            body = _rc4(_object_key(key, number), stream) if lock else stream
            out += b"\nstream\n" + body + b"\nendstream"
        out += b"\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{offset:010d} 00000 n \n".encode() for offset in offsets)
    out += f"trailer\n{trailer} >>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)


def _font(name: str) -> bytes:
    return f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode()


def _image(page: _Page) -> tuple[bytes, bytes]:
    space = "DeviceGray" if page.jpeg_bands == 1 else "DeviceRGB"
    width, height = page.jpeg_size
    head = f"<< /Type /XObject /Subtype /Image /Width {width} /Height {height} /ColorSpace /{space} "
    return f"{head}/BitsPerComponent 8 /Filter /DCTDecode /Length {len(page.jpeg)} >>".encode(), page.jpeg


def _lock(lock: Lock, file_id: bytes) -> tuple[bytes, bytes]:
    """The key of the file, and its encryption dictionary (algorithms 2, 3 and 5 of ISO 32000-1)."""
    permissions = -3904  # print and change nothing
    user, owner = _padded(lock.user), _padded(lock.owner)
    owner_entry = _rounds(_stretched(owner), user)
    key = _stretched(user + owner_entry + struct.pack("<i", permissions) + file_id)
    user_entry = _rounds(key, hashlib.md5(_PADDING + file_id, usedforsecurity=False).digest()) + bytes(16)
    head = f"<< /Filter /Standard /V 2 /R 3 /Length {8 * _KEY_BYTES} /P {permissions} "
    return key, f"{head}/O <{owner_entry.hex()}> /U <{user_entry.hex()}> >>".encode()


def _padded(password: str) -> bytes:
    return (password.encode("latin-1") + _PADDING)[:32]


def _stretched(data: bytes) -> bytes:
    for _ in range(51):
        data = hashlib.md5(data, usedforsecurity=False).digest()
    return data[:_KEY_BYTES]


def _rounds(key: bytes, data: bytes) -> bytes:
    for number in range(20):
        data = _rc4(bytes(byte ^ number for byte in key), data)
    return data


def _object_key(key: bytes, number: int) -> bytes:
    salted = key + struct.pack("<I", number)[:3] + b"\0\0"
    return hashlib.md5(salted, usedforsecurity=False).digest()[: min(16, len(key) + 5)]


def _rc4(key: bytes, data: bytes) -> bytes:
    state, j = list(range(256)), 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) & 255
        state[i], state[j] = state[j], state[i]
    out, i, j = bytearray(len(data)), 0, 0
    for at, byte in enumerate(data):
        i = (i + 1) & 255
        j = (j + state[i]) & 255
        state[i], state[j] = state[j], state[i]
        out[at] = byte ^ state[(state[i] + state[j]) & 255]
    return bytes(out)
