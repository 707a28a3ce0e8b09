"""What `headrace doctor` looks at. Each check really does the thing: it decodes, writes, syncs; none only asks."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from io import BytesIO
from pathlib import Path
from statistics import median

from headrace import __version__
from headrace.cli.formats import readable_bytes
from headrace.flow.machine import Machine

SLOW_SYNC_S = 0.05
LITTLE_DISK_BYTES = 2**30
EXTRAS = {"tesseract": "tesseract", "pyarrow": "parquet"}
"""Which pip extra brings what is optional."""

KNOWN_BAD = {("tesserocr", "2.10.0"): "crashes when released in another thread (tesserocr#386): take another version"}


class State(StrEnum):
    """How a check came out. Only `missing` and `broken` make the doctor end with something else than 0."""

    OK = "ok"
    NOTE = "note"
    OPTIONAL = "optional"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        group: the heading it stands under.
        name: what was looked at.
        state: how it came out.
        detail: what was found.
        advice: what to do; "" when there is nothing to do.
    """

    group: str
    name: str
    state: State
    detail: str
    advice: str = ""


def machine_checks(machine: Machine) -> Iterator[Check]:
    """Python, cores, memory."""
    python = f"{platform.python_implementation()} {platform.python_version()} on {platform.platform(terse=True)}"
    yield Check("Machine", "headrace", State.OK, __version__)
    yield Check("Machine", "Python", State.OK, python)
    yield Check("Machine", "cores", State.OK, f"{machine.cores.value} ({machine.cores.because})")
    memory = machine.memory_bytes
    yield Check("Machine", "memory", State.OK, f"{readable_bytes(memory.value)} ({memory.because})")


def engine_checks(default_engine: str) -> Iterator[Check]:
    """Which engines could be made here; the one that would be used must be among them."""
    from headrace.ocr.registry import available_engines

    for engine in available_engines():
        if engine.available:
            yield Check("Engines", engine.name, State.OK, engine.detail)
            continue
        extra = EXTRAS.get(engine.name)
        advice = f"pip install 'headrace[{extra}]'" if extra else "pip install --force-reinstall headrace"
        state = State.MISSING if engine.name == default_engine else State.OPTIONAL
        yield Check("Engines", engine.name, state, engine.detail, advice)
    for (package, version), why in KNOWN_BAD.items():
        if _version(package) == version:
            yield Check(
                "Engines", package, State.BROKEN, f"version {version} {why}", f"pip install '{package}!={version}'"
            )


def format_checks() -> Iterator[Check]:
    """Formats that can be read, each tried on a page made for it."""
    for name, read in _READERS.items():
        try:
            yield Check("Formats", name, State.OK, read())
        except Exception as error:  # a check reports whatever goes wrong, it does not end the doctor
            package = getattr(error, "name", None) if isinstance(error, ImportError) else None
            advice = f"pip install '{package}'" if package else "pip install --force-reinstall headrace"
            if name == "AVIF":  # a Pillow built by hand may lack it, and reads all else
                yield Check("Formats", name, State.OPTIONAL, "this Pillow has no AVIF", "pip install 'pillow>=11.3'")
                continue
            yield Check("Formats", name, State.MISSING, f"{type(error).__name__}: {error}", advice)
    parquet = _version("pyarrow")
    advice = "" if parquet else f"pip install 'headrace[{EXTRAS['pyarrow']}]'"
    state = State.OK if parquet else State.OPTIONAL
    yield Check("Formats", "Parquet (export)", state, f"pyarrow {parquet}" if parquet else "not installed", advice)


def store_checks(workspace: Path) -> Iterator[Check]:
    """SQLite, and the disk that the workspace is on. Leaves nothing there, not even a new workspace."""
    yield Check("Store", "SQLite", State.OK, sqlite3.sqlite_version)
    folder = next(parent for parent in (workspace, *workspace.absolute().parents) if parent.is_dir())
    try:
        with tempfile.TemporaryDirectory(prefix=".headrace-doctor-", dir=folder) as scratch:
            sync_s, mode = _sync_s(Path(scratch)), _journal_mode(Path(scratch))
    except (OSError, sqlite3.Error) as error:
        advice = "choose a folder you may write to with --workspace"
        yield Check("Store", "workspace", State.BROKEN, f"{folder} cannot be written: {error}", advice)
        return
    where = str(workspace) if workspace.is_dir() else f"{workspace} (would be made in {folder})"
    free = shutil.disk_usage(folder).free
    little = free < LITTLE_DISK_BYTES
    advice = "make room: a full disk stops a run" if little else ""
    state = State.NOTE if little else State.OK
    yield Check("Store", "workspace", state, f"{where}, {readable_bytes(free)} free", advice)
    slow = sync_s > SLOW_SYNC_S
    advice = "a local disk is faster; a larger --commit-batch needs fewer" if slow else ""
    yield Check("Store", "fsync", State.NOTE if slow else State.OK, f"{sync_s * 1000:.2f} ms for 4 KiB", advice)
    if mode == "wal":
        yield Check("Store", "WAL", State.OK, "works in this folder")
    else:
        advice = "network file systems often cannot: choose a local folder with --workspace"
        yield Check("Store", "WAL", State.BROKEN, f"journal mode is {mode}, not wal", advice)


def scaling_check(workers: int, seconds: float) -> Check:
    """Whether N workers do N times the work of one, with one thread each."""
    from headrace.cli.scaling import GOOD_SCALING, explain, measure
    from headrace.ocr.registry import thread_environment

    try:
        scaling = measure(workers, seconds, thread_environment())
    except (TimeoutError, ValueError, OSError) as error:
        return Check("Workers", "scaling", State.BROKEN, str(error), "try again when the machine is less busy")
    good, detail = explain(scaling)
    if not good:
        advice = "unset OMP_NUM_THREADS, OPENBLAS_NUM_THREADS and the like; if it stays, report it"
        return Check("Workers", "scaling", State.BROKEN, detail, advice)
    state = State.OK if scaling.efficiency >= GOOD_SCALING or workers == 1 else State.NOTE
    return Check("Workers", "scaling", state, detail)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _pillow(image_format: str) -> Callable[[], str]:
    def read() -> str:
        from PIL import Image

        encoded = BytesIO()
        Image.new("RGB", (16, 16), "white").save(encoded, image_format)
        encoded.seek(0)
        with Image.open(encoded) as image:
            image.load()
        return f"Pillow {_version('pillow')}"

    return read


def _heic() -> str:
    import pillow_heif

    decoders = pillow_heif.libheif_info()["decoders"]
    if not decoders:
        raise RuntimeError("libheif has no decoder")
    return f"pillow-heif {_version('pillow-heif')}"


def _pdf() -> str:
    import pypdfium2

    document = pypdfium2.PdfDocument.new()
    try:
        document.new_page(72, 72)
        document[0].render(scale=1)
    finally:
        document.close()
    return f"pypdfium2 {_version('pypdfium2')}"


def _archives() -> str:
    import stream_unzip  # noqa: F401  # the import is the check: there is nothing to decode without an archive

    return f"stream-unzip {_version('stream-unzip')}, tar built in"


_READERS: dict[str, Callable[[], str]] = {
    **{name: _pillow(name) for name in ("JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF")},
    "HEIC": _heic,
    "AVIF": _pillow("AVIF"),
    "PDF": _pdf,
    "zip and tar": _archives,
}


def _sync_s(folder: Path) -> float:
    took = []
    with (folder / "sync").open("wb") as file:
        for _ in range(5):
            started = time.perf_counter()
            file.write(b"\0" * 4096)
            file.flush()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - started)
    return median(took)


def _journal_mode(folder: Path) -> str:
    connection = sqlite3.connect(folder / "wal.sqlite")
    try:
        (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        connection.execute("CREATE TABLE t (x)")
        connection.commit()
        return str(mode)
    finally:
        connection.close()
