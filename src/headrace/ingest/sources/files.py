"""Files named on the command line: always taken, whatever they are called."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from headrace.documents.document import printable
from headrace.ingest.sources.source import NOTHING_SKIPPED, Found, found_file, source_key


class Files:
    """Files named by the user one after another, as a shell writes out `scans/*.jpg`: one source, in that order.

    Args:
        names: (absolute path, name as it was written) of each.
    """

    ordered = True
    skipped: Mapping[str, int] = NOTHING_SKIPPED

    def __init__(self, names: Sequence[tuple[bytes, bytes]]) -> None:
        self._names = names
        self.key = source_key("file", names[0][0])
        if len(names) > 1:
            digest = hashlib.sha256(b"\0".join(path for path, _ in names)).hexdigest()
            self.key = f"files:{len(names)}:{digest}"

    def __iter__(self) -> Iterator[Found]:
        """Each file, or its problem."""
        for path, name in self._names:
            yield found_file(printable(name), path)
