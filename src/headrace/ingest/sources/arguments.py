"""What stands on the command line, made into sources. What makes no sense is said here, before any work starts."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import BinaryIO

from headrace.documents.document import printable
from headrace.ingest.sources.archives import Archive
from headrace.ingest.sources.files import Files
from headrace.ingest.sources.folders import Folder
from headrace.ingest.sources.locations import local_path, scheme_of
from headrace.ingest.sources.manifests import EXTENSIONS, Manifest
from headrace.ingest.sources.pattern import Pattern, has_magic
from headrace.ingest.sources.selection import is_archive
from headrace.ingest.sources.source import Source, SourceError, source_key
from headrace.ingest.sources.standard_input import StandardInput

MAX_MEMBER_BYTES = 256 << 20
"""The largest archive member that is read when nobody says otherwise: a 100-page colour scan has a tenth of it."""

_FORCE_MANIFEST = "manifest:"
_NAMES_FOR_ADVICE = 10_000


def parse_sources(
    arguments: Sequence[str],
    *,
    stdin: BinaryIO,
    workspace: str | os.PathLike[str] | None = None,
    max_member_bytes: int = MAX_MEMBER_BYTES,
) -> list[Source]:
    """The sources that the arguments name, in their order. Nothing is listed or read beyond a first look.

    An existing path wins over its reading as a pattern, so that `a[1].jpg` can be named. A file is an archive or a
    manifest by its extension; `manifest:FILE` makes a manifest of any file; `-` is the standard input.

    Args:
        arguments: as the shell gave them.
        stdin: what `-` reads.
        workspace: the folder of headrace's own state, kept out of every folder that is walked.
        max_member_bytes: the largest archive member that is read, unpacked.

    Raises:
        SourceError: an argument names nothing that can be read; it says which, and what to do.
    """
    if not arguments:
        raise SourceError("no source is named; name a folder, a file, an archive, a manifest, or - for a list on stdin")
    if list(arguments).count("-") > 1:
        raise SourceError("- is named twice, but the standard input can be read only once")
    parser = _Parser(os.getcwdb(), stdin, os.fsencode(workspace) if workspace is not None else None, max_member_bytes)
    sources: list[Source] = []
    files: list[tuple[bytes, bytes]] = []
    for argument in arguments:
        source = parser.source(argument)
        if isinstance(source, tuple):
            files.append(source)
            continue
        if files:
            sources.append(Files(files))
            files = []
        sources.append(source)
    return [*sources, Files(files)] if files else sources


class _Parser:
    def __init__(self, here: bytes, stdin: BinaryIO, workspace: bytes | None, max_member_bytes: int) -> None:
        self._here = here
        self._stdin = stdin
        self._workspace = workspace
        self._max_member_bytes = max_member_bytes

    def source(self, argument: str) -> Source | tuple[bytes, bytes]:
        if argument == "-":
            return StandardInput(self._stdin, self._here)
        if not argument or "\0" in argument:
            raise SourceError(f"{argument!a} is no path")
        if scheme_of(argument) not in (None, "file"):
            raise SourceError(f"{argument} is not read: headrace run takes files of this machine; download it first")
        if os.path.lexists(argument):
            return self._existing(os.fsencode(argument))
        if argument.startswith(_FORCE_MANIFEST):
            name = os.fsencode(argument.removeprefix(_FORCE_MANIFEST))
            if not os.path.exists(name) or os.path.isdir(name):
                raise SourceError(f"{printable(name)} is no file, so it is no manifest{_advice(name)}")
            return self._manifest(name)
        if scheme_of(argument) == "file":
            name = local_path(argument, self._here)
            if os.path.lexists(name):
                return self._existing(name)
            raise SourceError(f"{printable(name)} does not exist{_advice(name)}")
        if has_magic(argument):
            return self._glob(argument)
        name = os.fsencode(argument)
        raise SourceError(f"{printable(name)} does not exist{_advice(name)}")

    def _existing(self, name: bytes) -> Source | tuple[bytes, bytes]:
        path = os.path.join(self._here, name)
        if os.path.isdir(path):
            return self._folder(_without_dots(path), _shown(_without_dots(name)))
        if os.path.isfile(path):
            if is_archive(name):
                archive = Archive(path, _shown(name), max_member_bytes=self._max_member_bytes)
                archive.check()
                return archive
            if name.lower().endswith(EXTENSIONS):
                return self._manifest(name)
        return path, _shown(name)  # a plain file: it joins its neighbours

    def _folder(self, path: bytes, shown: bytes) -> Source:
        try:
            os.scandir(path).close()
        except OSError as error:
            raise SourceError(f"the folder {printable(path)} cannot be listed: {error.strerror}") from error
        prefix = shown.rstrip(b"/") + b"/" if shown else b""
        return Folder(source_key("folder", path), path, prefix, workspace=self._workspace)

    def _manifest(self, name: bytes) -> Source:
        path = os.path.join(self._here, name)
        manifest = Manifest(path, _shown(name))
        if os.path.isfile(path):  # looking into a pipe would take its first rows
            manifest.check()
        return manifest

    def _glob(self, argument: str) -> Source:
        fixed, pattern = _split(argument)
        root = os.path.join(self._here, os.fsencode(fixed))
        if not os.path.isdir(root):
            raise SourceError(
                f"{printable(argument)}: there is no folder {printable(fixed)}{_advice(os.fsencode(fixed))}"
            )
        # The pattern is part of the identity; it is joined like a path, and quoted like one.
        key = source_key("glob", os.path.join(root, os.fsencode("/".join(pattern))))
        folder = Folder(key, root, os.fsencode(fixed), pattern=Pattern(pattern), workspace=self._workspace)
        if not folder.matches_any():
            raise SourceError(f"{printable(argument)} matches no file; ** goes into folders, as in scans/**/*.jpg")
        return folder


def _split(argument: str) -> tuple[str, list[str]]:
    """The folder before the first component with magic, with its slash, and the components from there on."""
    components = [c for c in argument.split("/") if c not in ("", ".")]
    first = next(i for i, c in enumerate(components) if has_magic(c))
    fixed = "".join(c + "/" for c in components[:first])
    return ("/" + fixed if argument.startswith("/") else fixed), components[first:]


def _shown(name: bytes) -> bytes:
    """The name as uris begin with it: as it was written, without `./` in front."""
    while name.startswith(b"./"):
        name = name[2:].lstrip(b"/")
    return b"" if name == b"." else name


def _without_dots(path: bytes) -> bytes:
    """The same folder without `.` and doubled slashes, so that `scans/.` is `scans`; `..` may go through a link."""
    parts = b"/".join(part for part in path.split(b"/") if part not in (b"", b"."))
    return (b"/" + parts if path.startswith(b"/") else parts) or b"."


def _advice(name: bytes) -> str:
    """The most similar name in the same folder, as a question; empty when there is none."""
    folder, base = os.path.split(name.rstrip(b"/"))
    near = difflib.get_close_matches(os.fsdecode(base), _names(folder or b"."), n=1)
    return f"; did you mean {printable(os.path.join(folder, os.fsencode(near[0])))}?" if near else ""


def _names(folder: bytes) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from [os.fsdecode(entry.name) for entry in islice(entries, _NAMES_FOR_ADVICE)]
    except OSError:
        return
