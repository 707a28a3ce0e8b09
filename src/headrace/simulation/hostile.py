"""Files that no one should have to read: each breaks readers that are used every day, and must cost only itself."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from random import Random

import numpy as np

from headrace.documents.status import EntryKind
from headrace.simulation.finishes import jpeg
from headrace.simulation.paper import Paper
from headrace.simulation.pdf import Lock, text_pdf
from headrace.simulation.wear import photograph

BOMB_SIDE_PX = 30_000


@dataclass(frozen=True, slots=True)
class Hostile:
    """One kind of hostile file.

    Attributes:
        name: what is wrong with it.
        suffix: of its file name, which may lie.
        expected: how its run must end.
        codes: the failure codes that are right.
        make: the bytes, from a receipt that would otherwise be good.
    """

    name: str
    suffix: str
    expected: EntryKind
    codes: tuple[str, ...]
    make: Callable[[Paper, Random, np.random.Generator], bytes]


def _zero_bytes(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    return b""


def _cut_late(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    """A transfer that broke off: the upper 60 % can still be decoded, so it is a receipt with a hole, not a failure."""
    whole = jpeg(photograph(paper.draw(), noise, tilt_degrees=0.5), quality=85)
    return whole[: len(whole) * 60 // 100]


def _cut_early(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    """Cut at 5 %, inside the block of a phone's own notes: there is not one pixel in it."""
    whole = jpeg(photograph(paper.draw(), noise, tilt_degrees=1.0), quality=85, maker_note_bytes=40_000)
    return whole[: len(whole) * 5 // 100]


def _bomb(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    """A PNG of about 110 kB that becomes 900 million pixels; a text chunk makes each one unique."""
    note = b"Comment\0" + str(dice.random()).encode()
    return b"\x89PNG\r\n\x1a\n" + _bomb_head() + _chunk(b"tEXt", note) + _bomb_body() + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _bomb_head() -> bytes:
    return _chunk(b"IHDR", struct.pack(">IIBBBBB", BOMB_SIDE_PX, BOMB_SIDE_PX, 1, 0, 0, 0, 0))


@lru_cache(maxsize=1)
def _bomb_body() -> bytes:
    row = bytes(1 + BOMB_SIDE_PX // 8)  # the filter byte and one bit a pixel
    squeeze, block = zlib.compressobj(9), row * 500
    data = b"".join(squeeze.compress(block) for _ in range(BOMB_SIDE_PX // 500)) + squeeze.flush()
    return _chunk(b"IDAT", data)


def _encrypted(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    return text_pdf(paper, Lock(user=f"secret-{dice.randrange(10**6)}", owner="till-47"))


def _text_named_jpg(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    lines = [run.text for run in paper.runs]
    return "\n".join(["This is a note about a receipt, not a picture of one.", *lines]).encode()


def _no_trailer(paper: Paper, dice: Random, noise: np.random.Generator) -> bytes:
    """A PDF that lost its end: every object is there, but nothing says which is the first."""
    whole = text_pdf(paper)
    return whole[: whole.index(b"xref\n0 ")]


HOSTILES: tuple[Hostile, ...] = (
    Hostile("zero bytes", ".jpg", EntryKind.FAILURE, ("empty-file",), _zero_bytes),
    Hostile("encrypted PDF", ".pdf", EntryKind.FAILURE, ("encrypted-document",), _encrypted),
    Hostile("decompression bomb", ".png", EntryKind.FAILURE, ("image-too-large",), _bomb),
    Hostile("JPEG cut at 60 %", ".jpg", EntryKind.RECEIPT, (), _cut_late),
    Hostile("text named .jpg", ".jpg", EntryKind.FAILURE, ("unsupported-media-type",), _text_named_jpg),
    Hostile("JPEG cut at 5 %", ".jpg", EntryKind.FAILURE, ("corrupt-document",), _cut_early),
    Hostile("PDF without trailer", ".pdf", EntryKind.FAILURE, ("corrupt-document",), _no_trailer),
)
