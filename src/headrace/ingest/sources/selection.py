"""Which names a folder, a pattern or an archive leaves out, and how many it left out by reason.

What a file is, its content says later. Only names that are never a receipt are left out here, so that a folder with a
README does not end with failures. A file that is named on the command line or in a manifest is always taken.
"""

from __future__ import annotations

HIDDEN = "hidden"
WORKSPACE = "workspace"
ARCHIVE = "archive (name it as a source to read it)"
LINKED_FOLDER = "link to a folder"
FOLDER = "folder (write ** to go into folders)"
LINK_OR_DEVICE = "link or device in an archive"

ARCHIVES = (
    b".zip",
    b".tar",
    b".tar.gz",
    b".tgz",
    b".tar.bz2",
    b".tbz2",
    b".tbz",
    b".tar.xz",
    b".txz",
    b".tar.zst",
    b".tzst",
)

# One line for each kind of thing that is no receipt.
_TABLE = """
    .txt .md .rst .log .html .htm .css .js .xml .json .jsonl .ndjson .csv .tsv .yaml .yml .toml .ini .cfg
    .py .sh .bat .ps1 .sql .exe .dll .so
    .db .sqlite .sqlite3 .db-wal .db-shm .parquet .lock .tmp .part .filepart .crdownload
    .doc .docx .xls .xlsx .ppt .pptx .odt .ods .eml .msg .ics .vcf
    .mp3 .wav .mp4 .mov .avi .mkv
    .7z .rar .gz .bz2 .xz .zst
    .lnk .url .ds_store
"""
_NO_DOCUMENTS = frozenset(_TABLE.split())
_NO_DOCUMENT_NAMES = frozenset((b"thumbs.db", b"desktop.ini", b"icon\r"))


def is_archive(name: bytes) -> bool:
    """Whether the name says zip or tar, compressed or not."""
    return name.lower().endswith(ARCHIVES)


def reason_to_skip(name: bytes) -> str | None:
    """Why a file of this name is left out of a folder; None when it is taken."""
    if name.startswith(b"."):
        return HIDDEN
    if is_archive(name):
        return ARCHIVE
    lower = name.lower()
    _, dot, extension = lower.rpartition(b".")
    suffix = "." + extension.decode("utf-8", "replace") if dot else ""
    if suffix in _NO_DOCUMENTS:
        return suffix
    return "system file" if lower in _NO_DOCUMENT_NAMES else None


def reason_to_skip_member(name: bytes) -> str | None:
    """Why a member of this name is left out of an archive. An archive in an archive is taken: it fails, and is seen."""
    folders = name.split(b"/")[:-1]
    if any(part.startswith(b".") and part not in (b".", b"..") for part in folders) or b"__MACOSX" in folders:
        return HIDDEN
    reason = reason_to_skip(name.rpartition(b"/")[2])
    return None if reason == ARCHIVE else reason
