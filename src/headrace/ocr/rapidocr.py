"""The default engine: the PP-OCRv6 small models of the `rapidocr` wheel, run lean on onnxruntime.

Only the wheel's models are used, not its pipeline: detection at 1,280 px in strips, no text-line classifier, Latin
characters unless the page is in another script, batches of equal width. `bench/accuracy.py` shows what that saves.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.documents.errors import EngineError
from headrace.documents.text import Box
from headrace.ocr.engine import Effort, PageImage, Pixels
from headrace.ocr.errors import MissingDependency
from headrace.ocr.scripts import Scripts

if TYPE_CHECKING:
    from headrace.ocr.text_detector import TextDetector
    from headrace.ocr.text_recogniser import TextRecogniser

DETECTION_MODEL = "PP-OCRv6_det_small"
RECOGNITION_MODEL = "PP-OCRv6_rec_small"
_MAX_SIDE_PX = 2000
"""Pages are brought to this long side before anything else: 3.1 GB and no text was the result of not doing so."""
_THOROUGH = 1.5
_THOROUGH_SHORT_PX = 736
"""A thorough look is this much larger, and the page's short side is at least this long then: RapidOCR's own default."""
_ARENA_BYTES = 160 * 2**20
"""Room for a strip of the detector or a batch of the recogniser; what is not used of it is not resident."""
_REHEARSED_PX = 800
"""A page of this side fills a strip of the detector; a line across it 32 times as wide as high is a very long one."""


def find_models() -> tuple[Path, Path]:
    """The files of the detection and the recognition model. Loads nothing.

    Raises:
        MissingDependency: a package is absent, or the wheel holds other models.
    """
    for package in ("rapidocr", "onnxruntime", "cv2", "numpy"):
        if importlib.util.find_spec(package) is None:
            raise MissingDependency(f"the rapidocr engine needs {package!r}: pip install --force-reinstall headrace")
    spec = importlib.util.find_spec("rapidocr")
    assert spec is not None
    folders = [Path(place) / "models" for place in spec.submodule_search_locations or ()]
    found = []
    for model in (DETECTION_MODEL, RECOGNITION_MODEL):
        path = next((folder / f"{model}.onnx" for folder in folders if (folder / f"{model}.onnx").is_file()), None)
        if path is None:
            raise MissingDependency(f"the installed rapidocr has no model {model}: pip install 'rapidocr>=3.10,<4'")
        found.append(path)
    return found[0], found[1]


class RapidOcrEngine:
    """Reads a page with two networks: one finds lines, one reads them. One thread.

    Args:
        detector_side_px: see `EngineSettings`.
        min_confidence: boxes below it are dropped, 0..1.

    Raises:
        MissingDependency: see `find_models`.
    """

    name = "rapidocr"
    models = (DETECTION_MODEL, RECOGNITION_MODEL)
    needs_pages = True

    def __init__(
        self, *, detector_side_px: int = 1280, min_confidence: float = 0.5, scripts: Scripts = Scripts.AUTO
    ) -> None:
        detection, recognition = find_models()
        import cv2

        from headrace.ocr.recognition_model import open_model
        from headrace.ocr.text_detector import TextDetector
        from headrace.ocr.text_recogniser import TextRecogniser

        cv2.setNumThreads(1)  # the workers are the parallelism
        detector = TextDetector(_session(str(detection)))
        model = open_model(recognition)
        recogniser = TextRecogniser(_session(model.network), model, scripts)
        _rehearse(detector, recogniser)
        self._detector: TextDetector | None = detector
        self._recogniser: TextRecogniser | None = recogniser
        self._min_confidence = min_confidence
        self._detector_side_px = detector_side_px

    def recognise(self, image: PageImage, effort: Effort = Effort.USUAL) -> tuple[Box, ...]:
        """The lines of text, or parts of them, in no order; see `Engine.recognise`."""
        if self._detector is None or self._recogniser is None:
            raise RuntimeError("the engine is closed")
        try:
            pixels = _prepared(image.pixels)
            lines = self._detector.find(pixels, self._seen_side_px(pixels, effort))
            texts = self._recogniser.read(pixels, lines)
        except MemoryError:
            raise
        except Exception as error:  # cv2 and onnxruntime have errors of their own kinds
            raise EngineError(
                "rapidocr failed on this page", page=image.number, observed=f"rapidocr: {error}"
            ) from error
        height, width = pixels.shape[:2]
        return tuple(
            Box(text.strip(), polygon(corners, width, height), confidence)
            for corners, (text, confidence) in zip(lines, texts, strict=True)
            if text.strip() and confidence >= self._min_confidence
        )

    def _seen_side_px(self, pixels: Pixels, effort: Effort) -> int:
        """The long side at which the detector is shown this page."""
        shorter, longer = sorted(int(side) for side in pixels.shape[:2])
        if effort is Effort.USUAL:
            return min(longer, self._detector_side_px)
        wanted = max(_THOROUGH * self._detector_side_px, _THOROUGH_SHORT_PX * longer / shorter)
        return round(min(wanted, 2 * longer, _MAX_SIDE_PX * _THOROUGH))

    def close(self) -> None:
        """Frees the models."""
        self._detector = self._recogniser = None


def _rehearse(detector: TextDetector, recogniser: TextRecogniser) -> None:
    """Reads blank input of the largest usual size: memory is at its level before the first document comes."""
    import numpy as np

    side = _REHEARSED_PX
    blank = np.full((side, side, 3), 255, np.uint8)
    detector.find(blank, side)
    recogniser.read(blank, [np.array([(0, 0), (side, 0), (side, side // 32), (0, side // 32)], np.float32)])


def _prepared(pixels: Pixels) -> Pixels:
    """The page in three channels, with at most `_MAX_SIDE_PX` on its long side."""
    import cv2
    import numpy as np

    scale = _MAX_SIDE_PX / max(pixels.shape[:2])
    if scale < 1:
        size = [max(1, round(side * scale)) for side in (pixels.shape[1], pixels.shape[0])]
        pixels = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    return np.repeat(pixels[:, :, np.newaxis], 3, axis=2) if pixels.ndim == 2 else pixels


def polygon(corners: Any, width: int, height: int) -> Any:
    """Four corners in pixels as 0..1 of the page."""
    return tuple((min(1.0, max(0.0, float(x) / width)), min(1.0, max(0.0, float(y) / height))) for x, y in corners)


def _session(model: str | bytes) -> Any:
    import onnxruntime

    _share_arena()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # one would be made for every new shape
    options.log_severity_level = 3
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@functools.cache
def _share_arena() -> None:
    """One arena for both networks, which never run at the same time; once in each process.

    An arena keeps the largest input ever seen. Strips and batches bound that, so it is full after a few pages and the
    peaks stay where they are. In one piece from the start, it does not fall to fragments: 90 MB less than two arenas.
    """
    from onnxruntime import OrtAllocatorType, OrtArenaCfg, OrtMemoryInfo, OrtMemType, create_and_register_allocator

    memory = OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, OrtMemType.DEFAULT)
    no_limit, by_powers_of_two, default = 0, 0, -1
    create_and_register_allocator(memory, OrtArenaCfg(no_limit, by_powers_of_two, _ARENA_BYTES, default))
