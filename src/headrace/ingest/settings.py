"""The settings of a run: command line > environment > config file > default, and where each value came from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from headrace.ingest.engine_costs import ENGINE_COSTS
from headrace.ingest.options import OPTIONS, OTHER_VARIABLES, Kind, variable
from headrace.ingest.values import Value, parse, suggestion

CONFIG_FILE = "headrace.toml"

# Kubernetes writes these into every container when a service is called headrace; nobody typed them.
_SERVICE_LINK = re.compile(r"HEADRACE_(SERVICE_(HOST|PORT)(_.*)?|PORT(_\d+_(TCP|UDP|SCTP).*)?)")


class SettingsError(Exception):
    """Settings that make no sense stop the start. One line for each thing that is wrong; ends with exit code 2."""

    exit_code: ClassVar[int] = 2

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Origin(NamedTuple):
    """Where a value came from: the kind of place, and its name there (`--workers`, `HEADRACE_WORKERS`, a file)."""

    kind: Literal["cli", "env", "file", "default", "derived"]
    place: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.place}".rstrip()


def _option(name: str) -> Any:
    option = OPTIONS[name]
    default = Path(option.default) if option.kind is Kind.FILE and isinstance(option.default, str) else option.default
    return Field(default=default, description=option.sentence, json_schema_extra={"unit": option.unit})


class RunSettings(BaseSettings):
    """Everything that can be set about a run. What each one means and its unit stands in `options.OPTIONS`.

    None means: derive it from the machine (see `bounds.derive`); for files it means that there is none.
    `RunSettings(...)` itself reads neither environment nor files; `RunSettings.load()` does.

    Raises:
        pydantic.ValidationError: a value makes no sense (a `ValueError`).
    """

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="HEADRACE_", env_ignore_empty=True)

    engine: str = _option("engine")
    merchants: Path | None = _option("merchants")
    max_pixels: int = _option("max_pixels")
    max_pages: int = _option("max_pages")
    max_document_bytes: int = _option("max_document_bytes")
    attempts: int = _option("attempts")
    ordered: bool = _option("ordered")
    fail_fast: bool = _option("fail_fast")

    workers: int | None = _option("workers")
    window: int | None = _option("window")
    byte_budget_bytes: int | None = _option("byte_budget_bytes")
    read_ahead: int = _option("read_ahead")
    blob_bytes: int = _option("blob_bytes")
    memory_limit_bytes: int | None = _option("memory_limit_bytes")
    worker_memory_limit_bytes: int | None = _option("worker_memory_limit_bytes")
    worker_recycle_rss_bytes: int | None = _option("worker_recycle_rss_bytes")
    worker_recycle_after: int | None = _option("worker_recycle_after")

    document_timeout_s: float = _option("document_timeout_s")
    page_timeout_s: float | None = _option("page_timeout_s")
    drain_deadline_s: float = _option("drain_deadline_s")
    commit_linger_s: float = _option("commit_linger_s")

    commit_batch: int = _option("commit_batch")
    book: str = _option("book")
    policy: Path | None = _option("policy")
    strict: bool = _option("strict")
    workspace: Path = _option("workspace")

    _origins: dict[str, Origin] = PrivateAttr(default_factory=dict)

    @classmethod
    def load(cls, given: Mapping[str, object] | None = None, *, config: Path | None = None) -> RunSettings:
        """The settings of this run, from all places.

        Args:
            given: what was typed, by the name of the setting; None values count as not typed.
            config: the config file; None takes `HEADRACE_CONFIG`, else `headrace.toml` of this folder where there is
                one. Relative paths inside the file start from its folder.

        Raises:
            SettingsError: a value makes no sense, a name is unknown, or the file cannot be read.
        """
        layers: list[tuple[Literal["file", "env", "cli"], str, dict[str, Any]]] = []
        path = _config_path(config)
        if path is not None:
            layers.append(("file", str(path), _from_file(cls, path)))
        layers.append(("env", "", _from_environment(cls)))
        layers.append(("cli", "", {name: raw for name, raw in (given or {}).items() if raw is not None}))

        values: dict[str, Any] = {}
        origins: dict[str, Origin] = {}
        for kind, place, layer in layers:
            for name, raw in layer.items():
                values[name] = raw
                origins[name] = Origin(kind, place or _place(kind, name))
        try:
            settings = cls(**values)
        except ValidationError as error:
            raise SettingsError(_problems(error, values, origins)) from None
        settings._origins.update(origins)
        return settings

    def origin(self, name: str) -> Origin:
        """Where the value of a setting came from; `derived` when nobody said anything and it depends on the machine."""
        derivable = OPTIONS[name].default is None and OPTIONS[name].kind is not Kind.FILE
        if derivable and getattr(self, name) is None:
            return Origin("derived")
        return self._origins.get(name, Origin("default"))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Construction takes what it is given and nothing else: `load` asks the other places, and keeps the origins."""
        return (init_settings,)

    @field_validator("*", mode="before")
    @classmethod
    def _parse(cls, raw: object, info: Any) -> Value:
        try:
            value = parse(OPTIONS[info.field_name], raw)
            if info.field_name == "engine" and value not in ENGINE_COSTS:
                known = ", ".join(ENGINE_COSTS)
                raise ValueError(
                    f"no engine is called {value!r}; there are {known}{suggestion(str(value), ENGINE_COSTS)}"
                )
        except ValueError as error:
            # The message goes to a person as it is; a plain ValueError would get pydantic's own words in front.
            raise PydanticCustomError("nonsense", "{why}", {"why": str(error)}) from None
        return value

    @model_validator(mode="after")
    def _low_is_below_high(self) -> RunSettings:
        pairs = (
            ("page_timeout_s", "document_timeout_s", True),
            ("worker_recycle_rss_bytes", "worker_memory_limit_bytes", False),
            ("worker_memory_limit_bytes", "memory_limit_bytes", False),
            ("max_document_bytes", "blob_bytes", True),
        )
        for low, high, may_be_equal in pairs:
            small, large = getattr(self, low), getattr(self, high)
            if small is None or large is None or small < large or (may_be_equal and small == large):
                continue
            relation = "must not be above" if may_be_equal else "must be below"
            why = f"{low} ({small:,}) {relation} {high} ({large:,})"
            raise PydanticCustomError("nonsense", "{why}", {"why": why})
        return self


def _place(kind: str, name: str) -> str:
    if kind == "env":
        return variable(name)
    option = OPTIONS.get(name)
    return option.flag.split("/")[0] if option else name


def _config_path(config: Path | None) -> Path | None:
    if config is None and os.environ.get("HEADRACE_CONFIG"):
        config = Path(os.environ["HEADRACE_CONFIG"])
    if config is None:
        return Path(CONFIG_FILE) if Path(CONFIG_FILE).is_file() else None
    if not config.is_file():
        raise SettingsError((f"{config}: there is no such config file",))
    return config


def _from_file(cls: type[BaseSettings], path: Path) -> dict[str, Any]:
    try:
        found = dict(TomlConfigSettingsSource(cls, toml_file=path).toml_data)
    except (OSError, ValueError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise SettingsError((f"{path}: {error}",)) from None
    for name, raw in found.items():
        if name in OPTIONS and OPTIONS[name].kind is Kind.FILE and isinstance(raw, str) and raw.strip():
            found[name] = str(path.parent / Path(raw).expanduser())
    return found


def _from_environment(cls: type[BaseSettings]) -> dict[str, Any]:
    names = {variable(name) for name in OPTIONS}
    problems = tuple(
        f"{key}: there is no such setting{suggestion(key.upper(), names)}"
        for key in sorted(os.environ)
        if key.upper().startswith("HEADRACE_")
        and key.upper() not in names | OTHER_VARIABLES
        and not _SERVICE_LINK.fullmatch(key.upper())
    )
    if problems:
        raise SettingsError(problems)
    return EnvSettingsSource(cls)()


def _problems(error: ValidationError, values: dict[str, Any], origins: dict[str, Origin]) -> tuple[str, ...]:
    lines = []
    for problem in error.errors(include_url=False):
        name = str(problem["loc"][0]) if problem["loc"] else ""
        origin = origins.get(name)
        where = f"{origin.place}: {name}" if origin and origin.kind == "file" else origin.place if origin else name
        if problem["type"] == "extra_forbidden":
            lines.append(f"{where}: there is no such setting{suggestion(name, OPTIONS)}")
        else:
            lines.append(f"{where}: {problem['msg']}".removeprefix(": "))
    return tuple(lines)
