"""RapidOCR as its authors ship it: the compatibility engine. The same models as `rapidocr`, through their pipeline.

For those who have measured with it, or want to compare: it costs about three times the CPU and the memory of the
default engine, and memory grows with the largest page, since pages are shown to the detector whole.
"""

from __future__ import annotations

from typing import Any

from headrace.documents.errors import EngineError
from headrace.documents.text import Box
from headrace.ocr.engine import Effort, PageImage, Pixels
from headrace.ocr.rapidocr import DETECTION_MODEL, RECOGNITION_MODEL, find_models, polygon

_LONGEST = 3  # times as long as wide: pages up to this shape are shown as they are


class PlainRapidOcrEngine:
    """Reads a page with the wheel's pipeline and its defaults, but on one thread. It knows one effort.

    Args:
        min_confidence: boxes below it are dropped, 0..1.

    Raises:
        MissingDependency: see `rapidocr.find_models`. Models are those of the wheel, so that none is downloaded.
    """

    name = "rapidocr-plain"
    models = (DETECTION_MODEL, RECOGNITION_MODEL, "ch_ppocr_mobile_v2.0_cls")
    needs_pages = True

    def __init__(self, *, min_confidence: float = 0.5) -> None:
        find_models()
        import cv2
        from rapidocr import RapidOCR

        cv2.setNumThreads(1)  # the workers are the parallelism
        threads = {f"EngineConfig.onnxruntime.{kind}_op_num_threads": 1 for kind in ("intra", "inter")}
        self._pipeline: Any = RapidOCR(
            params=threads | {"Global.log_level": "critical", "Global.text_score": min_confidence}
        )

    def recognise(self, image: PageImage, effort: Effort = Effort.USUAL) -> tuple[Box, ...]:
        """The lines of text, or parts of them; see `Engine.recognise`."""
        if self._pipeline is None:
            raise RuntimeError("the engine is closed")
        import numpy as np

        pixels = _not_too_narrow(image.pixels)
        height, width = image.pixels.shape[:2]
        try:
            # Three channels are taken as BGR.
            found = self._pipeline(np.ascontiguousarray(pixels[:, :, ::-1]) if pixels.ndim == 3 else pixels)
        except MemoryError:
            raise
        except Exception as error:  # the wheel, cv2 and onnxruntime have errors of their own kinds
            raise EngineError(
                "rapidocr failed on this page", page=image.number, observed=f"rapidocr: {error}"
            ) from error
        if found.boxes is None:
            return ()
        return tuple(
            Box(text.strip(), polygon(corners, width, height), min(1.0, float(confidence)))
            for corners, text, confidence in zip(found.boxes, found.txts, found.scores, strict=True)
            if text.strip()
        )

    def close(self) -> None:
        """Frees the models."""
        self._pipeline = None


def _not_too_narrow(pixels: Pixels) -> Pixels:
    """The page with white paper at its side, when it is more than three times as long as wide.

    The pipeline enlarges a page until its short side has 736 px: a strip of 7 x 5,000 would take all memory.
    """
    import numpy as np

    height, width = pixels.shape[:2]
    least = -(-max(height, width) // _LONGEST)
    missing = [(0, max(0, least - height)), (0, max(0, least - width))] + [(0, 0)] * (pixels.ndim - 2)
    return (
        np.pad(pixels, missing, constant_values=255) if max(height, width) > _LONGEST * min(height, width) else pixels
    )
