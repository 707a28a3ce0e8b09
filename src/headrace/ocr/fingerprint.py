"""The fingerprint of a picture: 64 bits that saving it again, smaller or in gray, leaves nearly as they are."""

from __future__ import annotations

from headrace.ocr.engine import Pixels

_SIDE_PX = 32
_LOW = 8  # frequencies each way: what is left when a picture is seen from far away
_BLANK = 2.0  # standard deviation of the gray levels of a page with nothing on it


def fingerprint(pixels: Pixels) -> str | None:
    """16 hex digits, or None for a page with nothing on it.

    The lowest frequencies of the picture, each one above their median or not. (Zauner, 2010: "Implementation and
    Benchmarking of Perceptual Image Hash Functions", the DCT hash.) A crop or another photograph changes many of them.
    """
    import cv2
    import numpy as np

    small = cv2.resize(pixels, (_SIDE_PX, _SIDE_PX), interpolation=cv2.INTER_AREA).astype(np.float32)
    gray = small if small.ndim == 2 else small.mean(axis=2)
    if float(gray.std()) < _BLANK:
        return None
    low = cv2.dct(np.ascontiguousarray(gray))[:_LOW, :_LOW].ravel()
    bits = low > np.median(low[1:])  # the first is the brightness of the page
    return f"{int(''.join('1' if bit else '0' for bit in bits), 2):016x}"
