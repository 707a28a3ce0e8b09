"""Every setting of a run in one place: its name, kind, default, unit and one sentence. Standard library only.

`settings.RunSettings` takes defaults and sentences from here, the command line its options and help texts, the config
example its comments. So a setting is called the same and means the same everywhere, and `--help` need not load what
checks the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

KIB, MIB, GIB = 2**10, 2**20, 2**30


class Kind(StrEnum):
    """What a value is, and so how it is written."""

    COUNT = "count"
    SIZE = "size"
    DURATION = "duration"
    NAME = "name"
    FILE = "file"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Option:
    """One setting.

    Attributes:
        name: in the library and the config file, and in upper case after `HEADRACE_` in the environment.
        kind: how its value is written; sizes take `512MB` or `1GiB`, durations `90`, `500ms` or `2m`.
        default: the value when nobody says anything; None means that it is derived from the machine.
        unit: of the number; "" where there is none.
        sentence: what it does.
        flag: how it is called on the command line; `--on/--off` for a flag.
        section: the heading it stands under in `--help` and in the config example.
        least: the smallest value that makes sense, for numbers.
    """

    name: str
    kind: Kind
    default: str | int | float | bool | None
    unit: str
    sentence: str
    flag: str
    section: str
    least: float = 1


READING, BOUNDS, TIMES, LEDGER = "Reading", "Bounds", "Time limits", "Ledger and state"

_ALL = (
    # What is read, and how much of it.
    Option("engine", Kind.NAME, "rapidocr", "",
           "The engine that reads the text: rapidocr, rapidocr-plain, tesseract or null.", "--engine", READING),
    Option("merchants", Kind.FILE, None, "",
           "Confirmed merchants as JSON lines, or an earlier output: a name or address that is nearly one becomes it.",
           "--merchants", READING),
    Option("max_pixels", Kind.COUNT, 120_000_000, "pixels",
           "The largest page that is decoded; a larger one fails as image-too-large.", "--max-pixels", READING),
    Option("max_pages", Kind.COUNT, 200, "pages",
           "The longest document that is read; a longer one fails as too-many-pages.", "--max-pages", READING),
    Option("max_document_bytes", Kind.SIZE, 64 * MIB, "bytes",
           "The largest file that is read; a larger one fails unread.", "--max-document-bytes", READING),
    Option("attempts", Kind.COUNT, 2, "attempts",
           "How often a document is read when its worker dies of it; other failures are judged at the first time.",
           "--attempts", READING),
    Option("ordered", Kind.FLAG, True, "",
           "Release results in submission order; unordered takes them as they come.", "--ordered/--unordered", READING),
    Option("fail_fast", Kind.FLAG, False, "",
           "Stop at the first document that fails instead of going on.", "--fail-fast/--no-fail-fast", READING),
    # How much at once.
    Option("workers", Kind.COUNT, None, "workers", "How many worker processes run.", "--workers", BOUNDS),
    Option("window", Kind.COUNT, None, "documents",
           "How many documents may be submitted and not yet handed on.", "--window", BOUNDS),
    Option("byte_budget_bytes", Kind.SIZE, None, "bytes",
           "How many bytes the documents in the window may have together.", "--byte-budget", BOUNDS),
    Option("read_ahead", Kind.COUNT, 512, "names",
           "How many names are read from a source at a time and registered in one transaction.",
           "--read-ahead", BOUNDS),
    Option("blob_bytes", Kind.SIZE, 64 * GIB, "bytes",
           "How much disk the originals kept in the workspace may take: archive members and failed documents.",
           "--blob-bytes", BOUNDS, least=MIB),
    Option("memory_limit_bytes", Kind.SIZE, None, "bytes",
           "The memory that parent and workers may take together.", "--memory-limit", BOUNDS, least=64 * MIB),
    Option("worker_memory_limit_bytes", Kind.SIZE, None, "bytes",
           "A worker that is larger than this is killed, and the document it was reading fails as memory-limit.",
           "--worker-memory-limit", BOUNDS, least=16 * MIB),
    Option("worker_recycle_rss_bytes", Kind.SIZE, None, "bytes",
           "A worker that is larger than this after a document is replaced by a fresh one.",
           "--worker-recycle-rss", BOUNDS, least=16 * MIB),
    Option("worker_recycle_after", Kind.COUNT, None, "documents",
           "A worker is replaced after about this many documents (the exact number differs from worker to worker).",
           "--worker-recycle-after", BOUNDS),
    # How long.
    Option("document_timeout_s", Kind.DURATION, 300.0, "s",
           "A document that takes longer fails as deadline, and its worker is replaced.",
           "--document-timeout", TIMES, least=0),
    Option("page_timeout_s", Kind.DURATION, None, "s",
           "A page that takes longer fails as page-timeout; the other pages are kept.",
           "--page-timeout", TIMES, least=0),
    Option("drain_deadline_s", Kind.DURATION, 30.0, "s",
           "How long the documents in flight may take to finish after Ctrl-C or SIGTERM.",
           "--drain-deadline", TIMES, least=0),
    Option("commit_linger_s", Kind.DURATION, 0.25, "s",
           "How long a result waits for others to be committed in the same transaction.",
           "--commit-linger", TIMES, least=0),
    # Where it is kept.
    Option("commit_batch", Kind.COUNT, 64, "entries",
           "How many ledger entries go into one transaction at most.", "--commit-batch", LEDGER),
    Option("book", Kind.NAME, "main", "", "The book that gets the entries: one voucher sequence, one hash chain.",
           "--book", LEDGER),
    Option("policy", Kind.FILE, None, "", "A TOML file with limits and required fields that decide the verdicts.",
           "--policy", LEDGER),
    Option("strict", Kind.FLAG, False, "",
           "End with exit code 7 when a receipt needs review or was rejected; a duplicate does not count.",
           "--strict/--no-strict", LEDGER),
    Option("workspace", Kind.FILE, ".headrace", "", "The folder that holds the state of runs.", "--workspace", LEDGER),
)  # fmt: skip

OPTIONS = MappingProxyType({option.name: option for option in _ALL})
"""All settings by name, in the order in which they are shown."""

OTHER_VARIABLES = frozenset({"HEADRACE_API_KEY", "HEADRACE_CONFIG", "HEADRACE_EMBEDDINGS_KEY"})
"""Names in the environment that start like a setting and are none."""


def variable(name: str) -> str:
    """What a setting is called in the environment."""
    return f"HEADRACE_{name.upper()}"
