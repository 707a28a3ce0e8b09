"""Small images, different for each number."""

from __future__ import annotations

import zlib


def png(number: int | str, size_bytes: int = 0) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return len(content).to_bytes(4) + kind + content + zlib.crc32(kind + content).to_bytes(4)

    header = (1).to_bytes(4) * 2 + b"\x08\x00\x00\x00\x00"
    whole = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"tEXt", f"number\0{number}".encode())
    whole += chunk(b"IDAT", zlib.compress(b"\0\xff")) + chunk(b"IEND", b"")
    return whole + b"\0" * (size_bytes - len(whole))
