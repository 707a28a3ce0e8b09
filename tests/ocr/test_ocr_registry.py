from importlib import metadata
from types import SimpleNamespace

import pytest

from headrace.ocr import rapidocr, tesseract
from headrace.ocr.errors import MissingDependency, UnknownEngine
from headrace.ocr.limits import ReadLimits
from headrace.ocr.registry import (
    DEFAULT_ENGINE,
    ENGINE_NAMES,
    EngineSettings,
    available_engines,
    create_engine,
    thread_environment,
)


def test_an_unknown_engine_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(UnknownEngine, match="did you mean 'tesseract'"):
        create_engine("teseract")


def test_every_engine_reports_whether_it_can_be_made() -> None:
    statuses = {status.name: status for status in available_engines()}
    assert tuple(statuses) == ENGINE_NAMES
    assert statuses["null"].available
    assert statuses[DEFAULT_ENGINE].available, statuses[DEFAULT_ENGINE].detail
    assert all(status.detail for status in statuses.values())


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tesseract.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"pip install 'headrace\[tesseract\]'"):
        create_engine("tesseract")
    with pytest.raises(MissingDependency, match="pip install"):
        rapidocr.find_models()
    unavailable = {status.name: status.detail for status in available_engines() if not status.available}
    assert set(unavailable) == set(ENGINE_NAMES) - {"null"}
    assert "headrace[tesseract]" in unavailable["tesseract"]


def test_a_model_that_another_package_has_overwritten_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    pytest.importorskip("tesserocr")
    model = tmp_path / "eng.traineddata"
    model.write_bytes(bytes(23_000))
    recorded_hash = SimpleNamespace(mode="sha256", value=tesseract._recorded_form(bytes(4_113)))
    recorded = SimpleNamespace(name=model.name, size=4_113, hash=recorded_hash, locate=lambda: model)
    monkeypatch.setattr(metadata, "files", lambda name: [recorded])
    with pytest.raises(MissingDependency, match=r"not the fast model \(23,000 bytes, not 4,113\)"):
        tesseract.find_tessdata()
    model.write_bytes(bytes(4_113))
    assert tesseract.find_tessdata() == tmp_path
    model.write_bytes(bytes(4_112) + b"x")
    with pytest.raises(MissingDependency, match=r"not as tessdata\.fast-eng installed it"):
        tesseract.find_tessdata()
    model.unlink()
    with pytest.raises(MissingDependency, match="is gone"):
        tesseract.find_tessdata()


def test_a_version_known_to_be_broken_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tesserocr")
    monkeypatch.setattr(metadata, "version", lambda name: "2.10.0")
    with pytest.raises(MissingDependency, match=r"2\.10\.0"):
        tesseract.find_tessdata()


def test_workers_are_told_to_use_one_thread_each() -> None:
    environment = thread_environment()
    assert {environment[name] for name in ("OMP_THREAD_LIMIT", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")} == {"1"}
    assert all(isinstance(value, str) for value in environment.values())


@pytest.mark.parametrize(
    "settings", [{"min_confidence": 1.5}, {"min_confidence": float("nan")}, {"detector_side_px": 0}]
)
def test_nonsense_settings_stop_the_start(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        EngineSettings(**settings)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_pixels": 0},
        {"max_pages": True},
        {"max_bytes": 1.5},
        {"page_timeout_s": 0},
        {"page_timeout_s": float("nan")},
        {"document_timeout_s": -1.0},
    ],
)
def test_nonsense_limits_are_refused_zero_is_never_instantly(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(limits))):
        ReadLimits(**limits)
