"""Where settings come from, what stops the start, and how they are written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headrace.ingest.engine_costs import ENGINE_COSTS
from headrace.ingest.options import OPTIONS, Kind, variable
from headrace.ingest.settings import RunSettings, SettingsError
from headrace.ingest.values import parse, parse_duration, parse_size, readable_number
from headrace.ocr.registry import ENGINE_NAMES


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No config file of the developer's, no variables of his shell."""
    for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_command_line_beats_environment_beats_file_beats_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RunSettings.load().commit_batch == 64
    Path("headrace.toml").write_text("commit_batch = 10\n")
    assert RunSettings.load().commit_batch == 10
    monkeypatch.setenv("HEADRACE_COMMIT_BATCH", "20")
    assert RunSettings.load().commit_batch == 20
    assert RunSettings.load({"commit_batch": "30"}).commit_batch == 30


def test_each_value_says_where_it_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("headrace.toml").write_text('window = 9\nengine = "null"\n')
    monkeypatch.setenv("HEADRACE_BYTE_BUDGET_BYTES", "1GiB")
    settings = RunSettings.load({"engine": "tesseract"})
    places = {
        name: str(settings.origin(name)) for name in ("engine", "byte_budget_bytes", "window", "workers", "policy")
    }
    assert places == {
        "engine": "cli --engine",
        "byte_budget_bytes": "env HEADRACE_BYTE_BUDGET_BYTES",
        "window": "file headrace.toml",
        "workers": "derived",
        "policy": "default",
    }


def test_auto_takes_back_what_another_place_said() -> None:
    Path("headrace.toml").write_text("workers = 4\n")
    settings = RunSettings.load({"workers": "auto"})
    assert settings.workers is None
    assert settings.origin("workers").kind == "derived"


def test_construction_reads_no_environment_and_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("headrace.toml").write_text("commit_batch = 10\n")
    monkeypatch.setenv("HEADRACE_COMMIT_BATCH", "20")
    assert RunSettings().commit_batch == 64


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_WORKERS", "")
    assert RunSettings.load().workers is None


def test_paths_in_a_file_start_from_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "prod.toml").write_text('policy = "strict.toml"\nworkspace = "/srv/state"\n')
    settings = RunSettings.load(config=folder / "prod.toml")
    assert settings.policy == folder / "strict.toml"
    assert settings.workspace == Path("/srv/state")


def test_the_config_file_can_be_named_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("other.toml").write_text("workers = 3\n")
    monkeypatch.setenv("HEADRACE_CONFIG", "other.toml")
    assert RunSettings.load().workers == 3


NONSENSE: list[tuple[str, Any, str]] = [
    ("workers", 0, "less than 1"),
    ("workers", "-2", "less than 1"),
    ("workers", True, "not a number"),
    ("workers", "2.5", "not a whole number"),
    ("workers", float("nan"), "not a number"),
    ("workers", "nan", "not a whole number"),
    ("workers", "many", "not a whole number"),
    ("workers", [2], "not a number"),
    ("workers", 10**400, "not a number that makes sense"),
    ("workers", "9" * 400, "not a number that makes sense"),
    ("window", float("inf"), "not a number"),
    ("byte_budget_bytes", "12XB", "unit 'XB'"),
    ("byte_budget_bytes", "GiB", "a size like"),
    ("byte_budget_bytes", "-1MB", "less than"),
    ("memory_limit_bytes", "1KB", "the least that makes sense"),
    ("document_timeout_s", "9999h", "longer than a year"),
    ("document_timeout_s", 0, "above 0"),
    ("document_timeout_s", "0", "above 0"),
    ("page_timeout_s", "-1s", "above 0"),
    ("page_timeout_s", float("nan"), "not a number"),
    ("page_timeout_s", "5 parsecs", "unit 'parsecs'"),
    ("drain_deadline_s", True, "not a number"),
    ("commit_linger_s", "1e999", "not a number"),
    ("ordered", 1, "neither true nor false"),
    ("ordered", "perhaps", "neither true nor false"),
    ("engine", "rapidcor", "did you mean rapidocr"),
    ("engine", "auto", "nothing to derive it from"),
    ("engine", 5, "not a name"),
    ("book", "../etc", "not a name"),
    ("book", "", "not a name"),
    ("policy", "", "not a path"),
    ("workspace", "a\0b", "not a path"),
]


@pytest.mark.parametrize(("name", "raw", "why"), NONSENSE, ids=[f"{n}={str(r)[:12]!r}" for n, r, _ in NONSENSE])
def test_nonsense_stops_the_start_and_names_the_option(name: str, raw: object, why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        RunSettings.load({name: raw})
    assert caught.value.exit_code == 2
    assert why in str(caught.value)
    assert OPTIONS[name].flag.split("/")[0] in str(caught.value)


PAIRS = [
    ({"page_timeout_s": "600"}, "page_timeout_s"),
    ({"worker_memory_limit_bytes": "1GiB", "worker_recycle_rss_bytes": "1GiB"}, "worker_recycle_rss_bytes"),
    ({"memory_limit_bytes": "1GiB", "worker_memory_limit_bytes": "2GiB"}, "worker_memory_limit_bytes"),
    ({"blob_bytes": "10MiB"}, "max_document_bytes"),
]


@pytest.mark.parametrize(("given", "name"), PAIRS, ids=[name for _, name in PAIRS])
def test_low_at_or_above_high_stops_the_start(given: dict[str, object], name: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} .* must"):
        RunSettings.load(given)


UNKNOWN = [
    ("windwo", "did you mean window?"),
    ("document_timeout", "did you mean document_timeout_s?"),
    ("byte_budget", "did you mean byte_budget_bytes?"),
    ("zzz", "there is no such setting"),
]


@pytest.mark.parametrize(("name", "hint"), UNKNOWN)
def test_an_unknown_name_in_the_file_stops_the_start_with_the_nearest(name: str, hint: str) -> None:
    Path("headrace.toml").write_text(f"{name} = 3\n")
    with pytest.raises(SettingsError) as caught:
        RunSettings.load()
    assert f"headrace.toml: {name}" in str(caught.value)
    assert hint in str(caught.value)


def test_an_unknown_variable_stops_the_start_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_WINDWO", "3")
    with pytest.raises(SettingsError, match=r"HEADRACE_WINDWO.*did you mean HEADRACE_WINDOW"):
        RunSettings.load()


def test_what_kubernetes_injects_for_a_service_called_headrace_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_8080_TCP", "PORT_8080_TCP_ADDR"):
        monkeypatch.setenv(f"HEADRACE_{name}", "tcp://10.0.0.1:8080")
    assert RunSettings.load() == RunSettings()


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        RunSettings.load({"workers": "x", "window": "0", "engine": "abbyy"})
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize("text", ["workers =", "workers = 1\nworkers = 2", "\x00"])
def test_a_file_that_is_no_toml_stops_the_start_and_is_named(text: str) -> None:
    Path("headrace.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"headrace\.toml"):
        RunSettings.load()


def test_a_config_file_that_is_named_must_exist() -> None:
    with pytest.raises(SettingsError, match="no such config file"):
        RunSettings.load(config=Path("gone.toml"))


def test_settings_cannot_be_changed_after_the_start() -> None:
    with pytest.raises(ValueError, match="frozen"):
        RunSettings().workers = 3  # type: ignore[misc]


SIZES = [("1048576", 2**20), ("512MB", 512 * 10**6), ("512 mb", 512 * 10**6), ("1GiB", 2**30), ("1.5 GiB", 1.5 * 2**30),
         ("2G", 2**31), ("64k", 65536), ("1_000", 1000), (".5KiB", 512)]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SIZES)
def test_sizes_are_read_as_people_write_them(text: str, expected: float) -> None:
    assert parse_size(text) == expected


DURATIONS = [("90", 90), ("1.5s", 1.5), ("500ms", 0.5), ("2m", 120), ("2 min", 120), ("1h", 3600)]


@pytest.mark.parametrize(("text", "expected"), DURATIONS)
def test_durations_are_read_as_people_write_them(text: str, expected: float) -> None:
    assert parse_duration(text) == expected


def test_every_setting_is_in_the_table_and_every_row_is_a_setting() -> None:
    assert list(RunSettings.model_fields) == list(OPTIONS)


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS.keys())
def test_type_default_unit_and_sentence_of_a_setting_agree_with_the_table(option: Any) -> None:
    kinds = {Kind.COUNT: int, Kind.SIZE: int, Kind.DURATION: float, Kind.NAME: str, Kind.FILE: Path, Kind.FLAG: bool}
    field = RunSettings.model_fields[option.name]
    optional = option.default is None
    expected: Any = kinds[option.kind]
    assert field.annotation == (expected | None if optional else expected)
    assert optional or field.default == parse(option, option.default)
    assert field.description == option.sentence
    assert option.sentence.endswith(".")
    assert option.unit or option.kind in (Kind.NAME, Kind.FILE, Kind.FLAG)


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS.keys())
def test_a_setting_is_called_the_same_everywhere_but_for_its_unit(option: Any) -> None:
    stem = option.name.removesuffix("_s").removesuffix("_bytes").replace("_", "-")
    assert option.flag.split("/")[0].removeprefix("--") in (stem, option.name.replace("_", "-"))
    assert variable(option.name) == f"HEADRACE_{option.name}".upper()


@pytest.mark.parametrize("option", [o for o in OPTIONS.values() if o.default is not None], ids=lambda o: o.name)
def test_a_value_shown_can_be_typed_again(option: Any) -> None:
    shown = readable_number(option, option.default).replace(",", "")
    assert parse(option, shown) == parse(option, option.default)


def test_each_engine_of_the_registry_has_a_cost() -> None:
    assert set(ENGINE_COSTS) == set(ENGINE_NAMES)


def test_a_size_is_shown_in_its_largest_unit_and_a_count_takes_no_unit() -> None:
    assert readable_number(OPTIONS["worker_memory_limit_bytes"], 200_000_000) == "191 MiB"
    assert readable_number(OPTIONS["worker_memory_limit_bytes"], 1_500_000_000) == "1.4 GiB"
    with pytest.raises(ValueError, match="'1k' is not a whole number: it takes no unit, so write it out"):
        parse(OPTIONS["window"], "1k")
