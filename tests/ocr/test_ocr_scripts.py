"""Latin pages are read with Latin characters only; pages in another script are not forced into them."""

import cv2
import numpy as np
import onnxruntime
import pytest
from drawn_pages import draw_receipt

from headrace.ocr.character_table import is_latin, is_other_script
from headrace.ocr.engine import Engine, PageImage
from headrace.ocr.errors import MissingDependency
from headrace.ocr.rapidocr import find_models
from headrace.ocr.recognition_model import RecognitionModel, open_model
from headrace.ocr.registry import EngineSettings, create_engine
from headrace.ocr.scripts import Scripts

JAPANESE = ["領収書 東京駅前店", "合計 商品代金 1,080", "ありがとうございました", "消費税額 等 98"]
GREEK = ["ΑΠΟΔΕΙΞΗ ΛΙΑΝΙΚΗΣ", "ΦΩΤΟΓΡΑΦΙΑ ΨΩΜΙ", "ΣΥΝΟΛΟ ΠΛΗΡΩΜΗΣ 12.50", "ΕΥΧΑΡΙΣΤΟΥΜΕ ΓΙΑ"]


@pytest.fixture(scope="module")
def model() -> RecognitionModel:
    return open_model(find_models()[1])


def words_of(engine: Engine, pixels: np.ndarray) -> str:
    return " ".join(box.text for box in engine.recognise(PageImage(1, pixels, pixels.shape[1], pixels.shape[0])))


def drawn(rows: list[str]) -> np.ndarray:
    """Pillow's own typeface has Latin letters only; OpenCV 5 carries one that has all."""
    if not hasattr(cv2, "FontFace"):
        pytest.skip("this OpenCV has no typeface with letters of other scripts")
    paper = np.full((80 * (len(rows) + 1), 640, 3), 255, np.uint8)
    for row, text in enumerate(rows, 1):
        cv2.putText(paper, text, (30, 80 * row), (0, 0, 0), cv2.FontFace("uni"), 36)
    return paper


def test_the_two_parts_of_the_model_give_what_the_whole_gives(model: RecognitionModel) -> None:
    line = np.random.default_rng(1).uniform(-1, 1, (2, 3, 48, 160)).astype(np.float32)

    def run(source: str | bytes) -> np.ndarray:
        session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
        return session.run(None, {"x": line})[0]

    scores = run(model.network) @ model.weights + model.bias
    apart = np.exp(scores - scores.max(2, keepdims=True))
    np.testing.assert_allclose(apart / apart.sum(2, keepdims=True), run(str(find_models()[1])), atol=1e-4)
    assert model.characters[0] == ""
    assert model.characters[-1] == " "
    assert len(model.characters) == model.weights.shape[1]


def test_a_model_of_another_shape_is_refused_with_what_to_install() -> None:
    with pytest.raises(MissingDependency, match="rapidocr>=3"):
        open_model(find_models()[0])  # the detection model ends otherwise


def test_a_japanese_receipt_is_read_as_it_is_and_the_next_one_in_latin(rapidocr_engine: Engine) -> None:
    read = words_of(rapidocr_engine, drawn(JAPANESE))
    wanted = set("".join(JAPANESE)) - {" "}
    assert len(wanted & set(read)) > 0.9 * len(wanted)
    assert all(map(is_latin, words_of(rapidocr_engine, np.asarray(draw_receipt()))))


@pytest.mark.parametrize("rows", [JAPANESE, GREEK])
def test_looking_for_latin_first_loses_nothing_of_another_script(rapidocr_engine: Engine, rows: list[str]) -> None:
    engines = {s: create_engine("rapidocr", EngineSettings(scripts=s)) for s in (Scripts.LATIN, Scripts.ALL)}
    latin, every = (words_of(engine, drawn(rows)) for engine in engines.values())
    assert words_of(rapidocr_engine, drawn(rows)) == every
    assert all(map(is_latin, latin))
    assert not all(map(is_latin, every))


@pytest.mark.parametrize(
    ("texts", "other"),
    [
        (["TOTAL 12.50", "GREEN TEA"], False),
        (["Straße 5", "Łódź", "CAFÉ €3", "№ 7 ™"], False),
        (["TOTAL 口2.50", "GREEN TEA AND 一 BREAD"], False),  # misread strokes
        (["領収書", "合計 1,080"], True),
        (["ΣΥΝΟΛΟ 12.50"], True),
        (["ＴＯＴＡＬ", "１２３"], False),  # full-width Latin
        (["蝴蝶酥", "Wheat Snack"], False),  # one word among Latin ones
        ([], False),
        (["12.50", "---"], False),
    ],
)
def test_a_page_is_of_another_script_when_its_letters_are(texts: list[str], other: bool) -> None:
    assert is_other_script(texts) is other
